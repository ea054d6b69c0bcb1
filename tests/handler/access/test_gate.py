"""The gate of API keys, seen through the guard: who is let in, who is not, and what each is told."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from handler.access import issuing
from handler.access.caller import TOOL_SCOPES, Caller
from handler.access.current_keys import CurrentKeys
from handler.access.gate import KeyGate
from handler.access.key import new_key
from handler.app import gate_of
from handler.guard import CALLER_SCOPE, Guard
from handler.tools import TOOLS
from retrieval.settings import Settings
from tests.asgi import Reply
from tests.handler.guarded import LISTED, MESSAGE, Inner, assert_refused, guard, send

Header = tuple[str, str]


def bearer(key: str) -> Header:
    return ("authorization", f"Bearer {key}")


def call(tool: str, request_id: int | str = 7) -> bytes:
    params: dict[str, Any] = {"name": tool, "arguments": {}}
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}).encode()


class Door:
    """A guarded app that takes keys, and the place where they are kept."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.place = str(folder / "keys.json")
        self.inner = Inner()
        self.settings = Settings(access="keys", keys=self.place, **settings)
        self.guard: Guard | None = None

    def key(self, name: str = "ci", scopes: tuple[str, ...] = ("search",), **how: Any) -> str:
        return issuing.create(self.place, name, scopes=scopes, **how)[0]

    def send(self, *headers: Header, **how: Any) -> Reply:
        if self.guard is None:
            self.guard = guard(self.inner, gate=gate_of(self.settings), allowed_origins=self.settings.allowed_origins)
        return send(self.guard, *headers, **how)


@pytest.fixture
def door(tmp_path: Path) -> Door:
    return Door(tmp_path)


@pytest.mark.parametrize(
    "header", ["Bearer {}", "bearer {}", "BEARER  {}"], ids=["as written", "small letters", "two spaces"]
)
def test_a_key_as_a_bearer_token_is_let_in(door: Door, header: str) -> None:
    key = door.key()
    assert door.send(("authorization", header.format(key))).status == 200


def test_a_key_in_its_own_header_is_let_in(door: Door) -> None:
    key = door.key()
    assert door.send(("x-api-key", key)).status == 200


def test_the_same_key_in_both_headers_is_one_key(door: Door) -> None:
    key = door.key()
    assert door.send(("x-api-key", key), bearer(key)).status == 200


def test_the_app_learns_the_name_and_the_scopes_and_nothing_of_the_key(door: Door) -> None:
    key = door.key("ci", ("search", "hr.read"))
    door.send(bearer(key), ("x-api-key", key))
    assert door.inner.scopes[0][CALLER_SCOPE] == Caller("key:ci", frozenset({"search", "hr.read"}))
    assert key not in repr(door.inner.scopes[0])


def test_without_a_key_the_answer_is_401_and_says_how_to_send_one(door: Door) -> None:
    door.key()
    reply = door.send()
    assert_refused(reply, 401, "UNAUTHORIZED")
    assert reply.all("www-authenticate") == ['Bearer realm="bedivere"']
    assert "Authorization: Bearer KEY" in reply.sentence
    assert not door.inner.scopes


@pytest.mark.parametrize(
    "headers",
    [
        [("authorization", "Bearer " + new_key())],
        [("authorization", "Bearer bdv_not-a-key")],
        [("x-api-key", "")],
        [("x-api-key", "é")],
        [("authorization", "Basic dXNlcjpwYXNz")],
        [("authorization", "Bearer")],
        [("authorization", "Bearer a"), ("authorization", "Bearer b")],
        [("authorization", "Bearer a, Bearer b")],
        [("x-api-key", "a"), ("x-api-key", "b")],
        [("authorization", "Bearer " + "x" * 20_000)],
    ],
    ids=["unknown", "no key", "empty", "not ascii", "basic", "no token", "twice", "joined", "two keys", "very long"],
)
def test_anything_but_one_good_key_is_401(door: Door, headers: list[Header]) -> None:
    door.key()
    reply = door.send(*headers)
    assert_refused(reply, 401, "UNAUTHORIZED")
    assert not door.inner.scopes


def test_two_different_keys_are_refused_though_one_is_good(door: Door) -> None:
    key = door.key()
    assert_refused(door.send(bearer(key), ("x-api-key", new_key())), 401, "UNAUTHORIZED")


def test_unknown_revoked_and_expired_keys_get_one_answer(door: Door) -> None:
    door.key("good")
    revoked, expired = door.key("revoked"), door.key("expired", expires="1h")
    issuing.revoke(door.place, "revoked")
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    door.guard = guard(door.inner, gate=KeyGate(CurrentKeys(door.place, 60), None, now=lambda: tomorrow))
    answers = {door.send(bearer(key)).body for key in (new_key(), revoked, expired)}
    assert len(answers) == 1
    assert_refused(door.send(bearer(expired)), 401, "UNAUTHORIZED")


