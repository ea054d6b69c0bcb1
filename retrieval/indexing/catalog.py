"""Gathers the documents of a table while it is written, for `retrieval.catalog` to load without reading every row."""

# pyarrow ships no types: what comes out of it is checked in `retrieval.catalog`.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa

from retrieval.catalog import (
    CHECKSUM_KEY,
    CORPUS_KEY,
    COUNT_COLUMN,
    FRAGMENT_BITS,
    FRAGMENTS_KEY,
    NO_VERSION,
    PAGES_KEY,
    ROW_COLUMNS,
    TEXT_COLUMNS,
    UNNAMED_KEY,
    VERSION_KEY,
    Catalog,
    Gathered,
    checksum,
)
from retrieval.indexing.spool import BATCH_ROWS
from retrieval.schema import Provenance

if TYPE_CHECKING:
    # Processes that count words load this too, and have no use for LanceDB.
    from lancedb.table import Table

_COLUMNS: Final = (
    *("id", "path", "title", "url", "collection", "version", "status", "date", "superseded_by", "chunk"),
)
_MAX_ROWS: Final = 2**31 - 1
_SCHEMA: Final = pa.schema(
    [*(pa.field(name, pa.string()) for name in TEXT_COLUMNS), pa.field(COUNT_COLUMN, pa.int64())]
)


class CatalogBuilder:
    """Takes the rows of a table by the batch; keeps a few short texts of each document, and nothing of its chunks."""

    def __init__(self) -> None:
        self._gathered = Gathered()

    def add(self, batch: pa.RecordBatch) -> None:
        """Takes rows of `rows.SCHEMA`, further columns beside it."""
        for row in batch.select(list(_COLUMNS)).to_pylist():
            self._gathered.add(row)

    @property
    def alike(self) -> bool:
        """Whether the rows say what their documents say, and their ids of which document they are."""
        return self._gathered.alike

    def to_bytes(self) -> bytes:
        """The catalog as an Arrow file: the same bytes for the same rows, whatever their order."""
        catalog = self._gathered.catalog()
        columns = catalog.columns
        schema = _SCHEMA.with_metadata({UNNAMED_KEY: json.dumps(sorted(catalog.unnamed)).encode()})
        arrays: list[pa.Array[Any]] = [
            *(pa.array(columns[name], pa.string()) for name in TEXT_COLUMNS),
            pa.array(columns[COUNT_COLUMN], pa.int64()),
        ]
        return _file(pa.RecordBatch.from_arrays(arrays, schema=schema))


def numbered(catalog: bytes, table: Table, *, alike: bool) -> bytes:
    """The same file with the numbers that the rows have in `table`, which is finished.

    A search need not read of rows what the catalog says, as long as it reads that version of the table. Where the rows
    are not `alike`, as `CatalogBuilder` says, or do not lie as they should, the file says that there are no numbers.
    """
    with pa.ipc.open_file(pa.BufferReader(catalog)) as reader:
        batch, metadata = reader.get_batch(0).select([*TEXT_COLUMNS, COUNT_COLUMN]), dict(reader.schema.metadata)
    version = table.version
    found = _numbers(Catalog.load(catalog), table) if alike else None
    metadata[VERSION_KEY] = str(version if found else NO_VERSION).encode()
    if found:
        metadata |= {FRAGMENTS_KEY: json.dumps(found.fragments).encode(), PAGES_KEY: json.dumps(found.pages).encode()}
        provenance = Provenance.from_metadata(table.schema.metadata)
        metadata[CORPUS_KEY] = provenance.corpus_version.encode() if provenance else b""
        for name, numbers in zip(ROW_COLUMNS, (found.starts, found.places), strict=True):
            batch = batch.append_column(name, pa.array(numbers, pa.int32()))
    written = _file(batch.replace_schema_metadata(metadata))
    with pa.ipc.open_file(pa.BufferReader(written)) as reader:
        metadata[CHECKSUM_KEY] = str(checksum(reader.read_all(), metadata)).encode()
    return _file(batch.replace_schema_metadata(metadata))


@dataclass(slots=True)
class _Numbers:
    fragments: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    starts: list[int] = field(default_factory=list[int])
    places: list[int] = field(default_factory=list[int])
    pages: bool = True


def _numbers(catalog: Catalog, table: Table) -> _Numbers | None:
    """What `RowNumbers` holds, by the rows as they lie in `table`; None where that does not say which row is which."""
    places = {first_id: place for place, first_id in enumerate(catalog.columns["first_id"])}
    chunks, pages, found = catalog.columns[COUNT_COLUMN], catalog.columns["url"], _Numbers()
    row, stem, ordinal, wanted = 0, "", 0, 0
    query: Any = cast("Any", table).search().select(["id", "url"]).with_row_id(True)
    for batch in query.to_batches(batch_size=BATCH_ROWS):
        columns = (batch.column(name).to_pylist() for name in ("id", "url", "_rowid"))
        for row_id, url, number in zip(*columns, strict=True):
            fragment, within = number >> FRAGMENT_BITS, number & (1 << FRAGMENT_BITS) - 1
            if within == 0:
                found.fragments.append((fragment, row))
            if not found.fragments or (fragment, row - within) != found.fragments[-1]:
                return None
            if ordinal == wanted:
                place = places.pop(row_id, None)
                if place is None or not row_id.endswith("#0"):
                    return None
                found.starts.append(row)
                found.places.append(place)
                stem, ordinal, wanted = row_id.removesuffix("0"), 0, chunks[place]
            if row_id != f"{stem}{ordinal}":
                return None
            ordinal, row = ordinal + 1, row + 1
            found.pages = found.pages and (url or None) == pages[found.places[-1]]
    whole = ordinal == wanted and not places and row <= _MAX_ROWS
    return found if whole else None


def _file(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()
