"""The MCP server as a real client sees it, in both protocol eras."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, TextContent

from handler import __version__
from handler.protocol import build_server
from handler.tools import TOOLS
from retrieval.errors import ErrorCode
from retrieval.retriever import Retriever
from retrieval.settings import load_settings

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["auto", "legacy"])
async def client(request: pytest.FixtureRequest, handbook: Path) -> AsyncGenerator[Client]:
    settings = load_settings(database=str(handbook))
    async with Client(build_server(settings, Retriever(settings)), mode=request.param) as connected:
        yield connected


def text_of(result: CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


async def test_only_tools_are_advertised(client: Client) -> None:
    capabilities = client.server_capabilities.model_dump(exclude_none=True)
    assert capabilities == {"tools": {"list_changed": False}}


async def test_the_server_says_who_it_is_and_how_to_use_it(client: Client) -> None:
    assert client.server_info is not None
    assert (client.server_info.name, client.server_info.version) == ("bedivere", __version__)
    assert "lancedb_query" in (client.instructions or "")


async def test_every_tool_is_annotated_as_one_that_only_reads(client: Client) -> None:
    tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == list(TOOLS)
    for tool in tools:
        assert tool.title
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint
        assert tool.annotations.idempotent_hint
        assert tool.annotations.open_world_hint is False
        assert tool.annotations.destructive_hint is False


async def test_what_is_listed_may_be_cached_by_anybody(handbook: Path) -> None:
    settings = load_settings(database=str(handbook))
    async with Client(build_server(settings, Retriever(settings)), mode="auto") as connected:
        listed = await connected.list_tools()
    assert (listed.ttl_ms, listed.cache_scope) == (300_000, "public")


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("lancedb_search", {"query": "rotate the signing key"}),
    ("lancedb_search", {"query": "zeppelin"}),
    ("lancedb_query", {"question": "how is a backup restored?"}),
    ("lancedb_query", {"warmStart": True}),
    ("lancedb_search", {"query": "rotate the signing key", "collapse": "document", "expand": {"type": "section"}}),
    ("lancedb_fetch", {"id": "backup.md#1", "before": 1}),
    ("lancedb_fetch", {"path": "guides/long.md", "maxChars": 1000}),
    ("lancedb_catalog", {"filters": {"status": "final"}}),
    ("lancedb_catalog", {"fields": ["path"], "limit": 1}),
    ("lancedb_status", {"verbose": True}),
    ("lancedb_version", {}),
]


@pytest.mark.parametrize(("tool", "arguments"), CALLS)
async def test_a_result_has_structure_that_keeps_its_schema_and_one_text(
    client: Client, tool: str, arguments: dict[str, Any]
) -> None:
    result = await client.call_tool(tool, arguments)
    schema = next(listed.output_schema for listed in (await client.list_tools()).tools if listed.name == tool)
    assert not result.is_error
    assert schema is not None
    jsonschema.validate(result.structured_content, schema)
    if tool == "lancedb_query":
        assert text_of(result) == result.structured_content["context"]
    else:
        assert text_of(result) == json.dumps(result.structured_content, separators=(",", ":"), ensure_ascii=False)


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("lancedb_search", {"query": ""}, ErrorCode.INVALID_QUERY),
        ("lancedb_search", {"query": "x", "limit": 0}, ErrorCode.INVALID_ARGUMENT),
        ("lancedb_search", {}, ErrorCode.INVALID_ARGUMENT),
        ("lancedb_search", {"query": "x", "table": "nope"}, ErrorCode.TABLE_NOT_FOUND),
        ("lancedb_query", {}, ErrorCode.INVALID_QUERY),
        ("lancedb_search", {"query": "x", "filters": {"color": "red"}}, ErrorCode.INVALID_FILTER),
        ("lancedb_fetch", {}, ErrorCode.INVALID_ARGUMENT),
        ("lancedb_fetch", {"path": "nope.md"}, ErrorCode.DOCUMENT_NOT_FOUND),
        ("lancedb_fetch", {"cursor": "abc"}, ErrorCode.INVALID_CURSOR),
        ("lancedb_catalog", {"fields": ["colour"]}, ErrorCode.INVALID_ARGUMENT),
    ],
)
async def test_an_error_is_a_result_with_its_code_and_no_structure(
    client: Client, tool: str, arguments: dict[str, Any], code: ErrorCode
) -> None:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    assert result.structured_content is None
    assert text_of(result).startswith(f"{code}: ")
    assert "\n" not in text_of(result)
    assert result.meta is not None
    assert result.meta["code"] == code


async def test_a_document_is_read_page_by_page_with_nothing_but_the_cursor(client: Client) -> None:
    page = await client.call_tool("lancedb_fetch", {"path": "guides/long.md", "maxChars": 1000})
    ids: list[str] = []
    while page.structured_content and "cursor" in page.structured_content:
        ids += page.structured_content["ids"]
        page = await client.call_tool("lancedb_fetch", {"cursor": page.structured_content["cursor"], "maxChars": 1000})
    assert page.structured_content is not None
    ids += page.structured_content["ids"]
    assert ids == [f"guides/long.md#{n}" for n in range(page.structured_content["chunks"])]


async def test_an_unknown_tool_is_a_protocol_error_that_lists_the_tools(client: Client) -> None:
    with pytest.raises(MCPError, match="lancedb_search") as raised:
        await client.call_tool("search", {"query": "x"})
    assert raised.value.code == -32602


async def test_a_fault_of_ours_shows_nothing_and_logs_where_not_what(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    query = " ".join(["the", "secret", "query", "at", "/home/someone"])

    async def fail(*_: object) -> None:
        raise RuntimeError(query)

    monkeypatch.setattr(Retriever, "search", fail)
    result = await client.call_tool("lancedb_search", {"query": query})
    assert text_of(result) == "INTERNAL_ERROR: The server failed on this call; its log has the details."
    assert "RuntimeError" in caplog.text
    assert query not in caplog.text


@pytest.mark.parametrize("log_queries", [False, True])
async def test_queries_are_logged_only_where_a_setting_says_so(
    handbook: Path, caplog: pytest.LogCaptureFixture, log_queries: bool
) -> None:
    caplog.set_level(logging.DEBUG)
    settings = load_settings(database=str(handbook), log_queries=log_queries)
    async with Client(build_server(settings, Retriever(settings))) as connected:
        await connected.call_tool("lancedb_search", {"query": "zanzibar\n2026 ERROR forged line"})
        await connected.call_tool("lancedb_search", {"query": "zanzibar", "table": "zanzibar"})
    ours = "\n".join(record.getMessage() for record in caplog.records if record.name == "bedivere")
    assert ("zanzibar" in ours) is log_queries
    assert "\n2026 ERROR forged line" not in ours


@pytest.mark.parametrize("tool", [name for name in TOOLS if name != "lancedb_version"])
async def test_without_a_database_the_server_lists_its_tools_and_each_call_says_what_to_do(tool: str) -> None:
    settings = load_settings()
    async with Client(build_server(settings, Retriever(settings))) as connected:
        assert len((await connected.list_tools()).tools) == len(TOOLS)
        required = {"lancedb_search": {"query": "x"}, "lancedb_query": {"question": "x"}, "lancedb_fetch": {"id": "x"}}
        arguments = required.get(tool, {})
        assert "DATABASE_NOT_SET: " in text_of(await connected.call_tool(tool, arguments))
        assert not (await connected.call_tool("lancedb_version", {})).is_error
