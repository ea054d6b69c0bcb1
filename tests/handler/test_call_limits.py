"""What a call on Lambda may cost: its time is the function's, and its reply fits a Lambda answer, in both eras."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp_types import TextContent

from handler.main import AppHandler, make_handler
from handler.protocol import MAX_REPLY_BYTES, build_server
from handler.telemetry import Call, PlainRecorder
from retrieval.retriever import Retriever
from retrieval.settings import Settings
from retrieval.status_reply import EmbeddingsStatus, StatusReply, TableStatus
from retrieval.types import Hit, Page, SearchReply
from tests.lambda_bridge import http_event

HOST = "a1b2c3d4e5.execute-api.eu-west-1.amazonaws.com"
LAMBDA_LIMIT = 6_291_556

ERAS = pytest.mark.parametrize("modern", [False, True], ids=["handshake era", "stateless era"])


class Context:
    """What Lambda passes beside the event."""

    aws_request_id = "lambda-1"

    def __init__(self, milliseconds: int) -> None:
        self._milliseconds = milliseconds

    def get_remaining_time_in_millis(self) -> int:
        return self._milliseconds


class Remembering(PlainRecorder):
    """Keeps the calls that it is told of."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def call_finished(self, call: Call) -> None:
        self.calls.append(call)


@pytest.fixture
def recorder() -> Remembering:
    return Remembering()


@pytest.fixture
def handler(handbook: Path, recorder: Remembering) -> Iterator[AppHandler]:
    made = make_handler(Settings(database=str(handbook)), recorder)
    yield made
    made.close()


