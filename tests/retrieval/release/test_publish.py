"""Publishing, listing, rolling back and pruning, on a folder and on a real S3 server alike."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportUnknownLambdaType=false
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa
import pytest

from retrieval.errors import BedivereError, ErrorCode
from retrieval.indexing import lance
from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options
from retrieval.release import history, pack
from retrieval.release import publish as publishing
from retrieval.release.history import prune, rollback, survey
from retrieval.release.manifest import (
    POINTER_KEY,
    READER_FORMAT,
    Manifest,
    Pointer,
    manifest_key,
    part_key,
    pending_key,
)
from retrieval.release.publish import Published, publish
from retrieval.release.store import Store, open_store
from retrieval.schema import PROVENANCE_KEY, Provenance
from tests.conftest import TableMaker

NOW = timedelta(0)
MAX_BYTES = 1 << 23


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A fresh store of either kind."""
    if request.param == "s3":
        return open_store(f"s3://{request.getfixturevalue('bucket')}/prefix")
    return folder_store(tmp_path)


def folder_store(tmp_path: Path) -> Store:
    (tmp_path / "store").mkdir()
    return open_store((tmp_path / "store").as_uri())


@pytest.fixture
def folder(tmp_path: Path) -> Store:
    """For what the kind of store makes no difference to."""
    return folder_store(tmp_path)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    write(tmp_path, 1)
    return tmp_path / "db"


def write(tmp_path: Path, edition: int, *, table: str = "documents") -> None:
    """Indexes another edition of the documents."""
    source = tmp_path / "docs"
    source.mkdir(exist_ok=True)
    (source / "page.md").write_text(f"# Page\n\nEdition {edition} of the page.\n")
    build_table(Options(source, tmp_path / "db", table=table))


def keys(store: Store) -> list[str]:
    return [stored.key for stored in store.list("")]


def pointer_of(store: Store) -> Pointer:
    fetched = store.get(POINTER_KEY, max_bytes=MAX_BYTES)
    assert fetched is not None
    return Pointer.from_json(fetched.data)


def failure(ask: Callable[[], object]) -> BedivereError:
    with pytest.raises(BedivereError) as caught:
        ask()
    return caught.value


def publish_editions(store: Store, tmp_path: Path, count: int) -> list[str]:
    """Publishes so many releases, one after the other; their ids, the oldest first."""
    ids: list[str] = []
    for edition in range(1, count + 1):
        write(tmp_path, edition)
        ids.append(publish(tmp_path / "db", store).release)
    return ids


def assert_whole(store: Store, release: str) -> None:
    """The current release is `release`, and every part of it is there."""
    pointer = pointer_of(store)
    assert pointer.release == release
    assert history.held(store, pointer.manifest.parts) == set(pointer.manifest.parts)


# Publishing


def test_a_first_release_is_its_parts_its_manifest_and_the_pointer_and_nothing_else(
    store: Store, database: Path
) -> None:
    published = publish(database, store)

    release = published.release
    assert keys(store) == [POINTER_KEY, manifest_key(release), part_key(release, 0)]
    assert_whole(store, release)
    kept = store.get(manifest_key(release), max_bytes=MAX_BYTES)
    assert kept is not None
    assert Manifest.from_json(kept.data) == pointer_of(store).manifest
    assert (published.unchanged, published.tables, published.parts) == (False, {"documents": 1}, 1)
    assert published.uploaded_bytes == published.packed_bytes == store.size(part_key(release, 0))


def test_a_manifest_says_what_the_release_holds(folder: Store, database: Path) -> None:
    publish(database, folder)

    manifest = pointer_of(folder).manifest
    (table,) = manifest.tables
    provenance = Provenance.from_metadata({PROVENANCE_KEY: json.dumps(table.provenance).encode()})
    assert manifest.minimum_reader == READER_FORMAT
    assert (table.name, table.rows) == ("documents", 1)
    assert table.indexed == dict.fromkeys(lance.FULL_TEXT, 1)
    assert "text" in table.columns
    assert provenance == lance.provenance_of(lancedb.connect(database).open_table("documents"))
    assert datetime.now(UTC) - datetime.fromisoformat(manifest.created_at) < timedelta(minutes=1)


