"""The end of standard input: what was read before it is answered, and what cannot be does not hold up the end."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from mcp_types import CallToolRequestParams, CallToolResult, TextContent, jsonrpc_message_adapter

from handler import stdio

pytestmark = pytest.mark.anyio

INITIALIZE = {
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Session:
    """A server whose one tool answers once it is let, and a client that says all it has to say and hangs up."""

    def __init__(self) -> None:
        self.called = 0
        self.let = anyio.Event()
        self.ended = anyio.Event()
        self.answers: list[dict[str, Any]] = []

    async def call_tool(self, context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        del context, params
        self.called += 1
        await self.let.wait()
        return CallToolResult(content=[TextContent(text="done")])

    async def serve(self, monkeypatch: pytest.MonkeyPatch, *messages: dict[str, Any] | str) -> None:
        """Sends the handshake and `messages`, texts as they are, ends the input, and returns when the server has."""
        to_server, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, from_server = anyio.create_memory_object_stream[SessionMessage](0)

        @asynccontextmanager
        async def streams() -> AsyncGenerator[tuple[Any, Any]]:
            yield read, write

        async def receive() -> None:
            async for item in from_server:
                self.answers.append(item.message.model_dump(by_alias=True, exclude_unset=True))

        async def send() -> None:
            async with to_server:
                for message in (INITIALIZE, {"method": "notifications/initialized"}, *messages):
                    line = message if isinstance(message, str) else json.dumps({"jsonrpc": "2.0", **message})
                    try:
                        parsed = jsonrpc_message_adapter.validate_json(line, by_name=False)
                    except ValueError as error:
                        await to_server.send(error)
                    else:
                        await to_server.send(SessionMessage(parsed))
            self.ended.set()

        monkeypatch.setattr(stdio, "stdio_server", streams)
        async with read, from_server, anyio.create_task_group() as group:
            group.start_soon(receive)
            group.start_soon(send)
            with anyio.fail_after(20):
                await stdio.serve_stdio(Server("slow", on_call_tool=self.call_tool))

    def answered(self) -> list[tuple[Any, bool]]:
        """The id of each answer, and whether it is a result."""
        return [(answer["id"], "result" in answer) for answer in self.answers]


REFUSED_LINES = [
    ('{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x","arguments":{"query":"\\ud800"}}}', 7),
    ('{"jsonrpc":"2.0","id":"seven","method":"x","params":{"a":' + "[" * 300 + "]" * 300 + "}}", "seven"),
    ('{"jsonrpc":"2.0","id":"\\ud800","method":"x"}', None),
    ('{"jsonrpc":"2.0","id":true,"method":"\\ud800"}', None),
    ('{"jsonrpc":"2.0","id":7}', None),
    ("[" * 100_000, None),
    ("nonsense", None),
    ("7", None),
]


@pytest.mark.parametrize(("line", "request_id"), REFUSED_LINES, ids=range(len(REFUSED_LINES)))
async def test_a_line_that_is_refused_is_answered_with_the_id_of_its_request(
    monkeypatch: pytest.MonkeyPatch, line: str, request_id: int | str | None
) -> None:
    session = Session()
    await session.serve(monkeypatch, line)
    (answer,) = [answer for answer in session.answers if "error" in answer]
    assert (answer["id"], answer["error"]["data"]) == (request_id, {"code": "BODY_NOT_JSON"})


def call(number: int | str) -> dict[str, Any]:
    return {"id": number, "method": "tools/call", "params": {"name": "slow", "arguments": {}}}


async def let_after_the_end(session: Session, calls: int) -> None:
    await session.ended.wait()
    while session.called < calls:
        await anyio.lowlevel.checkpoint()
    session.let.set()


@pytest.mark.parametrize("numbers", [(2,), (2, "three", 4), (2, 2)])
async def test_what_was_read_before_the_end_is_answered(
    monkeypatch: pytest.MonkeyPatch, numbers: tuple[int | str, ...]
) -> None:
    session = Session()
    async with anyio.create_task_group() as group:
        group.start_soon(let_after_the_end, session, len(numbers))
        await session.serve(monkeypatch, *map(call, numbers))
    assert session.answered() == [(1, True), *((number, True) for number in numbers)]


async def test_what_takes_too_long_is_told_that_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "_LAST_ANSWERS_SECONDS", 0.05)
    session = Session()
    await session.serve(monkeypatch, call(2))
    assert session.answered() == [(1, True), (2, False)]


@pytest.mark.parametrize(("asked", "named"), [(2, 2), (2, "2"), ("2", 2), ("two", "two")])
async def test_what_its_sender_cancelled_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, asked: int | str, named: int | str
) -> None:
    monkeypatch.setattr(stdio, "_LAST_ANSWERS_SECONDS", 60.0)
    session = Session()
    cancelled = {"method": "notifications/cancelled", "params": {"requestId": named}}
    await session.serve(monkeypatch, call(asked), cancelled)
    assert session.answered() == [(1, True)]
