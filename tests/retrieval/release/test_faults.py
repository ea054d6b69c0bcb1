"""Every fault of a store, a network or a disk: no wrong answer, no half dataset, the old release where there is one."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from botocore.session import get_session  # pyright: ignore[reportUnknownVariableType]

from retrieval.dataset import ReleasedDataset
from retrieval.errors import BedivereError, ErrorCode
from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options
from retrieval.release.manifest import POINTER_KEY
from retrieval.release.publish import publish
from retrieval.release.s3_reader import PIECE_BYTES, S3Reader, plain_place
from retrieval.release.store import Reader, S3Store
from retrieval.release.sync import Patience
from retrieval.retriever import Retriever
from retrieval.settings import load_settings
from retrieval.types import SearchRequest
from tests.fault_proxy import FaultProxy, Kind, running_fault_proxy
from tests.retrieval.release.crafted import MemoryStore, archive, manifest_of, member, packed, point_at, small_disk
from tests.s3_server import S3Server

PREFIX = "docs"
PART = r"/part-\d+\.tar\.zst"
POINTER = r"/current\.json"
PATIENT = Patience(stall=10.0, pointer=10.0, lock=5.0, attempts=2, pause=0.01)


@pytest.fixture(scope="module")
def news(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is published after the handbook."""
    folder = tmp_path_factory.mktemp("news")
    (folder / "docs").mkdir()
    (folder / "docs" / "zeppelin.md").write_text("# Zeppelins\n\nA zeppelin is kept in hangar nine.\n")
    build_table(Options(source=folder / "docs", database=folder / "database"))
    return folder / "database"


@pytest.fixture(scope="module")
def session() -> Any:
    """One session for all stores: each would read botocore's description of S3 again."""
    return get_session()


@dataclass
class Stage:
    """A server of releases, the proxy through which it sees its bucket, and the bucket."""

    proxy: FaultProxy
    client: Any
    bucket: str
    store: S3Store
    folder: Path
    dataset: ReleasedDataset
    retriever: Retriever
    monkeypatch: pytest.MonkeyPatch

    def publish(self, database: Path) -> str:
        """The id of a new release, published past the proxy."""
        return publish(database, self.store).release

    def put(self, key: str, data: bytes) -> None:
        self.client.put_object(Bucket=self.bucket, Key=f"{PREFIX}/{key}", Body=data)

    def delete(self, part: str) -> None:
        """Deletes every object whose key holds `part`."""
        for entry in self.client.list_objects_v2(Bucket=self.bucket)["Contents"]:
            if part in entry["Key"]:
                self.client.delete_object(Bucket=self.bucket, Key=entry["Key"])

    def put_hostile(self, *members: tuple[tarfile.TarInfo, bytes]) -> None:
        """Makes a release current whose archive holds `members` and whose manifest lists one file."""
        memory = MemoryStore()
        part, data = packed({"documents.lance/one": b"x"}, data=archive(members))
        memory.objects[part.key] = data
        point_at(memory, manifest_of([part]))
        for key, content in memory.objects.items():
            self.put(key, content)

    def finds(self, query: str) -> bool:
        return bool(asyncio.run(self.retriever.search(SearchRequest(query=query, limit=1))).hits)

    def left(self) -> list[str]:
        """What stands in the sync folder beside its lock."""
        return sorted(path.name for path in self.folder.iterdir() if path.name != "sync.lock")

    def idle(self) -> None:
        give_up = time.monotonic() + 15
        while self.dataset.state().syncing:
            assert time.monotonic() < give_up
            time.sleep(0.005)

    def refresh(self) -> None:
        """One look at the pointer that begins and ends now."""
        self.idle()
        self.dataset.start()
        self.idle()


