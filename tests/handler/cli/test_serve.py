"""`bedivere serve`: options, the banner and what stops a start."""

from __future__ import annotations

import base64
import json
import socket
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from typer.testing import CliRunner

from handler import __version__
from handler.cli import app
from handler.cli.serve import client_configurations

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
    assert errors.startswith(f"Cannot listen on 127.0.0.1 port {port}: ")
    assert "Traceback" not in errors


@pytest.mark.parametrize("host", ["foo.invalid", "203.0.113.7"])
def test_an_address_that_is_not_here_is_told_with_its_cause(host: str) -> None:
    code, errors = run("serve", "--http", "0", "--host", host)
    assert code == 1
    assert errors.startswith(f"Cannot listen on {host} port 0: ")
    assert "Unknown error" not in errors


def test_the_version_is_printed() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"bedivere {__version__}\n")
