"""Filters: what a caller may write, what it means for a row, and that LanceDB means the same by its SQL."""

# lancedb and pyarrow ship partial types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

import lancedb
import pyarrow as pa
import pytest

from retrieval.errors import BedivereError, ErrorCode
from retrieval.layout import Column, Layout, lay_out
from retrieval.search.filters import (
    MAX_CONDITIONS,
    MAX_VALUES,
    NOTHING,
    AllOf,
    AnyOf,
    Condition,
    Not,
    Where,
    all_of,
    among,
    dated,
    excluding,
    parse,
    undated,
    under,
)
from retrieval.search.values import MAX_VALUE_CHARS
from tests.retrieval.search.quoting import quoted

OURS = [
    Column("id", "string", "text"),
    Column("path", "string", "text"),
    Column("text", "string", "text"),
    Column("search_text", "string", "text"),
    Column("idents", "string", "text"),
    Column("content_hash", "string", "text"),
    Column("superseded_by", "string", "text"),
    Column("status", "string", "text"),
    Column("priority", "int64", "integer"),
    Column("price", "decimal128(10, 2)", "number"),
    Column("at", "timestamp[us, tz=Asia/Tokyo]", "time"),
    Column("clock", "time64[us]", "time"),
    Column("half", "halffloat", "number"),
    Column("flag", "bool", "boolean"),
    Column("vector", "fixed_size_list<item: float>[3]", "other"),
    Column("back`tick", "string", "text"),
]


def ours() -> Layout:
    return lay_out(OURS, [], "text")


@pytest.mark.parametrize("name", ["superseded_by", "supersededBy", "Superseded-By", "metadata.superseded_by"])
def test_a_field_may_be_named_as_a_reply_or_the_table_names_it(name: str) -> None:
    assert parse({name: "x"}, OURS, ours()) == Condition("superseded_by", "eq", "x")


@pytest.mark.parametrize("name", ["supersededby!", "superseded.by", "super'seded_by", "sta/tus"])
def test_a_field_is_not_guessed_from_a_name_with_other_marks(name: str) -> None:
    assert refusal({name: "x"}).startswith("There is no field")


def test_the_path_of_another_tools_table_goes_by_the_name_that_replies_give_it() -> None:
    columns = [Column("text", "string", "text"), Column("chunkSource", "string", "text")]
    assert parse({"path": "x"}, columns, lay_out(columns, [], "text")) == Condition("chunkSource", "eq", "x")


def test_a_value_is_compared_as_it_stands_and_in_composed_form() -> None:
    assert parse({"status": "e\u0301"}, OURS, ours()) == Condition("status", "in", ("e\u0301", "\u00e9"))


def refusal(filters: Mapping[str, object]) -> str:
    with pytest.raises(BedivereError) as raised:
        parse(filters, OURS, ours())
    assert raised.value.code is ErrorCode.INVALID_FILTER
    return raised.value.sentence


def test_an_unknown_field_lists_the_known_ones_nearest_first() -> None:
    assert refusal({"statsu": "x"}).startswith("There is no field 'statsu'; the fields are, nearest first, status, ")


@pytest.mark.parametrize("name", ["search_text", "idents", "content_hash", "vector", "back`tick", "_score", "_rowid"])
def test_what_serves_search_itself_is_no_field(name: str) -> None:
    assert refusal({name: "x"}).startswith("There is no field")


