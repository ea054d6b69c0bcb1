"""What the body of a request must be."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import jsonrpc_message_adapter

from handler.message import check_message
from handler.refusal import Refused

Message = dict[str, Any]

REQUEST: Message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
NO_PARAMS: Message = {}
NO_LIST: list[object] = []
MODERN_META: Message = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2099-01-01"}}


def refusal(body: bytes, version: str | None = None) -> dict[str, Any]:
    with pytest.raises(Refused) as caught:
        check_message(body, version)
    assert caught.value.status == 400
    assert "\n" not in caught.value.sentence
    return json.loads(caught.value.body())


@pytest.mark.parametrize(
    "message",
    [
        REQUEST,
        REQUEST | {"id": "a"},
        REQUEST | {"id": 0},
        REQUEST | {"params": NO_PARAMS},
        REQUEST | {"params": None},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
    ],
)
@pytest.mark.parametrize("version", [None, "2024-11-05", "2026-07-28"])
def test_a_request_or_a_notification_passes(message: dict[str, Any], version: str | None) -> None:
    check_message(json.dumps(message).encode(), version)


@pytest.mark.parametrize(
    "body",
    [b"[" * 60_000, b'{"a":' * 10_000, b'{"a":' * 300 + b"1" + b"}" * 300],
    ids=["lists", "objects", "whole"],
)
def test_a_body_that_is_nested_too_deeply_is_told_so(body: bytes) -> None:
    error = refusal(body)["error"]
    assert (error["code"], error["data"]["code"]) == (-32700, "BODY_NOT_JSON")
    assert "The body is nested too deeply to be read" in error["message"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" \n",
        b"not json",
        b"{",
        b"{}x",
        b'{"a":1,}',
        b"{'a':1}",
        b"\xff\xfe",
        b"\xef\xbb\xbf{}",
        json.dumps(REQUEST).encode("utf-16"),
        b'{"jsonrpc":"2.0","id":1,"method":"\xe9"}',
        b'{"jsonrpc":"2.0","id":NaN,"method":"a"}',
        b'{"jsonrpc":"2.0","id":-Infinity,"method":"a"}',
        b'{"jsonrpc":"2.0","id":"\\ud800","method":"a"}',
        b"1" * 5_000,
    ],
    ids=repr,
)
def test_what_is_not_json_is_said_to_be_none(body: bytes) -> None:
    error = refusal(body)["error"]
    assert error["code"] == -32700
    assert error["message"] == "BODY_NOT_JSON: The body is not JSON in UTF-8: the body must be one JSON-RPC object."


def test_a_batch_is_refused_in_one_readable_line() -> None:
    error = refusal(json.dumps([REQUEST, REQUEST]).encode())["error"]
    assert error["code"] == -32600
    assert "one JSON-RPC message a request" in error["message"]


@pytest.mark.parametrize(
    ("value", "kind"), [(1, "a number"), (1.5, "a number"), ("a", "a string"), (True, "a boolean"), (None, "null")]
)
def test_a_scalar_is_refused_by_its_kind(value: object, kind: str) -> None:
    answer = refusal(json.dumps(value).encode())["error"]
    assert answer["code"] == -32600
    assert kind in answer["message"]


@pytest.mark.parametrize(
    ("message", "member"),
    [
        (NO_PARAMS, "jsonrpc"),
        (REQUEST | {"jsonrpc": "1.0"}, "jsonrpc"),
        (REQUEST | {"jsonrpc": 2.0}, "jsonrpc"),
        ({"jsonrpc": "2.0", "id": 1}, "method"),
        (REQUEST | {"method": 1}, "method"),
        ({"jsonrpc": "2.0", "id": 1, "result": NO_PARAMS}, "method"),
        (REQUEST | {"id": None}, "id"),
        (REQUEST | {"id": True}, "id"),
        (REQUEST | {"id": 1.0}, "id"),
        (REQUEST | {"id": [1]}, "id"),
        (REQUEST | {"params": NO_LIST}, "params"),
        (REQUEST | {"params": "a"}, "params"),
    ],
)
def test_an_object_that_is_no_message_is_refused_by_the_member_that_is_wrong(
    message: dict[str, Any], member: str
) -> None:
    answer = refusal(json.dumps(message).encode())
    assert answer["error"]["code"] == -32600
    assert answer["error"]["data"] == {"code": "BODY_NOT_JSON"}
    assert f'"{member}" must be' in answer["error"]["message"]


def test_an_unknown_protocol_version_is_refused_with_those_that_are_served() -> None:
    answer = refusal(json.dumps(REQUEST | {"id": "abc"}).encode(), "2099-01-01")

    assert answer["id"] == "abc"
    assert answer["error"]["code"] == -32022
    assert answer["error"]["data"]["requested"] == "2099-01-01"
    assert {"2025-11-25", "2026-07-28"} <= set(answer["error"]["data"]["supported"])


def test_what_is_repeated_of_a_version_is_short_and_printable() -> None:
    answer = refusal(json.dumps(REQUEST).encode(), "<script>\x1b[31m\xe9" + "x" * 500)
    assert answer["error"]["data"]["requested"] == "<script>?[31m?" + "x" * 46 + "..."


@pytest.mark.parametrize(
    "message", [REQUEST | {"params": MODERN_META}, {"jsonrpc": "2.0", "method": "notifications/x"}]
)
def test_what_the_sdk_refuses_well_itself_is_left_to_it(message: dict[str, Any]) -> None:
    check_message(json.dumps(message).encode(), "2099-01-01")


JSON_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=5,
)
LIKELY: list[object] = ["2.0", "tools/list", 1, NO_PARAMS]
MEMBER = JSON_VALUE | st.sampled_from(LIKELY)


@given(st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params", "result"]), MEMBER), st.none() | st.text())
def test_whatever_passes_is_a_message_to_the_sdk_too(message: dict[str, Any], version: str | None) -> None:
    body = json.dumps(message).encode()
    try:
        check_message(body, version)
    except Refused:
        return
    jsonrpc_message_adapter.validate_python(json.loads(body), by_name=False)


@given(st.binary(max_size=40))
def test_no_body_makes_the_check_itself_fail(body: bytes) -> None:
    with pytest.raises(Refused):
        check_message(body, None)
