"""One Lambda handler, invoked again and again, and through the MCP SDK's own client."""

import asyncio
import gc
import json
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import lancedb
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult

from handler.main import AppHandler, make_handler
from retrieval.settings import Settings
from tests.lambda_bridge import LambdaTransport, http_event, rest_event

pytestmark = pytest.mark.e2e

HOST = "a1b2c3d4e5.execute-api.eu-west-1.amazonaws.com"
ERAS = ["legacy", "auto", "2026-07-28"]

Event = dict[str, Any]


@pytest.fixture(scope="module")
def handler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppHandler]:
    """The handler over a table that holds nothing but text."""
    database = tmp_path_factory.mktemp("database")
    texts = ["Excalibur was thrown into the lake.", "The lake returned no sword.", "A grail is a cup."]
    lancedb.connect(str(database)).create_table("documents", [{"text": text} for text in texts])
    handler = make_handler(Settings(database=str(database)))
    yield handler
    handler.close()


def request(message: object, **headers: str) -> httpx2.Request:
    sent = {"content-type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return httpx2.Request("POST", f"https://{HOST}/mcp", headers=sent, content=json.dumps(message).encode())


def call(name: str, arguments: Event, *, modern: bool) -> httpx2.Request:
    params: Event = {"name": name, "arguments": arguments}
    message: Event = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    if not modern:
        return request(message)
    params["_meta"] = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    return request(message, mcp_protocol_version="2026-07-28", mcp_method="tools/call", mcp_name=name)


def tasks(handler: AppHandler) -> int:
    return len(asyncio.all_tasks(handler._loop))  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("make", [http_event, rest_event])
@pytest.mark.parametrize("modern", [False, True], ids=["handshake era", "stateless era"])
def test_two_hundred_invocations_of_one_handler_are_all_answered_and_leave_nothing_behind(
    handler: AppHandler, make: Callable[..., Event], modern: bool
) -> None:
    asked = call("lancedb_search", {"query": "lake"}, modern=modern)
    event = make(asked, asked.content)
    assert handler(event, None)["statusCode"] == 200
    gc.collect()
    tasks_before, objects_before = tasks(handler), len(gc.get_objects())

    answers = [handler(json.loads(json.dumps(event)), None) for _ in range(200)]

    assert {answer["statusCode"] for answer in answers} == {200}
    assert all(json.loads(answer["body"])["result"]["structuredContent"]["hits"] for answer in answers)
    assert tasks(handler) <= tasks_before
    del answers
    gc.collect()
    # A task, a transport or a stream kept an invocation would be thousands.
    assert len(gc.get_objects()) - objects_before < 1000


@pytest.mark.parametrize(
    "version", [{}, {"mcp_protocol_version": "2025-11-25"}, {"mcp_protocol_version": "2026-07-28"}]
)
def test_the_get_that_asks_for_a_stream_is_405_within_milliseconds(
    handler: AppHandler, version: dict[str, str]
) -> None:
    asked = request({}, accept="text/event-stream", **version)
    asked.method = "GET"
    event = http_event(asked, b"")
    handler(event, None)

    took: list[float] = []
    for _ in range(20):
        began = time.perf_counter()
        answer = handler(event, None)
        took.append(time.perf_counter() - began)
        assert answer["statusCode"] == 405

    assert min(took) < 0.05


@asynccontextmanager
async def connected(handler: AppHandler, mode: str, **gateway: Any) -> AsyncGenerator[tuple[Client, LambdaTransport]]:
    transport = LambdaTransport(handler, **gateway)
    stage = gateway.get("stage", "$default")
    path = "/mcp" if stage == "$default" or gateway.get("payload") == "1.0" else f"/{stage}/mcp"
    async with (
        httpx2.AsyncClient(transport=transport) as http,
        Client(streamable_http_client(f"https://{HOST}{path}", http_client=http), mode=mode) as client,
    ):
        yield client, transport


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(
    "gateway",
    [
        {},
        {"stage": "prod"},
        {"base64_bodies": True},
        {"payload": "1.0", "stage": "prod"},
    ],
    ids=["HTTP API", "named stage", "base64 bodies", "REST API"],
)
def test_the_sdks_client_lists_and_calls_tools_through_the_handler(
    handler: AppHandler, mode: str, gateway: dict[str, Any]
) -> None:
    async def session() -> tuple[str, set[str], CallToolResult, LambdaTransport]:
        async with connected(handler, mode, **gateway) as (client, transport):
            tools = await client.list_tools()
            found = await client.call_tool("lancedb_search", {"query": "sword", "limit": 1})
            return str(client.protocol_version), {tool.name for tool in tools.tools}, found, transport

    version, tools, found, transport = asyncio.run(session())

    assert version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
    assert {"lancedb_search", "lancedb_query", "lancedb_status", "lancedb_version"} <= tools
    assert not found.is_error
    assert found.structured_content is not None
    assert [hit["snippet"] for hit in found.structured_content["hits"]] == ["The lake returned no sword."]
    assert {answer["statusCode"] for answer in transport.answers} <= {200, 202, 405}
    assert not any("mcp-session-id" in answer["headers"] for answer in transport.answers)


@pytest.mark.parametrize("mode", ERAS)
def test_one_client_may_ask_many_things_at_once(handler: AppHandler, mode: str) -> None:
    async def session() -> list[CallToolResult]:
        async with connected(handler, mode) as (client, _):
            return await asyncio.gather(*(client.call_tool("lancedb_search", {"query": "lake"}) for _ in range(20)))

    results = asyncio.run(session())
    assert len(results) == 20
    assert not any(result.is_error for result in results)


@pytest.mark.parametrize("mode", ERAS)
def test_without_a_database_the_client_still_connects_and_is_told_what_to_do(tmp_path: Path, mode: str) -> None:
    handler = make_handler(Settings(database=str(tmp_path / "absent")))

    async def session() -> tuple[int, CallToolResult]:
        async with connected(handler, mode) as (client, _):
            tools = await client.list_tools()
            return len(tools.tools), await client.call_tool("lancedb_search", {"query": "lake"})

    tools, found = asyncio.run(session())
    handler.close()

    assert tools
    assert found.is_error
    assert found.content[0].type == "text"
    assert found.content[0].text.startswith("DATABASE_NOT_FOUND: ")
    assert not (tmp_path / "absent").exists()
