"""What a run of the indexer is asked, what it tells on the way, and what it says at the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from retrieval.provider import Endpoint
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
    embed: bool | None = None
    """Whether the table has vectors; None: if it has them already."""
    endpoint: Endpoint | None = field(default=None, compare=False)
    """Who makes vectors, of which model."""
    workers: int | None = None
    """Processes that read documents side by side, at most; None: as many as there are cores for this one."""

    @property
    def holds_lines(self) -> bool:
        """Whether the source is a file of documents, one a line, rather than a folder of them."""
        return self.source.suffix.lower() == ".jsonl" and self.source.is_file()

    @property
    def noun(self) -> str:
        """What one document of the source is called: a file, where it is one."""
        return "document" if self.holds_lines else "file"


class Progress(Protocol):
    """Told of a run as it goes."""

    def stage(self, name: str) -> None: ...
    def found(self, files: int) -> None: ...
    def read(self, path: str, size: int) -> None:
        """A file is done with; `size` in bytes is 0 where it did not have to be opened."""
        ...

    def wrote(self, chunks: int) -> None: ...
    def embedding(self, texts: int, tokens: int, dollars: float | None) -> None:
        """So much is to be embedded, by estimate; `dollars` is None where the price is not known."""
        ...

    def embedded(self, texts: int, tokens: int) -> None:
        """So much more has been, as the provider counted."""
        ...

    def waiting(self, why: str, seconds: float) -> None:
        """Nothing comes from the provider, and why; it is asked again after `seconds`."""
        ...


class Quiet:
    """A progress that nobody watches."""

    def stage(self, name: str) -> None: ...
    def found(self, files: int) -> None: ...
    def read(self, path: str, size: int) -> None: ...
    def wrote(self, chunks: int) -> None: ...
    def embedding(self, texts: int, tokens: int, dollars: float | None) -> None: ...
    def embedded(self, texts: int, tokens: int) -> None: ...
    def waiting(self, why: str, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True)
class SkippedGroup:
    """Files that were left out for one reason; `examples` names the first few."""

    reason: str
    files: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Hidden:
    """Characters that nobody sees, which were taken out of documents; `examples` names the first few of the files."""

    characters: int
    files: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Embedded:
    """The vectors of the table, and what this run paid for them."""

    model: str
    dimensions: int
    index: str
    """`flat` where vectors are scanned, else `HNSW_SQ`."""
    recall_at_10: float | None
    """Share of the nearest ten that the index finds; None where there is no index."""
    texts: int = 0
    """Chunks that the provider was asked for; equal ones once."""
    tokens: int = 0
    dollars: float | None = None
    """By the list price; None where that is not known."""
    truncated: int = 0
    """Chunks of which the end was left out, because the model reads less."""


@dataclass(frozen=True, slots=True)
class Calibrated:
    """By what a search of the table tells that nothing is relevant, as it is stored with the table."""

    words: int
    """Words that its chunks hold, all forms of one counted once."""
    threshold: float
    """What a question must reach to be answered, 0 to 1, by the search that is the table's default."""
    noise: float | None = None
    signal: float | None = None
    """Median cosine similarity of the nearest chunk to questions of other worlds, and to the table's own headings; None
    where there are no vectors, or they cannot tell the two apart."""


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
    vectors: Embedded | None = None
    """None where the table has none."""
    calibration: Calibrated | None = None
    hidden: Hidden | None = None
    """None where nothing had to be taken out."""
    seconds: float = 0.0
