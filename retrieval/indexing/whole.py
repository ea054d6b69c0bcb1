"""Whether a finished table is fit to be published: all of it can be read, and all of it can be found."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, cast

import lancedb
import pyarrow as pa
import pyarrow.compute as pc

from retrieval.indexing import companions, vector_index
from retrieval.indexing.lance import FULL_TEXT, has_vector_index, measured_provenance
from retrieval.schema import PROVENANCE_KEY, VECTOR_COLUMN, Provenance

_BATCH_ROWS: Final = 4096
_FULL_TEXT_INDEX: Final = "FTS"

_logger = logging.getLogger(__name__)


class NotWholeError(Exception):
    """What the table lacks, in words that follow its name."""


@dataclass(frozen=True, slots=True)
class Examined:
    """What was seen of a whole table."""

    rows: int
    columns: tuple[str, ...]
    indexed: dict[str, int]
    """Rows that each column's index covers."""
    provenance: Provenance | None
    digest: str
    """SHA-256 in hexadecimal: the same for a table with the same columns, rows, indexes and way of making them."""


def examine(place: Path) -> Examined:
    """Reads every row and asks every index of the table whose folder is `place`. Raises `NotWholeError`."""
    try:
        return _examine(place)
    except NotWholeError:
        raise
    except Exception as error:
        # LanceDB raises many things, and their texts show paths; the log has them.
        _logger.info("the table cannot be read", exc_info=True)
        raise NotWholeError("cannot be read") from error


def _examine(place: Path) -> Examined:
    table = lancedb.connect(place.parent).open_table(place.name.removesuffix(".lance"))
    schema = cast("Any", table.schema)
    rows = table.count_rows()
    if rows == 0:
        raise NotWholeError("has no rows")
    indexes = sorted(table.list_indices(), key=lambda index: str(index.columns))
    _check_record(schema)
    provenance = measured_provenance(table)
    indexed: dict[str, int] = {}
    for index in indexes:
        column = index.columns[0]
        stats = table.index_stats(index.name)
        if stats is None or stats.num_unindexed_rows or stats.num_indexed_rows != rows:
            raise NotWholeError(f"has rows that the index of column {column!r} does not cover")
        if stats.index_type == _FULL_TEXT_INDEX:
            table.search("a", query_type="fts", fts_columns=column).select(["_score"]).limit(1).to_list()
        indexed[column] = rows
    if provenance and (missing := sorted(FULL_TEXT.keys() - indexed.keys())):
        raise NotWholeError(f"has no index of column {missing[0]!r}")
    if has_vector_index(provenance) and (VECTOR_COLUMN not in indexed or not vector_index.answers(table)):
        raise NotWholeError(f"has no index of column {VECTOR_COLUMN!r}, or one that does not answer")

    digest = hashlib.sha256()
    columns = schema.to_string(show_field_metadata=False, show_schema_metadata=False)
    for part in (columns, _made_by(provenance), *map(_description, indexes)):
        digest.update(f"{part}\0".encode())
    seen = 0
    vectors = [column for column, _ in _vectors(schema)]
    for batch in table.search().to_batches(batch_size=_BATCH_ROWS):
        digest.update(batch.replace_schema_metadata(None).serialize())
        seen += batch.num_rows
        for column in vectors:
            _check_vectors(column, batch.column(column))
    for name, content in sorted(companions.files(place).items()):
        digest.update(f"{name}\0".encode() + content)
    if seen != rows:
        raise NotWholeError(f"counts {rows:,} rows and holds {seen:,}")
    return Examined(rows, tuple(schema.names), indexed, provenance, digest.hexdigest())


def _check_record(schema: Any) -> None:  # noqa: ANN401 - an Arrow schema
    """Raises `NotWholeError` where the provenance record is not to be understood, or not that of the vectors."""
    provenance = Provenance.from_metadata(schema.metadata)
    if provenance is None and PROVENANCE_KEY in (schema.metadata or {}):
        raise NotWholeError("has a provenance record that cannot be understood")
    embedding = provenance.embedding if provenance else None
    vectors = dict(_vectors(schema))
    for column, dimensions in vectors.items():
        if embedding is None or not embedding.get("model"):
            raise NotWholeError(f"has vectors in column {column!r}, and no record of the model that made them")
        if embedding.get("dimensions") != dimensions:
            raise NotWholeError(f"has vectors in column {column!r} whose length is not the one on record")
    if embedding is not None and not vectors:
        raise NotWholeError("has a record of its vectors, and no vectors")


def _check_vectors(column: str, vectors: Any) -> None:  # noqa: ANN401 - an Arrow array
    compute: Any = pc
    values = vectors.flatten()
    if vectors.null_count or values.null_count or not compute.all(compute.is_finite(values), min_count=0).as_py():
        raise NotWholeError(f"has rows without a usable vector in column {column!r}")


def _vectors(schema: Any) -> Iterator[tuple[str, int]]:  # noqa: ANN401 - an Arrow schema
    for field in schema:
        if pa.types.is_fixed_size_list(field.type) and pa.types.is_floating(field.type.value_type):
            yield field.name, field.type.list_size


def _made_by(provenance: Provenance | None) -> str:
    """The record without what differs from one build of the same documents to the next."""
    if provenance is None:
        return ""
    record = asdict(provenance)
    del record["built_at"], record["source"]
    for measured in vector_index.MEASURED:
        (record["embedding"] or {}).pop(measured, None)
    return json.dumps(record, sort_keys=True)


def _description(index: Any) -> str:  # noqa: ANN401 - a class of the compiled core, without types
    return json.dumps([index.columns, index.index_type, index.index_details or {}], sort_keys=True, default=str)
