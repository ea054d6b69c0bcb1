"""Publishers that meet, are killed, interrupted or refused: the old release or the new one is current, whole."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportUnknownLambdaType=false
from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from retrieval.errors import BedivereError, ErrorCode
from retrieval.release import pack
from retrieval.release import publish as publishing
from retrieval.release.faults import Denied
from retrieval.release.history import survey
from retrieval.release.manifest import (
    POINTER_KEY,
    manifest_key,
    part_key,
    pending_key,
)
from retrieval.release.publish import Published, publish
from retrieval.release.store import S3Store, Store
from tests.retrieval.release.releasing import (
    NOW,
    Heard,
    assert_whole,
    failure,
    keys,
    pointer_of,
    write,
)

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

    folder.put(pending_key("20260101T000000Z-00000000"), b"{}")
    monkeypatch.setattr(folder, "delete", refuse)

    published = publish(database, folder, keep=1, leftovers_after=NOW)

    assert_whole(folder, published.release)
    assert len(published.notes) == 2
    assert all("does not allow it" in note for note in published.notes)
    assert publish(database, folder).unchanged


def test_a_claim_that_may_not_be_removed_is_a_note_and_goes_with_the_next_clean_up(
    store: Store, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise Denied("No.", "s3:DeleteObject")

    monkeypatch.setattr(store, "delete", refuse)
    published = publish(database, store, keep=1)
    monkeypatch.undo()

    (note,) = published.notes
    assert published.release in note
    assert "s3:DeleteObject" in note
    assert pending_key(published.release) in keys(store)
    assert publish(database, store, leftovers_after=NOW).unchanged
    assert keys(store) == [POINTER_KEY, manifest_key(published.release), part_key(published.release, 0)]


def test_who_may_not_list_unfinished_uploads_removes_the_rest_and_is_told_the_right(
    bucket: str, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = S3Store(bucket, "prefix")
    store.put(pending_key("20260101T000000Z-00000000"), b"{}")
    refusal = ClientError({"Error": {"Code": "AccessDenied"}}, "ListMultipartUploads")

    def paginator(name: str) -> Any:
        if name == "list_multipart_uploads":
            raise refusal
        return real(name)

    client: Any = store._client  # pyright: ignore[reportPrivateUsage]
    real = client.get_paginator
    monkeypatch.setattr(client, "get_paginator", paginator)

    published = publish(database, store, keep=1, leftovers_after=NOW)

    (note,) = published.notes
    assert "s3:ListBucketMultipartUploads" in note
    assert [key for key in keys(store) if key.endswith("pending.json")] == []


@pytest.mark.parametrize("arrived", [True, False])
def test_a_run_that_is_interrupted_while_it_is_made_current_removes_nothing(
    folder: Store, database: Path, monkeypatch: pytest.MonkeyPatch, arrived: bool
) -> None:
    real = folder.put

    def interrupt(key: str, data: bytes, **options: Any) -> str:
        if key != POINTER_KEY or arrived:
            real(key, data, **options)
        if key == POINTER_KEY:
            raise KeyboardInterrupt
        return ""

    monkeypatch.setattr(folder, "put", interrupt)
    with pytest.raises(KeyboardInterrupt):
        publish(database, folder)
    monkeypatch.undo()

    # The write may arrive even now.
    assert len([key for key in keys(folder) if "/part-" in key]) == 1
    assert publish(database, folder, leftovers_after=NOW).unchanged == arrived
    assert_whole(folder, pointer_of(folder).release)
