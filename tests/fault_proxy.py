"""A proxy on loopback that stands before an HTTP server and lets requests fail as networks and stores do.

It answers every request by the first fault that matches its path, else by what the server says.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import Literal
from urllib.parse import urlsplit

from tests.loopback import QuietHandler, listening

_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "server", "date"}

Kind = Literal["status", "truncate", "reset", "refuse", "drip", "hang", "corrupt", "replace"]


@dataclass
class Fault:
    """What happens to a request whose path matches `path`, as often as `times` says (for ever without)."""

    kind: Kind
    path: str = ""
    status: int = 500
    code: str = "InternalError"
    body: bytes = b""
    """Of `replace`: what is answered in place of the server's body."""
    times: int | None = None
    seen: int = 0

    def takes(self, path: str) -> bool:
        """Whether the fault is for this request, which is counted then."""
        if not re.search(self.path, path) or (self.times is not None and self.seen >= self.times):
            return False
        self.seen += 1
        return True


@dataclass
class FaultProxy:
    """A running proxy; change `faults` and `before` as the test goes on."""

    endpoint: str = ""
    faults: list[Fault] = field(default_factory=list[Fault])
    before: Callable[[str], None] = lambda _: None
    """Called with the path of each request before it is answered."""
    paths: list[str] = field(default_factory=list[str])
    closing: threading.Event = field(default_factory=threading.Event)

    def fail(self, kind: Kind, path: str = "", **details: object) -> Fault:
        """Adds a fault and returns it."""
        fault = Fault(kind, path, **details)  # type: ignore[arg-type]
        self.faults.append(fault)
        return fault

    def heal(self) -> None:
        """Lets everything through again."""
        self.faults.clear()


@contextmanager
def running_fault_proxy(upstream: str) -> Generator[FaultProxy]:
    """A proxy before the server at `upstream`, on a free port, until the context ends."""
    proxy = FaultProxy()
    address = urlsplit(upstream)

    class Handler(QuietHandler):
        def answer(self) -> None:
            with suppress(OSError):
                proxy.paths.append(self.path)
                proxy.before(self.path)
                fault = next((fault for fault in proxy.faults if fault.takes(self.path)), None)
                sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if fault is None:
                    status, headers, body = self.ask(sent)
                    self.reply(status, headers, body)
                else:
                    self.fail(fault, sent)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = answer  # noqa: N815 - http.server's names

        def ask(self, sent: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
            """What the server says."""
            server = HTTPConnection(address.hostname or "", address.port, timeout=10)
            try:
                headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
                server.request(self.command, self.path, sent or None, headers)
                response = server.getresponse()
                return response.status, response.getheaders(), response.read()
            finally:
                server.close()

        def reply(self, status: int, headers: list[tuple[str, str]], body: bytes, *, sends: int | None = None) -> None:
            """An answer whose header promises all of `body`, of which `sends` bytes are sent."""
            self.send_response_only(status)
            for name, value in headers:
                if name.lower() not in _HOP_BY_HOP:
                    self.send_header(name, value)
            length = next((value for name, value in headers if name.lower() == "content-length"), "0")
            self.send_header("Content-Length", length if self.command == "HEAD" else str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body[:sends])
            self.wfile.flush()

        def fail(self, fault: Fault, sent: bytes) -> None:
            if fault.kind == "status":
                error = f"<Error><Code>{fault.code}</Code><Message>As told</Message></Error>".encode()
                self.reply(fault.status, [("Content-Type", "application/xml")], error)
                return
            if fault.kind == "hang":
                proxy.closing.wait(30)
                self.close_connection = True
                return
            if fault.kind == "refuse":
                self.reset()
                return
            status, headers, body = self.ask(sent)
            match fault.kind:
                case "truncate":
                    self.reply(status, headers, body, sends=len(body) // 2)
                    self.close_connection = True
                case "reset":
                    self.reply(status, headers, body, sends=len(body) // 2)
                    self.reset()
                case "corrupt":
                    self.reply(status, headers, body[: len(body) // 2] + b"\xff" * (len(body) - len(body) // 2))
                case "replace":
                    self.reply(status, headers, fault.body)
                case _:
                    self.reply(status, headers, body, sends=0)
                    self.drip(body)

        def drip(self, body: bytes) -> None:
            for at in range(len(body)):
                if proxy.closing.wait(0.05):
                    break
                self.wfile.write(body[at : at + 1])
                self.wfile.flush()
            self.close_connection = True

    with listening(Handler, proxy.closing) as origin:
        proxy.endpoint = origin
        yield proxy
