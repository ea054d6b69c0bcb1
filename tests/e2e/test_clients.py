"""The Python SDK's client over every way in: stdio, HTTP and the Lambda handler, in both protocol eras."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent

from handler.main import make_handler
from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options
from retrieval.settings import load_settings
from tests.e2e.conftest import BEDIVERE, clean_environment, ended, serving
from tests.e2e.emulator import emulated
from tests.lambda_bridge import LambdaTransport

pytestmark = [pytest.mark.anyio, pytest.mark.e2e]

Connect = Callable[[Path, str], AbstractAsyncContextManager[Client]]

EVERY_CALL: list[tuple[str, dict[str, Any]]] = [
    ("lancedb_search", {"query": "rotate the signing key"}),
    ("lancedb_search", {"query": "zeppelin", "searchType": "hybrid"}),
    ("lancedb_search", {"query": "x", "table": "nope"}),
    ("lancedb_query", {"question": "how is a backup restored?"}),
    ("lancedb_query", {"warmStart": True}),
    ("lancedb_fetch", {"path": "guides/long.md", "maxChars": 1000}),
    ("lancedb_fetch", {"path": "nope.md"}),
    ("lancedb_catalog", {"limit": 2}),
    ("lancedb_status", {"verbose": True}),
    ("lancedb_version", {}),
]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def over_stdio(database: Path, mode: str) -> AsyncGenerator[Client]:
    parameters = StdioServerParameters(
        command=BEDIVERE[0],
        args=[*BEDIVERE[1:], "serve", "--stdio"],
        env=clean_environment(LANCEDB_PATH=str(database)),
    )
    async with Client(stdio_client(parameters), mode=mode) as client:
        yield client


@asynccontextmanager
async def over_http(database: Path, mode: str) -> AsyncGenerator[Client]:
    with serving("--db", str(database)) as url:
        async with Client(url, mode=mode) as client:
            yield client


@asynccontextmanager
async def over_lambda(database: Path, mode: str) -> AsyncGenerator[Client]:
    transport = LambdaTransport(make_handler(load_settings(database=str(database))))
    async with (
        httpx2.AsyncClient(transport=transport) as http,
        Client(streamable_http_client("https://docs.example.com/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


@asynccontextmanager
async def over_image(database: Path, mode: str) -> AsyncGenerator[Client]:
    """The function on what the Lambda image holds, and nothing else."""
    with (
        tempfile.TemporaryDirectory() as folder,
        emulated({"LANCEDB_PATH": str(database)}, Path(folder)) as function,
    ):
        async with Client(function.url, mode=mode) as client:
            yield client


WAYS = pytest.mark.parametrize("connect", [over_stdio, over_http, over_lambda, over_image])
ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])


def text_of(result: CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


def fingerprint(folder: Path) -> dict[str, str]:
    """Every file below `folder` with its content's hash and its time of change."""
    return {
        str(file.relative_to(folder)): f"{hashlib.sha256(file.read_bytes()).hexdigest()} {file.stat().st_mtime_ns}"
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


@WAYS
@ERAS
async def test_an_agent_lists_searches_and_reads_with_a_citation(connect: Connect, mode: str, handbook: Path) -> None:
    async with connect(handbook, mode) as client:
        assert client.protocol_version == ("2026-07-28" if mode == "auto" else "2025-11-25")
        assert len((await client.list_tools()).tools) == 6
        found = await client.call_tool("lancedb_search", {"query": "how often is the signing key rotated"})
        assert found.structured_content["hits"][0]["path"] == "keys.md"
        read = await client.call_tool("lancedb_query", {"question": "how often is the signing key rotated"})
        assert "ninety days" in text_of(read)
        chunk = await client.call_tool("lancedb_fetch", {"id": found.structured_content["hits"][0]["id"], "after": 1})
        assert "VAULT_ADDR" in chunk.structured_content["text"]
        wrong = await client.call_tool("lancedb_search", {"query": "x", "top_k": 3})
        assert wrong.is_error
        assert "'limit'" in text_of(wrong)


@WAYS
async def test_no_tool_changes_any_file_of_the_database(connect: Connect, handbook: Path, tmp_path: Path) -> None:
    database = tmp_path / "database"
    shutil.copytree(handbook, database, symlinks=True)
    before = fingerprint(database)
    async with connect(database, "auto") as client:
        for tool, arguments in EVERY_CALL:
            await client.call_tool(tool, arguments)
    assert fingerprint(database) == before


@WAYS
async def test_a_table_that_is_indexed_again_is_served_without_a_restart(connect: Connect, tmp_path: Path) -> None:
    source, database = tmp_path / "docs", tmp_path / "database"
    source.mkdir()
    (source / "boats.md").write_text("# Boats\n\nThe old boat is red.\n")
    build_table(Options(source=source, database=database))
    async with connect(database, "auto") as client:
        assert "old boat" in text_of(await client.call_tool("lancedb_search", {"query": "boat"}))
        for colour in ("blue", "green", "white"):
            (source / "boats.md").write_text(f"# Boats\n\nThe new boat is {colour}.\n")
            build_table(Options(source=source, database=database))
            answer = text_of(await client.call_tool("lancedb_search", {"query": "boat"}))
            assert f"new boat is {colour}" in answer
            assert "old boat" not in answer


@WAYS
async def test_a_database_that_appears_after_the_start_is_served(connect: Connect, tmp_path: Path) -> None:
    database = tmp_path / "database"
    async with connect(database, "auto") as client:
        missing = await client.call_tool("lancedb_search", {"query": "boat"})
        assert text_of(missing).startswith("DATABASE_NOT_FOUND: ")
        assert not database.exists()
        (tmp_path / "docs").mkdir()
        (tmp_path / "docs" / "boats.md").write_text("# Boats\n\nA red boat.\n")
        build_table(Options(source=tmp_path / "docs", database=database))
        assert "red boat" in text_of(await client.call_tool("lancedb_search", {"query": "boat"}))


def test_stdio_speaks_protocol_only_and_ends_when_its_input_closes(handbook: Path) -> None:
    request = (
        '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
        '"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}\n'
    )
    ended = subprocess.run(
        [*BEDIVERE, "serve"],
        env=clean_environment(LANCEDB_PATH=str(handbook), BEDIVERE_LOG_LEVEL="debug"),
        input=request,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = ended.stdout.splitlines()
    assert ended.returncode == 0
    assert len(lines) == 1
    assert '"serverInfo"' in lines[0]


def test_a_script_that_pipes_its_requests_in_gets_every_answer(handbook: Path) -> None:
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    call = {"name": "lancedb_search", "arguments": {"query": "signing key"}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        *({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": call} for number in (2, 3)),
    ]
    done = subprocess.run(
        [*BEDIVERE, "serve", "--stdio"],
        env=clean_environment(LANCEDB_PATH=str(handbook)),
        input="\n".join(map(json.dumps, messages)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    answers = {answer["id"]: answer["result"] for answer in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 0
    assert answers.keys() == {1, 2, 3}
    assert answers[2]["structuredContent"]["hits"] == answers[3]["structuredContent"]["hits"] != []


def test_a_line_that_is_no_message_is_answered_and_the_next_one_too(handbook: Path) -> None:
    ping = '{"jsonrpc":"2.0","id":1,"method":"ping"}'
    lines = ["garbage", '{"jsonrpc":"2.0","id":5,"method":"ping","params":{"a":"\\ud800"}}', "[" * 5000, ping]
    with subprocess.Popen(
        [*BEDIVERE, "serve"],
        env=clean_environment(LANCEDB_PATH=str(handbook)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write("\n".join(lines) + "\n")
        server.stdin.flush()
        # A client's input stays open until it has its answers.
        answers = [json.loads(server.stdout.readline()) for _ in lines]
        code, errors = ended(server)
    # What names a method and itself is answered by its name, so that its sender does not wait for ever.
    assert [answer["id"] for answer in answers] == [None, 5, None, 1]
    assert [answer.get("error", {}).get("data", {}).get("code") for answer in answers[:3]] == ["BODY_NOT_JSON"] * 3
    assert code == 0
    assert "garbage" not in errors


def test_ctrl_c_ends_a_server_over_stdio_though_its_input_stays_open(handbook: Path) -> None:
    with subprocess.Popen(
        [*BEDIVERE, "serve"],
        env=clean_environment(LANCEDB_PATH=str(handbook)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write('{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        server.stdin.flush()
        assert '"id":1' in server.stdout.readline()
        server.send_signal(signal.SIGINT)
        # Its input stays open: only the signal can end it.
        try:
            assert server.wait(timeout=20) == 0
        finally:
            server.kill()


@pytest.mark.parametrize(
    ("head", "status", "code"),
    [
        ("POST /mcp HTTP/1.1\r\nContent-Length: 0", 403, "HOST_REFUSED"),
        ("POST /mcp HTTP/1.1\r\nHost: localhost\r\nHost: localhost", 403, "HOST_REFUSED"),
        ("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1", 400, "BODY_NOT_JSON"),
        ("NONSENSE", 400, "BODY_NOT_JSON"),
    ],
)
def test_what_the_http_parser_refuses_is_answered_in_the_same_shape(
    http_server: str, head: str, status: int, code: str
) -> None:
    url = urlsplit(http_server)
    with socket.create_connection((url.hostname or "", url.port or 0), timeout=20) as connection:
        connection.sendall(f"{head}\r\n\r\n".encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    assert answer.startswith(f"HTTP/1.1 {status} ")
    assert "content-type: application/json" in answer
    assert json.loads(answer.partition("\r\n\r\n")[2])["error"]["data"] == {"code": code}


def test_ctrl_c_ends_an_http_server_quietly(handbook: Path) -> None:
    command = [*BEDIVERE, "serve", "--http", "0", "--db", str(handbook)]
    environment = clean_environment(PYTHONUNBUFFERED="1")
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        while not server.stdout.readline().startswith("Stop it"):
            assert server.poll() is None
        server.send_signal(signal.SIGINT)
        code, errors = ended(server)
    assert code == 0
    assert "Traceback" not in errors
