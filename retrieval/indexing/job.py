"""What a run of the indexer is asked, what it tells on the way, and what it says at the end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from retrieval.schema import DEFAULT_TABLE


@dataclass(frozen=True, slots=True)
class Options:
    """What to index, and where to. `include` and `exclude` are gitignore patterns."""

    source: Path
    database: Path
    table: str = DEFAULT_TABLE
    collection: str | None = None
    doc_version: str | None = None
    base_url: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    rebuild: bool = False
    """Reads every file again; also replaces a table that stands there and was not built by this module."""


class Progress(Protocol):
    """Told of a run as it goes."""

    def stage(self, name: str) -> None: ...
    def found(self, files: int) -> None: ...
    def read(self, path: str, size: int) -> None:
        """A file is done with; `size` in bytes is 0 where it did not have to be opened."""
        ...

    def wrote(self, chunks: int) -> None: ...


class Quiet:
    """A progress that nobody watches."""

    def stage(self, name: str) -> None: ...
    def found(self, files: int) -> None: ...
    def read(self, path: str, size: int) -> None: ...
    def wrote(self, chunks: int) -> None: ...


@dataclass(frozen=True, slots=True)
class SkippedGroup:
    """Files that were left out for one reason; `examples` names the first few."""

    reason: str
    files: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run did. Counts are of the run's own collection and version, but for `other_rows` and `total_rows`."""

    table: str
    unchanged: bool
    """Nothing had changed: the table was left as it is."""
    files: int
    """Documents in the table now."""
    chunks: int
    bytes: int
    """Size of those documents."""
    reused: int
    """Documents whose rows were copied, because they had not changed."""
    removed: int
    """Documents of the last run that are no longer there."""
    skipped: tuple[SkippedGroup, ...]
    other_rows: int
    """Rows of other collections and versions, carried over as they were."""
    total_rows: int
    corpus_version: str
    notes: tuple[str, ...]
    seconds: float = 0.0
