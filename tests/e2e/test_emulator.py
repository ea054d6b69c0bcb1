"""The Lambda handler as Lambda runs it: the real runtime client under the real runtime emulator, behind a gateway."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from mcp.client import Client
from mcp_types import CallToolResult

from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options
from retrieval.provider import Endpoint
from retrieval.settings import load_settings
from tests import planted
from tests.e2e.conftest import BEDIVERE, clean_environment
from tests.e2e.emulator import Emulated, emulated
from tests.embedding_server import EmbeddingServer

pytestmark = pytest.mark.e2e

# What Lambda allows an initialisation before it starts over at the caller's expense.
INIT_LIMIT_MS = 10_000


@pytest.fixture(scope="module")
def function(handbook: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    """The function over the handbook."""
    with emulated({"LANCEDB_PATH": str(handbook)}, tmp_path_factory.mktemp("function")) as running:
        yield running


@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
def test_a_client_of_either_era_lists_searches_and_reads(function: Emulated, mode: str, version: str) -> None:
    async def session() -> tuple[str, int, CallToolResult, CallToolResult]:
        async with Client(function.url, mode=mode) as client:
            tools = (await client.list_tools()).tools
            found = await client.call_tool("lancedb_search", {"query": "rotate the signing key", "limit": 1})
            read = await client.call_tool("lancedb_query", {"question": "how is a backup restored?"})
            return str(client.protocol_version), len(tools), found, read

    spoken, tools, found, read = asyncio.run(session())

    assert spoken == version
    assert tools >= 4
    assert found.structured_content is not None
    assert [hit["path"] for hit in found.structured_content["hits"]] == ["keys.md"]
    assert read.structured_content is not None
    assert "Restoring takes an hour." in read.structured_content["context"]


def test_many_clients_at_once_wait_for_each_other_and_are_all_answered(function: Emulated) -> None:
    async def session() -> list[CallToolResult]:
        async with Client(function.url) as client:
            return await asyncio.gather(*(client.call_tool("lancedb_search", {"query": "backup"}) for _ in range(12)))

    assert [result.is_error for result in asyncio.run(session())] == [False] * 12


def test_bedivere_smoke_finds_nothing_missing(function: Emulated) -> None:
    done = subprocess.run(
        [*BEDIVERE, "smoke", function.url, "--json"],
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    report = json.loads(done.stdout)

    assert [check for check in report["checks"] if not check["passed"]] == []
    assert (done.returncode, report["passed"]) == (0, True)


def test_it_initialises_within_what_lambda_allows(function: Emulated) -> None:
    assert httpx2.get(function.url).status_code == 405
    (milliseconds,) = function.init_milliseconds()
    assert milliseconds < INIT_LIMIT_MS


def test_a_function_that_asked_with_a_key_writes_neither_it_nor_the_question_whatever_the_provider_says(
    tmp_path: Path, embedding_server: EmbeddingServer
) -> None:
    source, database = tmp_path / "docs", tmp_path / "database"
    source.mkdir()
    (source / "page.md").write_text("# Boats\n\nA boat lies in the harbour.\n")
    environment = {**embedding_server.environment(), "OPENAI_API_KEY": planted.EMBEDDING_KEY}
    with pytest.MonkeyPatch.context() as patched:
        for name, value in environment.items():
            patched.setenv(name, value)
        build_table(Options(source, database, embed=True, endpoint=Endpoint(load_settings())))
    # GIVEN a provider that repeats the key and the question
    embedding_server.fail("status", status=401, message=f"{planted.EMBEDDING_KEY} asked: planted question of a boat")

    async def session(url: str) -> CallToolResult:
        async with Client(url) as client:
            return await client.call_tool("lancedb_search", {"query": "planted question of a boat"})

    with emulated({**environment, "LANCEDB_PATH": str(database)}, tmp_path) as running:
        found = asyncio.run(session(running.url))

    # THEN words answer, and what was written at any level is searched when the function ends
    assert not found.is_error
    assert embedding_server.keys[-1] == f"Bearer {planted.EMBEDDING_KEY}"
    assert running.asked == ["planted question of a boat"]
    assert planted.spilt(found.model_dump_json() + running.text()) == []


def test_every_call_is_a_line_of_json_without_the_query_and_one_is_the_cold_start(function: Emulated) -> None:
    async def session() -> None:
        async with Client(function.url) as client:
            await client.call_tool("lancedb_search", {"query": "zanzibar\n{forged}"})
            await client.call_tool("lancedb_search", {"query": "x", "table": "zanzibar"})

    asyncio.run(session())

    lines = function.lines()
    calls = [line for line in lines if line.get("message") == "call"]
    assert {"tool", "status", "milliseconds", "stages", "correlation_id", "function_request_id"} <= calls[-2].keys()
    assert [line["status"] for line in calls[-2:]] == ["ok", "TABLE_NOT_FOUND"]
    assert [line["ColdStart"] for line in lines if "ColdStart" in line] == [[1.0]]
    assert [line["code"] for line in lines if "Errors" in line][-1] == "TABLE_NOT_FOUND"
    assert "zanzibar" not in function.text()
    assert "forged" not in function.text()
