"""What a request must be before MCP sees it: host, origin, path, method, media types, size, JSON."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from handler.authority import HostPolicy, OriginPolicy
from handler.message import check_message
from handler.refusal import Headers, Refused, encode_headers
from retrieval.errors import ErrorCode

if TYPE_CHECKING:
    from handler.access.caller import Caller
    from handler.access.gate import Gate

logger = logging.getLogger("bedivere")

INNER_PATH: Final = "/mcp"
"""Where the guarded app serves, whatever path the request came by."""

GATEWAY_SCOPE: Final = "bedivere.gateway"
"""The scope key under which a gateway's facts about a request travel."""

CALLER_SCOPE: Final = "bedivere.caller"
"""The scope key under which the app finds the `Caller` that the gate let in; absent where anyone may call."""

_JSON: Final = "application/json"
# What the SDK asks of a client. Streams are never sent, but one of its methods answers 406 without a body otherwise.
_INNER_ACCEPT: Final = b"application/json, text/event-stream"
_REWRITTEN: Final = frozenset({b"accept", b"content-type", b"authorization", b"x-api-key"})

# What MCP clients send from a browser. Fixed, so that nothing a page asks for is reflected.
_CORS_REQUEST_HEADERS: Final = (
    "content-type, accept, authorization, x-api-key, mcp-protocol-version, mcp-method, mcp-name, mcp-session-id, "
    "last-event-id, traceparent, tracestate, baggage"
)
_CORS_EXPOSED_HEADERS: Final = "mcp-protocol-version, mcp-session-id, www-authenticate, retry-after"
_CORS_MAX_AGE: Final = "86400"

