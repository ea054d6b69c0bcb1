"""Conditions, put to a real table: LanceDB finds the rows for which they hold, and no text is read as code."""

# lancedb and pyarrow ship partial types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retrieval.layout import Column, lay_out
from retrieval.search.filters import (
    AllOf,
    AnyOf,
    Condition,
    Not,
    Where,
    parse,
)
from tests.retrieval.search.quoting import quoted

SCHEMA = pa.schema(
    [
        pa.field("row", pa.int64()),
        pa.field("order", pa.string()),
        pa.field("Upper Case", pa.string()),
        pa.field('a"b\\c', pa.string()),
        pa.field("select", pa.int8()),
        pa.field("f", pa.float64()),
        pa.field("b", pa.bool_()),
        pa.field("t", pa.timestamp("us")),
    ]
)
TEXTS = ("order", "Upper Case", 'a"b\\c')
INJECTIONS = (
    "x' OR 1=1",
    "' OR ''='",
    "x'; DROP TABLE t; --",
    '" OR "" = "',
    "\\' OR 1=1 --",
    "`order` = `order`",
    "%",
    "_",
    "*",
    "/* */",
    "x\0' OR 1=1",
    "'||'x",
    "''",
    "\\'",
    "a''b\\\\'c",
    "'",
    "\\",
    "NULL",
    "true",
)


class Rows:
    """Rows in a LanceDB table of `SCHEMA`."""

    def __init__(self, place: Path, rows: Sequence[Mapping[str, Any]]) -> None:
        columns = {name: [row.get(name) for row in rows] for name in SCHEMA.names}
        columns["row"] = list(range(len(rows)))
        table = pa.table(columns, schema=SCHEMA)
        self.columns = [Column(name, str(SCHEMA.field(name).type), KINDS[name]) for name in SCHEMA.names]
        self.table = lancedb.connect(place).create_table("t", table, mode="overwrite")

    def passing(self, where: Where | None) -> list[int]:
        query = self.table.search()
        query = query if where is None else query.where(quoted(where))
        return sorted(query.select(["row"]).limit(1000).to_arrow().column("row").to_pylist())

    def asked(self, filters: Mapping[str, object]) -> list[int]:
        return self.passing(parse(filters, self.columns, lay_out(self.columns, [], "order")))


KINDS: dict[str, Any] = {
    **dict.fromkeys(TEXTS, "text"),
    "row": "integer",
    "select": "integer",
    "f": "number",
    "b": "boolean",
    "t": "time",
}


def holds(where: Where, row: Mapping[str, Any]) -> bool:
    """What `where` means, in Python."""
    match where:
        case AllOf(parts):
            return all(holds(part, row) for part in parts)
        case AnyOf(parts):
            return any(holds(part, row) for part in parts)
        case Not(part):
            return not holds(part, row)
        case Condition(column, op, value):
            return _compares(row[column], op, value)


def _compares(cell: Any, op: str, value: Any) -> bool:
    if op == "exists":
        return (cell is not None) is value
    if op == "neq":
        return cell is None or cell != value
    if cell is None:
        return False
    outcomes = {
        "eq": lambda: cell == value,
        "in": lambda: cell in value,
        "gte": lambda: cell >= value,
        "lte": lambda: cell <= value,
        "prefix": lambda: cell.startswith(value),
        "contains": lambda: value in cell,
    }
    return outcomes[op]()


some_text = st.one_of(
    st.sampled_from(("", "a", "ab", "A", "é", "\U0010ffff", "a\U0010ffff", "\ud7ff", "\ue000", *INJECTIONS)),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
)
whole = st.integers(-128, 127)
fraction = st.floats(allow_nan=False, allow_infinity=False).map(lambda number: number + 0.0)
moment = st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1))  # noqa: DTZ001 - as the column holds them
a_row = st.fixed_dictionaries(
    {
        **{name: st.none() | some_text for name in TEXTS},
        "select": st.none() | whole,
        "f": st.none() | fraction,
        "b": st.none() | st.booleans(),
        "t": st.none() | moment,
    }
)


