"""Rows on their way to the table, kept on disk until the last document was read and all columns are known."""

# pyarrow ships no types: what comes out of it is checked where it enters our own types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from retrieval.indexing.document import Scalar
from retrieval.indexing.rows import SCHEMA, OwnColumns, as_type, decoded, prefix_of
from retrieval.schema import ORDINAL_COLUMN

BATCH_ROWS: Final = 2_000

DocumentKey = tuple[str, str]
"""A document of the table: its scope's prefix and its path."""


@dataclass(frozen=True, slots=True)
class SpooledDocument:
    content_hash: str
    metadata: str


def keys_of(batch: pa.RecordBatch) -> list[DocumentKey]:
    """The document of each row."""
    columns = [batch.column(name).to_pylist() for name in ("id", "path", ORDINAL_COLUMN)]
    return [(prefix_of(row_id, path, ordinal), path) for row_id, path, ordinal in zip(*columns, strict=True)]


def batch_of(file: Path, number: int, columns: Collection[str] = SCHEMA.names) -> pa.RecordBatch:
    """One batch of a finished spool, from 0 on, by some of its columns: any process may read it."""
    options = pa.ipc.IpcReadOptions(included_fields=[SCHEMA.get_field_index(name) for name in columns])
    with pa.OSFile(str(file), "rb") as stream:
        return pa.ipc.open_file(stream, options=options).get_batch(number)


class Spool:
    """Collects rows of `rows.SCHEMA` in a file; gives them back in order, with the documents' own columns added."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.rows = 0
        self.batch_count = 0
        self.documents: dict[DocumentKey, SpooledDocument] = {}
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._sink = pa.OSFile(str(file), "wb")
        self._writer = pa.ipc.new_file(self._sink, SCHEMA, options=pa.ipc.IpcWriteOptions(compression="lz4"))

    def add(self, batch: pa.RecordBatch, documents: Mapping[DocumentKey, SpooledDocument]) -> None:
        """Takes rows in, and what is known of their documents."""
        self.documents.update(documents)
        self.rows += batch.num_rows
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        while self._waiting_rows >= BATCH_ROWS:
            self._write(BATCH_ROWS)

    def finish(self) -> None:
        """Completes the file; nothing is added after."""
        if self._waiting_rows:
            self._write(self._waiting_rows)
        self.close()

    def close(self) -> None:
        if not self._sink.closed:
            self._writer.close()
            self._sink.close()

    def read(self) -> Generator[pa.RecordBatch]:
        """The rows by the batch, in `rows.SCHEMA`; once finished, and as often as wanted."""
        for number in range(self.batch_count):
            yield batch_of(self.file, number)

    def own_columns(self) -> OwnColumns:
        columns = OwnColumns()
        for spooled in self.documents.values():
            columns.count(spooled.metadata)
        return columns

    def batches(self, schema: pa.Schema) -> Generator[pa.RecordBatch]:
        """The rows by the batch, in `schema`: that of the spool and the documents' own columns after it."""
        own_fields = [schema.field(place) for place in range(len(SCHEMA), len(schema))]
        for batch in self.read():
            own = self._own_values(batch)
            arrays: list[pa.Array[Any]] = [
                *batch.columns,
                *(
                    pa.array([as_type(values.get(column.name), column.type) for values in own], column.type)
                    for column in own_fields
                ),
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _own_values(self, batch: pa.RecordBatch) -> list[dict[str, Scalar]]:
        values: list[dict[str, Scalar]] = []
        last: DocumentKey | None = None
        for key in keys_of(batch):
            # A document's rows stand together, so each is decoded about once.
            values.append(values[-1] if key == last else decoded(self.documents[key].metadata))
            last = key
        return values

    def _write(self, count: int) -> None:
        """Writes `count` of the waiting rows: how they were added leaves no trace in the table."""
        whole = pa.concat_batches(self._waiting)
        self._writer.write_batch(whole.slice(0, count))
        self.batch_count += 1
        self._waiting_rows -= count
        self._waiting = [whole.slice(count)] if self._waiting_rows else []