_REFUSED_QUALITY: Final = re.compile(r"0(?:\.0{0,3})?")
_DIGITS: Final = re.compile(r"[0-9]{1,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class GatewayFacts:
    """What the gateway in front reports of a request, which the request itself cannot be trusted to say."""

    domain_name: str | None
    stage: str | None


class EndpointPaths:
    """The paths that are the endpoint: bare, under the base path, under the gateway's stage, or under both."""

    def __init__(self, endpoint: str, base_path: str) -> None:
        self.shown = base_path + endpoint
        self._endpoint = _segments(endpoint)
        self._base = _segments(base_path)

    def match(self, raw_path: str, stage: str | None) -> bool:
        """Whether `raw_path`, still percent-encoded, is the endpoint, with or without one slash at its end."""
        # Cut before it is decoded: an encoded slash is part of a segment, and no segment of ours holds one.
        segments = tuple(unquote(segment) for segment in _segments(raw_path.removesuffix("/")))
        size = len(self._endpoint)
        if not raw_path.startswith("/") or segments[-size:] != self._endpoint:
            return False
        before = segments[:-size]
        stages = ((), (stage,)) if stage else ((),)
        # A mapping may put its path before or after the stage, and may cut either off before we see it.
        return any(before in {(*part, *self._base), (*self._base, *part), part} for part in stages)


def _segments(path: str) -> tuple[str, ...]:
    return tuple(path.split("/")[1:])


class Guard:
    """ASGI middleware that answers every request that is not one JSON-RPC message for the endpoint.

    Host, origin, path, method and headers are decided before the body is read, and the body's size while it is.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: HostPolicy,
        origins: OriginPolicy,
        paths: EndpointPaths,
        max_body_bytes: int,
        gate: Gate | None = None,
    ) -> None:
        self._app = app
        self._gate = gate
        self._hosts = hosts
        self._origins = origins
        self._paths = paths
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = _Answer(send, head=scope["method"] == "HEAD", vary=self._origins.set)
        headers = _RequestHeaders(scope["headers"])
        try:
            facts: GatewayFacts | None = scope.get(GATEWAY_SCOPE)
            if facts is None:
                # An event holds its body whole, whatever its headers say of how that came to the gateway.
                _check_framing(headers)
            self._hosts.check(headers.all("host"), scope.get("scheme", "http"), facts and facts.domain_name)
            answer.allow_origin(self._origins.check(headers.all("origin")))
            page = self._page(scope, headers, facts)
            if page is None:
                self._check_path(scope, facts)
            if scope["method"] == "OPTIONS" and answer.origin is not None:
                await answer.preflight(self._allowed_methods(page))
                return
            self._check_method(scope["method"], page)
            if page is not None:
                await answer.show(page)
                return
            # Before the body is read: nobody else gets that far.
            caller = await self._gate.admit(scope, headers.all) if self._gate else None
            _check_content_type(headers.all("content-type"))
            _check_accept(headers.all("accept"))
            self._check_declared_size(headers.all("content-length"))
            body = await self._read(receive)
            if body is None:
                return
            versions = headers.all("mcp-protocol-version")
            message = check_message(body, versions[0] if versions else None)
            if self._gate and caller:
                self._gate.check_call(caller, message, scope, headers.all)
            replay = _Replay(body, receive)
            await self._app(_inner_scope(scope, caller), replay, answer.relay)
            if not replay.hung_up:
                answer.check_complete()
        except Refused as refused:
            await answer.refuse(refused)
        except Exception:
            logger.exception("The MCP application failed")
            if answer.begun:
                raise
            await answer.refuse(Refused.internal())

    def _page(self, scope: Scope, headers: _RequestHeaders, facts: GatewayFacts | None) -> bytes | None:
        """What everyone may read at this path, such as where to get a token; None where it is no such path."""
        if self._gate is None:
            return None
        return self._gate.page(_raw_path(scope), facts and facts.stage, scope, headers.all)

    def _check_path(self, scope: Scope, facts: GatewayFacts | None) -> None:
        if not self._paths.match(_raw_path(scope), facts and facts.stage):
            raise Refused(
                404,
                ErrorCode.PATH_NOT_FOUND,
                f"Nothing is served at this path: the endpoint is {self._paths.shown}, "
                "which BEDIVERE_ENDPOINT and BEDIVERE_BASE_PATH set.",
            )

    def _allowed_methods(self, page: bytes | None) -> str:
        methods = "POST" if page is None else "GET, HEAD"
        return f"{methods}, OPTIONS" if self._origins.set else methods

    def _check_method(self, method: str, page: bytes | None) -> None:
        if page is None and method != "POST":
            reason = "Only POST is served: there are no streams to open and no sessions to end."
        elif page is not None and method not in {"GET", "HEAD"}:
            reason = "This page can only be read: send GET."
        else:
            return
        allow = (("allow", self._allowed_methods(page)),)
        raise Refused(405, ErrorCode.METHOD_NOT_ALLOWED, reason, headers=allow)

    def _check_declared_size(self, values: list[str]) -> None:
        for value in values:
            if len(values) > 1 or not _DIGITS.fullmatch(value):
                reason = "The Content-Length header is not one whole number, so where the body ends is unknown"
                raise Refused(400, ErrorCode.BODY_NOT_JSON, f"{reason}: send it once, in digits.")
            if int(value) > self._max_body_bytes:
                raise self._too_large()

    def _too_large(self) -> Refused:
        return Refused(
            413,
            ErrorCode.BODY_TOO_LARGE,
            f"The body is larger than {self._max_body_bytes} bytes: send less, or raise BEDIVERE_MAX_BODY_BYTES.",
        )

    async def _read(self, receive: Receive) -> bytes | None:
        """The whole body, never more of it than the limit; None where the caller went away."""
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return None
            body += message.get("body", b"")
            if len(body) > self._max_body_bytes:
                raise self._too_large()
            if not message.get("more_body", False):
                return bytes(body)


class _RequestHeaders:
    """A request's headers, each with every value it was sent with."""

    def __init__(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            self._values.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))

    def all(self, name: str) -> list[str]:
        return self._values.get(name, [])


def _check_framing(headers: _RequestHeaders) -> None:
    """Raise `Refused` where a proxy in front may have seen the body end elsewhere than we do (RFC 9112, 6.1)."""
    if headers.all("content-length") and headers.all("transfer-encoding"):
        raise Refused(
            400,
            ErrorCode.BODY_NOT_JSON,
            "The headers Content-Length and Transfer-Encoding are both there, so where the body ends is unknown: send "
            "one of them.",
            headers=(("connection", "close"),),
        )


def _check_content_type(values: list[str]) -> None:
    if [_media_type(value) for value in values] != [_JSON]:
        raise Refused(415, ErrorCode.CONTENT_TYPE_REFUSED, f"Send the body with the header Content-Type: {_JSON}.")


def _check_accept(values: list[str]) -> None:
    """Raise `Refused` where no range of `values` admits JSON; the most specific range decides (RFC 9110, 12.5.1)."""
    accepted: dict[str, bool] = {}
    for media_range in ",".join(values).split(","):
        name = _media_type(media_range)
        if name:
            accepted[name] = not _REFUSED_QUALITY.fullmatch(_quality(media_range))
    # "*" alone is what some Java clients send for "*/*".
    ranges = (_JSON, "application/*", "*/*", "*")
    if accepted and not next((accepted[name] for name in ranges if name in accepted), False):
        raise Refused(
            406,
            ErrorCode.ACCEPT_REFUSED,
            f"The answer is JSON and the Accept header excludes it: send Accept: {_INNER_ACCEPT.decode()}.",
        )