def ask(handler: AppHandler, tool: str, arguments: dict[str, Any], *, modern: bool, context: object = None) -> Any:
    """The Lambda answer to one call with the id "seven"."""
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    headers = {"content-type": "application/json"}
    if modern:
        headers |= {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": tool}
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    body = json.dumps({"jsonrpc": "2.0", "id": "seven", "method": "tools/call", "params": params}).encode()
    return handler(http_event(httpx2.Request("POST", f"https://{HOST}/mcp", headers=headers), body), context)


def refused(answer: Any) -> str:
    """The text of an answer that is a tool's error for the call that `ask` made."""
    assert answer["statusCode"] == 200
    message = json.loads(answer["body"])
    assert message["id"] == "seven"
    assert message["result"]["isError"]
    assert "structuredContent" not in message["result"]
    (content,) = message["result"]["content"]
    assert content["text"].startswith(message["result"]["_meta"]["code"] + ": ")
    return content["text"]


# Time


async def never(*_: object, **__: object) -> SearchReply:
    await asyncio.Event().wait()
    raise AssertionError


@ERAS
def test_a_call_ends_before_the_functions_time_does_and_says_what_to_do(
    handler: AppHandler, recorder: Remembering, monkeypatch: pytest.MonkeyPatch, modern: bool
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Retriever, "search", never)
        answer = ask(handler, "lancedb_search", {"query": "key"}, modern=modern, context=Context(1050))

    text = refused(answer)
    assert text.startswith("DEADLINE_EXCEEDED: ")
    assert "smaller limit" in text
    assert "owner raises the function's timeout" in text
    assert [call.status for call in recorder.calls] == ["DEADLINE_EXCEEDED"]
    # The next one is answered as if nothing had been.
    answer = ask(handler, "lancedb_search", {"query": "key"}, modern=modern, context=Context(29_000))
    assert json.loads(answer["body"])["result"]["structuredContent"]["hits"]


def test_a_call_that_begins_too_late_is_not_begun(handler: AppHandler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Retriever, "search", never)
    text = refused(ask(handler, "lancedb_search", {"query": "key"}, modern=True, context=Context(10)))
    assert text.startswith("DEADLINE_EXCEEDED: No result within the 0.0 seconds")


@pytest.mark.parametrize(
    ("tool", "method", "instead"),
    [
        ("lancedb_query", "context", "contextBudget"),
        ("lancedb_fetch", "fetch", "a smaller maxChars"),
        ("lancedb_catalog", "catalog", "a smaller limit"),
        ("lancedb_status", "status", "verbose left out"),
    ],
)
def test_what_to_ask_for_instead_is_an_argument_of_the_tool(
    handler: AppHandler, monkeypatch: pytest.MonkeyPatch, tool: str, method: str, instead: str
) -> None:
    monkeypatch.setattr(Retriever, method, never)
    arguments = {"question": "key"} if tool == "lancedb_query" else {}
    assert instead in refused(ask(handler, tool, arguments, modern=True, context=Context(1000)))


def test_a_timeout_of_something_within_is_no_deadline(handler: AppHandler, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(Retriever, "search", fail)
    answer = ask(handler, "lancedb_search", {"query": "key"}, modern=True, context=Context(29_000))
    assert refused(answer).startswith("INTERNAL_ERROR: ")


# Size


def replying(monkeypatch: pytest.MonkeyPatch, snippet: str) -> None:
    async def search(*_: object) -> SearchReply:
        return SearchReply(search_type="text", table="documents", hits=[Hit(id="1", snippet=snippet, score=1.0)])

    monkeypatch.setattr(Retriever, "search", search)


@ERAS
@pytest.mark.parametrize("unit", ["a", '"', "漢", "𝄞", "\t"])
def test_a_reply_that_lambda_would_refuse_is_a_tools_error_that_says_what_to_ask_for(
    handler: AppHandler, recorder: Remembering, monkeypatch: pytest.MonkeyPatch, unit: str, modern: bool
) -> None:
    replying(monkeypatch, unit * (LAMBDA_LIMIT // (2 * len(json.dumps(unit)) - 4)))
    text = refused(ask(handler, "lancedb_search", {"query": "key"}, modern=modern))

    assert text.startswith("REPLY_TOO_LARGE: ")
    assert "at most 5.5 MB" in text
    assert "a smaller limit" in text
    assert [call.status for call in recorder.calls] == ["REPLY_TOO_LARGE"]


@ERAS
@pytest.mark.parametrize("unit", ["a", '"', "漢", "𝄞", "\t"])
def test_every_reply_that_passes_is_within_what_lambda_takes(
    handler: AppHandler, monkeypatch: pytest.MonkeyPatch, unit: str, modern: bool
) -> None:
    passed: list[int] = []
    for characters in (150_000, 220_000, 330_000, 500_000, 750_000, 1_100_000, 1_700_000, 2_500_000):
        replying(monkeypatch, unit * characters)
        answer = ask(handler, "lancedb_search", {"query": "key"}, modern=modern)
        encoded = len(json.dumps(answer))
        assert encoded < LAMBDA_LIMIT
        if 'isError":true' not in answer["body"]:
            passed.append(encoded)
    # And the limit is not far from Lambda's own.
    assert max(passed) > MAX_REPLY_BYTES * 0.5


def test_a_status_of_too_many_tables_says_to_leave_verbose_out(
    handler: AppHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def status(*_: object, **__: object) -> StatusReply:
        tables = [TableStatus(name="t" * 200, notes=["n" * 1000]) for _ in range(3000)]
        embeddings = EmbeddingsStatus(available=False)
        return StatusReply(connected=True, default_table="documents", tables=tables, embeddings=embeddings)

    monkeypatch.setattr(Retriever, "status", status)
    assert "verbose left out" in refused(ask(handler, "lancedb_status", {"verbose": True}, modern=True))


def test_a_chunk_that_is_too_large_by_itself_is_said_to_be_so(
    handler: AppHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fetch(*_: object) -> Page:
        return Page(table="documents", ids=["1"], text="x" * 3_000_000)

    monkeypatch.setattr(Retriever, "fetch", fetch)
    text = refused(ask(handler, "lancedb_fetch", {"id": "1"}, modern=True))
    assert text.startswith("REPLY_TOO_LARGE: ")
    assert "a single chunk of that size cannot be fetched" in text


# What is told of a call


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
async def test_what_a_recorder_is_told_of_a_call(handbook: Path, recorder: Remembering) -> None:
    settings = Settings(database=str(handbook))
    async with Client(build_server(settings, Retriever(settings), recorder)) as client:
        await client.call_tool("lancedb_search", {"query": "key", "searchType": "hybrid", "limit": 2})
        await client.call_tool("lancedb_query", {"question": "how is a backup restored?"})
        await client.call_tool("lancedb_fetch", {"path": "backup.md"})
        await client.call_tool("lancedb_catalog", {"limit": 3})
        await client.call_tool("lancedb_version", {})
        failed = await client.call_tool("lancedb_search", {"query": "key", "limit": 0})

    assert isinstance(failed.content[0], TextContent)
    search, context, page, catalog, version, refusal = recorder.calls
    assert (search.tool, search.status, search.search_type, search.degraded) == ("lancedb_search", "ok", "text", True)
    assert search.hits == 2
    assert list(search.stages) == ["parse", "retrieve", "encode"]
    assert sum(search.stages.values()) <= search.milliseconds + 0.3
    assert (context.search_type, context.degraded, bool(context.hits)) == ("text", False, True)
    assert (page.search_type, page.degraded, page.hits) == (None, False, 2)
    assert (catalog.search_type, catalog.degraded, catalog.hits) == (None, False, 3)
    assert (version.search_type, version.hits) == (None, None)
    assert (refusal.status, refusal.stages, refusal.hits) == ("INVALID_ARGUMENT", {}, None)
    assert {call.arguments for call in recorder.calls} == {None}
    assert {call.release for call in recorder.calls} == {None}
