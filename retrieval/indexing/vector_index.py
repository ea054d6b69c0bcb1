"""The index over a table's vectors: none below some thousand rows, where a scan is as fast and exact; HNSW above.

The recall of an index against the scan is measured when it is made, and kept in the metadata of the vectors' column.
"""

# lancedb is typed in part, pyarrow not at all.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import mul
from typing import Any, Final, Literal, cast

from lancedb.index import HnswSq
from lancedb.table import Table

from retrieval.schema import MEASURED_KEY, VECTOR_COLUMN, measured

IndexKind = Literal["flat", "HNSW_SQ"]

FLAT_ROWS: Final = 5_000
"""Most rows that are scanned; above, the scan is slower than the index."""

RECALL_AT: Final = 10
SAMPLED_ROWS: Final = 200
"""Rows whose vectors are asked as questions when the recall is measured."""

_SAME: Final = 1e-6
"""Distances of float32 vectors that differ by less are the same."""

CALIBRATION: Final = "calibration"
MEASURED: Final = ("recall_at_10", "recall_sampled", CALIBRATION)
"""What `record` adds to the record of the vectors; it may differ from one build of the same rows to the next."""


@dataclass(frozen=True, slots=True)
class Recall:
    """The share of the nearest ten that the index finds, a row's own vector asked and the row itself left out."""

    at_10: float
    sampled: int


def kind_for(rows: int) -> IndexKind:
    """The index that a table of so many rows gets."""
    return "HNSW_SQ" if rows > FLAT_ROWS else "flat"


def create(table: Table) -> None:
    table.create_index(VECTOR_COLUMN, config=HnswSq(distance_type="cosine"))


def measure(table: Table) -> Recall:
    """The recall of the index over up to `SAMPLED_ROWS` rows, evenly spread."""
    rows = table.count_rows()
    step = max(1, -(-rows // SAMPLED_ROWS))
    sampled = cast("Any", table).take_offsets(list(range(0, rows, step))).select(["id", VECTOR_COLUMN]).to_arrow()
    found = wanted = 0
    for row_id, vector in zip(sampled.column("id").to_pylist(), sampled.column(VECTOR_COLUMN).to_pylist(), strict=True):
        exact = _distances(table, row_id, vector, by_index=False)
        # By distance and not by id: of rows that are equally near, any will do.
        furthest = max(exact, default=0.0) + _SAME
        wanted += len(exact)
        found += sum(distance <= furthest for distance in _distances(table, row_id, vector, by_index=True))
    return Recall(round(found / wanted, 4) if wanted else 1.0, sampled.num_rows)


def _distances(table: Table, row_id: str, vector: list[float], *, by_index: bool) -> list[float]:
    """How far the nearest rows are but for the row itself; exact, where the index has only rounded vectors."""
    query: Any = cast("Any", table).search(vector, vector_column_name=VECTOR_COLUMN).distance_type("cosine")
    if not by_index:
        query = query.bypass_vector_index()
    # One more than counts, because the row itself is the nearest.
    hits = query.select(["id", VECTOR_COLUMN, "_distance"]).limit(RECALL_AT + 1).to_list()
    others = [hit[VECTOR_COLUMN] for hit in hits if hit["id"] != row_id]
    return [1.0 - sum(map(mul, vector, other)) for other in others[:RECALL_AT]]


def nearest(table: Table, vectors: Iterable[Sequence[float]]) -> list[float]:
    """The cosine similarity of the row that is nearest to each of `vectors`."""
    found: list[float] = []
    for vector in vectors:
        query: Any = cast("Any", table).search(list(vector), vector_column_name=VECTOR_COLUMN).distance_type("cosine")
        found += [1.0 - hit["_distance"] for hit in query.select(["_distance"]).limit(1).to_list()]
    return found


def record(table: Table, recall: Recall | None, calibration: dict[str, Any] | None) -> None:
    """Keeps what was measured with the table: the provenance record was written before there was an index."""
    found: dict[str, Any] = {} if recall is None else dict(zip(MEASURED, (recall.at_10, recall.sampled), strict=False))
    if calibration is not None:
        found[CALIBRATION] = calibration
    if found:
        metadata = {MEASURED_KEY.decode(): json.dumps(found)}
        table.update_field_metadata({"path": VECTOR_COLUMN, "metadata": metadata})


def recorded(schema: Any) -> dict[str, Any]:  # noqa: ANN401 - an Arrow schema
    """What `record` kept with the table of this schema; empty where nothing was measured."""
    return measured(schema.field(VECTOR_COLUMN).metadata) if VECTOR_COLUMN in schema.names else {}


def answers(table: Table) -> bool:
    """Whether a row finds itself by its vector."""
    asked = cast("Any", table).search().select(["id", VECTOR_COLUMN]).limit(1).to_list()
    return bool(asked) and bool(_distances(table, "", asked[0][VECTOR_COLUMN], by_index=True))
