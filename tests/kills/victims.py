"""What is killed: a run that turns an old state into a new one, and how to tell the two from anything between.

Each victim works in a folder that is a copy of a base; the base holds the old state and all that the run needs.
"""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Literal

import lancedb

from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options
from retrieval.release.disk import IN_USE, SyncFolder, hold
from retrieval.release.history import survey
from retrieval.release.manifest import POINTER_KEY, is_release_id, manifest_key, part_key
from retrieval.release.publish import publish
from retrieval.release.serving import bring_current
from retrieval.release.store import Store, open_store
from retrieval.release.sync import Patience
from retrieval.settings import load_settings

State = Literal["old", "new"]

STORE_VARIABLE: Final = "KILLS_STORE"
"""Names a store in place of the folder's own; set for the processes that are killed."""

_FILES: Final = 12
_NOW: Final = timedelta(0)
_EDITION_OF: Final[Mapping[int, State]] = {1: "old", 2: "new"}


@dataclass(frozen=True, slots=True)
class Victim:
    """A run, by what it does in a folder, where it writes, and what must be true before and after the next run."""

    name: str
    run: Callable[[Path], None]
    writes: str
    """The folder below its own that it writes to."""
    state: Callable[[Path], State]
    """Which of the two states it was left in; raises where it is neither."""
    repair: Callable[[Path], None]
    """The next run; raises unless the new state is there afterwards, and nothing else."""


def make_base(folder: Path) -> Path:
    """Two editions of a few documents, the first of them indexed, published and synced; the second is to follow."""
    folder.mkdir()
    _write(folder, 1)
    build_table(Options(folder / "docs", folder / "db"))
    (folder / "store").mkdir()
    publish(folder / "db", _store(folder))
    _sync(folder)
    _write(folder, 2)
    # Of the second edition: what is published, and a store that holds it, for those that begin there.
    shutil.copytree(folder / "db", folder / "next-db", symlinks=True)
    build_table(Options(folder / "docs", folder / "next-db"))
    shutil.copytree(folder / "store", folder / "next-store")
    publish(folder / "next-db", open_store((folder / "next-store").as_uri()))
    return folder


def copy_store(store: Path, client: Any, bucket: str, prefix: str) -> str:
    """Copies a store that is a folder to a prefix of a bucket; its address."""
    for path in store.rglob("*"):
        key = path.relative_to(store).as_posix()
        if path.is_file() and not key.startswith("."):
            client.put_object(Bucket=bucket, Key=f"{prefix}/{key}", Body=path.read_bytes())
    return f"s3://{bucket}/{prefix}"


def _write(folder: Path, edition: int) -> None:
    (folder / "docs").mkdir(exist_ok=True)
    for number in range(_FILES):
        sections = "\n".join(f"## Part {part}\n\nSection of edition{edition}.\n" for part in range(1 + edition))
        (folder / "docs" / f"{number:02}.md").write_text(f"# Page {number}\n\n{sections}")


def _index(folder: Path) -> None:
    build_table(Options(folder / "docs", folder / "db"))


def _state_of_table(folder: Path) -> State:
    return _edition_in(folder / "db")


def _indexed_again(folder: Path) -> None:
    _index(folder)
    assert _edition_in(folder / "db") == "new"
    left = [path.name for path in (folder / "db/.bedivere/documents").iterdir()]
    assert len(left) == 1, left


def _edition_in(database: Path) -> State:
    """Which edition a database holds: every row of it, each of them to be read and to be found."""
    table = lancedb.connect(database).open_table("documents")
    rows = table.search().select(["text"]).to_list()
    editions = {int(row["text"].rpartition("edition")[2].rstrip(".\n")) for row in rows}
    assert len(editions) == 1, editions
    (edition,) = editions
    assert len(rows) == table.count_rows() == _FILES * (1 + edition), (edition, len(rows))
    query = table.search(f"edition{edition}", query_type="fts", fts_columns="search_text").select(["id", "_score"])
    assert len(query.limit(len(rows) + 1).to_list()) == len(rows)
    return _EDITION_OF[edition]


def _store(folder: Path) -> Store:
    return open_store(os.environ.get(STORE_VARIABLE) or (folder / "store").as_uri())


def _publish(folder: Path) -> None:
    publish(folder / "next-db", _store(folder))


def _state_of_store(folder: Path) -> State:
    """Which edition a reader with an empty disk gets."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        place = _fetched(_store(folder), Path(scratch))
        return _edition_in(place)


def _published_again(folder: Path) -> None:
    store = _store(folder)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        publish(folder / "next-db", store, leftovers_after=_NOW)
        edition = _edition_in(_fetched(store, Path(scratch)))
        assert edition == "new", edition
    # The claim of a release whose manifest had still to be written goes with the run after that.
    publish(folder / "next-db", store, leftovers_after=_NOW)
    releases = [release.id for release in survey(store).releases]
    assert len(releases) == 2, releases
    expected = [POINTER_KEY, *(key for each in releases for key in (manifest_key(each), part_key(each, 0)))]
    found = [stored.key for stored in store.list("")]
    assert found == sorted(expected), found


def _fetched(store: Store, disk: Path) -> Path:
    serving = bring_current(store, SyncFolder(disk), load_settings(), None, patience=Patience())
    return serving.folder


def _sync(folder: Path) -> None:
    _fetched(_store(folder), folder / "disk")


def _sync_next(folder: Path) -> None:
    """Fetches the second edition while the first is being read, as a server does."""
    disk = folder / "disk"
    (served,) = [path for path in disk.iterdir() if is_release_id(path.name)]
    descriptor = hold(served)
    try:
        _fetched(open_store((folder / "next-store").as_uri()), disk)
    finally:
        os.close(descriptor)


def _state_of_disk(folder: Path) -> State:
    """Whether the new release is there; whatever stands under a release's name is all of it."""
    whole: dict[str, dict[str, str]] = {}
    for name in ("store", "next-store"):
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            place = _fetched(open_store((folder / name).as_uri()), Path(scratch))
            whole[place.name] = _files(place)
    old, new = whole
    here = {path.name: _files(path) for path in (folder / "disk").iterdir() if is_release_id(path.name)}
    assert here.keys() <= whole.keys(), here.keys()
    for release, files in here.items():
        assert files == whole[release], f"release {release} is not whole"
    assert old in here or new in here
    return "new" if new in here else "old"


def _synced_again(folder: Path) -> None:
    place = _fetched(open_store((folder / "next-store").as_uri()), folder / "disk")
    assert _edition_in(place) == "new"
    left = sorted(path.name for path in (folder / "disk").iterdir())
    assert left == sorted([place.name, "sync.lock"]), left


def _files(place: Path) -> dict[str, str]:
    """Every file of a release with the hash of its content."""
    return {
        path.relative_to(place).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(place.rglob("*"))
        if path.is_file() and path.name != IN_USE
    }


VICTIMS: Final = {
    victim.name: victim
    for victim in (
        Victim("index", _index, "db", _state_of_table, _indexed_again),
        Victim("publish", _publish, "store", _state_of_store, _published_again),
        Victim("sync", _sync_next, "disk", _state_of_disk, _synced_again),
    )
}
