"""The two ways into LanceDB answer alike."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
from __future__ import annotations

import asyncio
import json
import random
import shutil
from collections.abc import Callable, Coroutine
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib.metadata import requires, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import lancedb
import pyarrow as pa
import pytest
from lancedb.index import FTS, HnswSq

from retrieval.core import CORE_VERSION, Api, Ask, Nearest, Opened, lancedb_version, open_table
from retrieval.database import Database
from retrieval.errors import BedivereError, ErrorCode
from retrieval.search.filters import AllOf, AnyOf, Condition, Not, Where, to_sql
from retrieval.search.plan import Match, Phrase, TextPlan, plan_text
from retrieval.table import Table

if TYPE_CHECKING:
    from tests.conftest import TableMaker

T = TypeVar("T")

ROWS = 600
DIMENSIONS = 8
WORDS = "boat river lantern copper violin harbour meadow ladder winter orchard signal thread".split()


def columns() -> dict[str, Any]:
    chance = random.Random("core")
    texts = [" ".join(chance.choices(WORDS, k=12)) for _ in range(ROWS)]
    vectors = [[chance.uniform(-1, 1) for _ in range(DIMENSIONS)] for _ in range(ROWS)]
    start = datetime(2026, 1, 1, tzinfo=UTC)
    return {
        "id": [f"doc-{number:04}" for number in range(ROWS)],
        "text": texts,
        "title": [text.split()[0] for text in texts],
        "idents": [f"get_{text.split()[1]}" for text in texts],
        "whole": pa.array(range(ROWS), pa.int64()),
        "share": pa.array([number / 7 for number in range(ROWS)], pa.float64()),
        "price": pa.array([Decimal(number) / 4 for number in range(ROWS)], pa.decimal128(12, 2)),
        "fresh": pa.array([number % 3 == 0 if number % 5 else None for number in range(ROWS)], pa.bool_()),
        "day": pa.array([date(2026, 1 + number % 12, 1) for number in range(ROWS)], pa.date32()),
        "moment": pa.array([start.replace(hour=number % 24) for number in range(ROWS)], pa.timestamp("us", "UTC")),
        "kind": pa.array([WORDS[number % 4] for number in range(ROWS)]).dictionary_encode(),
        "flat": pa.array(vectors, pa.list_(pa.float32(), DIMENSIONS)),
        "indexed": pa.array(vectors, pa.list_(pa.float32(), DIMENSIONS)),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with one table of every type that a column can have, with every kind of index."""
    place = tmp_path_factory.mktemp("core")
    table = pa.table(columns()).replace_schema_metadata({"bedivere": '{"note": "é"}'})
    opened = lancedb.connect(place).create_table("documents", table)
    for name in ("text", "title", "idents"):
        opened.create_index(name, config=FTS(with_position=name == "text"))
    opened.create_index("indexed", config=HnswSq(distance_type="cosine", num_partitions=1))
    return place


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def both(folder: Path, ask: Callable[[Opened], Coroutine[Any, Any, T]]) -> tuple[T, T]:
    """What `ask` says of the table opened in each of the two ways."""

    async def opened(api: Api) -> T:
        return await ask(await open_table(folder, "documents", api))

    return run(opened("auto")), run(opened("public"))


def same_rows(folder: Path, ask: Ask) -> list[dict[str, Any]]:
    """The rows that answer `ask`, whichever way is taken: in one order, as equal scores have none."""

    async def rows(table: Opened) -> tuple[pa.Schema, list[dict[str, Any]]]:
        found = await table.rows(ask)
        return found.schema, sorted(found.to_pylist(), key=lambda row: json.dumps(row, default=str))

    fast, public = both(folder, rows)
    assert fast == public
    return fast[1]


def plan(*parts: Match | Phrase) -> TextPlan:
    return TextPlan(parts, cut=False)


def test_the_ways_are_two(folder: Path) -> None:
    async def kind(table: Opened) -> str:
        return type(table).__name__

    assert both(folder, kind) == ("_CoreTable", "_PublicTable")


def test_the_version_that_is_known_is_the_one_that_is_pinned_and_installed() -> None:
    assert f"lancedb=={CORE_VERSION}" in (requires("bedivere") or [])
    assert version("lancedb") == CORE_VERSION == lancedb_version()


