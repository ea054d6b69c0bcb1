"""The indexer's rate: a folder read for the first time, read again unchanged, and its rows merely written."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import lancedb

from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options, Summary
from retrieval.indexing.lance import FULL_TEXT
from retrieval.schema import DEFAULT_TABLE
from tests.bench import corpus
from tests.bench.timing import Cost, cost_of


@dataclass(frozen=True, slots=True)
class Folder:
    """A corpus on disk, the database that was made of it once, and room for more of them."""

    source: Path
    database: Path
    room: Path
    chunks: int

    def index(self, number: int) -> Cost:
        """Everything read, split, written and indexed, into a new database."""
        options = Options(self.source, self.room / f"database-{number}")
        return cost_of(lambda: build_table(options))

    def index_again(self, _number: int) -> Cost:
        """Into the database that holds it all already."""
        options = Options(self.source, self.database)
        return cost_of(lambda: _check_unchanged(build_table(options)))

    def bare_write(self, number: int) -> Cost:
        """LanceDB alone: the finished rows, already in memory, and the same indexes over them."""
        rows = lancedb.connect(self.database).open_table(DEFAULT_TABLE).to_arrow()

        def write() -> None:
            table = lancedb.connect(self.room / f"bare-{number}").create_table(DEFAULT_TABLE, rows)
            for column, config in FULL_TEXT.items():
                table.create_index(column, config=config)

        return cost_of(write)


@contextmanager
def indexed_folder(size: int) -> Generator[Folder]:
    """A corpus of about `size` chunks, indexed once so that all code is loaded; gone at the end."""
    with tempfile.TemporaryDirectory(prefix="bedivere-bench-") as name:
        room = Path(name)
        corpus.write(room / "source", size)
        summary = build_table(Options(room / "source", room / "database"))
        yield Folder(room / "source", room / "database", room, summary.chunks)


def _check_unchanged(summary: Summary) -> None:
    if not summary.unchanged:
        raise RuntimeError("The second run found a changed folder")
