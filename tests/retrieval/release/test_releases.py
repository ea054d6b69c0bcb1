"""Listing what was published, on a folder and on a real S3 server alike."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportUnknownLambdaType=false
from __future__ import annotations

from pathlib import Path

import pytest

from retrieval.errors import ErrorCode
from retrieval.release.history import survey
from retrieval.release.manifest import (
    manifest_key,
)
from retrieval.release.publish import publish
from retrieval.release.store import Store
from tests.retrieval.release.releasing import (
    LOST_POINTERS,
    NOW,
    keys,
    lose_pointer,
    publish_editions,
)


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


@pytest.mark.parametrize("how", LOST_POINTERS)
def test_releases_are_listed_though_it_is_not_known_which_is_current(store: Store, tmp_path: Path, how: str) -> None:
    ids = publish_editions(store, tmp_path, 2)
    lose_pointer(store, how)

    seen = survey(store)

    assert [(release.id, release.current) for release in seen.releases] == [(ids[1], False), (ids[0], False)]
    assert seen.problem is not None
    assert "bedivere rollback STORE RELEASE" in seen.problem.sentence
