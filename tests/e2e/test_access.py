"""Keys and private collections through a real server and the Python client, in both eras of the protocol."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from handler.access import issuing
from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options
from tests.e2e.conftest import BEDIVERE, clean_environment, serving

pytestmark = [pytest.mark.anyio, pytest.mark.e2e]

ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])
EVERY_TOOL = ("search", "fetch", "catalog", "status")


@dataclass(frozen=True)
class Served:
    """A server that takes keys, of a database with a public and a private collection."""

    url: str
    keys: str
    database: Path

    def key(self, name: str, *scopes: str) -> str:
        return issuing.create(self.keys, name, scopes=scopes)[0]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("access")
    for collection, text in (("docs", "# Ledger\n\nThe ledger.\n"), ("hr", "# Payroll\n\nThe payroll ledger.\n")):
        (folder / collection).mkdir()
        (folder / collection / f"{collection}.md").write_text(text)
        build_table(Options(folder / collection, folder / "database", collection=collection))
    settings = {
        "BEDIVERE_ACCESS": "keys",
        "BEDIVERE_KEYS": str(folder / "keys.json"),
        "BEDIVERE_PRIVATE_COLLECTIONS": "hr=hr.read",
        "BEDIVERE_REFRESH_SECONDS": "1",
    }
    with serving("--db", str(folder / "database"), **settings) as url:
        yield Served(url, settings["BEDIVERE_KEYS"], folder / "database")


@asynccontextmanager
async def client(url: str, mode: str, *headers: tuple[str, str]) -> AsyncGenerator[Client]:
    async with (
        httpx2.AsyncClient(headers=list(headers)) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as connected,
    ):
        yield connected


async def paths(connected: Client) -> list[str]:
    found = await connected.call_tool("lancedb_search", {"query": "ledger"})
    told: dict[str, Any] = found.structured_content or {}
    return sorted(hit["path"] for hit in told["hits"])


@ERAS
@pytest.mark.parametrize("header", ["authorization", "x-api-key"])
async def test_a_key_with_the_scope_sees_what_one_without_does_not(served: Served, mode: str, header: str) -> None:
    shown = {
        f"all-{mode}-{header}": ((*EVERY_TOOL, "hr.read"), ["docs.md", "hr.md"]),
        f"less-{mode}-{header}": (EVERY_TOOL, ["docs.md"]),
    }
    keys = {name: served.key(name, *scopes) for name, (scopes, _) in shown.items()}
    for name, (_, expected) in shown.items():
        value = f"Bearer {keys[name]}" if header == "authorization" else keys[name]
        async with _patient(served.url, mode, (header, value)) as connected:
            assert await paths(connected) == expected


@asynccontextmanager
async def _patient(url: str, mode: str, header: tuple[str, str]) -> AsyncGenerator[Client]:
    """A client, once the server has read the keys again: it looks when it is asked, and not more often than set."""
    async with httpx2.AsyncClient(headers=[header]) as http:
        for _ in range(600):
            if (await http.post(url, content=b"")).status_code != 401:
                break
        else:
            raise AssertionError("the key was never let in")
    async with client(url, mode, header) as connected:
        yield connected


@ERAS
async def test_without_a_key_a_client_learns_that_it_needs_one(served: Served, mode: str) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        async with client(served.url, mode) as connected:
            await connected.list_tools()
    assert "UNAUTHORIZED" in innermost(caught.value)


def innermost(error: BaseException) -> str:
    """The text of what the client's groups of tasks wrap."""
    if isinstance(error, BaseExceptionGroup):
        return innermost(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    return str(error)


@ERAS
async def test_over_standard_input_everything_is_seen(served: Served, mode: str) -> None:
    parameters = StdioServerParameters(
        command=BEDIVERE[0],
        args=[*BEDIVERE[1:], "serve", "--stdio"],
        env=clean_environment(LANCEDB_PATH=str(served.database), BEDIVERE_PRIVATE_COLLECTIONS="hr=hr.read"),
    )
    async with Client(stdio_client(parameters), mode=mode) as connected:
        assert await paths(connected) == ["docs.md", "hr.md"]


@ERAS
async def test_open_to_anyone_private_collections_are_there_for_nobody(served: Served, mode: str) -> None:
    with serving("--db", str(served.database), BEDIVERE_PRIVATE_COLLECTIONS="hr=hr.read") as url:
        async with client(url, mode) as connected:
            assert await paths(connected) == ["docs.md"]
