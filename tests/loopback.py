"""HTTP servers on loopback, for what tests put in the place of a provider or a store."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class QuietHandler(BaseHTTPRequestHandler):
    """Keeps connections open, logs nothing, and can cut a connection as a network does."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        """Nothing."""

    def reset(self) -> None:
        """Ends the connection so that the other side is told of a reset."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.shutdown(socket.SHUT_RD)
        self.connection.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Of the usual five, the rest of a crowd that connects at once would wait a second for its next try.
    request_queue_size = 128


@contextmanager
def listening(handler: type[QuietHandler], closing: threading.Event) -> Generator[str]:
    """Has `handler` answer on a free port until the context ends; yields the origin, such as http://127.0.0.1:4711.

    `closing` is set at the end, before the requests that wait for it are waited for.
    """
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        closing.set()
        server.shutdown()
        server.server_close()
        thread.join()
