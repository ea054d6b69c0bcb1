"""Real processes for real clients."""

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

from tests import planted
from tests.conftest import SETTINGS_PREFIXES

BEDIVERE = [sys.executable, "-m", "handler.cli"]
_URL = re.compile(r"http://\S+/\S+")


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

    Fails at the end where its log holds a planted secret.
    """
    port = () if options and options[0].isdigit() else ("0",)
    command = [*BEDIVERE, "serve", "--http", *port, *options]
    secrets = {"AWS_SECRET_ACCESS_KEY": planted.AWS_SECRET, "AWS_SESSION_TOKEN": planted.AWS_TOKEN}
    environment = clean_environment(PYTHONUNBUFFERED="1", **secrets, **settings)
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as log,
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
            written = log.read()
            # For pytest to show with a failure.
            sys.stderr.write(written)
        assert not planted.spilt(first + written)


@pytest.fixture(scope="session")
def http_server(handbook: Path) -> Iterator[str]:
    """The URL of a server of the handbook, in a process of its own."""
    with serving("--db", str(handbook)) as url:
        yield url