@pytest.fixture(params=["botocore", "plain", "pieces"])
def stage(
    s3: S3Server,
    bucket: str,
    session: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Iterator[Stage]:
    """The ways in which a release is read from S3: by botocore, and without it as long as nothing is odd, in pieces
    where a part is large."""
    monkeypatch.setattr("botocore.session.get_session", lambda: session)
    with running_fault_proxy(s3.endpoint) as proxy:
        settings = load_settings(
            database=f"s3://{bucket}/{PREFIX}", sync_folder=str(tmp_path / "sync"), dataset_wait_seconds=10.0
        ).model_copy(update={"refresh_seconds": 0})

        # Made here: a thread that a test left behind must not change the environment under the next one.
        with monkeypatch.context() as patched:
            patched.setenv("AWS_ENDPOINT_URL_S3", proxy.endpoint)
            botocore = S3Store(bucket, PREFIX, attempts=1, read_seconds=5.0)

        def plain() -> S3Reader:
            place = plain_place(bucket, {**s3.environment, "AWS_ENDPOINT_URL_S3": proxy.endpoint})
            assert place is not None
            piece_bytes = 1_000 if request.param == "pieces" else PIECE_BYTES
            return S3Reader(bucket, PREFIX, place, lambda: botocore, piece_bytes=piece_bytes)

        make_store: Callable[[], Reader] = (lambda: botocore) if request.param == "botocore" else plain

        dataset = ReleasedDataset(
            settings,
            make_store=make_store,
            patience=PATIENT,
            first_pause=0.0,
            last_pause=0.0,
        )
        store, client = S3Store(bucket, PREFIX), session.create_client("s3", endpoint_url=s3.endpoint)
        folder, retriever = tmp_path / "sync", Retriever(settings, dataset)
        yield Stage(proxy, client, bucket, store, folder, dataset, retriever, monkeypatch)
        dataset_idle(dataset)


def dataset_idle(dataset: ReleasedDataset) -> None:
    give_up = time.monotonic() + 15
    while dataset.state().syncing and time.monotonic() < give_up:
        time.sleep(0.005)


def disk_is_small(stage: Stage) -> None:
    stage.monkeypatch.setattr(shutil, "disk_usage", small_disk)


def disk_fills(stage: Stage) -> None:
    real: Callable[..., int] = os.open

    def full(path: Any, flags: int, mode: int = 0o777, **more: Any) -> int:
        if ".partial/" in str(path):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return real(path, flags, mode, **more)

    stage.monkeypatch.setattr(os, "open", full)


def newer_format(stage: Stage) -> None:
    memory = MemoryStore()
    point_at(memory, manifest_of([], minimum_reader=99))
    stage.put(POINTER_KEY, memory.objects[POINTER_KEY])


def pointer_elsewhere(stage: Stage) -> None:
    memory = MemoryStore()
    part, _ = packed({"documents.lance/one": b"x"})
    point_at(memory, manifest_of([part]))
    record = json.loads(memory.objects[POINTER_KEY])
    record["manifest"]["parts"][0]["key"] = "../../another-bucket/secrets"
    stage.put(POINTER_KEY, json.dumps(record).encode())


def slow(stage: Stage, kind: Kind, path: str = "") -> None:
    """A store that takes for ever, and a server that waits less than that."""
    stage.dataset.patience = Patience(stall=0.4, pointer=0.4, lock=1.0, attempts=2, pause=0.01)
    stage.proxy.fail(kind, path)


def links(stage: Stage) -> None:
    stage.put_hostile(
        member("documents.lance/one", b"", kind=tarfile.SYMTYPE, link="/etc/passwd"),
        member("documents.lance/one/x", b"x"),
    )


def bomb(stage: Stage) -> None:
    stage.put_hostile(member("documents.lance/one", b"\0" * 20_000_000))


@dataclass(frozen=True)
class Case:
    """A fault, and the code that tells of it where no older release serves."""

    code: ErrorCode
    make: Callable[[Stage], object]


E = ErrorCode
FAULTS = {
    "no bucket": Case(E.STORE_NOT_FOUND, lambda s: s.proxy.fail("status", status=404, code="NoSuchBucket")),
    "no pointer": Case(E.RELEASE_NOT_FOUND, lambda s: s.delete("current.json")),
    "no part": Case(E.RELEASE_DAMAGED, lambda s: s.delete("/part-")),
    "a wrong checksum": Case(E.RELEASE_DAMAGED, lambda s: s.proxy.fail("corrupt", PART)),
    "another part's bytes": Case(E.RELEASE_DAMAGED, lambda s: s.proxy.fail("replace", PART, body=packed({})[1])),
    "a part cut short": Case(E.STORE_UNREACHABLE, lambda s: s.proxy.fail("truncate", PART)),
    "a pointer cut short": Case(E.STORE_UNREACHABLE, lambda s: s.proxy.fail("truncate", POINTER)),
    "a part reset": Case(E.STORE_UNREACHABLE, lambda s: s.proxy.fail("reset", PART)),
    "a pointer reset": Case(E.STORE_UNREACHABLE, lambda s: s.proxy.fail("refuse", POINTER)),
    "403 for the pointer": Case(
        E.STORE_DENIED, lambda s: s.proxy.fail("status", POINTER, status=403, code="AccessDenied")
    ),
    "403 for a part": Case(E.STORE_DENIED, lambda s: s.proxy.fail("status", PART, status=403, code="AccessDenied")),
    "expired credentials": Case(E.STORE_DENIED, lambda s: s.proxy.fail("status", status=403, code="ExpiredToken")),
    "a clock that is hours off": Case(
        E.STORE_DENIED, lambda s: s.proxy.fail("status", status=403, code="RequestTimeTooSkewed")
    ),
    "500": Case(E.STORE_UNREACHABLE, lambda s: s.proxy.fail("status", PART, status=500)),
    "503 SlowDown": Case(E.STORE_UNREACHABLE, lambda s: s.proxy.fail("status", status=503, code="SlowDown")),
    "a dripping part": Case(E.STORE_UNREACHABLE, lambda s: slow(s, "drip", PART)),
    "a dripping pointer": Case(E.STORE_UNREACHABLE, lambda s: slow(s, "drip", POINTER)),
    "a store that hangs": Case(E.STORE_UNREACHABLE, lambda s: slow(s, "hang")),
    "a pointer that is a web page": Case(
        E.RELEASE_DAMAGED, lambda s: s.proxy.fail("replace", POINTER, body=b"<html>Log in</html>")
    ),
    "a pointer to a newer format": Case(E.RELEASE_TOO_NEW, newer_format),
    "a pointer to another place": Case(E.RELEASE_DAMAGED, pointer_elsewhere),
    "an archive with ..": Case(E.RELEASE_DAMAGED, lambda s: s.put_hostile(member("documents.lance/../../out", b"x"))),
    "an archive with an absolute path": Case(
        E.RELEASE_DAMAGED, lambda s: s.put_hostile(member(f"{s.folder}/out", b"x"))
    ),
    "an archive with a link": Case(E.RELEASE_DAMAGED, links),
    "a bomb": Case(E.RELEASE_DAMAGED, bomb),
    "a disk too small": Case(E.DATASET_TOO_LARGE, disk_is_small),
    "a disk that fills": Case(E.DATASET_TOO_LARGE, disk_fills),
}


@pytest.mark.parametrize("case", FAULTS.values(), ids=FAULTS)
def test_with_nothing_to_serve_the_call_names_the_cause_and_nothing_is_left(
    stage: Stage, handbook: Path, case: Case
) -> None:
    stage.publish(handbook)
    case.make(stage)
    with pytest.raises(BedivereError) as raised:
        stage.finds("signing key")
    assert raised.value.code is ErrorCode.DATASET_UNAVAILABLE
    assert f" {case.code}: " in raised.value.sentence
    assert str(stage.folder) not in raised.value.sentence
    failure = stage.dataset.state().failure
    assert failure is not None
    assert failure.code is case.code
    assert stage.left() == [] if stage.folder.exists() else True


@pytest.mark.parametrize("case", FAULTS.values(), ids=FAULTS)
def test_the_old_release_answers_on_and_the_new_one_once_the_fault_is_gone(
    stage: Stage, handbook: Path, news: Path, case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    old = stage.publish(handbook)
    assert stage.finds("signing key")
    stage.idle()
    stage.publish(news)
    with pytest.MonkeyPatch.context() as patched:
        stage.monkeypatch = patched
        case.make(stage)
        stage.refresh()
        assert stage.finds("signing key")
        assert not stage.finds("zeppelin")
        stage.idle()
        state = stage.dataset.state()
        assert state.release == old
        assert state.failure is not None
        assert state.failure.code is case.code
        assert str(case.code) in caplog.text
        assert stage.left() == [old]
    if not stage.proxy.faults:
        # The fault lies in the bucket, or on the disk that is whole again by now.
        stage.delete(PREFIX)
        stage.publish(news)
    stage.proxy.heal()
    stage.dataset.patience = PATIENT
    stage.refresh()
    assert stage.finds("zeppelin")
    assert stage.dataset.state().failure is None


def test_a_fault_that_passes_within_the_tries_is_not_noticed(stage: Stage, handbook: Path) -> None:
    stage.publish(handbook)
    fault = stage.proxy.fail("truncate", PART, times=1)
    assert stage.finds("signing key")
    assert fault.seen == 1
    assert stage.dataset.state().failures == 0


def test_a_first_sync_that_failed_is_retried_by_later_calls(stage: Stage, handbook: Path) -> None:
    stage.publish(handbook)
    stage.proxy.fail("status", POINTER, status=503, code="SlowDown", times=2)
    answered: list[bool] = []
    for _ in range(3):
        try:
            answered.append(stage.finds("signing key"))
        except BedivereError:
            answered.append(False)
    # Without botocore a request more was made, which it asked again.
    assert (answered[0], answered[-1]) == (False, True)


@pytest.mark.parametrize("prune", [False, True], ids=["old parts kept", "old parts pruned"])
def test_a_pointer_that_flips_in_the_middle_of_a_sync_gives_one_release_or_the_other(
    stage: Stage, handbook: Path, news: Path, prune: bool
) -> None:
    old = stage.publish(handbook)
    flipped: list[str] = []

    def flip(path: str) -> None:
        if "/part-" in path and not flipped:
            flipped.append(stage.publish(news))
            if prune:
                stage.delete(f"{old}/part-")

    stage.proxy.before = flip
    assert stage.finds("zeppelin" if prune else "signing key")
    assert stage.dataset.state().release == (flipped[0] if prune else old)
    stage.refresh()
    assert stage.finds("zeppelin")
    assert not stage.finds("signing key")


def test_a_look_that_finds_nothing_new_is_one_conditional_request(stage: Stage, handbook: Path) -> None:
    stage.publish(handbook)
    assert stage.finds("signing key")
    stage.idle()
    stage.proxy.paths.clear()
    stage.refresh()
    assert [path.rpartition("/")[2] for path in stage.proxy.paths] == ["current.json"]
    assert stage.dataset.state().syncs == 1


def test_serving_never_lists_and_asks_only_for_the_pointer_and_the_parts(stage: Stage, handbook: Path) -> None:
    stage.publish(handbook)
    assert stage.finds("signing key")
    stage.idle()
    assert {path.rpartition("/")[2].partition("-")[0] for path in stage.proxy.paths} == {"current.json", "part"}
    assert not any("?list" in path or "list-type" in path for path in stage.proxy.paths)
