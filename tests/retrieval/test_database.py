"""Finding tables, and opening them again when they were replaced."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from retrieval.core import Api
from retrieval.database import Database
from retrieval.errors import BedivereError, ErrorCode
from retrieval.search.plan import plan_text
from retrieval.table import Table

if TYPE_CHECKING:
    from tests.conftest import TableMaker


def unreadable() -> BedivereError:
    return BedivereError(ErrorCode.TABLE_UNREADABLE, "gone")


async def texts(table: Table) -> list[str]:
    layout = table.layout("text")
    plan = plan_text("boat", layout.searchable)
    assert plan is not None
    return sorted(row.text for row in await table.search_text(plan, layout, 10))


def test_tables_are_listed_in_order_and_nothing_else_is(make_table: TableMaker, tmp_path: Path) -> None:
    make_table({"text": ["boat"]}, name="b")
    database = make_table({"text": ["boat"]}, name="a")
    (database / ".hidden.lance").mkdir()
    (database / "file.lance").write_text("no folder")
    (database / "other").mkdir()
    assert Database(str(database)).names() == ["a", "b"]


def test_a_table_is_opened_once_and_again_when_another_wrote_to_it(make_table: TableMaker) -> None:
    database = Database(str(make_table({"text": ["a red boat"]})))

    async def twice() -> None:
        first = await database.table("documents")
        assert await database.table("documents") is first
        await asyncio.to_thread(make_table, {"text": ["a blue boat"]})
        assert await texts(await database.table("documents")) == ["a blue boat"]

    asyncio.run(twice())


def test_a_table_that_was_open_and_is_gone_is_not_served(make_table: TableMaker) -> None:
    folder = make_table({"text": ["a red boat"]})
    database = Database(str(folder))

    async def twice() -> None:
        await database.table("documents")
        await asyncio.to_thread(shutil.rmtree, folder / "documents.lance")
        with pytest.raises(BedivereError) as raised:
            await database.table("documents")
        assert raised.value.code is ErrorCode.TABLE_NOT_FOUND

    asyncio.run(twice())


def test_a_question_whose_table_is_replaced_meanwhile_is_put_to_the_new_one(make_table: TableMaker) -> None:
    database = Database(str(make_table({"text": ["a red boat"]})))
    asked: list[Table] = []

    async def ask(table: Table) -> list[str]:
        asked.append(table)
        if len(asked) == 1:
            await asyncio.to_thread(make_table, {"text": ["a blue boat"]})
            raise unreadable()
        return await texts(table)

    assert asyncio.run(database.read("documents", ask)) == ["a blue boat"]
    assert len(asked) == 2


def test_a_table_that_fails_and_was_not_replaced_is_not_asked_again(make_table: TableMaker) -> None:
    database = Database(str(make_table({"text": ["a red boat"]})))
    asked = 0

    async def ask(_: Table) -> None:
        nonlocal asked
        asked += 1
        raise unreadable()

    with pytest.raises(BedivereError):
        asyncio.run(database.read("documents", ask))
    assert asked == 1


def test_a_table_replaced_at_every_look_is_given_up(make_table: TableMaker) -> None:
    database = Database(str(make_table({"text": ["a red boat"]})))
    asked = 0

    async def ask(_: Table) -> None:
        nonlocal asked
        asked += 1
        await asyncio.to_thread(make_table, {"text": [f"boat {asked}"]})
        raise unreadable()

    with pytest.raises(BedivereError, match="TABLE_UNREADABLE"):
        asyncio.run(database.read("documents", ask))
    assert asked == 3


def test_a_table_replaced_while_it_is_opened_is_looked_for_again(
    make_table: TableMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(str(make_table({"text": ["a red boat"]})))
    really_open = Table.open
    opened = 0

    async def open_late(name: str, place: Path, fingerprint: tuple[str, int, int], api: Api) -> Table:
        nonlocal opened
        opened += 1
        if opened == 1:
            await asyncio.to_thread(make_table, {"text": ["a blue boat"]})
            raise unreadable()
        return await really_open(name, place, fingerprint, api)

    monkeypatch.setattr(Table, "open", open_late)
    assert asyncio.run(database.read("documents", texts)) == ["a blue boat"]
