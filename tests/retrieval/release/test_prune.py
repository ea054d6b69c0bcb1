"""Pruning, on a folder and on a real S3 server alike."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportUnknownLambdaType=false
from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from retrieval.errors import ErrorCode
from retrieval.release import history, pruning
from retrieval.release.faults import Denied
from retrieval.release.history import rollback, survey
from retrieval.release.manifest import (
    POINTER_KEY,
    READER_FORMAT,
    manifest_key,
    part_key,
    pending_key,
)
from retrieval.release.pruning import Reason, Spared, prune
from retrieval.release.publish import publish
from retrieval.release.store import Store
from tests.retrieval.release.releasing import (
    LOST_POINTERS,
    NOW,
    Clock,
    assert_whole,
    failure,
    keys,
    lose_pointer,
    pointer_of,
    publish_editions,
    two_tables,
    write,
)


@pytest.fixture(autouse=True)
def _ids_in_the_past(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    """Releases that follow each other within a second have ids some seconds ahead; pruning looks at them later."""
    for module in (history, pruning):
        monkeypatch.setattr(module, "datetime", Clock)


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


def test_the_current_release_is_never_pruned(store: Store, tmp_path: Path) -> None:
    ids = publish_editions(store, tmp_path, 3)
    rollback(store, ids[0])

    assert prune(store, 1, grace=NOW).spared == (Spared(ids[0], Reason.CURRENT),)

    assert released(store) == [ids[2], ids[0]]
    assert_whole(store, ids[0])


def test_within_the_grace_nothing_is_pruned(store: Store, tmp_path: Path) -> None:
    ids = publish_editions(store, tmp_path, 3)

    pruned = prune(store, 1)

    assert (pruned.releases, released(store)) == ((), ids[::-1])
    assert pruned.spared == (Spared(ids[1], Reason.PUBLISHED), Spared(ids[0], Reason.PUBLISHED))


def test_a_release_that_was_current_within_the_grace_is_not_pruned_however_old_it_is(
    folder: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = publish_editions(folder, tmp_path, 3)
    pointer = pointer_of(folder)
    assert set(pointer.replaced) == {ids[0], ids[1]}
    long_ago = "2020-01-01T00:00:00Z"
    folder.put(POINTER_KEY, replace(pointer, replaced={**pointer.replaced, ids[0]: long_ago}).to_json())
    monkeypatch.setattr(history, "moment_of", lambda _: datetime(2020, 1, 1, tzinfo=UTC))

    pruned = prune(folder, 1)

    assert (pruned.releases, pruned.spared) == ((ids[0],), (Spared(ids[1], Reason.REPLACED),))


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

    pruned = prune(folder, 1, grace=NOW)

    assert (pruned.releases, pruned.spared) == ((ids[1],), (Spared(ids[0], Reason.UNREADABLE),))
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
    pruned = prune(store, 1, grace=NOW)

    assert_whole(store, ids[0])
    assert manifest_key(ids[0]) in keys(store)
    assert (pruned.releases, pruned.objects, pruned.bytes) == ((), 0, 0)
    (note,) = pruned.notes
    assert ids[0] in note


def test_of_many_only_those_are_said_to_be_removed_that_were(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = publish_editions(store, tmp_path, 3)
    before = {stored.key: stored.bytes for stored in store.list("")}
    real = store.delete

    def rollback_meanwhile(doomed: Any) -> None:
        monkeypatch.setattr(store, "delete", real)
        rollback(store, ids[0])
        real(doomed)

    monkeypatch.setattr(store, "delete", rollback_meanwhile)
    pruned = prune(store, 1, grace=NOW)

    gone = [key for key in before if key not in keys(store)]
    assert pruned.releases == (ids[1],)
    assert (pruned.objects, pruned.bytes) == (len(gone), sum(before[key] for key in gone))


# Ids that no clock gave

MADE_UP = ("99991231T235959Z-3f2a9c1b", "99999999T999999Z-3f2a9c1b", "40000101T000000Z-3f2a9c1b")


def make_up(store: Store, id_: str) -> None:
    """Puts a release there that holds what the current one does, under an id that is nobody's."""
    store.put(manifest_key(id_), replace(pointer_of(store).manifest, release=id_).to_json())


def test_releases_with_made_up_ids_are_removed_and_no_other_for_them(store: Store, tmp_path: Path) -> None:
    ids = publish_editions(store, tmp_path, 3)
    rollback(store, ids[0])
    for id_ in MADE_UP:
        make_up(store, id_)

    pruned = prune(store, 2, grace=NOW)

    assert sorted(pruned.releases) == sorted(MADE_UP)
    assert released(store) == ids[::-1]


def test_a_release_with_a_made_up_id_has_no_grace_for_it(folder: Store, tmp_path: Path) -> None:
    ids = publish_editions(folder, tmp_path, 2)
    make_up(folder, MADE_UP[0])

    assert prune(folder, 5).releases == (MADE_UP[0],)
    assert released(folder) == ids[::-1]
    assert_whole(folder, ids[1])


def test_a_release_with_a_made_up_id_that_was_current_is_spared_as_any_other(folder: Store, tmp_path: Path) -> None:
    (only,) = publish_editions(folder, tmp_path, 1)
    make_up(folder, MADE_UP[0])
    rollback(folder, MADE_UP[0])

    assert prune(folder, 1, grace=NOW).releases == ()
    assert_whole(folder, MADE_UP[0])
    rollback(folder, only)
    assert prune(folder, 1, grace=timedelta(hours=2)).releases == ()
    long_ago = replace(pointer_of(folder), replaced={MADE_UP[0]: "2020-01-01T00:00:00Z"})
    folder.put(POINTER_KEY, long_ago.to_json())
    assert prune(folder, 1).releases == (MADE_UP[0],)
    assert_whole(folder, only)