@pytest.mark.parametrize(
    ("filters", "told"),
    [
        (
            {"priority": "high"},
            "'priority' holds whole numbers and can be compared with numbers; it was given other text",
        ),
        (
            {"priority": True},
            "'priority' holds whole numbers and can be compared with numbers; it was given true or false",
        ),
        ({"priority": None}, '{"exists": false}'),
        ({"priority": float("nan")}, "no number that can be compared"),
        ({"priority": 10**400}, "no number that can be compared"),
        ({"priority": {"prefix": "1"}}, "only text has a prefix, and it holds whole numbers"),
        ({"flag": 1}, "'flag' holds true or false"),
        ({"flag": {"gte": True}}, "have no order"),
        ({"status": {"eq": {"a": 1}}}, "it was given an object"),
        ({"status": {"exists": 3}}, "exists is true or false"),
        ({"status": {"like": "x"}}, "no operator 'like'; there are eq, neq, in, exists, gte, lte, prefix."),
        ({"status": {"contains": "x"}}, "no operator 'contains'"),
        ({"status": {}}, "compares with nothing"),
        ({"status": []}, f"a list has 1 to {MAX_VALUES} values"),
        ({"status": ["x"] * (MAX_VALUES + 1)}, f"a list has 1 to {MAX_VALUES} values"),
        ({"status": "x" * (MAX_VALUE_CHARS + 1)}, "at most 1,000 are taken"),
        ({"status": "\ud800"}, "no valid text"),
        ({"clock": "10:00"}, "only exists can be asked"),
        ({"vector": 1}, "There is no field 'vector'"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_what_can(filters: Mapping[str, object], told: str) -> None:
    assert told in refusal(filters)


def test_a_type_without_literals_can_still_be_asked_for_existence() -> None:
    assert parse({"clock": {"exists": True}}, OURS, ours()) == Condition("clock", "exists", True)
    assert parse({"price": {"exists": True}}, OURS, ours()) == Condition("price", "exists", True)


def test_a_type_without_literals_is_compared_as_one_that_has_them() -> None:
    assert parse({"price": 2.5}, OURS, ours()) == Condition("price", "eq", 2.5, "DOUBLE")
    assert parse({"at": "2024-01-01T10:00+09:00"}, OURS, ours()) == Condition(
        "at", "eq", datetime.fromisoformat("2024-01-01T01:00"), "TIMESTAMP"
    )
    assert quoted(Not(Condition("price", "gte", 2.5, "DOUBLE"))) == (
        "(CAST(`price` AS DOUBLE) IS NULL OR CAST(`price` AS DOUBLE) < 2.5)"
    )


def test_a_bound_of_text_by_a_date_is_told_from_others() -> None:
    assert dated(parse({"status": {"gte": "2024-01"}, "path": {"lte": "m"}}, OURS, ours())) == {"status"}
    assert dated(parse({"status": {"lte": "2024-01"}, "id": "2024-01"}, OURS, ours())) == {"status"}
    assert dated(None) == frozenset()


def test_cells_that_are_no_dates_are_those_with_other_text(tmp_path: Path) -> None:
    cells = ["2024", "2024-01-05", "2024-01-05T10:00:00Z", "", None, "05.01.2024", "2024-1-5", "soon"]
    table = lancedb.connect(tmp_path).create_table("t", pa.table({"date": cells}))
    found = table.search().where(quoted(undated("date"))).to_arrow().column("date").to_pylist()
    assert found == ["05.01.2024", "2024-1-5", "soon"]


def test_what_a_reply_writes_of_a_column_finds_its_rows_whatever_it_holds() -> None:
    assert among("priority", ["2", "3"], OURS) == Condition("priority", "in", (2, 3))
    assert among("status", ["2"], OURS) == Condition("status", "eq", "2")


def test_more_conditions_than_the_limit_are_refused_however_they_are_spread() -> None:
    pairs: dict[str, object] = {"eq": "x", "neq": "y", "gte": "a", "lte": "z", "prefix": "x"}
    names = ("status", "superseded_by", "path", "id", "text")
    asked: dict[str, object] = dict.fromkeys(names, pairs)
    assert len(names) * len(pairs) > MAX_CONDITIONS
    assert f"more than {MAX_CONDITIONS} conditions" in refusal(asked)


def test_a_refusal_repeats_no_more_than_a_hundred_characters_of_a_name() -> None:
    assert len(refusal({"x" * 10_000: 1})) < 600


def test_a_path_prefix_is_a_prefix_of_the_path() -> None:
    assert under("docs/", ours()) == Condition("path", "prefix", "docs/")
    rooted = [under(prefix, ours()) for prefix in ("/docs/", "./docs/")]
    assert rooted == [
        AnyOf((Condition("path", "prefix", written), Condition("path", "prefix", "docs/")))
        for written in ("/docs/", "./docs/")
    ]


def test_what_is_excluded_are_paths_that_hold_a_fragment(tmp_path: Path) -> None:
    columns = [Column("text", "string", "text"), Column("path", "string", "text")]
    where = excluding(["old", "", "100%"], lay_out(columns, [], "text"))
    database = lancedb.connect(tmp_path)
    paths = ["docs/old/a.md", "docs/Old.md", "100%.md", "1000.md", None]
    table = database.create_table("t", pa.table({"text": ["x"] * 5, "path": paths}))
    assert where is not None
    assert table.search().where(quoted(where)).to_arrow().column("path").to_pylist() == ["docs/Old.md", "1000.md", None]


def test_to_exclude_nothing_is_no_condition() -> None:
    assert excluding(["", ""], ours()) is None


def _under_a(layout: Layout) -> Where | None:
    return under("a", layout)


def _without_a(layout: Layout) -> Where | None:
    return excluding(["a"], layout)


@pytest.mark.parametrize("ask", [_under_a, _without_a])
def test_a_table_without_paths_cannot_be_narrowed_by_them(ask: Callable[[Layout], Where | None]) -> None:
    columns = [Column("text", "string", "text")]
    with pytest.raises(BedivereError) as raised:
        ask(lay_out(columns, [], "text"))
    assert raised.value.code is ErrorCode.COLUMN_NOT_FOUND


def test_conditions_are_joined_without_those_that_say_nothing() -> None:
    one = Condition("a", "eq", 1)
    assert (all_of([None, one]), all_of([None]), all_of([one, NOTHING])) == (one, None, AllOf((one, NOTHING)))


def test_many_nested_negations_are_written_without_one_not_in_front_of_a_parenthesis() -> None:
    where: Where = AnyOf((Condition("a", "eq", 1), Condition("b", "eq", 2)))
    for _ in range(60):
        where = Not(AllOf((where, Condition("c", "exists", True))))
    assert "NOT (" not in quoted(where)
