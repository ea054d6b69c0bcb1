"""`bedivere serve`: options, the banner and what stops a start."""

from __future__ import annotations

import base64
import json
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from typer.testing import CliRunner

from handler import __version__, local, stdio
from handler.cli import app
from handler.cli.serve import client_configurations
from retrieval.retriever import Retriever
from tests.embedding_server import EmbeddingServer
from tests.retrieval.asking import index

URL = "http://127.0.0.1:3000/mcp"


def run(*arguments: str, **environment: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, [*arguments], env=environment)
    return result.exit_code, result.stderr


def test_claude_code_is_one_command() -> None:
    assert dict(client_configurations(URL))["Claude Code"] == f"claude mcp add --transport http bedivere {URL}"


def test_a_json_file_names_the_server_and_its_kind() -> None:
    configuration = json.loads(dict(client_configurations(URL))[".mcp.json"])
    assert configuration == {"mcpServers": {"bedivere": {"type": "http", "url": URL}}}


def test_the_vs_code_link_holds_the_server_as_json() -> None:
    link = urlsplit(dict(client_configurations(URL))["VS Code"])
    assert link.scheme == "vscode"
    assert json.loads(unquote(link.query)) == {"name": "bedivere", "type": "http", "url": URL}


def test_the_cursor_link_holds_the_server_in_base64() -> None:
    query = parse_qs(urlsplit(dict(client_configurations(URL))["Cursor"]).query)
    assert query["name"] == ["bedivere"]
    assert json.loads(base64.b64decode(query["config"][0])) == {"url": URL}


def test_a_bad_setting_stops_the_start_with_its_name() -> None:
    code, errors = run("serve", "--http", LANCEDB_DEFAULT_LIMIT="many")
    assert code == 2
    assert errors == "SETTING_INVALID: LANCEDB_DEFAULT_LIMIT must be a whole number from 1 to 200.\n"


@pytest.mark.parametrize(
    "arguments",
    [("--stdio", "--http"), ("--host", "127.0.0.1"), ("--path", "/x"), ("--stdio", "--base-path", "/x"), ("99999",)],
)
def test_options_that_do_not_go_together_are_a_usage_error(arguments: tuple[str, ...]) -> None:
    assert run("serve", *arguments)[0] == 2


def test_a_port_that_is_taken_is_told_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, errors = run("serve", "--http", str(port))
    assert code == 1
    assert errors.startswith(f"ADDRESS_UNAVAILABLE: Cannot listen on 127.0.0.1 port {port}: ")
    assert "Traceback" not in errors


@pytest.mark.parametrize("host", ["foo.invalid", "203.0.113.7"])
def test_an_address_that_is_not_here_is_told_with_its_cause(host: str) -> None:
    code, errors = run("serve", "--http", "0", "--host", host)
    assert code == 1
    assert errors.startswith(f"ADDRESS_UNAVAILABLE: Cannot listen on {host} port 0: ")
    assert "Unknown error" not in errors


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a start does, up to where it would serve, in order."""
    done: list[str] = []

    def over_http(_app: object, listener: socket.socket, *, announce: Callable[[], None]) -> None:
        # To ask a socket that does not listen is refused.
        socket.create_connection(listener.getsockname()[:2]).close()
        listener.close()
        done.append("listens")
        announce()

    async def over_stdio(_server: object) -> None:
        done.append("serves")

    monkeypatch.setattr(local, "serve_http", over_http)
    monkeypatch.setattr(stdio, "serve_stdio", over_stdio)
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    monkeypatch.setattr(Retriever, "warm", lambda _: done.append("warms"))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    return done


def test_what_a_first_question_by_meaning_waits_for_is_begun_once_it_listens(steps: list[str], handbook: Path) -> None:
    assert run("serve", "--http", "0", "--db", str(handbook)) == (0, "")
    assert steps == ["listens", "warms"]


def test_over_stdio_it_is_begun_as_well(steps: list[str], handbook: Path) -> None:
    assert run("serve", "--stdio", "--db", str(handbook))[0] == 0
    assert sorted(steps) == ["serves", "warms"]


@pytest.mark.usefixtures("steps")
def test_a_start_says_that_vectors_are_there_and_unused(tmp_path: Path, embedding_server: EmbeddingServer) -> None:
    database = str(index(tmp_path, {"a.md": "A boat."}, embedding_server))
    _, unused = run("serve", "--http", "0", "--db", database)
    assert unused.startswith("note: documents: The table's vectors are not used")
    assert run("serve", "--http", "0", "--db", database, **embedding_server.environment()) == (0, "")


@pytest.mark.usefixtures("steps")
def test_a_start_without_a_database_names_the_option() -> None:
    assert "run bedivere init, pass --db, or set LANCEDB_PATH" in run("serve", "--http", "0")[1]


@pytest.mark.usefixtures("steps")
def test_one_chunk_is_one_chunk(tmp_path: Path) -> None:
    database = str(index(tmp_path, {"a.md": "A boat."}))
    assert "Table documents: 1 chunk\n" in CliRunner().invoke(app, ["serve", "--http", "0", "--db", database]).stdout


def test_the_version_is_printed() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"bedivere {__version__}\n")


@pytest.mark.usefixtures("steps")
def test_a_folder_that_is_not_there_is_told_over_stdio_as_over_http(tmp_path: Path) -> None:
    over_stdio, over_http = (
        run("serve", *way, "--db", str(tmp_path / "nowhere"))[1] for way in (("--stdio",), ("--http", "0"))
    )
    assert over_stdio == over_http
    assert over_stdio.startswith("warning: DATABASE_NOT_FOUND: ")