def test_a_release_holds_the_files_of_the_generation_and_none_of_its_state(folder: Store, database: Path) -> None:
    publish(database, folder)

    generation = (database / "documents.lance").resolve()
    files = {file.path: file.bytes for part in pointer_of(folder).manifest.parts for file in part.files}
    assert files == {
        f"documents.lance/{file.relative_to(generation).as_posix()}": file.stat().st_size
        for file in generation.rglob("*")
        if file.is_file() and "_transactions" not in file.parts
    }


def test_what_has_not_changed_is_not_published_again(store: Store, database: Path) -> None:
    first = publish(database, store)
    before = keys(store)

    second = publish(database, store)

    assert (second.unchanged, second.release, second.uploaded_bytes) == (True, first.release, 0)
    assert keys(store) == before


def test_the_same_documents_indexed_anew_have_not_changed(folder: Store, database: Path, tmp_path: Path) -> None:
    publish(database, folder)
    build_table(Options(tmp_path / "docs", tmp_path / "db", rebuild=True))
    build_table(Options(tmp_path / "docs", tmp_path / "other"))

    assert publish(database, folder).unchanged
    assert publish(tmp_path / "other", folder).unchanged


@pytest.mark.parametrize("change", ["url", "table", "text"])
def test_whatever_changes_in_a_row_or_in_the_tables_is_published(
    folder: Store, database: Path, tmp_path: Path, change: str
) -> None:
    publish(database, folder)
    match change:
        case "url":
            build_table(Options(tmp_path / "docs", database, base_url="https://docs.example.com"))
        case "table":
            write(tmp_path, 1, table="other")
        case _:
            write(tmp_path, 2)

    assert not publish(database, folder).unchanged


@pytest.mark.parametrize("damage", ["gone", "shorter"])
def test_a_current_release_that_lost_a_part_is_published_again(store: Store, database: Path, damage: str) -> None:
    first = publish(database, store)
    if damage == "gone":
        store.delete([part_key(first.release, 0)])
    else:
        store.put(part_key(first.release, 0), b"short")

    second = publish(database, store)

    assert (second.unchanged, second.reused_parts) == (False, 0)
    assert second.release > first.release
    assert_whole(store, second.release)


def test_a_damaged_pointer_is_replaced(store: Store, database: Path) -> None:
    store.put(POINTER_KEY, b"not json")

    assert_whole(store, publish(database, store).release)


def test_a_pointer_of_a_newer_bedivere_is_left_alone(folder: Store, database: Path) -> None:
    publish(database, folder)
    newer = pointer_of(folder)
    newer = replace(newer, manifest=replace(newer.manifest, minimum_reader=READER_FORMAT + 1))
    folder.put(POINTER_KEY, newer.to_json())
    before = keys(folder)

    assert failure(lambda: publish(database, folder)).code == ErrorCode.RELEASE_TOO_NEW
    assert keys(folder) == before


def test_a_dry_run_says_what_would_be_done_and_writes_nothing(store: Store, database: Path) -> None:
    tried = publish(database, store, dry_run=True, keep=1)

    assert keys(store) == []
    assert tried.uploaded_bytes > 0
    assert publish(database, store).packed_bytes == tried.packed_bytes


def test_a_database_that_does_not_exist_is_not_found(folder: Store, tmp_path: Path) -> None:
    assert failure(lambda: publish(tmp_path / "none", folder)).code == ErrorCode.DATABASE_NOT_FOUND


def test_the_watcher_hears_of_each_stage_and_of_each_byte(store: Store, database: Path) -> None:
    heard = Heard()

    published = publish(database, store, watch=heard)

    assert heard.stages == [
        "Checking the tables",
        "Looking at what is published",
        "Uploading 1 parts",
        "Making it current",
    ]
    assert heard.bytes_planned == heard.bytes_sent == published.uploaded_bytes


