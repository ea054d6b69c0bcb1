"""All that is written and answered while end-to-end tests run, searched for planted secrets and for what was asked.

No test lists anything. While one runs, every process that is started is overheard, whoever starts it and wherever its
output goes; every answer that a client reads is kept, and so is what is written within the tests' own process. Secrets
must be in none of it. Questions must not be in logs: standard error, files of logs, and what pytest captured. An answer
may hold them, and so may standard output, by which a process answers whoever started it.

Secrets are those of `tests.planted`, and each credential that is made for a request or that a request carries.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import httpx2
from mcp.client import Client
from mcp_types import CallToolResult

from handler.access import issuing
from tests import planted

_SHORTEST_CREDENTIAL: Final = 12
"""A shorter one was made up to be refused, and stands in other texts by chance."""
_OVERLAP: Final = 4096
"""Bytes that are searched again with those that follow: what is looked for may come in two pieces."""
_AT_ONCE: Final = 65_536


@dataclass
class _Output:
    source: str
    is_log: bool
    written: bytearray = field(default_factory=bytearray)
    file: int | None = None
    """The descriptor of a file that is being written; it can be read after the file is deleted."""
    searched: int = 0

    def fresh(self) -> str:
        """What has been written since it was last asked for, and a little before that; nothing where nothing was."""
        while self.file is not None and (data := os.read(self.file, _AT_ONCE)):
            self.written += data
        start, ended, self.searched = self.searched, len(self.written), len(self.written)
        return self.written[max(0, start - _OVERLAP) : ended].decode(errors="replace") if start < ended else ""


class Heard:
    """What was written and answered, and what must not be in it."""

    def __init__(self) -> None:
        self.secrets = dict(planted.PLANTED)
        self.questions: set[str] = set()
        self._outputs: list[_Output] = []

    def keep_secret(self, name: str, secret: str) -> None:
        if len(secret) >= _SHORTEST_CREDENTIAL and secret not in self.secrets.values():
            self.secrets[f"{name}, number {len(self.secrets)}"] = secret

    def wrote(self, source: str, text: str, *, is_log: bool) -> None:
        """`source` has written `text` to its log, or answered it."""
        self._outputs.append(_Output(source, is_log, bytearray(text, "utf-8", "replace")))

    def spilt(self) -> list[str]:
        """What must not be in what is new since the last time, and is: where, and what."""
        return [
            f"{output.source}: {what}"
            for output in self._outputs
            for what in planted.spilt(output.fresh(), self.questions if output.is_log else (), self.secrets)
        ]

    @contextmanager
    def listening(self) -> Generator[None]:
        """Everything is overheard until it ends, and the planted credentials of AWS are in the environment."""
        with (
            patch.dict(
                os.environ, {"AWS_SECRET_ACCESS_KEY": planted.AWS_SECRET, "AWS_SESSION_TOKEN": planted.AWS_TOKEN}
            ),
            patch.object(subprocess, "Popen", self._processes(subprocess.Popen)),
            patch.object(Client, "call_tool", self._call_tool(Client.call_tool)),
            patch.object(httpx2.Response, "read", self._read(httpx2.Response.read)),
            patch.object(httpx2.Response, "aread", self._aread(httpx2.Response.aread)),
            patch.object(issuing, "create", self._create(issuing.create)),
        ):
            yield

    def _processes(self, ordinary: Any) -> Any:
        """The class of processes that are overheard."""
        heard = self

        class Overheard(ordinary):
            def __init__(self, command: Any, *arguments: Any, **options: Any) -> None:
                super().__init__(command, *arguments, **options)
                source = command if isinstance(command, str) else " ".join(map(str, command))
                for stream, target, is_log in (
                    (self.stdout, options.get("stdout"), False),
                    (self.stderr, options.get("stderr"), True),
                ):
                    if stream is not None:
                        heard._pass_on(stream, _Output(source[:200], is_log))
                    else:
                        heard._follow(target, source[:200])

        return Overheard

    def _pass_on(self, stream: Any, output: _Output) -> None:
        """Keeps what comes out of the pipe `stream`, which others read as before."""
        self._outputs.append(output)
        source = os.dup(stream.fileno())
        reading, writing = os.pipe()
        os.dup2(reading, stream.fileno(), inheritable=False)
        os.close(reading)

        def copy() -> None:
            # Where the reader has gone, the writer is to meet a closed pipe, as it would without us.
            with suppress(OSError), open(source, "rb", 0) as pipe, open(writing, "wb", 0) as reader:  # noqa: PTH123
                while data := pipe.read(_AT_ONCE):
                    output.written += data
                    reader.write(data)

        threading.Thread(target=copy, daemon=True).start()

    def _follow(self, target: object, source: str) -> None:
        """Keeps what is written to `target` where that is a file with a name."""
        name = getattr(target, "name", None)
        if isinstance(name, str) and Path(name).is_file():
            self._outputs.append(_Output(source, is_log=True, file=os.open(name, os.O_RDONLY)))

    def _answered(self, response: httpx2.Response) -> None:
        try:
            request = response.request
        except RuntimeError:
            # It was made by a test and has not been the answer to anything yet.
            return
        for header in ("authorization", "x-api-key"):
            if sent := request.headers.get(header):
                self.keep_secret(f"what was sent as {header}", sent.rpartition(" ")[2])
        # What a provider or an issuer answers is theirs.
        if not request.url.path.endswith("/mcp") and "/.well-known/" not in request.url.path:
            return
        self.questions.update(planted.asked(request.content))
        headers = "\n".join(f"{name}: {value}" for name, value in response.headers.multi_items())
        self.wrote(f"the answer to {request.method} {request.url}", f"{headers}\n{response.text}", is_log=False)

    def _call_tool(self, ordinary: Any) -> Any:
        async def call_tool(client: Client, name: str, arguments: Any = None, **options: Any) -> CallToolResult:
            self.questions.update(planted.questions(arguments))
            return await ordinary(client, name, arguments, **options)

        return call_tool

    def _read(self, ordinary: Any) -> Any:
        def read(response: httpx2.Response) -> bytes:
            content = ordinary(response)
            self._answered(response)
            return content

        return read

    def _aread(self, ordinary: Any) -> Any:
        async def aread(response: httpx2.Response) -> bytes:
            content = await ordinary(response)
            self._answered(response)
            return content

        return aread

    def _create(self, ordinary: Any) -> Any:
        def create(*arguments: Any, **options: Any) -> Any:
            key, kept = ordinary(*arguments, **options)
            self.keep_secret("an API key", key)
            return key, kept

        return create


HEARD: Final = Heard()
"""Of this process: what one test asked must not be in the log of a server that another started."""