@pytest.mark.parametrize(
    "question",
    [
        plan(Match("text", "boat")),
        plan(Match("text", "boat river", boost=0.3)),
        plan(Phrase("text", "orchard signal")),
        plan(Match("text", "boat river", boost=2.0), Match("title", "boat", boost=0.2)),
        plan(Match("idents", "get_river", boost=2.0)),
        plan(Phrase("text", "copper violin")),
        plan(Match("text", "winter"), Phrase("text", "orchard signal"), Match("idents", "winter", boost=0.5)),
        plan(Match("text", "nothing")),
        plan(Match("text", 'O\'Brien "quoted" \\ ünï * ? ~2')),
        plan(Match("text", "")),
        plan(Match("text", " ".join(WORDS * 4))),
    ],
    ids=lambda one: "+".join(type(part).__name__ for part in one.parts),
)
@pytest.mark.parametrize("where", [None, "whole < 300", "whole < 0"])
def test_a_text_plan_finds_the_same_rows_with_the_same_scores(
    folder: Path, question: TextPlan, where: str | None
) -> None:
    found = same_rows(folder, Ask(["id", "text", "_score"], ROWS, where, like=question))

    asked = question.parts[0].terms
    assert bool(found) == (asked not in {"", "nothing"} and "ünï" not in asked and where != "whole < 0")


def test_a_real_plan_of_every_part_finds_the_same_rows(folder: Path) -> None:
    async def searchable(table: Table) -> TextPlan | None:
        return plan_text('the "copper violin" of get_river, boats', table.layout("text").searchable)

    made = run(Database(str(folder)).read("documents", searchable))

    assert made is not None
    assert same_rows(folder, Ask(["id", "_score"], ROWS, like=made))


@pytest.mark.parametrize("column", ["flat", "indexed"])
@pytest.mark.parametrize("exhaustive", [False, True])
@pytest.mark.parametrize("where", [None, "whole < 100"])
def test_a_vector_finds_the_same_rows_at_the_same_distance(
    folder: Path, column: str, exhaustive: bool, where: str | None
) -> None:
    nearest = Nearest([0.5, -0.25, 0.125, 0, 1, -1, 0.75, 0.1], column, exhaustive)

    found = same_rows(folder, Ask(["id", "_distance"], 20, where, like=nearest))

    assert 0 < len(found) <= 20
    assert all(row.keys() == {"id", "_distance", "_rowid"} for row in found)


WHERES: list[Where] = [
    Condition("title", "eq", "boat"),
    Condition("title", "in", ("boat", "river")),
    Condition("title", "prefix", "bo"),
    Condition("title", "neq", "it's"),
    Condition("kind", "eq", "river"),
    Condition("whole", "gte", 550),
    Condition("share", "lte", 12.5),
    Condition("price", "gte", 140),
    Condition("fresh", "eq", True),
    Condition("fresh", "exists", False),
    Condition("day", "lte", date(2026, 3, 1)),
    Condition("moment", "gte", datetime(2026, 1, 1, 20, tzinfo=UTC)),
    AllOf(
        (Condition("whole", "gte", 10), Not(AnyOf((Condition("title", "eq", "boat"), Condition("whole", "lte", 500)))))
    ),
]


@pytest.mark.parametrize("where", WHERES, ids=str)
def test_a_filter_is_written_and_counted_alike(folder: Path, where: Where) -> None:
    async def counted(table: Opened) -> tuple[str, int]:
        sql = to_sql(where, lambda column: f"`{column}`", table.literal)
        return sql, await table.count(sql)

    fast, public = both(folder, counted)

    assert fast == public
    assert 0 < fast[1] < ROWS or where == Condition("title", "neq", "it's")
    assert len(same_rows(folder, Ask(["id"], where=fast[0]))) == fast[1]


def test_a_scan_gives_the_columns_that_were_asked_for_in_their_order(folder: Path) -> None:
    everything = [name for name in columns() if name != "indexed"]

    for row_id in (True, False):
        found = same_rows(folder, Ask(everything[::-1], row_id=row_id))
        assert len(found) == ROWS
        assert list(found[0]) == [*everything[::-1], *(["_rowid"] if row_id else [])]


def test_a_limit_holds_and_an_empty_answer_has_its_columns(folder: Path) -> None:
    async def shapes(table: Opened) -> list[tuple[int, list[str]]]:
        asked = [Ask(["id"], 7), Ask(["id", "text"], where="false"), Ask(["id"], 5, row_id=False)]
        return [(found.num_rows, found.column_names) for found in [await table.rows(ask) for ask in asked]]

    fast, public = both(folder, shapes)

    assert fast == public == [(7, ["id", "_rowid"]), (0, ["id", "text", "_rowid"]), (5, ["id"])]


def test_batches_hold_the_same_rows(folder: Path) -> None:
    async def ids(table: Opened) -> list[str]:
        batches = table.batches(Ask(["id"], 500, row_id=False))
        return [value async for batch in batches for value in batch.column("id").to_pylist()]

    fast, public = both(folder, ids)

    assert fast == public
    assert len(fast) == 500