def test_a_refused_key_is_neither_logged_nor_repeated(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    door.key()
    key = new_key()
    with caplog.at_level(logging.DEBUG):
        reply = door.send(bearer(key))
    assert key[4:20] not in caplog.text
    assert key[4:20] not in repr(reply)


def test_the_body_of_who_is_not_let_in_is_never_read(door: Door) -> None:
    door.key()
    reply = door.send(body=[b"x" * 1000] * 50)
    assert reply.status == 401
    assert reply.received == []


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_takes_its_scope_and_no_other(door: Door, tool: str) -> None:
    needed = TOOL_SCOPES.get(tool)
    others = tuple(sorted({*TOOL_SCOPES.values(), "hr.read"} - {needed}))
    able, unable = door.key("able", (needed or "hr.read",)), door.key("unable", others)
    assert door.send(bearer(able), body=call(tool)).status == 200
    reply = door.send(bearer(unable), body=call(tool))
    if needed is None:
        assert reply.status == 200
        return
    assert reply.status == 403
    assert reply.code == "SCOPE_MISSING"
    assert reply.json()["id"] == 7
    assert reply.all("www-authenticate") == [f'Bearer realm="bedivere", error="insufficient_scope", scope="{needed}"']


def test_every_tool_but_the_version_takes_a_scope() -> None:
    assert set(TOOLS) - set(TOOL_SCOPES) == {"lancedb_version"}


@pytest.mark.parametrize("params", ['{"name":["lancedb_search"]}', '{"name":null}', "{}", '{"name":"nothing"}'])
def test_what_names_no_tool_is_for_the_protocol_to_refuse(door: Door, params: str) -> None:
    key = door.key(scopes=("hr.read",))
    body = f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}'.encode()
    assert door.send(bearer(key), body=body).status == 200


def test_any_good_key_may_list_the_tools(door: Door) -> None:
    key = door.key(scopes=("hr.read",))
    assert door.send(bearer(key), body=MESSAGE).status == 200


def test_a_key_that_is_used_too_often_is_told_when_to_come_again(door: Door) -> None:
    hasty, other = door.key("hasty", limit="2/min"), door.key("other")
    assert [door.send(bearer(hasty)).status for _ in range(3)] == [200, 200, 429]
    reply = door.send(bearer(hasty))
    assert_refused(reply, 429, "RATE_LIMITED")
    assert 1 <= int(reply.header("retry-after") or 0) <= 30
    assert door.send(bearer(other)).status == 200


def test_the_common_limit_is_each_keys_own_and_a_keys_own_comes_first(tmp_path: Path) -> None:
    door = Door(tmp_path, caller_limit="1/min")
    one, two, own = door.key("one"), door.key("two"), door.key("own", limit="2/min")
    assert [door.send(bearer(key)).status for key in (one, one, two, own, own, own)] == [200, 429, 200, 200, 200, 429]


def test_who_is_refused_spends_nothing(door: Door) -> None:
    key = door.key(limit="1/min")
    for _ in range(5):
        assert door.send(bearer(new_key())).status == 401
    assert door.send(bearer(key)).status == 200


def test_where_the_keys_cannot_be_read_nobody_is_let_in(tmp_path: Path) -> None:
    door = Door(tmp_path)
    key = door.key()
    Path(door.place).write_bytes(b"damaged")
    reply = door.send(bearer(key))
    assert_refused(reply, 503, "ACCESS_UNAVAILABLE")
    assert reply.header("retry-after") == "5"


def test_a_preflight_needs_no_key_and_may_announce_one(tmp_path: Path) -> None:
    door = Door(tmp_path, allowed_origins=("https://a.example",))
    reply = door.send(LISTED, method="OPTIONS")
    assert reply.status == 204
    allowed = (reply.header("access-control-allow-headers") or "").split(", ")
    assert {"authorization", "x-api-key"} <= set(allowed)


def test_a_page_may_read_why_it_was_refused(tmp_path: Path) -> None:
    door = Door(tmp_path, allowed_origins=("https://a.example",))
    reply = door.send(LISTED)
    assert reply.status == 401
    exposed = (reply.header("access-control-expose-headers") or "").split(", ")
    assert {"www-authenticate", "retry-after"} <= set(exposed)


@pytest.mark.parametrize(
    ("headers", "status"), [([("host", "evil.example")], 403), ([("origin", "https://evil.example")], 403)]
)
def test_host_and_origin_come_before_the_key(door: Door, headers: list[Header], status: int) -> None:
    key = door.key()
    assert door.send(bearer(key), *headers, without="host" if headers[0][0] == "host" else "").status == status
