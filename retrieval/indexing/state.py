"""What the indexer read last time, kept beside the table it wrote, so that the next run reads only what changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from retrieval.indexing.sources import Stamp

STATE_FORMAT: Final = 1
"""Grows when a state of the last format could no longer be understood."""

RACY_NS: Final = 2_000_000_000
"""How much older than the reading a file must be before its time is trusted: the coarsest clock of a common file
system ticks every two seconds, and a file written within the tick in which it was read looks unchanged."""


@dataclass(frozen=True, slots=True)
class FileRecord:
    """One file as it was read: `reason` says why it gave no rows; `metadata` is its further columns, as JSON text.

    Without `ctime_ns` and `inode`, which an older record lacks, it is read again.
    """

    size: int
    mtime_ns: int
    sha256: str
    chunks: int
    reason: str | None = None
    metadata: str = "{}"
    ctime_ns: int | None = None
    inode: int | None = None
    hidden: int = 0
    """Characters that nobody sees, which were taken out of it."""


@dataclass(frozen=True, slots=True)
class ScopeState:
    """The files of one collection and version.

    `fingerprint` (of the code) and `base_url` are all that makes rows other than the files' bytes.
    """

    fingerprint: str
    base_url: str | None
    read_at_ns: int
    """When the run began to read, in nanoseconds since the epoch."""
    files: dict[str, FileRecord] = field(default_factory=dict[str, FileRecord])

    def unchanged(self, path: str, stamp: Stamp) -> FileRecord | None:
        """The record of a file that need not be opened: the same stamp, and not written while it was read."""
        record = self.files.get(path)
        if record is None or Stamp(record.size, record.mtime_ns, record.ctime_ns, record.inode) != stamp:
            return None
        return record if stamp.mtime_ns < self.read_at_ns - RACY_NS else None


@dataclass(frozen=True, slots=True)
class State:
    """All scopes of a table, by the prefix of their rows' ids."""

    scopes: dict[str, ScopeState] = field(default_factory=dict[str, ScopeState])
    format: int = STATE_FORMAT


_ADAPTER: Final = TypeAdapter(State)


def load(file: Path) -> State | None:
    """The state in `file`; None where it is missing, damaged or of another format, which means: read everything."""
    try:
        state = _ADAPTER.validate_json(file.read_bytes(), strict=True)
    except (OSError, ValueError):
        return None
    return state if state.format == STATE_FORMAT else None


def save(file: Path, state: State) -> None:
    file.write_bytes(_ADAPTER.dump_json(state))