def _media_type(value: str) -> str:
    return value.split(";", 1)[0].strip().lower()


def _quality(media_range: str) -> str:
    for parameter in media_range.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "q":
            return value.strip()
    return "1"


def _raw_path(scope: Scope) -> str:
    """The path as it was sent, still percent-encoded."""
    raw_path: bytes | None = scope.get("raw_path")
    return raw_path.decode("latin-1") if raw_path else scope["path"]


def _inner_scope(scope: Scope, caller: Caller | None) -> Scope:
    """`scope` as the SDK wants it: its own path, media types in its one spelling, and nothing of a credential."""
    kept = [(name, value) for name, value in scope["headers"] if name.lower() not in _REWRITTEN]
    return {
        **scope,
        **({CALLER_SCOPE: caller} if caller else {}),
        "path": INNER_PATH,
        "raw_path": INNER_PATH.encode(),
        "root_path": "",
        "headers": [*kept, (b"accept", _INNER_ACCEPT), (b"content-type", _JSON.encode())],
    }


class _Replay:
    """The body that has been read, for the app to read; then whatever the server has to say."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._first: Message | None = {"type": "http.request", "body": body, "more_body": False}
        self._receive = receive
        self.hung_up = False
        """The caller went away, and the app was told: no answer is owed."""

    async def __call__(self) -> Message:
        if self._first is not None:
            message, self._first = self._first, None
            return message
        message = await self._receive()
        self.hung_up = message["type"] == "http.disconnect"
        return message


class _Answer:
    """The one answer to a request: begun late enough that a failure can still become a JSON-RPC error."""

    def __init__(self, send: Send, *, head: bool, vary: bool) -> None:
        self._send = send
        self._head = head
        self._vary = vary
        self._start: Message | None = None
        self.origin: str | None = None
        self.begun = False

    def allow_origin(self, origin: str | None) -> None:
        self.origin = origin

    def _cors(self) -> Headers:
        vary: Headers = (("vary", "Origin"),) if self._vary else ()
        if self.origin is None:
            return vary
        return (
            *vary,
            ("access-control-allow-origin", self.origin),
            ("access-control-expose-headers", _CORS_EXPOSED_HEADERS),
        )

    async def preflight(self, methods: str) -> None:
        headers = (
            ("allow", methods),
            ("access-control-allow-methods", methods),
            ("access-control-allow-headers", _CORS_REQUEST_HEADERS),
            ("access-control-max-age", _CORS_MAX_AGE),
        )
        await self._write(204, headers, b"")

    async def show(self, page: bytes) -> None:
        # Read by each client once a connection, and by whoever is about to sign in: a minute is long enough.
        headers = (
            ("content-type", _JSON),
            ("cache-control", "public, max-age=60"),
            ("x-content-type-options", "nosniff"),
        )
        await self._write(200, (*headers, ("content-length", str(len(page)))), b"" if self._head else page)

    async def refuse(self, refused: Refused) -> None:
        body = b"" if self._head else refused.body()
        # To HEAD no length is said: it would be that of a body that is not sent.
        length: Headers = () if self._head else (("content-length", str(len(body))),)
        await self._write(refused.status, (*refused.headers, *length), body)

    async def _write(self, status: int, headers: Headers, body: bytes) -> None:
        self.begun = True
        encoded = encode_headers((*headers, *self._cors()))
        await self._send({"type": "http.response.start", "status": status, "headers": encoded})
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    async def relay(self, message: Message) -> None:
        """Pass on what the inner app sends, except a server error that is no JSON: `check_complete` replaces it."""
        if message["type"] == "http.response.start":
            self._start = message
            return
        if self._start is None or _is_plain_failure(self._start):
            return
        if not self.begun:
            self.begun = True
            headers = [*self._start.get("headers", ()), *encode_headers(self._cors())]
            await self._send({**self._start, "headers": headers})
        await self._send(message)

    def check_complete(self) -> None:
        """Raise where the inner app came back without an answer that was passed on."""
        if not self.begun:
            raise RuntimeError("the MCP application returned without an answer")


def _is_plain_failure(start: Message) -> bool:
    if start["status"] < 500:
        return False
    types = [value for name, value in start.get("headers", ()) if name.lower() == b"content-type"]
    return not any(value.startswith(_JSON.encode()) for value in types)
