"""Asks an ASGI app directly, so that tests can send what no HTTP client would."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message


@dataclass(frozen=True)
class Reply:
    """What an app answered."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    received: list[Message] = field(default_factory=list[Message])
    """The messages that the app read to get there."""

    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        values = self.all(name)
        return values[0] if values else None

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]

    @property
    def code(self) -> str:
        return self.json()["error"]["data"]["code"]

    @property
    def sentence(self) -> str:
        return self.json()["error"]["message"]


Headers = Iterable[tuple[str, str]]


async def ask(
    app: ASGIApp,
    *,
    method: str = "POST",
    path: str = "/mcp",
    headers: Headers = (),
    body: bytes | list[bytes] = b"",
    hang_up: bool = False,
    extra: dict[str, Any] | None = None,
) -> Reply:
    """The reply to one request.

    A list as `body` is sent a chunk a message. The caller then waits for the answer, unless it is to `hang_up`.
    """
    chunks = body if isinstance(body, list) else [body]
    waiting: list[Message] = [
        {"type": "http.request", "body": chunk, "more_body": index + 1 < len(chunks)}
        for index, chunk in enumerate(chunks)
    ]
    received: list[Message] = []
    sent: list[Message] = []
    answered = asyncio.Event()

    async def receive() -> Message:
        if not waiting and not hang_up:
            await answered.wait()
        message: Message = waiting.pop(0) if waiting else {"type": "http.disconnect"}
        received.append(message)
        return message

    async def send(message: Message) -> None:
        sent.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            answered.set()

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 3000),
        **(extra or {}),
    }
    await app(scope, receive, send)
    starts = [message for message in sent if message["type"] == "http.response.start"]
    if hang_up and not sent:
        return Reply(status=0, headers=[], body=b"", received=received)
    assert len(starts) == 1, sent
    return Reply(
        status=starts[0]["status"],
        headers=[(name.decode("latin-1"), value.decode("latin-1")) for name, value in starts[0]["headers"]],
        body=b"".join(message.get("body", b"") for message in sent if message["type"] == "http.response.body"),
        received=received,
    )


@asynccontextmanager
async def running(app: ASGIApp) -> AsyncGenerator[ASGIApp]:
    """`app` between the start and the end of its lifespan."""
    to_app: asyncio.Queue[Message] = asyncio.Queue()
    from_app: asyncio.Queue[Message] = asyncio.Queue()

    async def live() -> None:
        await app({"type": "lifespan", "asgi": {"version": "3.0"}}, to_app.get, from_app.put)

    lifespan = asyncio.create_task(live())
    await to_app.put({"type": "lifespan.startup"})
    started = await from_app.get()
    assert started["type"] == "lifespan.startup.complete", started
    yield app
    await to_app.put({"type": "lifespan.shutdown"})
    await lifespan
