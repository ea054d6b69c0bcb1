"""The indexer's hold on LanceDB: writes a table whole, and reads the rows of the table before."""

# pyarrow ships no types: what comes out of it is checked where it enters our own types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, cast

import lancedb
import pyarrow as pa
from lancedb.index import FTS
from lancedb.table import Table

from retrieval.errors import BedivereError, ErrorCode
from retrieval.indexing import state, vector_index
from retrieval.indexing.calibration import Questions, calibration
from retrieval.indexing.generation import STATE
from retrieval.indexing.memory import give_back
from retrieval.indexing.rows import SCHEMA
from retrieval.indexing.spool import BATCH_ROWS, DocumentKey, SpooledDocument, keys_of
from retrieval.indexing.state import State
from retrieval.schema import VECTOR_COLUMN, Provenance

FULL_TEXT: Final[dict[str, FTS]] = {
    # Positions double an index: only the column that phrases are asked of has them.
    "search_text": FTS(
        base_tokenizer="icu/split",
        with_position=True,
        stem=True,
        remove_stop_words=False,
        ascii_folding=True,
        max_token_length=128,
    ),
    "idents": FTS(
        base_tokenizer="whitespace",
        lower_case=True,
        stem=False,
        remove_stop_words=False,
        ascii_folding=False,
        max_token_length=256,
    ),
    "title": FTS(base_tokenizer="icu/split", stem=True, remove_stop_words=False, ascii_folding=True),
    "heading": FTS(base_tokenizer="icu/split", stem=True, remove_stop_words=False, ascii_folding=True),
}
"""The columns that are searched, and how."""

_logger = logging.getLogger(__name__)


class OldTableUnreadableError(Exception):
    """The old table does not hold what its record says: it cannot be built upon."""


def write(
    folder: Path,
    name: str,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    on_stage: Callable[[str], None],
    questions: Questions | None = None,
) -> Table:
    """A new table in `folder`: rows first, indexes after them, and nothing left over from making it.

    Its vectors are indexed where the provenance record in `schema` says so, and the recall of that index is measured;
    so is how near they come to `questions`.
    """
    table = lancedb.connect(folder).create_table(name, pa.RecordBatchReader.from_batches(schema, batches))
    # What writing has left, and then each index, is memory that others want: who counts words now, and the next index.
    give_back()
    on_stage("Indexing")
    for column, config in FULL_TEXT.items():
        give_back()
        table.create_index(column, config=config)
    recall = None
    if has_vector_index(Provenance.from_metadata(schema.metadata)):
        on_stage("Indexing vectors")
        vector_index.create(table)
        recall = vector_index.measure(table)
    if VECTOR_COLUMN in schema.names:
        calibrated = (
            calibration(vector_index.nearest(table, questions.foreign), vector_index.nearest(table, questions.own))
            if questions
            else None
        )
        vector_index.record(table, recall, calibrated)
    with warnings.catch_warnings():
        # It warns of readers of older versions: nobody can have opened a table that is not in its place yet.
        warnings.filterwarnings("ignore", r"optimize\(cleanup_older_than=0\)", UserWarning)
        table.optimize(cleanup_older_than=timedelta(0))
    return table


def check(table: Table, rows: int, provenance: Provenance) -> None:
    """Raises `BUILD_FAILED` unless the table is whole: all rows, all of them indexed, and the provenance record."""
    problem = None
    if table.count_rows() != rows:
        problem = "rows are missing"
    elif not is_indexed(table):
        problem = "rows are not indexed"
    elif not answers(table):
        problem = "it does not answer"
    elif provenance_of(table) != provenance:
        problem = "its provenance record is missing"
    if problem:
        raise BedivereError(
            ErrorCode.BUILD_FAILED, f"The new table is not whole ({problem}); the old table, if any, is untouched."
        )


def is_indexed(table: Table) -> bool:
    """Whether every searched column has an index that covers every row, and the vectors where they should."""
    covered: set[str] = set()
    for index in table.list_indices():
        stats = table.index_stats(index.name)
        if stats is not None and stats.num_unindexed_rows == 0:
            covered.update(index.columns)
    wanted = {*FULL_TEXT, VECTOR_COLUMN} if has_vector_index(provenance_of(table)) else FULL_TEXT.keys()
    return covered >= wanted