class Heard:
    """A watcher that remembers."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.bytes_planned = 0
        self.bytes_sent = 0

    def stage(self, name: str) -> None:
        self.stages.append(name)

    def planned(self, count: int) -> None:
        self.bytes_planned += count

    def sent(self, count: int) -> None:
        self.bytes_sent += count


# Ids


def test_releases_within_one_second_have_ids_of_their_own_in_their_order(store: Store, tmp_path: Path) -> None:
    ids = publish_editions(store, tmp_path, 3)

    assert len(set(ids)) == 3
    assert [release.id for release in survey(store).releases] == ids[::-1]


def test_an_id_that_another_publisher_has_claimed_gets_a_suffix(
    store: Store, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = survey(store)
    id_ = publish(database, store, dry_run=True).release
    monkeypatch.setattr(publishing, "release_id", lambda *_: id_)
    monkeypatch.setattr(publishing.history, "survey", lambda _: real)
    for taken in (id_, f"{id_}-2"):
        store.put(pending_key(taken), b"{}")

    assert publish(database, store).release == f"{id_}-3"
    assert history.age_order(f"{id_}-10") > history.age_order(f"{id_}-3") > history.age_order(id_)


def test_a_release_sorts_after_those_there_are_even_where_the_clock_runs_late(
    folder: Store, database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "datetime", Clock)
    ahead = publish(database, folder).release
    monkeypatch.undo()
    write(tmp_path, 2)

    assert publish(database, folder).release > ahead


class Clock(datetime):
    """A clock that runs an hour ahead."""

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return datetime.now(tz) + timedelta(hours=1)


# What may be published


def refused(database: Path, store: Store) -> str:
    error = failure(lambda: publish(database, store))
    assert error.code == ErrorCode.DATASET_NOT_WHOLE
    assert keys(store) == []
    return error.sentence


def ours(embedding: dict[str, Any] | None) -> dict[bytes, bytes]:
    record = Provenance("1", "1", "2026-11-29T18:15:00Z", {}, {}, "0" * 64, embedding)
    return record.to_metadata()


def vectors(dimensions: int) -> pa.Array[Any]:
    return pa.array([[0.5] * dimensions], pa.list_(pa.float32(), dimensions))


def write_foreign(tmp_path: Path, table: object) -> Path:
    lancedb.connect(tmp_path / "database").create_table("documents", table)  # pyright: ignore[reportArgumentType]
    return tmp_path / "database"


def test_a_table_that_others_wrote_is_published_where_it_is_whole(folder: Store, make_table: TableMaker) -> None:
    database = make_table({"text": ["one", "two"], "number": [1, None]}, fts=["text"])

    publish(database, folder)

    (table,) = pointer_of(folder).manifest.tables
    assert (table.rows, table.provenance, table.indexed) == (2, None, {"text": 2})


def test_rows_that_no_index_covers_are_refused(folder: Store, make_table: TableMaker) -> None:
    database = make_table({"text": ["one"]}, fts=["text"])
    lancedb.connect(database).open_table("documents").add([{"text": "two"}])

    sentence = refused(database, folder)

    assert "'documents'" in sentence
    assert "'text'" in sentence


def test_an_empty_table_is_refused(folder: Store, tmp_path: Path) -> None:
    database = write_foreign(tmp_path, pa.table({"text": pa.array([], pa.string())}))

    assert "no rows" in refused(database, folder)


def test_a_database_without_a_table_is_refused(folder: Store, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    assert "no table" in refused(tmp_path / "empty", folder)


@pytest.mark.parametrize(
    ("metadata", "columns", "lack"),
    [
        (None, {"vector": vectors(3)}, "the model that made them"),
        (ours(None), {"vector": vectors(3)}, "the model that made them"),
        (ours({"model": "", "dimensions": 3}), {"vector": vectors(3)}, "the model that made them"),
        (ours({"model": "m", "dimensions": 4}), {"vector": vectors(3)}, "length"),
        (ours({"model": "m", "dimensions": 3}), {}, "no vectors"),
        ({PROVENANCE_KEY: b"{}"}, {}, "cannot be understood"),
        (ours(None), {}, "no index of column"),
    ],
)
def test_a_table_that_does_not_say_how_it_was_made_is_refused(
    folder: Store, tmp_path: Path, metadata: Any, columns: dict[str, Any], lack: str
) -> None:
    table = pa.table({"text": ["one"], **columns}).replace_schema_metadata(metadata)

    assert lack in refused(write_foreign(tmp_path, table), folder)


def test_vectors_with_a_record_of_their_model_are_published(
    folder: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retrieval.indexing.whole.FULL_TEXT", {})
    metadata = ours({"model": "m", "dimensions": 3})
    table = pa.table({"text": ["one"], "vector": vectors(3)}).replace_schema_metadata(metadata)

    publish(write_foreign(tmp_path, table), folder)

    (entry,) = pointer_of(folder).manifest.tables
    assert entry.provenance is not None
    assert entry.provenance["embedding"] == {"model": "m", "dimensions": 3}


@pytest.mark.parametrize("kind", ["data", "_indices", "_versions"])
def test_a_table_with_a_damaged_file_is_refused_without_a_word_of_the_librarys(
    folder: Store, database: Path, kind: str
) -> None:
    place = (database / "documents.lance").resolve()
    for file in (place / kind).rglob("*"):
        if file.is_file():
            os.truncate(file, file.stat().st_size // 2)

    sentence = refused(database, folder)

    assert "cannot be read" in sentence
    assert str(place) not in sentence


def test_rows_that_are_counted_and_not_there_are_refused(
    folder: Store, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lancedb.table.LanceTable, "count_rows", lambda _: 2)  # pyright: ignore[reportAttributeAccessIssue]

    assert "does not cover" in refused(database, folder)


def test_a_table_that_changes_while_it_is_packed_is_refused(
    folder: Store, make_table: TableMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = make_table({"text": ["one"]})
    real = pack.write

    def write_and_change(*arguments: Any) -> Any:
        packed = real(*arguments)
        make_table({"text": ["two"]})
        return packed

    monkeypatch.setattr(pack, "write", write_and_change)

    assert "changed while it was packed" in refused(database, folder)


def test_a_table_that_is_indexed_again_while_it_is_packed_is_published_as_it_was(
    store: Store, database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = pack.write

    def index_and_write(*arguments: Any) -> Any:
        write(tmp_path, 2)
        return real(*arguments)

    monkeypatch.setattr(pack, "write", index_and_write)
    first = publish(database, store)
    monkeypatch.undo()

    assert_whole(store, first.release)
    assert not publish(database, store).unchanged


# Parts that are there already


@pytest.fixture
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    """Each table has a part of its own, however small it is."""
    monkeypatch.setattr(pack, "PART_BYTES", 8)


def two_tables(tmp_path: Path) -> Path:
    for name in ("documents", "second"):
        write(tmp_path, 1, table=name)
    return tmp_path / "db"


@pytest.mark.usefixtures("_small_parts")
def test_a_part_that_an_earlier_release_has_is_not_uploaded_again(store: Store, tmp_path: Path) -> None:
    database = two_tables(tmp_path)
    first = publish(database, store)
    write(tmp_path, 2, table="second")

    second = publish(database, store)

    borrowed = [part for part in pointer_of(store).manifest.parts if first.release in part.key]
    assert second.reused_parts == len(borrowed) > 0
    paths = {file.path for part in pointer_of(store).manifest.parts if part not in borrowed for file in part.files}
    assert {path.partition("/")[0] for path in paths} == {"second.lance"}
    assert 0 < second.uploaded_bytes < second.packed_bytes
    assert len([key for key in keys(store) if second.release in key]) == second.parts - len(borrowed) + 1
    assert_whole(store, second.release)


@pytest.mark.usefixtures("_small_parts")
def test_a_part_is_borrowed_from_a_release_that_is_not_current_too(store: Store, tmp_path: Path) -> None:
    database = two_tables(tmp_path)
    publish(database, store)
    (tmp_path / "elsewhere").mkdir()
    write(tmp_path / "elsewhere", 9)
    publish(tmp_path / "elsewhere/db", store)

    third = publish(database, store)

    assert (third.reused_parts, third.uploaded_bytes) == (third.parts, 0)
    assert_whole(store, third.release)


@pytest.mark.usefixtures("_small_parts")
def test_a_part_that_is_gone_is_uploaded_rather_than_borrowed(store: Store, tmp_path: Path) -> None:
    database = two_tables(tmp_path)
    first = publish(database, store)
    store.delete([part.key for part in pointer_of(store).manifest.parts])
    write(tmp_path, 2, table="second")

    second = publish(database, store)

    assert second.reused_parts == 0
    assert_whole(store, second.release)
    assert first.release != second.release


@pytest.mark.usefixtures("_small_parts")
def test_a_release_whose_borrowed_parts_are_removed_meanwhile_does_not_become_current(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = two_tables(tmp_path)
    first = publish(database, store)
    (tmp_path / "elsewhere").mkdir()
    write(tmp_path / "elsewhere", 9)
    current = publish(tmp_path / "elsewhere/db", store)
    real = pack.write

    def prune_and_write(*arguments: Any) -> Any:
        packed = real(*arguments)
        store.delete([manifest_key(first.release)])
        return packed

    monkeypatch.setattr(pack, "write", prune_and_write)

    assert failure(lambda: publish(database, store)).code == ErrorCode.PUBLISH_CONFLICT
    assert_whole(store, current.release)


# Two at once


def test_of_two_that_publish_at_once_one_wins_and_the_other_says_who(store: Store, tmp_path: Path) -> None:
    databases: list[Path] = []
    for edition in (1, 2):
        place = tmp_path / f"run{edition}"
        place.mkdir()
        write(place, edition)
        databases.append(place / "db")
    barrier = threading.Barrier(2)
    outcomes: list[Published | BedivereError] = []

    class Together(Heard):
        def stage(self, name: str) -> None:
            if name == "Making it current":
                barrier.wait()

    def run(database: Path) -> None:
        try:
            outcomes.append(publish(database, store, watch=Together()))
        except BedivereError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=run, args=(database,)) for database in databases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    (winner,) = [outcome for outcome in outcomes if isinstance(outcome, Published)]
    (loser,) = [outcome for outcome in outcomes if isinstance(outcome, BedivereError)]
    assert loser.code == ErrorCode.PUBLISH_CONFLICT
    assert winner.release in loser.sentence
    assert_whole(store, winner.release)
    assert keys(store) == [POINTER_KEY, manifest_key(winner.release), part_key(winner.release, 0)]


def test_a_flip_whose_answer_was_lost_is_no_conflict(
    folder: Store, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = folder.put

    def put_twice(key: str, data: bytes, **condition: Any) -> str:
        if key == POINTER_KEY:
            real(key, data, **condition)
        return real(key, data, **condition)

    monkeypatch.setattr(folder, "put", put_twice)

    assert_whole(folder, publish(database, folder).release)


# Interrupted

KILL = """
import os, signal, sys
from pathlib import Path
from retrieval.release import history, publish
from retrieval.release.store import open_store

