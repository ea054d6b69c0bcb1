"""The parts of indexing, one after the other in one process, so that each has a clock of its own."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import pyarrow as pa

from retrieval.indexing import chunks, formats, lance, rows, sources
from retrieval.indexing.companions import Companions
from retrieval.indexing.document import Format, ParsedDocument
from retrieval.indexing.provenance import describe
from retrieval.indexing.rows import Scope
from retrieval.indexing.spool import Spool, SpooledDocument
from retrieval.schema import DEFAULT_TABLE
from tests.bench.timing import Cost

PARTS: Final = {
    "read": "files to bytes, and their hashes",
    "parse": "bytes to blocks",
    "chunk": "blocks to chunks",
    "rows": "chunks to columns: identifiers, folded text",
    "spool": "columns to the disk",
    "write": "rows to LanceDB",
    "index": "LanceDB's indexes",
    "words": "the words of all chunks, counted",
}


class _Clock:
    """Gives what has been spent since it was last asked to one part or another."""

    def __init__(self) -> None:
        self.costs = dict.fromkeys(PARTS, Cost(0, 0))
        self._last = self._now()

    def stage(self, _name: str) -> None:
        """LanceDB begins to index."""
        self.lap("write")

    def lap(self, part: str, chunking: Cost | None = None) -> Cost:
        """The cost of the lap, which goes to `part` less what of it was `chunking`."""
        now = self._now()
        cost = Cost(now.wall - self._last.wall, now.cpu - self._last.cpu)
        before, less = self.costs[part], chunking or Cost(0, 0)
        self.costs[part] = Cost(before.wall + cost.wall - less.wall, before.cpu + cost.cpu - less.cpu)
        self._last = now
        return cost

    def _now(self) -> Cost:
        return Cost(time.perf_counter(), time.process_time())


def apart(source: Path, room: Path) -> dict[str, Cost]:
    """What each of `PARTS` costs for the documents of `source`; `room` is an empty folder."""
    spool = Spool(room / "rows.arrow")
    files = sources.find(source, suffixes=formats.SUFFIXES).files
    clock = _Clock()
    for file in files:
        content = sources.read(file)
        clock.lap("read")
        parsed = formats.parse(file.path, content.data)
        clock.lap("parse")
        chunks.split(parsed)
        chunking = clock.lap("chunk")
        made = rows.read_document(file.path, b"", content.sha256, Scope(), None, _given(parsed))
        # It chunks once more on its way.
        clock.lap("rows", chunking)
        spool.add(made.batch, {("", file.path): SpooledDocument(content.sha256, made.metadata)})
        clock.lap("spool")
    spool.finish()
    clock.lap("spool")
    provenance = describe(source, spool.documents, {}, None)
    schema = pa.schema([*rows.SCHEMA, *spool.own_columns().fields()], provenance.to_metadata())
    lance.write(room, DEFAULT_TABLE, spool.batches(schema), schema, clock.stage)
    clock.lap("index")
    Companions.of(spool.read())
    clock.lap("words")
    return clock.costs


def _given(parsed: ParsedDocument) -> Format:
    def given(data: bytes) -> ParsedDocument:
        return parsed

    return given
