"""From LanceDB's Arrow batches to rows of ours."""

# pyarrow ships no types: what comes out of it is checked here, where it enters our own types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
from __future__ import annotations

from collections.abc import Iterable, Sequence
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


def rows_of(table: pa.Table, layout: Layout, scores: Iterable[float]) -> list[Row]:
    """The rows of `table`, in its order, with their `scores`."""
    count = table.num_rows
    nothing = [None] * count
    # By the column and not by the row, and nothing of the columns that hold nothing: a call reads a hundred rows.
    columns = {
        name: nothing if column.null_count == count else values_of(column)
        for name, column in zip(table.column_names, table.columns, strict=True)
    }

    def texts(name: str | None) -> Sequence[str | None]:
        values = columns.get(name or "", nothing)
        if values is nothing:
            return nothing
        return [value if isinstance(value, str) and value else None for value in values]

    ids, ordinals = texts(layout.id), columns.get(layout.ordinal or "", nothing)
    kept = [name for name in layout.metadata if columns.get(name, nothing) is not nothing]
    told = [(name, [*map(_scalar, columns[name])]) for name in kept]
    metadata = [{name: values[row] for name, values in told if values[row] is not None} for row in range(count)]
    parts = zip(
        range(count),
        columns.get(layout.text, nothing),
        scores,
        *map(texts, (layout.title, layout.heading, layout.path, layout.url)),
        strict=True,
    )
    return [
        Row(
            ids[row] or f"row:{columns['_rowid'][row]}",
            text or "",
            score,
            title,
            heading,
            path,
            url,
            ordinals[row] if isinstance(ordinals[row], int) else None,
            metadata[row],
        )
        for row, text, score, title, heading, path, url in parts
    ]


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
