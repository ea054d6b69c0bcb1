"""A released dataset as one call sees it: bounded in its waiting, and of one release from beginning to end."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from retrieval.dataset import Dataset, LocalDataset, ReleasedDataset
from retrieval.errors import BedivereError, ErrorCode
from retrieval.settings import load_settings
from tests.conftest import TableMaker
from tests.retrieval.release.crafted import LATER_RELEASE, RELEASE, MemoryStore, put_release


@pytest.fixture
def store(handbook: Path) -> MemoryStore:
    store = MemoryStore()
    put_release(store, handbook)
    return store


@pytest.fixture
def dataset(store: MemoryStore, tmp_path: Path) -> ReleasedDataset:
    settings = load_settings(database="s3://bucket", sync_folder=str(tmp_path / "sync"), dataset_wait_seconds=25.0)
    # An interval that the setting has not: every call looks for a newer release.
    return ReleasedDataset(settings.model_copy(update={"refresh_seconds": 0.0}), make_store=lambda: store)


@pytest.fixture
def held(store: MemoryStore) -> Iterator[threading.Event]:
    """The store sends no part until this is set."""
    go = threading.Event()
    store.before_stream = lambda _: go.wait(20)
    yield go
    go.set()


def current(dataset: Dataset, **bound: float) -> BedivereError | None:
    """What asking for the database raises, if it does."""
    try:
        asyncio.run(dataset.current(**bound))
    except BedivereError as error:
        return error
    return None


def wait_until(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < give_up, "it never came"
        time.sleep(0.01)


def take_over(dataset: ReleasedDataset, store: MemoryStore, database: Path) -> None:
    """Makes `database` the release that serves."""
    put_release(store, database, release=LATER_RELEASE)

    def serves() -> bool:
        dataset.start()
        return dataset.state().release == LATER_RELEASE

    wait_until(serves)


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("seconds", [0.05, 0.0, -1.0])
@pytest.mark.parametrize("asked", [{}, {"wait_seconds": math.inf}])
def test_a_call_waits_no_longer_than_it_may(dataset: ReleasedDataset, seconds: float, asked: dict[str, float]) -> None:
    began = time.monotonic()
    failure = current(dataset.for_call(seconds), **asked)
    assert failure is not None
    assert failure.code is ErrorCode.DATASET_LOADING
    assert "call again in 3 seconds" in failure.sentence
    assert time.monotonic() - began < 5


def test_a_call_without_a_bound_waits_as_the_settings_say(dataset: ReleasedDataset) -> None:
    assert current(dataset.for_call(None)) is None


@pytest.mark.usefixtures("held")
def test_what_a_call_found_first_is_what_it_is_told_again(dataset: ReleasedDataset, held: threading.Event) -> None:
    call = dataset.for_call(0.0)
    assert current(call) is not None
    held.set()
    wait_until(lambda: dataset.state().release == RELEASE)
    assert current(call) is not None
    assert call.state().release is None
    assert current(call.for_call(None)) is None


def test_a_call_keeps_its_release_and_its_state_when_another_takes_over(
    dataset: ReleasedDataset, store: MemoryStore, make_table: TableMaker
) -> None:
    assert current(dataset) is None
    asked, looked = dataset.for_call(None), dataset.for_call(None)
    database = asyncio.run(asked.current())
    assert looked.served() is database
    take_over(dataset, store, make_table({"text": ["boat"]}))
    assert dataset.served() is not database
    assert asyncio.run(asked.current()) is database
    assert asked.served() is looked.served() is database
    assert asked.state().release == looked.state().release == RELEASE


def test_a_call_that_has_not_asked_yet_tells_what_is(dataset: ReleasedDataset) -> None:
    assert current(dataset) is None
    assert dataset.for_call(None).state().release == RELEASE


def test_a_call_begins_the_first_sync_and_hears_of_it(dataset: ReleasedDataset) -> None:
    call = dataset.for_call(None)
    heard: list[str | None] = []
    call.listen(lambda outcome: heard.append(outcome.release))
    call.start()
    wait_until(lambda: heard == [RELEASE])


def test_a_call_lends_no_time_to_a_newer_release_that_it_has_not(
    dataset: ReleasedDataset,
    store: MemoryStore,
    make_table: TableMaker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dataset, "_on_lambda", True)
    monkeypatch.setattr("retrieval.dataset._LEND_SECONDS", 20.0)
    assert current(dataset) is None
    go = threading.Event()
    store.before_stream = lambda _: go.wait(20)
    put_release(store, make_table({"text": ["boat"]}), release=LATER_RELEASE)
    began = time.monotonic()
    assert current(dataset.for_call(0.05)) is None
    assert time.monotonic() - began < 5
    go.set()


def test_a_folder_is_the_same_for_every_call(handbook: Path) -> None:
    dataset = LocalDataset(str(handbook))
    assert dataset.for_call(1.0).served() is dataset.served()
