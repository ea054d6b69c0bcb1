"""Real processes for real clients, all of them overheard: no test passes that made one write a secret or a question."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import SETTINGS_PREFIXES
from tests.e2e.heard import HEARD
from tests.e2e.listening import free_ports
from tests.token_server import TokenServer, running_token_server

BEDIVERE = [sys.executable, "-m", "handler.cli"]
_URL = re.compile(r"http://\S+/\S+")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    with HEARD.listening():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """After the end of a test, and of what it was the last to use, searches what was written and answered."""
    report = yield
    if report.when == "teardown":
        for name, text in report.sections:
            HEARD.wrote(f"{name} of {item.nodeid}", text, is_log=True)
        if found := HEARD.spilt():
            report.outcome, report.longrepr = "failed", "Written or answered:\n" + "\n".join(found)
    return report


def clean_environment(**settings: str) -> dict[str, str]:
    """The environment of this process without settings of the server, and with `settings`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS_PREFIXES)}
    return {**kept, **settings}


def ended(process: subprocess.Popen[str], seconds: float = 20) -> tuple[int, str]:
    """The exit code of `process` and what it wrote to standard error; killed and failed where it does not end."""
    try:
        _, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return process.returncode, errors or ""


@contextmanager
def serving(*options: str, **settings: str) -> Generator[str]:
    """`bedivere serve --http` with `options`, on a free port unless they begin with one; yields its URL.

    It logs at level debug unless `settings` say another.
    """
    port = () if options and options[0].isdigit() else ("0",)
    command = [*BEDIVERE, "serve", "--http", *port, *options]
    environment = clean_environment(**{"PYTHONUNBUFFERED": "1", "BEDIVERE_LOG_LEVEL": "debug", **settings})
    with (
        tempfile.NamedTemporaryFile("w+", encoding="utf-8") as log,
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True) as server,
    ):
        assert server.stdout is not None
        try:
            first = server.stdout.readline()
            found = _URL.search(first)
            assert found, first
            yield found.group()
        finally:
            server.terminate()
            ended(server)
            log.seek(0)
            # For pytest to show with a failure.
            sys.stderr.write(log.read())


@contextmanager
def serving_with_tokens(issuer: TokenServer, database: Path) -> Generator[str]:
    """`serving` of `database` for who has a token that `issuer` made for it."""
    (port,) = free_ports(1)
    own = f"http://127.0.0.1:{port}/mcp"
    settings = {"BEDIVERE_ACCESS": "jwt", "BEDIVERE_JWT_ISSUER": issuer.issuer, "BEDIVERE_JWT_AUDIENCE": own}
    with serving(str(port), "--db", str(database), **settings) as url:
        assert url == own
        yield url


@pytest.fixture(scope="session")
def http_server(handbook: Path) -> Iterator[str]:
    """The URL of a server of the handbook, in a process of its own."""
    with serving("--db", str(handbook)) as url:
        yield url


@pytest.fixture(scope="module")
def issuer() -> Iterator[TokenServer]:
    """A token server on loopback."""
    with running_token_server() as server:
        yield server


@pytest.fixture(scope="module")
def url(issuer: TokenServer, handbook: Path) -> Iterator[str]:
    """The URL of a server of the handbook that takes the issuer's tokens."""
    with serving_with_tokens(issuer, handbook) as served:
        yield served
