"""The HTTP server of a laptop: uvicorn, with refusals of its parser in the same shape as the guard's."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Callable
from typing import Final

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from handler.refusal import Refused, encode_headers
from retrieval.errors import ErrorCode

_GRACE_SECONDS: Final = 5


class JsonRefusals(H11Protocol):
    """h11 refuses some requests before any app sees them; this answers them as the guard would."""

    def send_400_response(self, msg: str) -> None:
        """Called by uvicorn while it handles h11's exception; `msg` is the same for every cause."""
        refused = _refusal(str(sys.exc_info()[1]))
        headers = encode_headers((*refused.headers, ("connection", "close")))
        for event in (
            h11.Response(status_code=refused.status, headers=headers),
            h11.Data(data=refused.body()),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


def serve_http(app: ASGIApp, listener: socket.socket, *, announce: Callable[[], None]) -> None:
    """Serves `app` on `listener` until SIGINT or SIGTERM; requests in flight get five seconds.

    `announce` is called once a SIGINT ends the server in order, which is before it answers.
    """
    config = uvicorn.Config(
        app,
        http=JsonRefusals,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    server = uvicorn.Server(config)

    def stop(*_: object) -> None:
        server.should_exit = True

    # uvicorn puts a handler of its own in this one's place while it serves. Until then, and when it is done, a
    # KeyboardInterrupt might be raised where nothing can catch it, such as in an object's end.
    signal.signal(signal.SIGINT, stop)
    announce()
    server.run(sockets=[listener])


def _refusal(cause: str) -> Refused:
    if "Host: header" in cause:
        sent = "sent twice" if "multiple" in cause else "missing"
        return Refused(
            403,
            ErrorCode.HOST_REFUSED,
            f"The Host header is {sent}: send it once, one that BEDIVERE_ALLOWED_HOSTS allows.",
        )
    return Refused(400, ErrorCode.BODY_NOT_JSON, "This is not an HTTP request: check its request line and headers.")