def _compared(column: st.SearchStrategy[str], value: st.SearchStrategy[Any]) -> st.SearchStrategy[Where]:
    return st.one_of(
        st.builds(Condition, column, st.sampled_from(("eq", "neq", "gte", "lte")), value),
        st.builds(Condition, column, st.just("in"), st.lists(value, max_size=3).map(tuple)),
        st.builds(Condition, column, st.just("exists"), st.booleans()),
    )


one_condition: st.SearchStrategy[Where] = st.one_of(
    _compared(st.sampled_from(TEXTS), some_text),
    st.builds(Condition, st.sampled_from(TEXTS), st.sampled_from(("prefix", "contains")), some_text),
    _compared(st.just("select"), whole),
    _compared(st.just("f"), fraction),
    _compared(st.just("t"), moment),
    st.builds(Condition, st.just("b"), st.sampled_from(("eq", "neq")), st.booleans()),
)
any_where = st.recursive(
    one_condition,
    lambda parts: st.one_of(
        st.builds(AllOf, st.lists(parts, max_size=3).map(tuple)),
        st.builds(AnyOf, st.lists(parts, max_size=3).map(tuple)),
        st.builds(Not, parts),
    ),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(a_row, min_size=1, max_size=8), conditions=st.lists(any_where, min_size=1, max_size=8))
def test_lancedb_finds_the_rows_for_which_a_condition_holds(
    tmp_path: Path, rows: list[dict[str, Any]], conditions: list[Where]
) -> None:
    table = Rows(tmp_path, rows)
    for where in conditions:
        assert table.passing(where) == [place for place, row in enumerate(rows) if holds(where, row)]


@pytest.fixture
def people(tmp_path: Path) -> Rows:
    return Rows(
        tmp_path,
        [
            {"order": "final", "Upper Case": "2024-05-31", "select": 3, "f": 1.5, "b": True},
            {"order": "draft", "Upper Case": "2024-05-31T10:00", "select": -3, "f": float("nan"), "b": False},
            {"order": "", "Upper Case": "2024-06-01", "t": datetime(2024, 5, 31, 23, 59, 59)},  # noqa: DTZ001
            {"order": None, "f": -float("nan"), "t": datetime(2024, 6, 1)},  # noqa: DTZ001
            {"order": "2.1", "select": 127, "f": 2.0},
        ],
    )


