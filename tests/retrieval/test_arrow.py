"""What comes out of Arrow becomes rows of ours: the parts by their columns, the rest as JSON can carry it."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import repeat
from typing import Any

import pyarrow as pa
import pytest

from retrieval.arrow import kind_of, rows_of, values_of
from retrieval.layout import Column, Layout, lay_out
from retrieval.types import Row


@pytest.mark.parametrize(
    ("type_", "kind"),
    [
        (pa.string(), "text"),
        (pa.large_string(), "text"),
        (pa.string_view(), "text"),
        (pa.dictionary(pa.int32(), pa.string()), "text"),
        (pa.bool_(), "boolean"),
        (pa.int8(), "integer"),
        (pa.uint64(), "integer"),
        (pa.float16(), "number"),
        (pa.decimal128(6, 2), "number"),
        (pa.timestamp("ns", "UTC"), "time"),
        (pa.date32(), "time"),
        (pa.time64("us"), "time"),
        (pa.list_(pa.float32(), 2), "other"),
        (pa.list_(pa.string()), "other"),
        (pa.binary(), "other"),
        (pa.duration("s"), "other"),
        (pa.null(), "other"),
    ],
)
def test_each_type_is_of_the_kind_that_it_can_be_compared_as(type_: Any, kind: str) -> None:
    assert kind_of(type_) == kind


def layout_of(table: Any) -> Layout:
    columns = [Column(field.name, str(field.type), kind_of(field.type)) for field in table.schema]
    return lay_out(columns, [], "text")


def rows(**columns: Any) -> list[Row]:
    table = pa.table({"text": ["a boat"], **columns, "_rowid": [7]})
    return rows_of(table, layout_of(table), map(float, table.column("_rowid").to_pylist()))


def test_parts_are_taken_by_the_names_of_their_columns() -> None:
    row = rows(id=["x"], path=["a.md"], title=["A"], heading=["H"], url=["https://a"], chunk=[3], owner=["me"])[0]
    assert row == Row("x", "a boat", 7.0, "A", "H", "a.md", "https://a", 3, {"owner": "me"})


def test_a_row_without_an_id_is_called_by_its_number() -> None:
    assert rows()[0].id == "row:7"
    assert rows(id=[""])[0].id == "row:7"


def test_an_empty_text_is_nothing_and_a_missing_one_is_empty() -> None:
    table = pa.table({"text": pa.array([None], pa.string()), "title": [""], "_rowid": [1]})
    row = rows_of(table, layout_of(table), repeat(0.0, table.num_rows))[0]
    assert (row.text, row.title) == ("", None)


@pytest.mark.parametrize(
    ("value", "carried"),
    [
        (pa.array([True]), True),
        (pa.array([5]), 5),
        (pa.array([1.5]), 1.5),
        (pa.array([float("nan")]), None),
        (pa.array([float("-inf")]), None),
        (pa.array([Decimal("1.50")]), "1.50"),
        (pa.array([date(2026, 1, 2)]), "2026-01-02"),
        (pa.array([time(1, 2)]), "01:02:00"),
        (pa.array([datetime(2026, 1, 2, tzinfo=UTC)]), "2026-01-02T00:00:00+00:00"),
        (pa.array(["x"]).dictionary_encode(), "x"),
        (pa.array([""]), None),
        (pa.array([None], pa.string()), None),
        (pa.array([["a"]]), None),
        (pa.array([b"x"]), None),
    ],
)
def test_further_columns_come_as_json_can_carry_them_or_not_at_all(value: Any, carried: object) -> None:
    metadata = rows(further=value)[0].metadata
    assert metadata.get("further") == carried
    assert ("further" in metadata) == (carried is not None)


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (pa.array([1_000_000_007], pa.timestamp("ns")), "1970-01-01 00:00:01.000000007"),
        (pa.array([1], pa.timestamp("us", "Mars/Base")), "1970-01-01 00:00:00.000001"),
    ],
)
def test_a_time_that_python_does_not_have_is_text(column: Any, text: str) -> None:
    assert values_of(column) == [text]


def test_the_order_of_the_rows_stays() -> None:
    table = pa.table({"text": ["b", "a"], "_rowid": [2, 1]})
    assert [row.text for row in rows_of(table, layout_of(table), repeat(1.0, table.num_rows))] == ["b", "a"]
