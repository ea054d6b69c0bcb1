"""From LanceDB's Arrow batches to rows of ours."""

# pyarrow ships no types: what comes out of it is checked here, where it enters our own types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from retrieval.layout import Kind, Layout
from retrieval.types import Row

Cell = str | int | float | bool | None

Scored = tuple[pa.Table, list[float]]
"""Rows as they were fetched, and the score of each: higher is better."""

Fill = Callable[[Sequence[int]], Mapping[str, Sequence[Cell]]]
"""Gives columns that were not fetched, of the rows of these numbers, which are LanceDB's."""

# More rows than asked for are fetched so that equal scores are ordered by id before the list is cut.
_TIE_MARGIN: Final = 32
# Equal scores beyond so many rows keep LanceDB's order: common words alone would cost a quarter of a second.
_MAX_TIED: Final = 512


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


async def best_of(
    fetch: Callable[[int], Awaitable[Scored]], limit: int, layout: Layout, fill: Fill | None = None
) -> list[Row]:
    """The first `limit` rows by (-score, id); `fetch` gives as many of the best as it is told, in any order."""
    wanted = limit + _TIE_MARGIN
    most = max(wanted, _MAX_TIED)
    while True:
        fetched, scores = await fetch(wanted)
        least = sorted(scores, reverse=True)[limit - 1] if len(scores) > limit else None
        tied = len(scores) == wanted and least == min(scores)
        if not tied or wanted == most:
            break
        wanted = min(wanted * 4, most)
    if least is not None:
        # LanceDB gives the best first: what follows the last place and its equals is not made into rows at all.
        kept = sum(score >= least for score in scores)
        if min(scores[:kept]) >= least:
            fetched, scores = fetched.slice(0, kept), scores[:kept]
    return sorted(rows_of(fetched, layout, scores, fill), key=lambda row: (-row.score, row.id))[:limit]


def rows_of(table: pa.Table, layout: Layout, scores: Iterable[float], fill: Fill | None = None) -> list[Row]:
    """The rows of `table`, in its order, with their `scores`. What `fill` raises passes through."""
    count = table.num_rows
    nothing = [None] * count
    # By the column and not by the row, and nothing of the columns that hold nothing: a call reads a hundred rows.
    columns = {
        name: nothing if column.null_count == count else values_of(column)
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    if fill is not None:
        columns |= fill(columns["_rowid"])

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
