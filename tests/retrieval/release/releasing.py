"""What the tests of publishing and of what was published share: editions of a database, and a look at the store."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportUnknownLambdaType=false
from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from retrieval.errors import BedivereError
from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options
from retrieval.release import history
from retrieval.release.manifest import (
    POINTER_KEY,
    Pointer,
)
from retrieval.release.publish import publish
from retrieval.release.store import Store, open_store

NOW = timedelta(0)
MAX_BYTES = 1 << 23


def folder_store(tmp_path: Path) -> Store:
    (tmp_path / "store").mkdir()
    return open_store((tmp_path / "store").as_uri())


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


def two_tables(tmp_path: Path) -> Path:
    for name in ("documents", "second"):
        write(tmp_path, 1, table=name)
    return tmp_path / "db"


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


class Clock(datetime):
    """A clock that runs an hour ahead."""

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return datetime.now(tz) + timedelta(hours=1)


LOST_POINTERS = ("damaged", "too large", "missing")


def lose_pointer(store: Store, how: str) -> None:
    """Leaves a `current.json` that does not say which release is current, or none."""
    match how:
        case "damaged":
            store.put(POINTER_KEY, b"{}")
        case "too large":
            store.put(POINTER_KEY, b" " * (MAX_BYTES + 1))
        case _:
            store.delete([POINTER_KEY])