# Claims that stayed


@pytest.mark.parametrize("clean", ["prune", "publish"])
def test_a_claim_that_stayed_beside_its_release_is_removed_once_it_is_old(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clean: str
) -> None:
    ids = publish_editions(store, tmp_path, 2)
    before = keys(store)
    for id_ in ids:
        store.put(pending_key(id_), b"{}")

    def clean_up() -> int:
        if clean == "prune":
            return prune(store, 2).objects
        count = len(keys(store))
        assert publish(tmp_path / "db", store).unchanged
        return count - len(keys(store))

    assert clean_up() == 0
    later = type("Later", (Clock,), {"now": classmethod(lambda _, tz=None: Clock.now(tz) + timedelta(days=2))})
    monkeypatch.setattr(pruning, "datetime", later)
    assert clean_up() == 2
    assert keys(store) == before
    assert_whole(store, ids[1])


def test_a_claim_of_a_release_without_a_manifest_of_its_own_stays(folder: Store, database: Path) -> None:
    release = publish(database, folder).release
    folder.put(pending_key(release), pointer_of(folder).manifest.to_json())
    folder.delete([manifest_key(release)])

    pruning.clean(folder, survey(folder), after=NOW)

    assert pending_key(release) in keys(folder)


def test_publishing_prunes_where_it_is_asked_to(folder: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning.prune, "__kwdefaults__", {"grace": NOW, "dry_run": False})
    ids = publish_editions(folder, tmp_path, 2)
    write(tmp_path, 3)

    published = publish(tmp_path / "db", folder, keep=2)

    assert published.pruned == (ids[0],)
    assert released(folder) == [published.release, ids[1]]


# Where it is not known what is current


@pytest.mark.parametrize("how", LOST_POINTERS)
def test_nothing_is_pruned_where_it_is_not_known_which_release_is_current(
    store: Store, tmp_path: Path, how: str
) -> None:
    publish_editions(store, tmp_path, 3)
    lose_pointer(store, how)
    before = keys(store)

    error = failure(lambda: prune(store, 1, grace=NOW))

    assert error.code == ErrorCode.RELEASE_DAMAGED
    assert "bedivere rollback STORE RELEASE" in error.sentence
    assert keys(store) == before


def test_nothing_is_pruned_under_a_pointer_of_a_newer_bedivere(folder: Store, tmp_path: Path) -> None:
    publish_editions(folder, tmp_path, 3)
    newer = pointer_of(folder)
    newer = replace(newer, manifest=replace(newer.manifest, minimum_reader=READER_FORMAT + 1))
    folder.put(POINTER_KEY, newer.to_json())
    before = keys(folder)

    assert failure(lambda: prune(folder, 1, grace=NOW)).code == ErrorCode.RELEASE_TOO_NEW
    assert keys(folder) == before


def test_nothing_is_pruned_where_the_pointer_may_not_be_read(
    folder: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_editions(folder, tmp_path, 3)
    before = keys(folder)
    real = folder.get

    def refuse(key: str, **options: Any) -> Any:
        if key == POINTER_KEY:
            raise Denied("No.")
        return real(key, **options)

    monkeypatch.setattr(folder, "get", refuse)

    assert failure(lambda: prune(folder, 1, grace=NOW)).code == ErrorCode.STORE_DENIED
    assert keys(folder) == before


def test_a_pointer_that_is_lost_while_releases_are_pruned_leaves_their_parts(
    folder: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = publish_editions(folder, tmp_path, 2)
    real = folder.delete

    def delete_and_damage(doomed: Any) -> None:
        real(doomed)
        folder.put(POINTER_KEY, b"{}")

    monkeypatch.setattr(folder, "delete", delete_and_damage)

    assert failure(lambda: prune(folder, 1, grace=NOW)).code == ErrorCode.RELEASE_DAMAGED
    assert part_key(ids[0], 0) in keys(folder)


def test_what_may_have_been_current_when_the_pointer_was_lost_has_its_grace_from_then_on(
    folder: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = publish_editions(folder, tmp_path, 3)
    lose_pointer(folder, "damaged")
    rollback(folder, ids[2])
    monkeypatch.setattr(history, "moment_of", lambda _: datetime(2020, 1, 1, tzinfo=UTC))

    assert prune(folder, 1, grace=timedelta(hours=2)).releases == ()


def test_a_release_whose_publisher_died_is_not_taken_for_a_leftover_once_the_pointer_is_lost(
    folder: Store, database: Path
) -> None:
    release = publish(database, folder).release
    folder.put(pending_key(release), pointer_of(folder).manifest.to_json())
    folder.delete([manifest_key(release), POINTER_KEY])

    assert failure(lambda: prune(folder, 1, grace=NOW)).code == ErrorCode.RELEASE_DAMAGED
    pruning.clean(folder, history.survey(folder), after=NOW)
    assert part_key(release, 0) in keys(folder)


def test_what_may_not_be_removed_is_named_and_the_rest_is_removed(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = publish_editions(store, tmp_path, 2)

    def refuse(*_: object) -> int:
        raise Denied("No.", "s3:ListBucketMultipartUploads")

    monkeypatch.setattr(store, "abandon", refuse)
    pruned = prune(store, 1, grace=NOW)

    assert pruned.releases == (ids[0],)
    (note,) = pruned.notes
    assert "s3:ListBucketMultipartUploads" in note
    assert released(store) == [ids[1]]
