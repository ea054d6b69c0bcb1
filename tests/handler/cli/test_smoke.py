"""`bedivere smoke`: what it finds in servers that are right, wrong, slow to load, or not there."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner

from handler import protocol
from handler import smoke as checks
from handler.access import issuing
from handler.access.caller import EVERY_TOOL
from handler.cli import app
from handler.main import AppHandler, make_handler
from handler.smoke import ERAS, REFUSALS, Check, Unreachable, smoke
from handler.tools import TOOLS
from retrieval.errors import BedivereError, ErrorCode
from retrieval.retriever import Retriever
from retrieval.settings import Settings
from retrieval.types import ContextReply
from tests.lambda_bridge import LambdaTransport

URL = "https://a1b2c3d4e5.execute-api.eu-west-1.amazonaws.com/mcp"
VISIT = ("connect", "list tools", "search", "context")
ALL = [f"{era}: {step}" for era in ERAS for step in VISIT] + list(REFUSALS)

Serve = Callable[..., LambdaTransport]


@pytest.fixture
def serve(handbook: Path) -> Iterator[Serve]:
    """serve(setting=...) -> a transport to a handler of the handbook, which reports one domain whatever is asked."""
    handlers: list[AppHandler] = []

    def make(**settings: Any) -> LambdaTransport:
        settings.setdefault("database", str(handbook))
        handlers.append(make_handler(Settings(**settings)))
        return LambdaTransport(handlers[-1])

    yield make
    for handler in handlers:
        handler.close()


def found(transport: httpx2.AsyncBaseTransport, query: str | None = None, url: str = URL) -> dict[str, Check]:
    return {check.name: check for check in asyncio.run(smoke(url, query, transport=transport, pause=0))}


def failed(checked: dict[str, Check]) -> dict[str, str]:
    return {name: check.detail for name, check in checked.items() if not check.passed}


def test_a_server_that_is_right_passes_every_check_in_order(serve: Serve) -> None:
    checked = found(serve())

    assert list(checked) == ALL
    assert failed(checked) == {}
    assert checked["stateless: connect"].detail == "bedivere, 2026-07-28"
    assert checked["handshake: connect"].detail == "bedivere, 2025-11-25"
    assert checked["refuses a foreign Origin"].detail == "403 ORIGIN_REFUSED"
    assert all(check.milliseconds >= 0 for check in checked.values())


def test_the_query_is_the_title_of_a_main_document_unless_one_is_given(serve: Serve) -> None:
    transport = serve()
    assert "'Handbook'" in found(transport)["stateless: search"].detail
    assert "'signing key'" in found(transport, "signing key")["handshake: search"].detail


def test_a_query_without_a_hit_is_a_miss(serve: Serve) -> None:
    assert failed(found(serve(), "zeppelin")) == {
        f"{era}: {step}": detail
        for era in ERAS
        for step, detail in (("search", "no hit for 'zeppelin'"), ("context", "no passage"))
    }


def test_a_corpus_without_titles_needs_a_query(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: object) -> ContextReply:
        return ContextReply(mode="warmStart", search_type="text", table="documents", context="", sources=[], left_out=0)

    monkeypatch.setattr(Retriever, "context", nothing)
    assert "pass --query" in failed(found(serve()))["stateless: search"]


def test_a_limit_that_the_owner_raised_is_no_miss(serve: Serve) -> None:
    assert failed(found(serve(max_body_bytes=4_194_304))) == {}


def test_a_server_that_answers_every_page_and_every_host_is_found_out(serve: Serve) -> None:
    assert failed(found(serve(allowed_origins=("*",), allowed_hosts=("*",)))) == {
        "refuses a foreign Origin": "answered 200, not 403",
        "refuses a foreign Host": "answered 200, not 403",
    }


def test_another_path_than_the_endpoint_fails_in_readable_words(serve: Serve) -> None:
    misses = failed(found(serve(), url=URL + "x"))

    assert "PATH_NOT_FOUND" in misses["stateless: connect"]
    assert misses["refuses GET"] == "answered 404, not 405"
    assert not any("\n" in detail for detail in misses.values())


def test_a_database_that_is_missing_is_said_by_its_code(serve: Serve, tmp_path: Path) -> None:
    misses = failed(found(serve(database=str(tmp_path / "absent"))))
    assert set(misses) == {f"{era}: {step}" for era in ERAS for step in ("search", "context")}
    assert all(detail.startswith("DATABASE_NOT_FOUND: ") for detail in misses.values())


@pytest.mark.parametrize("code", [ErrorCode.DATASET_LOADING, ErrorCode.DEADLINE_EXCEEDED])
def test_a_dataset_that_is_loading_is_asked_again(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, code: ErrorCode
) -> None:
    answers = iter([True, True])
    real = Retriever.context

    async def loading(self: Retriever, *arguments: Any) -> ContextReply:
        if next(answers, False):
            raise BedivereError(code, "The dataset is still being fetched: call again.")
        return await real(self, *arguments)

    monkeypatch.setattr(Retriever, "context", loading)
    assert failed(found(serve())) == {}
    assert next(answers, None) is None


def test_a_dataset_that_never_loads_is_given_up(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async def loading(*_: object) -> ContextReply:
        raise BedivereError(ErrorCode.DATASET_LOADING, "The dataset is still being fetched: call again.")

    monkeypatch.setattr(Retriever, "context", loading)
    monkeypatch.setattr(checks, "_LOADING_SECONDS", -1.0)
    assert failed(found(serve()))["stateless: search"].startswith("DATASET_LOADING: ")


def test_a_call_that_is_cut_short_after_one_was_answered_is_a_miss(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slow(*_: object) -> ContextReply:
        raise BedivereError(ErrorCode.DEADLINE_EXCEEDED, "No result within 4.0 seconds: call again.")

    monkeypatch.setattr(Retriever, "context", slow)
    misses = failed(found(serve(), "signing key"))
    assert misses == {f"{era}: context": "DEADLINE_EXCEEDED: No result within 4.0 seconds: call again." for era in ERAS}


def test_a_server_of_one_era_only_is_found_out(serve: Serve) -> None:
    # GIVEN a server that knows no discovery, so that clients fall back to the handshake
    served = serve()

    class HandshakeOnly(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            body = await request.aread()
            if b"server/discover" not in body:
                return await served.handle_async_request(request)
            error = {"code": -32601, "message": "Method not found"}
            answer = {"jsonrpc": "2.0", "id": json.loads(body)["id"], "error": error}
            return httpx2.Response(404, json=answer, request=request)

    assert failed(found(HandshakeOnly())) == {"stateless: connect": "speaks 2025-11-25, a revision of the other era"}


def test_a_server_without_a_tool_is_found_out(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "TOOLS", {name: tool for name, tool in TOOLS.items() if name != "lancedb_query"})
    misses = failed(found(serve(), "signing key"))
    assert misses["stateless: list tools"] == f"lancedb_query not among {len(TOOLS) - 1} tools"
    assert "Unknown tool 'lancedb_query'" in misses["handshake: context"]


class Another(httpx2.AsyncBaseTransport):
    """A web server that is no MCP server: whatever is asked, it answers the same."""

    def __init__(self, status: int, text: str) -> None:
        self._status = status
        self._text = text

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        await request.aread()
        return httpx2.Response(self._status, text=self._text, request=request)


@pytest.mark.parametrize(
    ("status", "text", "check", "detail"),
    [
        (200, "<html>", "refuses GET", "answered 200, not 405"),
        (404, "<html>", "refuses an unknown path", "answered 404 without JSON that says PATH_NOT_FOUND"),
        (404, '{"message":"Not Found"}', "refuses an unknown path", "without JSON that says PATH_NOT_FOUND"),
        (404, '{"error":{"data":{"code":"X"}}}', "refuses an unknown path", "answered 404 with X, not PATH_NOT_FOUND"),
        (413, "too large", "refuses an oversize body", "answered 413 without JSON that says BODY_TOO_LARGE"),
    ],
)
def test_a_server_that_is_another_fails_in_one_line_a_check(status: int, text: str, check: str, detail: str) -> None:
    misses = failed(found(Another(status, text)))

    assert {f"{era}: connect" for era in ERAS} <= misses.keys()
    assert detail in misses[check]
    assert not any("\n" in found for found in misses.values())


def test_a_server_that_never_answers_is_unreachable() -> None:
    class Silent(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            raise httpx2.ReadTimeout("", request=request)

    with pytest.raises(Unreachable, match="nothing answered within 40 seconds"):
        found(Silent())


# The command


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["smoke", *arguments], env={"COLUMNS": "160"})
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def saying(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """saying(check, ...) has the command find these checks."""

    def say(*given: Check) -> None:
        async def found(*_: object, **__: object) -> list[Check]:
            return list(given)

        monkeypatch.setattr(checks, "smoke", found)

    return say


PASSED = Check("refuses GET", passed=True, milliseconds=12.4, detail="405 METHOD_NOT_ALLOWED")
MISSED = Check("stateless: search", passed=False, milliseconds=3.0, detail="no hit for '[bold]'")


def test_checks_that_pass_are_a_table_and_exit_code_0(saying: Callable[..., None]) -> None:
    saying(PASSED, PASSED)
    code, out, _ = run(URL)
    assert code == 0
    assert out.splitlines()[1].split() == ["refuses", "GET", "pass", "12", "405", "METHOD_NOT_ALLOWED"]
    assert out.splitlines()[-1] == "All 2 checks passed."


def test_a_check_that_fails_is_exit_code_1_and_its_words_are_printed_as_they_are(saying: Callable[..., None]) -> None:
    saying(PASSED, MISSED)
    code, out, err = run(URL)
    assert code == 1
    assert "FAIL" in out
    assert "no hit for '[bold]'" in out
    assert err.startswith("CHECKS_FAILED: 1 of 2 checks failed: ")


def test_without_a_dataset_nothing_is_searched_and_all_else_is_tried(serve: Serve, tmp_path: Path) -> None:
    nothing = serve(database=str(tmp_path / "none"))

    checked = {check.name: check for check in asyncio.run(smoke(URL, dataset=False, transport=nothing, pause=0))}

    assert list(checked) == [name for name in ALL if not name.endswith((": search", ": context"))]
    assert failed(checked) == {}


def test_the_command_says_whether_there_is_a_dataset(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    async def found(*_: object, dataset: bool, bearer: str | None) -> list[Check]:
        del bearer
        asked.append(dataset)
        return [PASSED]

    monkeypatch.setattr(checks, "smoke", found)
    run(URL)
    run(URL, "--without-dataset")
    assert asked == [True, False]


def test_an_endpoint_that_takes_keys_is_smoked_with_one_and_once_without(serve: Serve, tmp_path: Path) -> None:
    place = str(tmp_path / "keys.json")
    key, _ = issuing.create(place, "smoke", scopes=EVERY_TOOL)
    transport = serve(access="keys", keys=place)

    checked = asyncio.run(smoke(URL, transport=transport, pause=0, bearer=key))

    assert [check.name for check in checked] == [*ALL, "no credential"]
    assert [check for check in checked if not check.passed] == []


def test_an_endpoint_that_lets_in_anyone_after_all_fails_the_smoke(serve: Serve) -> None:
    checked = asyncio.run(smoke(URL, transport=serve(), pause=0, bearer="something"))

    (missed,) = [check for check in checked if not check.passed]
    assert (missed.name, missed.detail) == ("no credential", "status 200 instead of 401 with WWW-Authenticate")


def test_the_credential_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    async def found(*_: object, bearer: str | None, **__: object) -> list[Check]:
        asked.append(bearer)
        return [PASSED]

    monkeypatch.setattr(checks, "smoke", found)
    monkeypatch.setenv("BEDIVERE_BEARER", "a key")
    run(URL)
    assert asked == ["a key"]


def test_json_holds_every_check(saying: Callable[..., None]) -> None:
    saying(PASSED, MISSED)
    code, out, _ = run(URL, "--json")
    report = json.loads(out)
    assert (code, report["url"], report["passed"], report["code"]) == (1, URL, False, "CHECKS_FAILED")
    assert report["checks"][0] == {
        "name": "refuses GET",
        "passed": True,
        "milliseconds": 12.4,
        "detail": "405 METHOD_NOT_ALLOWED",
    }


@pytest.fixture
def dead_url() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/mcp"


def test_a_dead_url_is_one_readable_line(dead_url: str) -> None:
    code, out, err = run(dead_url)
    assert (code, out) == (1, "")
    assert err.startswith(f"ENDPOINT_UNREACHABLE: Cannot reach {dead_url}: ")
    assert len(err.splitlines()) == 1


def test_a_dead_url_is_json_too_where_json_was_asked(dead_url: str) -> None:
    code, out, err = run(dead_url, "--json")
    report = json.loads(out)
    assert (code, err, report["passed"], report["checks"]) == (1, "", False, [])
    assert report["code"] == "ENDPOINT_UNREACHABLE"
    assert report["problem"]


@pytest.mark.parametrize(
    "url", ["docs.example.com/mcp", "ftp://docs.example.com", "https://", "http://a:x/", "http://[/"]
)
def test_what_is_no_url_is_a_usage_error(url: str) -> None:
    code, _, err = run(url)
    assert code == 2
    assert "http://" in err
