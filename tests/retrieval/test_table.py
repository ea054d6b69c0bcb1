"""One open table: its files, its loops, and the order and number of what it finds."""

# pyarrow and lancedb ship no types, or some.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import TYPE_CHECKING

import lancedb
import pyarrow as pa
import pytest
from lancedb.index import HnswSq
from lancedb.query import AsyncVectorQuery

from retrieval.database import Database
from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options
from retrieval.search.filters import Condition
from retrieval.search.plan import plan_text
from retrieval.table import Table

if TYPE_CHECKING:
    from tests.conftest import TableMaker


async def texts(table: Table) -> list[str]:
    layout = table.layout("text")
    plan = plan_text("boat", layout.searchable)
    assert plan is not None
    return sorted(row.text for row in await table.search_text(plan, layout, 10))


def test_the_files_of_an_open_table_stay_until_nobody_asks_it(tmp_path: Path) -> None:
    source, folder = tmp_path / "docs", tmp_path / "database"
    source.mkdir()
    generations = folder / ".bedivere" / "documents"

    def index(colour: str) -> None:
        (source / "a.md").write_text(f"A {colour} boat.\n")
        build_table(Options(source=source, database=folder))

    async def hold() -> None:
        index("red")
        held = await Database(str(folder)).table("documents")
        index("blue")
        assert await texts(held) == ["A red boat."]
        assert len(list(generations.iterdir())) == 2

    asyncio.run(hold())
    gc.collect()
    index("green")
    assert len(list(generations.iterdir())) == 1


def test_one_open_table_serves_many_loops_one_after_the_other(make_table: TableMaker) -> None:
    database = Database(str(make_table({"text": ["a red boat"]})))
    for _ in range(3):
        assert asyncio.run(database.read("documents", texts)) == ["a red boat"]


VECTORS = pa.list_(pa.float32(), 2)


def nearest(table: Table, limit: int, *, where: Condition | None = None) -> list[str]:
    found = asyncio.run(table.search_vector([1.0, 0.0], "vector", table.layout("text"), limit, where=where))
    return [row.id for row in found]


def test_rows_without_a_vector_or_with_one_of_no_length_are_never_near(make_table: TableMaker) -> None:
    vectors = pa.array([[0.0, 1.0], [0.0, 0.0], [1.0, 1.0], [-1.0, 0.0]], VECTORS)
    folder = make_table({"id": ["across", "none", "near", "away"], "text": ["x"] * 4, "vector": vectors})
    lancedb.connect(folder).open_table("documents").update("id = 'away'", values_sql={"vector": "NULL"})
    table = asyncio.run(Database(str(folder)).table("documents"))
    assert nearest(table, 10) == ["near", "across"]


def test_a_filter_is_put_to_a_scan_only_where_an_index_came_short(
    make_table: TableMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans: list[bool] = []
    bypass = AsyncVectorQuery.bypass_vector_index

    def counting(query: AsyncVectorQuery) -> AsyncVectorQuery:
        scans.append(True)
        return bypass(query)

    monkeypatch.setattr(AsyncVectorQuery, "bypass_vector_index", counting)
    rows = 300
    vectors = pa.array([[1.0, n / rows] for n in range(rows)], VECTORS)
    folder = make_table({"id": [f"{n:03}" for n in range(rows)], "text": ["x"] * rows, "vector": vectors})
    only = Condition("id", "gte", "290")
    flat = asyncio.run(Database(str(folder), "public").table("documents"))
    assert nearest(flat, 20, where=only) == [f"{n}" for n in range(290, 300)]
    assert scans == []
    lancedb.connect(folder).open_table("documents").create_index("vector", config=HnswSq(distance_type="cosine"))
    indexed = asyncio.run(Database(str(folder), "public").table("documents"))
    assert nearest(indexed, 20, where=only) == [f"{n}" for n in range(290, 300)]
    assert scans == [True]
