"""What becomes of an app that fails, of callers who hang up, and of what is not HTTP."""

import asyncio
import logging

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.asgi import ask
from tests.handler.guarded import HOST, JSON, MESSAGE, Inner, assert_refused, guard, send


@pytest.fixture
def inner() -> Inner:
    return Inner()


# The app behind the guard


async def raises(scope: Scope, receive: Receive, send: Send) -> None:
    raise RuntimeError("the text of a library at /srv/app.py")


async def answers_plain_500_and_raises(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 500, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"Internal Server Error"})
    raise RuntimeError("as Starlette does")


async def starts_and_raises(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    raise RuntimeError("between start and body")


async def answers_plain_500(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 503, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def answers_nothing(scope: Scope, receive: Receive, send: Send) -> None:
    return


async def sends_a_body_without_a_start(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.body", "body": b"{}"})


@pytest.mark.parametrize(
    "app",
    [
        raises,
        answers_plain_500_and_raises,
        starts_and_raises,
        answers_plain_500,
        answers_nothing,
        sends_a_body_without_a_start,
    ],
)
def test_a_failure_of_the_app_is_a_json_rpc_error_without_its_text(
    app: ASGIApp, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, logger="bedivere"):
        reply = send(guard(app))

    assert_refused(reply, 500, "INTERNAL_ERROR")
    assert reply.json()["error"]["code"] == -32603
    assert b"library" not in reply.body
    assert b"Internal Server Error" not in reply.body
    assert [record.levelname for record in caplog.records if record.name == "bedivere"] == ["ERROR"]


def test_a_json_rpc_error_of_the_app_is_its_answer() -> None:
    error = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"m"}}'

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 500, "headers": [(b"Content-Type", b"application/json")]})
        await send({"type": "http.response.body", "body": error[:9], "more_body": True})
        await send({"type": "http.response.body", "body": error[9:]})

    reply = send(guard(app))
    assert (reply.status, reply.body) == (500, error)


def test_an_answer_that_has_begun_cannot_become_another(caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{", "more_body": True})
        raise RuntimeError("half-way")

    with caplog.at_level(logging.ERROR, logger="bedivere"), pytest.raises(RuntimeError, match="half-way"):
        send(guard(app))


def test_a_caller_who_hangs_up_on_the_app_is_owed_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        heard.extend([(await receive())["type"], (await receive())["type"]])

    reply = asyncio.run(ask(guard(app), headers=[HOST, JSON], body=MESSAGE, hang_up=True))

    assert reply.status == 0
    assert heard == ["http.request", "http.disconnect"]
    assert not caplog.records


# Other scopes


def test_a_websocket_is_closed(inner: Inner) -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def collect(message: Message) -> None:
        sent.append(message)

    asyncio.run(guard(inner)({"type": "websocket", "path": "/mcp", "headers": []}, receive, collect))
    assert [message["type"] for message in sent] == ["websocket.close"]
    assert inner.scopes == []


def test_the_lifespan_is_the_apps_own() -> None:
    seen: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["type"])

    async def nothing() -> Message:
        return {}

    async def nowhere(message: Message) -> None:
        del message

    asyncio.run(guard(app)({"type": "lifespan"}, nothing, nowhere))
    assert seen == ["lifespan"]
