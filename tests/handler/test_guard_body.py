"""Which bodies reach MCP: media types, size and JSON."""

import asyncio
import json
from typing import Any

import pytest

from handler.guard import GATEWAY_SCOPE, GatewayFacts
from tests.asgi import ask
from tests.handler.guarded import HOST, JSON, MESSAGE, Inner, assert_refused, guard, send


@pytest.fixture
def inner() -> Inner:
    return Inner()


def test_a_message_reaches_the_app_whole_and_its_answer_comes_back(inner: Inner) -> None:
    reply = send(guard(inner), body=[MESSAGE[:9], MESSAGE[9:30], MESSAGE[30:]])

    assert reply.status == 200
    assert reply.json() == {}
    assert inner.bodies == [MESSAGE]


# Content type and Accept


@pytest.mark.parametrize(
    "value",
    ["application/json", "Application/JSON", "application/json; charset=utf-8", "application/json;charset=UTF-8"],
)
def test_a_json_content_type_passes_and_reaches_the_app_in_one_spelling(inner: Inner, value: str) -> None:
    reply = send(guard(inner), ("Content-Type", value), without="content-type")

    assert reply.status == 200
    assert [value for name, value in inner.headers if name.lower() == b"content-type"] == [b"application/json"]


@pytest.mark.parametrize(
    "values",
    [
        [],
        [""],
        ["text/plain"],
        ["application/jsonp"],
        ["application/json-rpc"],
        ["text/plain; application/json"],
        ["application/x-www-form-urlencoded"],
        ["multipart/form-data"],
        ["application/json, text/plain"],
        ["application/json", "text/plain"],
    ],
)
def test_another_content_type_is_415_before_the_body_is_read(inner: Inner, values: list[str]) -> None:
    reply = send(guard(inner), *[("content-type", value) for value in values], without="content-type")

    assert_refused(reply, 415, "CONTENT_TYPE_REFUSED")
    assert "application/json" in reply.sentence
    assert reply.received == []


@pytest.mark.parametrize(
    "values",
    [
        [],
        [""],
        ["*/*"],
        ["*"],
        ["application/*"],
        ["application/json"],
        ["Application/JSON"],
        ["application/json, text/event-stream"],
        ["text/event-stream, application/json;q=0.1"],
        ["text/event-stream, */*;q=0.1"],
        ["text/html, image/gif, *; q=.2, */*; q=.2"],
        ["text/event-stream", "application/json"],
        ["application/json; charset=utf-8; q=0.001"],
        ["application/json, */*;q=0"],
        ["application/json;q=high"],
    ],
)
def test_an_accept_that_admits_json_passes_and_reaches_the_app_as_it_wants_it(inner: Inner, values: list[str]) -> None:
    reply = send(guard(inner), *[("accept", value) for value in values])

    assert reply.status == 200
    assert [value for name, value in inner.headers if name == b"accept"] == [b"application/json, text/event-stream"]


@pytest.mark.parametrize(
    "value",
    [
        "text/event-stream",
        "text/html",
        "text/*",
        "application/json;q=0",
        "application/json; Q=0.000, text/event-stream",
        "application/json;q=0, */*",
        "application/*;q=0.0, */*",
        "*/*;q=0",
        "application/xml",
        "nonsense",
    ],
)
def test_an_accept_that_excludes_json_is_406_and_says_what_to_send(inner: Inner, value: str) -> None:
    reply = send(guard(inner), ("accept", value))

    assert_refused(reply, 406, "ACCEPT_REFUSED")
    assert "application/json" in reply.sentence
    assert reply.received == []


# Size


def padded(size: int) -> bytes:
    return MESSAGE.ljust(size)


def test_a_body_of_just_the_limit_passes(inner: Inner) -> None:
    assert send(guard(inner), ("content-length", "65536"), body=padded(65_536)).status == 200
    assert len(inner.bodies[0]) == 65_536


@pytest.mark.parametrize("length", ["65537", "99999999999999999", "000000000065537"])
def test_a_larger_body_is_413_by_its_declared_length_alone(inner: Inner, length: str) -> None:
    reply = send(guard(inner), ("content-length", length))

    assert_refused(reply, 413, "BODY_TOO_LARGE")
    assert "BEDIVERE_MAX_BODY_BYTES" in reply.sentence
    assert reply.received == []


@pytest.mark.parametrize("declared", [[], [("content-length", "10")]])
def test_a_larger_body_is_413_as_soon_as_it_is_seen_to_be(inner: Inner, declared: list[tuple[str, str]]) -> None:
    reply = send(guard(inner, max_body_bytes=1024), *declared, body=[b" " * 600] * 100)

    assert_refused(reply, 413, "BODY_TOO_LARGE")
    assert len(reply.received) == 2
    assert inner.scopes == []


