"""`python -m tests.bench.slow_store ENDPOINT SECONDS`: a server before another, which holds up each request so long.

In a process of its own: in that of the client they would share one interpreter. Bodies pass through as they come.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from subprocess import PIPE, Popen
from typing import Final
from urllib.parse import urlsplit

from tests.s3_server import S3Server

_PIECE: Final = 1 << 18


@contextmanager
def running_slow_store(server: S3Server, seconds: float) -> Generator[S3Server]:
    """`server` as it answers from `seconds` away."""
    command = [sys.executable, "-m", "tests.bench.slow_store", server.endpoint, str(seconds)]
    with Popen(command, stdout=PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield replace(server, endpoint=process.stdout.readline().strip())
        finally:
            process.terminate()


def serve(endpoint: str, seconds: float) -> None:
    """Says its own address, then serves until it is ended."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(urlsplit(endpoint).netloc, seconds))
    server.daemon_threads = True
    sys.stdout.write(f"http://127.0.0.1:{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


def _handler(behind: str, seconds: float) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            time.sleep(seconds)
            upstream = HTTPConnection(behind)
            try:
                upstream.request(self.command, self.path, body, dict(self.headers))
                answer = upstream.getresponse()
                self.send_response_only(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in {"connection", "transfer-encoding", "content-length"}:
                        self.send_header(name, value)
                self.send_header("Content-Length", answer.getheader("Content-Length", "0"))
                self.end_headers()
                while self.command != "HEAD" and (piece := answer.read(_PIECE)):
                    self.wfile.write(piece)
            finally:
                upstream.close()

        do_DELETE = do_GET = do_HEAD = do_POST = do_PUT = answer  # noqa: N815

        def log_message(self, format: str, *_arguments: object) -> None: ...  # noqa: A002

    return Handler


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        serve(sys.argv[1], float(sys.argv[2]))