database, uri, moment = sys.argv[1:]
store = open_store(uri)

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def after(owner, name, passes):
    real = getattr(owner, name)
    def run(*arguments, **options):
        nonlocal passes
        result = real(*arguments, **options)
        passes -= 1
        if passes == 0:
            die()
        return result
    setattr(owner, name, run)

match moment:
    case "the claim":
        after(store, "put", 1)
    case "the packing":
        after(publish.pack, "write", 1)
    case "an upload":
        after(store, "upload", 1)
    case "the last upload":
        publish.history.held = die
    case "the flip":
        after(history, "flip", 1)
    case "everything but the claim":
        store.delete = die
publish.publish(Path(database), store)
"""
BEFORE_THE_FLIP = ("the claim", "the packing", "an upload", "the last upload")


def kill(moment: str, database: Path, store: Store, tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir(exist_ok=True)
    ran = subprocess.run(
        [sys.executable, "-c", KILL, str(database), store.uri, moment],
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
        check=False,
    )
    assert ran.returncode == -signal.SIGKILL


@pytest.mark.e2e
@pytest.mark.parametrize("moment", BEFORE_THE_FLIP)
def test_a_publisher_that_is_killed_leaves_the_old_release_and_the_next_run_cleans_up(
    store: Store, database: Path, tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = publish(database, store).release
    write(tmp_path, 2)
    kill(moment, database, store, tmp_path)

    assert_whole(store, old)
    assert [release.id for release in survey(store).releases] == [old]
    assert len(keys(store)) > 3

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    new = publish(database, store, leftovers_after=NOW).release
    assert_whole(store, new)
    expected = [POINTER_KEY, *(key for release in (old, new) for key in (manifest_key(release), part_key(release, 0)))]
    assert keys(store) == sorted(expected)
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.e2e
@pytest.mark.parametrize("moment", ["the flip", "everything but the claim"])
def test_a_publisher_that_is_killed_after_the_flip_has_published(
    store: Store, database: Path, tmp_path: Path, moment: str
) -> None:
    kill(moment, database, store, tmp_path)

    new = pointer_of(store).release
    assert_whole(store, new)
    assert [release.id for release in survey(store).releases] == [new]
    assert publish(database, store, leftovers_after=NOW).unchanged
    assert_whole(store, new)
    assert manifest_key(new) in keys(store)


@pytest.mark.e2e
def test_what_another_publisher_is_uploading_is_left_alone(store: Store, database: Path, tmp_path: Path) -> None:
    kill("the last upload", database, store, tmp_path)
    before = keys(store)

    publish(database, store)

    assert set(before) < set(keys(store))


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_an_interrupted_run_removes_what_it_uploaded(
    store: Store, database: Path, monkeypatch: pytest.MonkeyPatch, interruption: type[BaseException]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise interruption

    monkeypatch.setattr(publishing, "wait", interrupt)

    with pytest.raises(interruption):
        publish(database, store)
    assert keys(store) == []


def test_one_part_that_fails_ends_the_run_with_its_own_error(
    store: Store, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack, "PART_BYTES", 8)
    old = publish(database, store).release
    real, uploads = store.upload, [0]

    def fail(*arguments: Any, **options: Any) -> None:
        uploads[0] += 1
        if uploads[0] == 3:
            raise BedivereError(ErrorCode.STORE_DENIED, "No.")
        real(*arguments, **options)

    monkeypatch.setattr(store, "upload", fail)
    store.delete([part.key for part in pointer_of(store).manifest.parts])

    assert failure(lambda: publish(database, store)).code == ErrorCode.STORE_DENIED
    assert {key.split("/")[1] for key in keys(store) if "/" in key} == {old}


def test_a_run_without_a_network_leaves_the_cleaning_to_the_next(
    folder: Store, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise BedivereError(ErrorCode.STORE_UNREACHABLE, "No.")

    monkeypatch.setattr(folder, "upload", fail)
    assert failure(lambda: publish(database, folder)).code == ErrorCode.STORE_UNREACHABLE
    monkeypatch.undo()

    assert len(keys(folder)) == 1
    release = publish(database, folder, leftovers_after=NOW).release
    assert keys(folder) == [POINTER_KEY, manifest_key(release), part_key(release, 0)]


def test_who_may_not_delete_may_publish_and_is_told(
    folder: Store, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise BedivereError(ErrorCode.STORE_DENIED, "No.")

    monkeypatch.setattr(folder, "delete", refuse)
    monkeypatch.setattr(folder, "abandon", refuse)

    published = publish(database, folder, keep=1)

    assert_whole(folder, published.release)
    assert len(published.notes) == 1
    assert "does not allow it" in published.notes[0]
    assert publish(database, folder).unchanged


# Listing


def test_releases_are_listed_the_newest_first_with_the_current_marked(store: Store, tmp_path: Path) -> None:
    ids = publish_editions(store, tmp_path, 3)

    assert [(release.id, release.current) for release in survey(store).releases] == [
        (ids[2], True),
        (ids[1], False),
        (ids[0], False),
    ]


def test_nothing_published_is_an_empty_list(store: Store) -> None:
    assert survey(store).releases == ()


def test_a_manifest_that_is_damaged_is_listed_as_such(folder: Store, tmp_path: Path) -> None:
    ids = publish_editions(folder, tmp_path, 2)
    folder.put(manifest_key(ids[0]), b"not json")

    listed = {release.id: release for release in survey(folder).releases}

    assert listed[ids[0]].manifest is None
    problem = listed[ids[0]].problem
    assert problem is not None
    assert problem.code == ErrorCode.RELEASE_DAMAGED


def test_what_is_no_release_is_not_listed(folder: Store, database: Path) -> None:
    folder.put("releases/readme/manifest.json", b"")
    folder.put("releases/20269999T999999Z-3f2a9c1b/notes.txt", b"")

    assert [release.id for release in survey(folder).releases] == []
    release = publish(database, folder, leftovers_after=NOW).release
    assert [found.id for found in survey(folder).releases] == [release]
    assert "releases/readme/manifest.json" in keys(folder)


# Rolling back


def test_rolling_back_goes_to_the_release_before_and_forth_to_one_that_is_named(store: Store, tmp_path: Path) -> None:
    ids = publish_editions(store, tmp_path, 3)

    assert rollback(store) == (ids[2], ids[1])
    assert_whole(store, ids[1])
    assert rollback(store) == (ids[1], ids[0])
    assert rollback(store, ids[2]) == (ids[0], ids[2])
    assert_whole(store, ids[2])
    assert rollback(store, ids[2]) == (ids[2], ids[2])


@pytest.mark.parametrize("release", ["20260101T000000Z-00000000", "../../etc", "latest"])
def test_a_release_that_is_not_there_is_not_found(store: Store, database: Path, release: str) -> None:
    only = publish(database, store).release

    error = failure(lambda: rollback(store, release))

    assert error.code == ErrorCode.RELEASE_NOT_FOUND
    assert only in error.sentence
    assert_whole(store, only)


def test_there_is_nothing_before_the_first_release(store: Store, database: Path) -> None:
    publish(database, store)

    assert failure(lambda: rollback(store)).code == ErrorCode.RELEASE_NOT_FOUND


def test_where_nothing_was_published_there_is_nothing_to_roll_back(store: Store) -> None:
    assert failure(lambda: rollback(store)).code == ErrorCode.RELEASE_NOT_FOUND


def test_a_release_that_lost_a_part_does_not_become_current(store: Store, tmp_path: Path) -> None:
    ids = publish_editions(store, tmp_path, 2)
    store.delete([part_key(ids[0], 0)])

    assert failure(lambda: rollback(store)).code == ErrorCode.RELEASE_DAMAGED
    assert_whole(store, ids[1])


def test_a_release_whose_manifest_is_damaged_does_not_become_current(folder: Store, tmp_path: Path) -> None:
    ids = publish_editions(folder, tmp_path, 2)
    folder.put(manifest_key(ids[0]), b"{}")

    assert failure(lambda: rollback(folder)).code == ErrorCode.RELEASE_NOT_FOUND
    assert failure(lambda: rollback(folder, ids[0])).code == ErrorCode.RELEASE_DAMAGED


def test_the_manifest_of_another_release_makes_neither_current(folder: Store, tmp_path: Path) -> None:
    ids = publish_editions(folder, tmp_path, 3)
    stranger = folder.get(manifest_key(ids[1]), max_bytes=1 << 20)
    assert stranger is not None
    folder.put(manifest_key(ids[0]), stranger.data)

    assert failure(lambda: rollback(folder, ids[0])).code == ErrorCode.RELEASE_DAMAGED
    assert_whole(folder, ids[2])


def test_a_damaged_pointer_is_mended_by_rolling_back(folder: Store, database: Path) -> None:
    release = publish(database, folder).release
    folder.put(POINTER_KEY, b"{}")

    assert rollback(folder) == (None, release)
    assert_whole(folder, release)


def test_rolling_back_while_another_publishes_is_a_conflict(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_editions(store, tmp_path, 2)
    write(tmp_path, 3)
    real = history.held
    published: list[str] = []

    def publish_meanwhile(*arguments: Any) -> Any:
        monkeypatch.setattr(history, "held", real)
        published.append(publish(tmp_path / "db", store).release)
        return real(*arguments)

    monkeypatch.setattr(history, "held", publish_meanwhile)
    error = failure(lambda: rollback(store))

    assert error.code == ErrorCode.PUBLISH_CONFLICT
    assert published[0] in error.sentence
    assert_whole(store, published[0])


# Pruning


def released(store: Store) -> list[str]:
    return [release.id for release in survey(store).releases]


def test_pruning_keeps_the_newest_and_removes_the_others_whole(store: Store, tmp_path: Path) -> None:
    ids = publish_editions(store, tmp_path, 4)

    pruned = prune(store, 2, grace=NOW)

    assert pruned.releases == (ids[1], ids[0])
    assert (pruned.objects, pruned.bytes > 0) == (4, True)
    assert released(store) == [ids[3], ids[2]]
    assert {key.split("/")[1] for key in keys(store) if "/" in key} == {ids[3], ids[2]}
    assert_whole(store, ids[3])


@pytest.fixture(autouse=True)
def _ids_in_the_past(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    """Releases that follow each other within a second have ids some seconds ahead; pruning looks at them later."""
    if "prun" in request.node.name:
        monkeypatch.setattr(history, "datetime", Clock)


def test_the_current_release_is_never_pruned(store: Store, tmp_path: Path) -> None:
    ids = publish_editions(store, tmp_path, 3)
    rollback(store, ids[0])

    prune(store, 1, grace=NOW)

    assert released(store) == [ids[2], ids[0]]
    assert_whole(store, ids[0])


def test_within_the_grace_nothing_is_pruned(store: Store, tmp_path: Path) -> None:
    ids = publish_editions(store, tmp_path, 3)

    assert prune(store, 1).releases == ()
    assert released(store) == ids[::-1]


def test_a_release_that_was_current_within_the_grace_is_not_pruned_however_old_it_is(
    folder: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = publish_editions(folder, tmp_path, 3)
    pointer = pointer_of(folder)
    assert set(pointer.replaced) == {ids[0], ids[1]}
    long_ago = "2020-01-01T00:00:00Z"
    folder.put(POINTER_KEY, replace(pointer, replaced={**pointer.replaced, ids[0]: long_ago}).to_json())
    monkeypatch.setattr(history, "moment_of", lambda _: datetime(2020, 1, 1, tzinfo=UTC))

    assert prune(folder, 1).releases == (ids[0],)


@pytest.mark.usefixtures("_small_parts")
def test_a_part_that_a_kept_release_refers_to_is_not_pruned(store: Store, tmp_path: Path) -> None:
    database = two_tables(tmp_path)
    first = publish(database, store)
    write(tmp_path, 2, table="second")
    second = publish(database, store)

    assert prune(store, 1, grace=NOW).releases == (first.release,)

    assert_whole(store, second.release)
    assert released(store) == [second.release]
    remaining = [key for key in keys(store) if first.release in key]
    assert len(remaining) == second.reused_parts > 0
    prune(store, 1, grace=NOW)
    publish(database, store, leftovers_after=NOW)
    assert_whole(store, second.release)


@pytest.mark.usefixtures("_small_parts")
def test_a_part_that_a_publisher_is_about_to_refer_to_is_not_pruned(
    folder: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = two_tables(tmp_path)
    publish(database, folder)
    (tmp_path / "elsewhere").mkdir()
    write(tmp_path / "elsewhere", 9)
    publish(tmp_path / "elsewhere/db", folder)
    real = history.flip

    def prune_meanwhile(*arguments: Any) -> None:
        prune(folder, 1, grace=NOW)
        real(*arguments)

    monkeypatch.setattr(history, "flip", prune_meanwhile)
    third = publish(database, folder)

    assert third.reused_parts == third.parts
    assert_whole(folder, third.release)


def test_a_dry_run_of_pruning_removes_nothing(store: Store, tmp_path: Path) -> None:
    publish_editions(store, tmp_path, 3)
    before = keys(store)

    tried = prune(store, 1, grace=NOW, dry_run=True)

    assert keys(store) == before
    assert prune(store, 1, grace=NOW) == tried


def test_pruning_leaves_what_it_does_not_understand(folder: Store, tmp_path: Path) -> None:
    ids = publish_editions(folder, tmp_path, 3)
    folder.put(manifest_key(ids[0]), b"not json")

    assert prune(folder, 1, grace=NOW).releases == (ids[1],)
    assert part_key(ids[0], 0) in keys(folder)


def test_pruning_an_empty_store_removes_nothing(store: Store) -> None:
    assert prune(store, 1, grace=NOW).objects == 0


@pytest.mark.parametrize(("keep", "grace"), [(0, NOW), (-1, NOW), (1, timedelta(hours=-1))])
def test_pruning_all_or_into_the_future_is_refused(folder: Store, keep: int, grace: timedelta) -> None:
    assert failure(lambda: prune(folder, keep, grace=grace)).code == ErrorCode.INVALID_ARGUMENT


def test_a_release_that_is_rolled_back_to_while_it_is_pruned_stays_whole(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = publish_editions(store, tmp_path, 2)
    real = store.delete

    def rollback_meanwhile(doomed: Any) -> None:
        monkeypatch.setattr(store, "delete", real)
        rollback(store, ids[0])
        real(doomed)

    monkeypatch.setattr(store, "delete", rollback_meanwhile)
    prune(store, 1, grace=NOW)

    assert_whole(store, ids[0])
    assert manifest_key(ids[0]) in keys(store)


def test_publishing_prunes_where_it_is_asked_to(folder: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing.history.prune, "__kwdefaults__", {"grace": NOW, "dry_run": False})
    ids = publish_editions(folder, tmp_path, 2)
    write(tmp_path, 3)

    published = publish(tmp_path / "db", folder, keep=2)

    assert published.pruned == (ids[0],)
    assert released(folder) == [published.release, ids[1]]
