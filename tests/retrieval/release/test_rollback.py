"""Rolling back, on a folder and on a real S3 server alike."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportUnknownLambdaType=false
from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from retrieval.errors import BedivereError, ErrorCode
from retrieval.release import history, pruning
from retrieval.release.history import rollback, survey
from retrieval.release.manifest import (
    POINTER_KEY,
    READER_FORMAT,
    manifest_key,
    part_key,
)
from retrieval.release.publish import publish
from retrieval.release.store import Store
from tests.retrieval.release.releasing import (
    LOST_POINTERS,
    MAX_BYTES,
    NOW,
    assert_whole,
    failure,
    keys,
    lose_pointer,
    pointer_of,
    publish_editions,
    write,
)


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


@pytest.mark.parametrize("how", LOST_POINTERS)
def test_a_lost_pointer_is_mended_by_rolling_back_to_a_release_that_is_named(
    store: Store, tmp_path: Path, how: str
) -> None:
    ids = publish_editions(store, tmp_path, 2)
    lose_pointer(store, how)

    assert rollback(store, ids[0]) == (None, ids[0])
    assert_whole(store, ids[0])
    assert [(found.id, found.current) for found in survey(store).releases] == [(ids[1], False), (ids[0], True)]


@pytest.mark.parametrize("how", LOST_POINTERS)
def test_without_a_pointer_there_is_none_before_and_one_is_to_be_named(store: Store, database: Path, how: str) -> None:
    publish(database, store)
    lose_pointer(store, how)

    error = failure(lambda: rollback(store))

    assert error.code == ErrorCode.RELEASE_DAMAGED
    assert "bedivere rollback STORE RELEASE" in error.sentence
    assert failure(lambda: rollback(store, "20260101T000000Z-00000000")).code == ErrorCode.RELEASE_NOT_FOUND


@pytest.mark.parametrize("how", LOST_POINTERS)
def test_a_pointer_that_somebody_else_has_mended_meanwhile_is_a_conflict(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    ids = publish_editions(store, tmp_path, 2)
    lose_pointer(store, how)
    real = history.held

    def mend_meanwhile(*arguments: Any) -> Any:
        monkeypatch.setattr(history, "held", real)
        rollback(store, ids[1])
        return real(*arguments)

    monkeypatch.setattr(history, "held", mend_meanwhile)

    assert failure(lambda: rollback(store, ids[0])).code == ErrorCode.PUBLISH_CONFLICT
    assert_whole(store, ids[1])


def test_a_pointer_of_a_newer_bedivere_is_not_rolled_back(folder: Store, tmp_path: Path) -> None:
    ids = publish_editions(folder, tmp_path, 2)
    newer = pointer_of(folder)
    newer = replace(newer, manifest=replace(newer.manifest, minimum_reader=READER_FORMAT + 1))
    tag = folder.put(POINTER_KEY, newer.to_json())

    assert failure(lambda: rollback(folder, ids[0])).code == ErrorCode.RELEASE_TOO_NEW
    assert folder.get(POINTER_KEY, unless_tag=tag, max_bytes=MAX_BYTES) is None


def test_a_rollback_that_is_done_or_refused_leaves_no_claim(store: Store, tmp_path: Path) -> None:
    ids = publish_editions(store, tmp_path, 3)
    before = keys(store)
    rollback(store, ids[0])
    assert keys(store) == before

    store.delete([part_key(ids[1], 0)])
    assert failure(lambda: rollback(store, ids[1])).code == ErrorCode.RELEASE_DAMAGED
    assert [key for key in before if key not in keys(store)] == [part_key(ids[1], 0)]


def test_a_rollback_whose_answer_is_lost_keeps_its_claim_until_it_is_old(
    folder: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = publish_editions(folder, tmp_path, 2)
    real = folder.put

    def lose(key: str, *arguments: Any, **options: Any) -> str:
        if key == POINTER_KEY:
            raise BedivereError(ErrorCode.STORE_UNREACHABLE, "No.")
        return real(key, *arguments, **options)

    monkeypatch.setattr(folder, "put", lose)
    assert failure(lambda: rollback(folder)).code == ErrorCode.STORE_UNREACHABLE
    monkeypatch.undo()

    assert [manifest.release for manifest in survey(folder).pending] == [ids[0]]
    pruning.clean(folder, survey(folder), after=NOW)
    assert survey(folder).pending == ()
    assert rollback(folder) == (ids[1], ids[0])


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
