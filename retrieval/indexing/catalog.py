"""Gathers the documents of a table while it is written, for `retrieval.catalog` to load without reading every row."""

# pyarrow ships no types: what comes out of it is checked in `retrieval.catalog`.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
from __future__ import annotations

import json
from typing import Any, Final

import pyarrow as pa

from retrieval.catalog import COUNT_COLUMN, TEXT_COLUMNS, UNNAMED_KEY, Gathered

_COLUMNS: Final = (
    *("id", "path", "title", "url", "collection", "version", "status", "date", "superseded_by", "chunk"),
)
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

    def to_bytes(self) -> bytes:
        """The catalog as an Arrow file: the same bytes for the same rows, whatever their order."""
        catalog = self._gathered.catalog()
        columns = catalog.columns
        schema = _SCHEMA.with_metadata({UNNAMED_KEY: json.dumps(sorted(catalog.unnamed)).encode()})
        arrays: list[pa.Array[Any]] = [
            *(pa.array(columns[name], pa.string()) for name in TEXT_COLUMNS),
            pa.array(columns[COUNT_COLUMN], pa.int64()),
        ]
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, schema) as writer:
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
        return sink.getvalue().to_pybytes()