def test_the_schema_with_its_metadata_is_the_same(folder: Path) -> None:
    async def schema(table: Opened) -> pa.Schema:
        return await table.schema()

    fast, public = both(folder, schema)

    assert fast.equals(public, check_metadata=True)
    assert fast.metadata[b"bedivere"] == '{"note": "é"}'.encode()
    assert fast.names == list(columns())


def test_the_version_is_the_same_and_another_after_each_change(make_table: TableMaker) -> None:
    folder = make_table({"id": ["a"], "text": ["a boat"]})

    async def number(table: Opened) -> int:
        return await table.version()

    fast, public = both(folder, number)
    lancedb.connect(folder).open_table("documents").update("id = 'a'", {"text": "another"})
    changed, changed_publicly = both(folder, number)
    assert fast == public < changed == changed_publicly


def test_the_indexes_are_the_same(folder: Path) -> None:
    async def described(table: Opened) -> list[tuple[object, ...]]:
        return sorted(
            (
                one.columns,
                one.index_type,
                json.dumps(one.index_details, sort_keys=True),
                one.num_indexed_rows,
                one.num_unindexed_rows,
            )
            for one in await table.indexes()
        )

    fast, public = both(folder, described)

    assert fast == public
    assert [one[0] for one in fast] == [["idents"], ["indexed"], ["text"], ["title"]]


@pytest.mark.parametrize(
    "ask",
    [
        Ask(["nobody"]),
        Ask(["id"], where="nobody = 1"),
        Ask(["id"], where="whole = "),
        Ask(["id"], like=Nearest([1.0, 2.0], "flat")),
        Ask(["id"], like=Nearest([1.0] * DIMENSIONS, "text")),
        Ask(["id"], like=plan(Match("nobody", "boat"))),
        Ask(["id"], like=plan(Phrase("title", "boat river"))),
    ],
    ids=str,
)
def test_what_cannot_be_asked_fails_alike(folder: Path, ask: Ask) -> None:
    async def failure(table: Opened) -> tuple[type, str]:
        with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it is, it is the same
            await table.rows(ask)
        return type(caught.value), str(caught.value)

    fast, public = both(folder, failure)

    assert fast == public


@pytest.fixture(params=get_args(Api))
def api(request: pytest.FixtureRequest) -> Api:
    return request.param


def questions() -> list[Callable[[Table], Coroutine[Any, Any, object]]]:
    async def searched(table: Table) -> object:
        layout = table.layout("text")
        return await table.search_text(plan(Match("text", "boat")), layout, 3)

    async def near(table: Table) -> object:
        return await table.search_vector([1.0] * DIMENSIONS, "flat", table.layout("text"), 3)

    async def selected(table: Table) -> object:
        return await table.select(Condition("title", "eq", "boat"), table.layout("text"), limit=2)

    return [searched, near, selected]


@pytest.mark.parametrize("ask", questions())
def test_a_table_of_either_way_answers(
    folder: Path, api: Api, ask: Callable[[Table], Coroutine[Any, Any, list[object]]]
) -> None:
    assert run(Database(str(folder), api).read("documents", ask))


def test_a_table_without_its_files_is_unreadable(folder: Path, api: Api, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    shutil.rmtree(copy / "documents.lance" / "_versions")

    with pytest.raises(BedivereError) as caught:
        run(Database(str(copy), api).table("documents"))

    assert caught.value.code == ErrorCode.TABLE_UNREADABLE
    assert str(tmp_path) not in str(caught.value)


@pytest.mark.parametrize("damage", ["_versions", "data", "_indices"])
def test_a_table_with_damaged_files_is_unreadable_when_it_is_asked(
    folder: Path, api: Api, tmp_path: Path, damage: str
) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    for file in (copy / "documents.lance" / damage).rglob("*"):
        if file.is_file():
            file.write_bytes(b"\xff" * file.stat().st_size)
    database = Database(str(copy), api)

    async def search(table: Table) -> None:
        await table.search_text(plan(Match("text", "boat")), table.layout("text"), 3)

    with pytest.raises(BedivereError) as caught:
        run(database.read("documents", search))

    assert caught.value.code == ErrorCode.TABLE_UNREADABLE
    assert str(tmp_path) not in str(caught.value)


def test_a_table_that_was_replaced_is_opened_again(api: Api, make_table: TableMaker) -> None:
    database = Database(str(make_table({"text": ["a red boat"]})), api)

    async def texts() -> list[str]:
        table = await database.table("documents")
        return [row.text for row in await table.select(None, table.layout("text"))]

    async def twice() -> list[list[str]]:
        first = await texts()
        await asyncio.to_thread(make_table, {"text": ["a blue boat"]})
        return [first, await texts()]

    assert run(twice()) == [["a red boat"], ["a blue boat"]]
