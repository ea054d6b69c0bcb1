"""From LanceDB's Arrow batches to rows of ours."""

# pyarrow ships no types: what comes out of it is checked here, where it enters our own types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa

from retrieval.layout import Kind, Layout
from retrieval.types import Row

Cell = str | int | float | bool | None


def kind_of(kind: pa.DataType) -> Kind:
    types = pa.types
    if types.is_dictionary(kind):
        return kind_of(kind.value_type)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "text"
    if types.is_boolean(kind):
        return "boolean"
    if types.is_integer(kind):
        return "integer"
    if types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_timestamp(kind) or types.is_date(kind) or types.is_time(kind):
        return "time"
    return "other"


def rows_of(table: pa.Table, layout: Layout, score: Callable[[dict[str, Any]], float]) -> list[Row]:
    """The rows of `table`, in its order; `score` makes a row's score of its columns."""
    columns = {name: values_of(table.column(name)) for name in table.column_names}
    records = ({name: values[row] for name, values in columns.items()} for row in range(table.num_rows))
    return [_row(record, layout, score(record)) for record in records]


def values_of(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The column's values as Python's: as text where Python has no such time, None where there is no text either."""
    try:
        return column.to_pylist()
    except (ValueError, OverflowError, pa.ArrowException):
        pass
    try:
        zoned = pa.types.is_timestamp(column.type) and column.type.tz is not None
        plain = column.cast(pa.timestamp(column.type.unit)) if zoned else column
        return plain.cast(pa.string()).to_pylist()
    except (ValueError, pa.ArrowException):
        return [None] * len(column)


def _row(record: dict[str, Any], layout: Layout, score: float) -> Row:
    def text(column: str | None) -> str | None:
        value = record.get(column) if column else None
        return value if isinstance(value, str) and value else None

    ordinal = record.get(layout.ordinal) if layout.ordinal else None
    metadata = {name: scalar for name in layout.metadata if (scalar := _scalar(record.get(name))) is not None}
    return Row(
        id=text(layout.id) or f"row:{record['_rowid']}",
        text=record.get(layout.text) or "",
        score=score,
        title=text(layout.title),
        heading=text(layout.heading),
        path=text(layout.path),
        url=text(layout.url),
        ordinal=ordinal if isinstance(ordinal, int) else None,
        metadata=metadata,
    )


def _scalar(value: object) -> Cell:
    """`value` as JSON can carry it; None for nothing, an empty text or a number that JSON has no word for."""
    match value:
        case bool() | int():
            return value
        case str():
            return value or None
        case float():
            return value if value == value and abs(value) != float("inf") else None
        case Decimal():
            return str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case _:
            return None
