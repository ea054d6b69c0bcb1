"""Which keys are good now: how soon a revoked one is refused, and what happens where they cannot be read."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path
from typing import cast

import pytest

from handler.access import issuing
from handler.access.current_keys import KEPT_SECONDS, CurrentKeys
from handler.access.key_file import KeyFile, open_place
from handler.access.rereading import PAUSE_SECONDS, Moment
from retrieval.errors import BedivereError, ErrorCode
from retrieval.release.store import Fetched, Store

REFRESH = 60.0


class Shaky:
    """A store of keys that counts its reads, and fails them when it is told to."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.failing = False
        self.reads = 0
        self.full_reads = 0
        self.gate: threading.Event | None = None

    def get(self, key: str, *, unless_tag: str | None = None, max_bytes: int) -> Fetched | None:
        self.reads += 1
        if self.gate is not None:
            assert self.gate.wait(20)
        if self.failing:
            raise BedivereError(ErrorCode.STORE_UNREACHABLE, "The store is not there.")
        fetched = self._store.get(key, unless_tag=unless_tag, max_bytes=max_bytes)
        self.full_reads += fetched is not None
        return fetched


class Stage:
    """Keys in a folder, a server that reads them, and clocks that only the test moves."""

    def __init__(self, folder: Path) -> None:
        self.place = str(folder / "keys.json")
        self.store = Shaky(open_place(self.place)[0])
        self.moment = Moment(1000.0, 1_800_000_000.0)
        held = cast("Store", self.store)
        self.keys = CurrentKeys(self.place, REFRESH, open_keys=lambda _: (held, "keys.json"), now=lambda: self.moment)

    def later(self, seconds: float, *, frozen: bool = False) -> None:
        """`frozen`: the monotonic clock stood still meanwhile."""
        self.moment = Moment(self.moment.monotonic + (0 if frozen else seconds), self.moment.wall + seconds)

    def get(self) -> KeyFile:
        return asyncio.run(self.keys.get())

    def refused(self) -> ErrorCode:
        with pytest.raises(BedivereError) as caught:
            self.get()
        return caught.value.code


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def make(stage: Stage, name: str = "ci") -> str:
    return issuing.create(stage.place, name, scopes=("search",))[0]


def test_within_the_interval_nothing_is_read_again(stage: Stage) -> None:
    key = make(stage)
    assert stage.get().find(key)
    stage.later(REFRESH - 1)
    assert stage.get().find(key)
    assert stage.store.reads == 1


def test_what_has_not_changed_is_not_fetched_again(stage: Stage) -> None:
    key = make(stage)
    stage.get()
    stage.later(REFRESH)
    assert stage.get().find(key)
    assert (stage.store.reads, stage.store.full_reads) == (2, 1)


def test_a_revoked_key_is_refused_by_the_first_call_after_the_interval(stage: Stage) -> None:
    key = make(stage)
    stage.get()
    issuing.revoke(stage.place, "ci")
    stage.later(REFRESH)
    assert stage.get().find(key) is None


def test_a_new_key_is_let_in_by_the_first_call_after_the_interval(stage: Stage) -> None:
    make(stage)
    stage.get()
    key = make(stage, "second")
    stage.later(REFRESH)
    assert stage.get().find(key)


def test_an_instance_that_was_frozen_reads_again_before_it_decides(stage: Stage) -> None:
    key = make(stage)
    stage.get()
    issuing.revoke(stage.place, "ci")
    stage.later(3600, frozen=True)
    assert stage.get().find(key) is None


def test_a_read_that_began_before_the_instance_was_frozen_decides_nothing(stage: Stage) -> None:
    key = make(stage)
    old = stage.store.gate = threading.Event()
    stage.keys.start()
    stage.later(3600, frozen=True)
    stage.store.gate = None
    old.set()
    assert stage.get().find(key)
    assert stage.store.reads == 2


def test_nobody_is_let_in_where_the_keys_were_never_read(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    make(stage)
    stage.store.failing = True
    with caplog.at_level(logging.WARNING, "bedivere"):
        assert stage.refused() is ErrorCode.ACCESS_UNAVAILABLE
    assert "The object of the API keys could not be read: STORE_UNREACHABLE" in caplog.text


def test_no_object_is_no_keys_and_says_so_once(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "bedivere"):
        assert stage.get().keys == ()
        stage.later(REFRESH)
        assert stage.get().keys == ()
    assert caplog.text.count("There are no API keys") == 1


def test_an_object_that_was_deleted_lets_nobody_in(stage: Stage) -> None:
    key = make(stage)
    stage.get()
    Path(stage.place).unlink()
    stage.later(REFRESH)
    assert stage.get().find(key) is None


@pytest.mark.parametrize("damage", ["failing", "damaged"])
def test_the_last_good_keys_serve_for_a_while_and_then_nobody_is_let_in(stage: Stage, damage: str) -> None:
    key = make(stage)
    stage.get()
    stage.store.failing = damage == "failing"
    if damage == "damaged":
        Path(stage.place).write_bytes(b"{}{}")
    stage.later(REFRESH + KEPT_SECONDS - 1)
    assert stage.get().find(key)
    stage.later(1)
    assert stage.refused() is ErrorCode.ACCESS_UNAVAILABLE


def test_after_a_failure_the_store_is_left_alone_for_some_seconds(stage: Stage) -> None:
    key = make(stage)
    stage.store.failing = True
    assert stage.refused() is ErrorCode.ACCESS_UNAVAILABLE
    stage.store.failing = False
    stage.later(PAUSE_SECONDS - 1)
    assert stage.refused() is ErrorCode.ACCESS_UNAVAILABLE
    assert stage.store.reads == 1
    stage.later(1)
    assert stage.get().find(key)


def test_many_calls_at_once_make_one_read(stage: Stage) -> None:
    key = make(stage)
    stage.store.gate = threading.Event()

    async def ask() -> list[KeyFile]:
        calls = [asyncio.create_task(stage.keys.get()) for _ in range(20)]
        await asyncio.sleep(0)
        assert stage.store.gate is not None
        stage.store.gate.set()
        return await asyncio.gather(*calls)

    assert all(file.find(key) for file in asyncio.run(ask()))
    assert stage.store.reads == 1


def test_a_fault_of_the_reader_ends_in_the_log_and_lets_nobody_in(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    make(stage)

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no such thing")

    monkeypatch.setattr(stage.store, "get", fail)
    assert stage.refused() is ErrorCode.ACCESS_UNAVAILABLE
    assert "RuntimeError" in caplog.text


def test_in_s3_a_revoked_key_is_refused_by_the_first_call_after_the_interval(bucket: str) -> None:
    place = f"s3://{bucket}/docs"
    moment = Moment(0.0, 0.0)
    keys = CurrentKeys(place, REFRESH, now=lambda: moment)
    key, _ = issuing.create(place, "ci", scopes=("search",))
    other, _ = issuing.create(place, "other", scopes=("search",))
    assert asyncio.run(keys.get()).find(key)
    moment = Moment(REFRESH, REFRESH)
    # Nothing has changed: S3 answers 304.
    assert asyncio.run(keys.get()).find(key)
    issuing.revoke(place, "ci")
    moment = Moment(2 * REFRESH, 2 * REFRESH)
    file = asyncio.run(keys.get())
    assert file.find(key) is None
    assert file.find(other)
