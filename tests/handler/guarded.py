"""The guard around an app that notes what reaches it, and requests that are right but for one thing."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from handler.access.gate import Gate
from handler.authority import local_hosts, origins
from handler.guard import EndpointPaths, Guard
from retrieval.settings import Settings
from tests.asgi import Reply, ask

HOST = ("host", "localhost:3000")
JSON = ("content-type", "application/json")
LISTED = ("origin", "https://a.example")
MESSAGE = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'


class Inner:
    """What the guard guards: it notes what reached it and answers 200."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = []
        self.bodies: list[bytes] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        message = await receive()
        self.bodies.append(message["body"])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": b"{}"})

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        return self.scopes[0]["headers"]


def guard(app: ASGIApp, *, gate: Gate | None = None, **values: Any) -> Guard:
    settings = Settings(**values)
    hosts = local_hosts(settings, bind="127.0.0.1", port=3000)
    return Guard(
        app,
        hosts=hosts,
        origins=origins(settings, hosts),
        paths=EndpointPaths(settings.endpoint, settings.base_path),
        max_body_bytes=settings.max_body_bytes,
        gate=gate,
    )


def send(
    app: ASGIApp,
    *extra: tuple[str, str],
    without: str = "",
    method: str = "POST",
    path: str = "/mcp",
    body: bytes | list[bytes] = MESSAGE,
    scope: dict[str, Any] | None = None,
) -> Reply:
    headers = [header for header in (HOST, JSON) if header[0] != without]
    return asyncio.run(ask(app, method=method, path=path, headers=[*headers, *extra], body=body, extra=scope))


def assert_refused(reply: Reply, status: int, code: str) -> None:
    assert reply.status == status
    answer = reply.json()
    assert answer["jsonrpc"] == "2.0"
    assert answer["id"] is None
    assert isinstance(answer["error"]["code"], int)
    assert answer["error"]["data"] == {"code": code}
    assert answer["error"]["message"].startswith(f"{code}: ")
    assert "\n" not in answer["error"]["message"]
    assert reply.all("content-type") == ["application/json"]
    assert reply.all("cache-control") == ["no-store"]
    assert reply.all("content-length") == [str(len(reply.body))]
