"""Publishing, on a folder and on a real S3 server alike: what a release holds, its id and what it borrows."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportUnknownLambdaType=false
from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import lancedb
import pytest

from retrieval.errors import ErrorCode
from retrieval.indexing import lance
from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options
from retrieval.release import claim, pack
from retrieval.release import manifest as manifest_module
from retrieval.release import publish as publishing
from retrieval.release.history import rollback, survey
from retrieval.release.manifest import (
    POINTER_KEY,
    READER_FORMAT,
    Manifest,
    manifest_key,
    part_key,
    pending_key,
)
from retrieval.release.publish import publish
from retrieval.release.store import Store
from retrieval.schema import PROVENANCE_KEY, Provenance
from tests.retrieval.release.releasing import (
    LOST_POINTERS,
    MAX_BYTES,
    Clock,
    Heard,
    assert_whole,
    failure,
    keys,
    lose_pointer,
    pointer_of,
    publish_editions,
    two_tables,
    write,
)

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


@pytest.mark.parametrize("how", LOST_POINTERS)
def test_a_lost_pointer_is_replaced(store: Store, database: Path, how: str) -> None:
    first = publish(database, store).release
    lose_pointer(store, how)

    second = publish(database, store).release

    assert_whole(store, second)
    # Servers may be reading the other, whichever of them was current.
    assert set(pointer_of(store).replaced) == {first}


def test_a_release_that_no_reader_would_take_is_not_published(
    folder: Store, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest_module, "MAX_FILES", 1)
    for dry_run in (True, False):
        error = failure(lambda dry_run=dry_run: publish(database, folder, dry_run=dry_run))

        assert error.code == ErrorCode.DATASET_NOT_WHOLE
        assert "more files" in error.sentence
    assert keys(folder) == []


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
        "Uploading 1 part",
        "Making it current",
    ]
    assert heard.bytes_planned == heard.bytes_sent == published.uploaded_bytes


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
    monkeypatch.setattr(claim, "release_id", lambda *_: id_)
    monkeypatch.setattr(publishing.history, "survey", lambda _: real)
    for taken in (id_, f"{id_}-2"):
        store.put(pending_key(taken), b"{}")

    assert publish(database, store).release == f"{id_}-3"
    assert claim.age_order(f"{id_}-10") > claim.age_order(f"{id_}-3") > claim.age_order(id_)


def test_a_release_sorts_after_those_there_are_even_where_the_clock_runs_late(
    folder: Store, database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim, "datetime", Clock)
    ahead = publish(database, folder).release
    monkeypatch.undo()
    write(tmp_path, 2)

    assert publish(database, folder).release > ahead


@pytest.mark.parametrize("moment", ["99991231T235959Z", "40000101T000000Z"])
def test_an_id_from_a_far_future_does_not_stand_in_the_way(store: Store, database: Path, moment: str) -> None:
    for name in ("pending.json", "manifest.json"):
        store.put(f"releases/{moment}-3f2a9c1b/{name}", b"{}")

    release = publish(database, store, keep=1).release

    assert_whole(store, release)
    assert claim.moment_of(release) - datetime.now(UTC) < timedelta(minutes=1)
    assert rollback(store, release) == (release, release)


# Parts that are there already


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