def answers(table: Table) -> bool:
    """Whether a row can be read and every index be asked: figures about an index are given without opening it."""
    try:
        for column in FULL_TEXT:
            table.search("a", query_type="fts", fts_columns=column).select(["id", "_score"]).limit(1).to_list()
        if VECTOR_COLUMN in table.schema.names and not vector_index.answers(table):
            return False
        return len(table.search().select(["id", "text"]).limit(1).to_list()) == 1
    except Exception:
        # LanceDB raises many things; all of them are a no.
        _logger.info("the table does not answer", exc_info=True)
        return False


def provenance_of(table: Table) -> Provenance | None:
    """The record that was written with the rows."""
    return Provenance.from_metadata(cast("dict[bytes, bytes] | None", table.schema.metadata))


def measured_provenance(table: Table) -> Provenance | None:
    """The record in the table's schema, with what was measured of its vectors' index after the rows were written."""
    provenance = provenance_of(table)
    if provenance is None or provenance.embedding is None:
        return provenance
    return replace(provenance, embedding={**provenance.embedding, **vector_index.recorded(table.schema)})


def has_vector_index(provenance: Provenance | None) -> bool:
    """Whether the vectors of a table of this record are indexed; they are scanned otherwise."""
    embedding = provenance.embedding if provenance else None
    return embedding is not None and embedding.get("index") == "HNSW_SQ"


@dataclass(frozen=True, slots=True)
class OldTable:
    """The table that stands now, with the record of what was read for it."""

    table: Table
    state: State
    provenance: Provenance
    rows: int

    @classmethod
    def open(cls, generation: Path, name: str) -> OldTable | None:
        """None where it cannot be read."""
        try:
            table = lancedb.connect(generation).open_table(name)
            provenance = measured_provenance(table)
            rows = table.count_rows()
        except Exception:
            # Whatever a damaged table raises, and LanceDB raises many things, means the same: build it anew.
            _logger.info("the old table cannot be read", exc_info=True)
            return None
        if provenance is None:
            return None
        return cls(table, state.load(generation / STATE) or State(), provenance, rows)

    def is_whole(self) -> bool:
        """Whether it holds at least what the record says, with every row indexed and to be found."""
        recorded = sum(record.chunks for scope in self.state.scopes.values() for record in scope.files.values())
        return self.rows >= recorded and answers(self.table) and is_indexed(self.table)

    def kept(
        self, keep: Callable[[DocumentKey], bool]
    ) -> Generator[tuple[pa.RecordBatch, dict[DocumentKey, SpooledDocument]]]:
        """The rows of the documents to keep, by the batch and in `rows.SCHEMA`, and what is known of the documents.

        Raises `OldTableUnreadableError`.
        """
        names = [name for name in self.table.schema.names if name != VECTOR_COLUMN]
        try:
            for batch in self.table.search().select(names).to_batches(batch_size=BATCH_ROWS):
                keys = keys_of(batch)
                mask = [keep(key) for key in keys]
                documents = {
                    key: self._document(key, batch, row)
                    for row, key in enumerate(keys)
                    if mask[row] and (row == 0 or key != keys[row - 1])
                }
                yield _in_schema(batch.filter(pa.array(mask, pa.bool_()))), documents
        except Exception as error:
            raise OldTableUnreadableError from error

    def embedded(self) -> Generator[pa.RecordBatch]:
        """`title`, `heading`, `text` and `vector` of all rows, by the batch. Raises `OldTableUnreadableError`."""
        try:
            columns = ["title", "heading", "text", VECTOR_COLUMN]
            yield from self.table.search().select(columns).to_batches(batch_size=BATCH_ROWS)
        except Exception as error:
            raise OldTableUnreadableError from error

    def _document(self, key: DocumentKey, batch: pa.RecordBatch, row: int) -> SpooledDocument:
        prefix, path = key
        content_hash = cast("str", batch.column("content_hash")[row].as_py())
        scope = self.state.scopes.get(prefix)
        record = scope.files.get(path) if scope else None
        if record is not None:
            return SpooledDocument(content_hash, record.metadata)
        # Without a record, the columns say what the document's own keys were.
        own = {
            name: value
            for name in batch.schema.names
            if name not in SCHEMA.names and (value := batch.column(name)[row].as_py()) is not None
        }
        return SpooledDocument(content_hash, json.dumps(own, ensure_ascii=False, sort_keys=True))


def _in_schema(batch: pa.RecordBatch) -> pa.RecordBatch:
    arrays: list[pa.Array[Any]] = [
        batch.column(column.name).cast(column.type)
        if column.name in batch.schema.names
        else pa.nulls(batch.num_rows, column.type)
        for column in SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
