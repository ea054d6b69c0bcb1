"""Queries go on while the table is indexed again and again: none fails, none sees half a table."""

from __future__ import annotations

import threading
from pathlib import Path

import anyio
import pytest
from mcp.client import Client

from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options
from tests.e2e.conftest import serving

pytestmark = [pytest.mark.anyio, pytest.mark.e2e]

REBUILDS = 8
CLIENTS = 4


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def write(source: Path, edition: int) -> None:
    for page in range(20):
        text = f"# Page {page}\n\nThe boat of page {page} belongs to edition{edition}.\n"
        (source / f"page{page:02}.md").write_text(text)


async def test_no_call_fails_and_each_sees_one_edition(tmp_path: Path) -> None:
    source, database = tmp_path / "docs", tmp_path / "database"
    source.mkdir()
    write(source, 0)
    build_table(Options(source=source, database=database))
    done = threading.Event()
    answered: list[int] = []

    def rebuild() -> None:
        try:
            for edition in range(1, REBUILDS + 1):
                write(source, edition)
                build_table(Options(source=source, database=database))
        finally:
            done.set()

    async def ask(url: str) -> None:
        async with Client(url) as client:
            while not done.is_set() or not answered:
                found = await client.call_tool("lancedb_search", {"query": "boat", "limit": 20})
                assert not found.is_error, found.content
                editions = {hit["snippet"].rpartition("edition")[2] for hit in found.structured_content["hits"]}
                assert len(found.structured_content["hits"]) == 20
                assert len(editions) == 1
                answered.append(len(editions))
                read = await client.call_tool("lancedb_query", {"question": "boat", "contextBudget": 2000})
                assert not read.is_error, read.content

    with serving("--db", str(database), BEDIVERE_LOG_LEVEL="error") as url:
        builder = threading.Thread(target=rebuild)
        builder.start()
        async with anyio.create_task_group() as group:
            for _ in range(CLIENTS):
                group.start_soon(ask, url)
        builder.join()
    assert len(answered) >= CLIENTS