@pytest.mark.parametrize(
    "values", [["-1"], ["ten"], [""], ["1.0"], ["+5"], ["0x10"], ["5, 5"], ["5", "5"], ["9" * 5_000], ["\xb2"]]
)
def test_a_content_length_that_is_not_one_number_is_400_before_the_body_is_read(
    inner: Inner, values: list[str]
) -> None:
    reply = send(guard(inner), *[("content-length", value) for value in values])

    assert_refused(reply, 400, "BODY_NOT_JSON")
    assert "Content-Length" in reply.sentence
    assert reply.received == []


def test_a_body_with_two_ends_is_400_and_the_connection_is_closed(inner: Inner) -> None:
    reply = send(guard(inner), ("content-length", "5"), ("transfer-encoding", "chunked"))
    assert_refused(reply, 400, "BODY_NOT_JSON")
    assert reply.header("connection") == "close"
    assert inner.scopes == []


def test_the_body_of_an_event_has_its_end_whatever_its_headers_say(inner: Inner) -> None:
    event = {GATEWAY_SCOPE: GatewayFacts(domain_name=None, stage=None)}
    framing = [("content-length", str(len(MESSAGE))), ("transfer-encoding", "chunked")]
    send(guard(inner), *framing, scope=event)
    assert inner.bodies == [MESSAGE]


def test_a_caller_who_hangs_up_is_not_answered_and_the_app_not_asked(inner: Inner) -> None:
    reply = asyncio.run(ask(guard(inner), headers=[HOST, JSON], body=[], hang_up=True))
    assert reply.status == 0
    assert inner.scopes == []


# JSON


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"NaN", b"[" * 60_000, b"1" * 60_000])
def test_a_body_that_is_not_json_is_400(inner: Inner, body: bytes) -> None:
    reply = send(guard(inner), body=body)
    assert_refused(reply, 400, "BODY_NOT_JSON")
    assert reply.json()["error"]["code"] == -32700
    assert inner.scopes == []


@pytest.mark.parametrize("body", [b"[]", b"[" + MESSAGE + b"]", b"1", b'"a"', b"null", b"{}"])
def test_a_body_that_is_no_message_is_400(inner: Inner, body: bytes) -> None:
    reply = send(guard(inner), body=body)
    assert_refused(reply, 400, "BODY_NOT_JSON")
    assert reply.json()["error"]["code"] == -32600


def test_an_unknown_protocol_version_keeps_the_code_and_the_data_of_mcp(inner: Inner) -> None:
    reply = send(guard(inner), ("MCP-Protocol-Version", "2099-01-01"))
    assert reply.status == 400
    assert reply.json()["error"]["code"] == -32022
    assert reply.json()["id"] == 1


def test_the_first_check_that_fails_is_the_one_that_answers(inner: Inner) -> None:
    # GIVEN a request that is wrong in every way
    wrong: dict[str, Any] = {"method": "GET", "path": "/x", "body": b"["}
    headers = {"host": "evil", "origin": "null", "content-type": "x/y", "accept": "x/y", "content-length": "99999999"}
    good = {
        "host": "localhost:3000",
        "origin": "https://a.example",
        "content-type": "application/json",
        "accept": "*/*",
    }
    app = guard(inner, allowed_origins=("https://a.example",))
    codes: list[str] = []

    # WHEN its faults are mended one by one in the order of the checks
    for mend in ("host", "origin", "path", "method", "content-type", "accept", "content-length"):
        reply = asyncio.run(ask(app, headers=headers.items(), **wrong))
        codes.append(reply.code)
        if mend in good:
            headers[mend] = good[mend]
        elif mend == "content-length":
            del headers[mend]
        else:
            wrong[mend] = {"path": "/mcp", "method": "POST"}[mend]
    codes.append(asyncio.run(ask(app, headers=headers.items(), **wrong)).code)

    # THEN each answer names the next one
    assert codes == [
        "HOST_REFUSED",
        "ORIGIN_REFUSED",
        "PATH_NOT_FOUND",
        "METHOD_NOT_ALLOWED",
        "CONTENT_TYPE_REFUSED",
        "ACCEPT_REFUSED",
        "BODY_TOO_LARGE",
        "BODY_NOT_JSON",
    ]


def test_a_refusal_is_one_compact_line_of_json(inner: Inner) -> None:
    reply = send(guard(inner), method="GET")
    assert json.dumps(reply.json(), separators=(",", ":")).encode() == reply.body