@pytest.mark.parametrize("text", INJECTIONS)
def test_a_text_that_would_be_code_finds_itself_and_nothing_else(tmp_path: Path, text: str) -> None:
    table = Rows(tmp_path, [{"order": "innocent"}, {"order": text}, {"order": None}])
    assert table.asked({"order": text}) == [1]
    assert table.asked({"order": {"prefix": text}}) == [1]
    assert table.asked({"order": {"neq": text}}) == [0, 2]
    assert table.asked({"order": [text]}) == [1]
    assert table.passing(Condition("order", "contains", text)) == [1]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"order": "final"}, [0]),
        ({"order": ["final", "draft"]}, [0, 1]),
        ({"order": {"in": ["final"]}}, [0]),
        ({"order": {"neq": "final"}}, [1, 2, 3, 4]),
        ({"order": 2.1}, [4]),
        ({"order": {"exists": True}}, [0, 1, 4]),
        ({"order": {"exists": False}}, [2, 3]),
        ({"order": {"gte": "d", "lte": "e"}}, [1]),
        ({"Upper Case": {"lte": "2024-05-31"}}, [0, 1]),
        ({"Upper Case": {"lte": "2024-05"}}, [0, 1]),
        ({"Upper Case": {"gte": "2024-06"}}, [2]),
        ({"upperCase": {"prefix": "2024-05"}}, [0, 1]),
        ({"select": 3}, [0]),
        ({"select": "3"}, [0]),
        ({"select": 3.0}, [0]),
        ({"select": 3.5}, []),
        ({"select": 1000}, []),
        ({"select": {"neq": 1000}}, [0, 1, 2, 3, 4]),
        ({"select": {"gte": 2.5}}, [0, 4]),
        ({"select": {"lte": 3.5}}, [0, 1]),
        ({"select": {"gte": -(10**30)}}, [0, 1, 4]),
        ({"select": {"lte": 10**30}}, [0, 1, 4]),
        ({"select": {"gte": 10**30}}, []),
        ({"select": {"exists": "false"}}, [2, 3]),
        ({"f": {"exists": True}}, [0, 4]),
        ({"f": {"exists": False}}, [1, 2, 3]),
        ({"f": 2}, [4]),
        ({"f": {"gte": 1}}, [0, 4]),
        ({"f": {"lte": 1.5}}, [0]),
        ({"f": {"in": ["1.5", 2]}}, [0, 4]),
        ({"b": True}, [0]),
        ({"b": "false"}, [1]),
        ({"b": {"neq": True}}, [1, 2, 3, 4]),
        ({"t": "2024-05-31"}, [2]),
        ({"t": {"lte": "2024-05-31"}}, [2]),
        ({"t": "2024-05"}, [2]),
        ({"t": {"gte": "2024-06"}}, [3]),
        ({"t": {"lte": "2024"}}, [2, 3]),
        ({"t": {"gte": "2024-06-01T02:00+02:00"}}, [3]),
        ({"t": {"neq": "2024-05-31"}}, [0, 1, 3, 4]),
        ({"order": "final", "select": {"gte": 1}}, [0]),
        ({}, [0, 1, 2, 3, 4]),
    ],
)
def test_a_filter_finds_the_rows_that_its_words_say(
    people: Rows, filters: Mapping[str, object], found: list[int]
) -> None:
    assert people.asked(filters) == found


def test_columns_of_days_and_of_short_floats_are_compared_as_others_are(tmp_path: Path) -> None:
    infinite = float("inf")
    table = pa.table(
        {
            "text": ["a", "b", "c", "d"],
            "day": pa.array(["2023-12-31", "2024-01-01", "2024-01-31", None]).cast(pa.date32()),
            "short": pa.array([1.5, float("nan"), infinite, None], pa.float32()),
        }
    )
    columns = [
        Column("text", "string", "text"),
        Column("day", "date32[day]", "time"),
        Column("short", "float", "number"),
    ]
    database = lancedb.connect(tmp_path).create_table("t", table)

    def found(**filters: object) -> str:
        where = parse(filters, columns, lay_out(columns, [], "text"))
        assert where is not None
        return "".join(database.search().where(quoted(where)).to_arrow().column("text").to_pylist())

    assert found(day="2024-01") == "bc"
    assert found(day={"gte": "2024"}) == "bc"
    assert found(day={"lte": "2023"}) == "a"
    assert found(day={"gte": "2024-01", "lte": "2024-01"}) == "bc"
    assert found(day={"neq": "2024-01"}) == "ad"
    assert found(short={"exists": True}) == "a"
    assert found(short={"exists": False}) == "bcd"


def test_a_column_whose_name_has_quotes_is_compared_as_others_are(tmp_path: Path) -> None:
    names = ["a'b", 'a"b', "a\\b"]
    table = pa.table({"text": ["x", "y"], **{name: ["p", None] for name in names}})
    columns = [Column(name, "string", "text") for name in table.column_names]
    database = lancedb.connect(tmp_path).create_table("t", table)
    for name in names:
        for comparison in ("p", {"prefix": "p"}, {"exists": True}, {"neq": "q", "gte": "a"}):
            where = parse({name: comparison}, columns, lay_out(columns, [], "text"))
            assert where is not None
            assert database.search().where(quoted(where)).to_arrow().column("text").to_pylist() == ["x"]
