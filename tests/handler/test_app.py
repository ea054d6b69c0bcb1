"""create_app(): the guard and the SDK together, asked directly and through a real server."""

import asyncio
import http.client
import json
import logging
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams, TextContent, Tool
from starlette.types import ASGIApp

from handler.app import create_app
from handler.authority import local_hosts
from retrieval.errors import BedivereError
from retrieval.settings import Settings
from tests.asgi import Reply, ask, running

Message = dict[str, Any]

META: Message = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
LIST_TOOLS: Message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
JSON = ("content-type", "application/json")


def echo_server() -> Server[Any]:
    """One tool, which says what it is told."""

    async def list_tools(context: ServerRequestContext[Any], params: PaginatedRequestParams | None) -> ListToolsResult:
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        return ListToolsResult(tools=[Tool(name="echo", input_schema=schema)])

    async def call_tool(context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        return CallToolResult(content=[TextContent(text=str((params.arguments or {}).get("text")))])

    return Server("echo", on_list_tools=list_tools, on_call_tool=call_tool)


def echo_app(port: int = 3000, **values: Any) -> ASGIApp:
    settings = Settings(**values)
    return create_app(settings, echo_server(), hosts=local_hosts(settings, bind="127.0.0.1", port=port))


def modern(message: Message) -> Message:
    return message | {"params": message["params"] | {"_meta": META}}


def modern_headers(method: str) -> list[tuple[str, str]]:
    return [("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)]


def post(message: object, *headers: tuple[str, str], path: str = "/mcp", **values: Any) -> Reply:
    body = message if isinstance(message, bytes) else json.dumps(message).encode()

    async def once() -> Reply:
        async with running(echo_app(**values)) as app:
            return await ask(app, path=path, headers=[("host", "localhost:3000"), JSON, *headers], body=body)

    return asyncio.run(once())


@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/docs/mcp", "/docs/mcp/"])
@pytest.mark.parametrize("accept", [[], [("accept", "application/json")], [("accept", "*/*")]])
def test_a_handshake_era_request_is_answered_in_json(path: str, accept: list[tuple[str, str]]) -> None:
    reply = post(LIST_TOOLS, *accept, path=path, base_path="/docs")

    assert reply.status == 200
    assert reply.all("content-type") == ["application/json"]
    assert reply.header("mcp-session-id") is None
    assert [tool["name"] for tool in reply.json()["result"]["tools"]] == ["echo"]


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
@pytest.mark.parametrize("accept", [[], [("accept", "application/json")], [("accept", "*/*")]])
def test_a_stateless_era_request_is_answered_in_json(path: str, accept: list[tuple[str, str]]) -> None:
    reply = post(modern(LIST_TOOLS), *modern_headers("tools/list"), *accept, path=path)

    assert reply.status == 200
    assert [tool["name"] for tool in reply.json()["result"]["tools"]] == ["echo"]


@pytest.mark.parametrize("content_type", ["Application/JSON", "application/json;charset=UTF-8"])
@pytest.mark.parametrize("headers", [[], modern_headers("tools/list")])
def test_no_spelling_of_the_content_type_troubles_the_sdk(content_type: str, headers: list[tuple[str, str]]) -> None:
    async def once() -> Reply:
        async with running(echo_app()) as app:
            sent = [("host", "localhost:3000"), ("content-type", content_type), *headers]
            return await ask(app, headers=sent, body=json.dumps(modern(LIST_TOOLS)).encode())

    assert asyncio.run(once()).status == 200


def test_a_notification_is_accepted() -> None:
    assert post({"jsonrpc": "2.0", "method": "notifications/initialized"}).status == 202


@pytest.mark.parametrize("headers", [[], modern_headers("tools/list")])
@pytest.mark.parametrize("body", [[LIST_TOOLS], {}, {"jsonrpc": "2.0", "id": None, "method": "a"}, b"{", b"[[[["])
def test_in_neither_era_does_a_bad_body_get_a_librarys_text(headers: list[tuple[str, str]], body: object) -> None:
    reply = post(body, *headers)

    assert reply.status == 400
    assert reply.code == "BODY_NOT_JSON"
    assert "pydantic" not in reply.sentence
    assert "\n" not in reply.sentence


@pytest.mark.parametrize(
    ("message", "headers", "status", "code"),
    [
        (modern(LIST_TOOLS), modern_headers("tools/call"), 400, -32020),
        (modern(LIST_TOOLS), [("mcp-protocol-version", "2026-07-28")], 400, -32020),
        (LIST_TOOLS, modern_headers("tools/list"), 400, -32602),
        (LIST_TOOLS, [("mcp-protocol-version", "2099-01-01")], 400, -32022),
        (modern(LIST_TOOLS | {"method": "nope"}), modern_headers("nope"), 404, -32601),
        (
            modern(LIST_TOOLS | {"method": "subscriptions/listen", "params": {"notifications": {}}}),
            modern_headers("subscriptions/listen"),
            404,
            -32601,
        ),
    ],
)
def test_the_codes_of_the_sdk_are_kept(
    message: Message, headers: list[tuple[str, str]], status: int, code: int
) -> None:
    reply = post(message, *headers)

    assert reply.status == status
    assert reply.json()["error"]["code"] == code
    assert reply.json()["id"] == 1


def test_a_body_of_just_the_limit_is_not_too_large_for_the_sdk_either() -> None:
    assert post(json.dumps(LIST_TOOLS).encode().ljust(1024), max_body_bytes=1024).status == 200


def test_before_its_lifespan_the_app_answers_a_json_rpc_error(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, logger="bedivere"):
        reply = asyncio.run(
            ask(echo_app(), headers=[("host", "localhost:3000"), JSON], body=json.dumps(LIST_TOOLS).encode())
        )
    assert reply.status == 500
    assert reply.code == "INTERNAL_ERROR"
    assert "Task group" in caplog.text


def test_a_list_of_origins_that_holds_something_else_stops_the_start() -> None:
    with pytest.raises(BedivereError, match="BEDIVERE_ALLOWED_ORIGINS"):
        echo_app(allowed_origins=("nonsense",))


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The port of a real server of the app."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    number: int = listener.getsockname()[1]
    config = uvicorn.Config(echo_app(number), log_config=None, lifespan="on", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.005)
    yield number
    server.should_exit = True
    thread.join()
    listener.close()


def over_http(
    port: int, method: str, path: str = "/mcp", body: bytes | Iterable[bytes] | None = None, **headers: str
) -> tuple[http.client.HTTPResponse, bytes, float]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    began = time.perf_counter()
    connection.request(method, path, body=body, headers=sent)
    response = connection.getresponse()
    content = response.read()
    elapsed = time.perf_counter() - began
    connection.close()
    return response, content, elapsed


@pytest.mark.parametrize(
    "headers", [{}, {"mcp_protocol_version": "2025-11-25"}, {"mcp_protocol_version": "2026-07-28"}]
)
def test_a_real_server_answers_the_get_that_asks_for_a_stream_with_405_at_once(
    port: int, headers: dict[str, Any]
) -> None:
    response, _, elapsed = over_http(port, "GET", accept="text/event-stream", **headers)

    assert response.status == 405
    assert response.headers["allow"] == "POST"
    # A stream would be held open until the client's five seconds are over.
    assert elapsed < 1


def test_a_real_server_answers_a_post(port: int) -> None:
    body = json.dumps(LIST_TOOLS).encode()
    response, content, _ = over_http(port, "POST", body=body, content_type="application/json")
    assert response.status == 200
    assert json.loads(content)["id"] == 1


def test_a_real_server_answers_head_without_a_body(port: int) -> None:
    response, content, _ = over_http(port, "HEAD")
    assert (response.status, content) == (405, b"")


@pytest.mark.parametrize("path", ["//mcp", "/%2Fmcp", "/mcp%2F", "/x/../mcp", "/.well-known/oauth-protected-resource"])
def test_a_real_server_answers_other_paths_with_404(port: int, path: str) -> None:
    response, content, _ = over_http(port, "POST", path, body=b"{}", content_type="application/json")
    assert response.status == 404
    assert json.loads(content)["error"]["data"]["code"] == "PATH_NOT_FOUND"


@pytest.mark.parametrize("host", ["evil.example", "localhost", "a:b:c"])
def test_a_real_server_answers_other_hosts_with_403(port: int, host: str) -> None:
    response, content, _ = over_http(port, "POST", body=b"{}", host=host, content_type="application/json")
    assert response.status == 403
    assert json.loads(content)["error"]["data"]["code"] == "HOST_REFUSED"


@pytest.mark.parametrize("size", [65_537, 10_000_000])
def test_a_client_that_sends_too_much_gets_to_read_why_not(port: int, size: int) -> None:
    response, content, _ = over_http(port, "POST", body=b" " * size, content_type="application/json")
    assert response.status == 413
    assert json.loads(content)["error"]["data"]["code"] == "BODY_TOO_LARGE"


def test_a_client_that_sends_too_much_in_chunks_gets_to_read_why_not(port: int) -> None:
    chunks = iter([b" " * 60_000] * 100)
    response, content, _ = over_http(port, "POST", body=chunks, content_type="application/json")
    assert response.status == 413
    assert json.loads(content)["error"]["data"]["code"] == "BODY_TOO_LARGE"
