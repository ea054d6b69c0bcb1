"""The gate of tokens, seen through the guard, with a real server of tokens: who is let in, and what others are told."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from handler.access.caller import EVERY_TOOL
from handler.app import gate_of
from handler.guard import CALLER_SCOPE, Guard
from retrieval.errors import BedivereError, ErrorCode
from retrieval.settings import Settings
from tests.asgi import Reply
from tests.handler.access.test_gate import bearer, call
from tests.handler.guarded import LISTED, Inner, assert_refused, guard, send
from tests.token_server import TokenServer

AUDIENCE = "http://localhost:3000/mcp"
PAGE = "/.well-known/oauth-protected-resource"


class Door:
    """A guarded app that takes the tokens of a real server."""

    def __init__(self, tokens: TokenServer, **settings: Any) -> None:
        self.inner = Inner()
        self.tokens = tokens
        given: dict[str, Any] = {"access": "jwt", "jwt_issuer": tokens.issuer, "jwt_audience": (AUDIENCE,)} | settings
        self.settings = Settings(**given)
        paths = {name: getattr(self.settings, name) for name in ("allowed_origins", "base_path", "endpoint")}
        self.guard: Guard = guard(self.inner, gate=gate_of(self.settings), **paths)

    def send(self, *headers: tuple[str, str], **how: Any) -> Reply:
        return send(self.guard, *headers, **how)


@pytest.fixture
def door(token_server: TokenServer) -> Door:
    return Door(token_server)


def challenge(reply: Reply) -> str:
    [value] = reply.all("www-authenticate")
    return value


def test_a_token_of_the_issuer_is_let_in(door: Door) -> None:
    assert door.send(bearer(door.tokens.token(AUDIENCE, "search hr.read"))).status == 200
    caller = door.inner.scopes[0][CALLER_SCOPE]
    assert caller.scopes == {"search", "hr.read"}


def test_the_log_name_of_a_caller_tells_them_apart_without_saying_who(door: Door) -> None:
    for subject in ("one@example.com", "two@example.com"):
        door.send(bearer(door.tokens.token(AUDIENCE, sub=subject)))
    names = [scope[CALLER_SCOPE].name for scope in door.inner.scopes]
    assert len(set(names)) == 2
    assert all(name.startswith("jwt:machine/") and "example.com" not in name for name in names)


def test_without_a_token_the_answer_says_where_to_get_one(door: Door) -> None:
    reply = door.send()
    assert_refused(reply, 401, "UNAUTHORIZED")
    assert challenge(reply) == (
        f'Bearer resource_metadata="http://localhost:3000{PAGE}/mcp", scope="search fetch catalog status"'
    )


@pytest.mark.parametrize(
    "changed",
    [{"aud": "elsewhere"}, {"exp": 1_000_000}, {"iss": "https://evil.example"}],
    ids=["for others", "expired", "of others"],
)
def test_a_token_that_is_not_good_is_401_with_its_error(door: Door, changed: dict[str, Any]) -> None:
    reply = door.send(bearer(door.tokens.token(AUDIENCE, **changed)))
    assert_refused(reply, 401, "UNAUTHORIZED")
    assert challenge(reply).startswith('Bearer error="invalid_token", resource_metadata="')


@pytest.mark.parametrize("value", ["Basic dXNlcjpwYXNz", "Bearer", "Bearer a, Bearer b"])
def test_another_kind_of_credential_is_401_with_its_error(door: Door, value: str) -> None:
    reply = door.send(("authorization", value))
    assert_refused(reply, 401, "UNAUTHORIZED")
    assert challenge(reply).startswith('Bearer error="invalid_request", resource_metadata="')


def test_an_api_key_is_no_token(door: Door) -> None:
    assert_refused(door.send(("x-api-key", door.tokens.token(AUDIENCE))), 401, "UNAUTHORIZED")


def test_a_refused_token_is_neither_logged_nor_repeated(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    token = door.tokens.token("elsewhere")
    with caplog.at_level(logging.DEBUG):
        reply = door.send(bearer(token))
    for part in token.split("."):
        assert part not in caplog.text
        assert part not in repr(reply)


def test_a_tool_that_the_token_lacks_the_scope_for_is_403_and_says_what_to_ask_for(door: Door) -> None:
    reply = door.send(bearer(door.tokens.token(AUDIENCE, "fetch status hr.read")), body=call("lancedb_search"))
    assert reply.status == 403
    assert reply.code == "SCOPE_MISSING"
    assert challenge(reply) == (
        f'Bearer error="insufficient_scope", resource_metadata="http://localhost:3000{PAGE}/mcp", '
        'scope="search fetch status"'
    )


def test_scopes_with_the_issuers_prefix_are_ours_and_others_are_not(token_server: TokenServer) -> None:
    door = Door(token_server, jwt_scope_prefix="docs/")
    assert door.send(bearer(token_server.token(AUDIENCE, "docs/search docs/hr.read fetch"))).status == 200
    assert door.inner.scopes[0][CALLER_SCOPE].scopes == {"search", "hr.read"}
    assert 'scope="docs/search docs/fetch docs/catalog docs/status"' in challenge(door.send())
    assert json.loads(door.send(method="GET", path=PAGE, without="content-type").body)["scopes_supported"] == [
        f"docs/{scope}" for scope in EVERY_TOOL
    ]


def test_each_subject_has_the_common_limit(token_server: TokenServer) -> None:
    door = Door(token_server, caller_limit="1/min")
    one, two = (bearer(token_server.token(AUDIENCE, sub=subject)) for subject in ("one", "two"))
    assert [door.send(header).status for header in (one, one, two)] == [200, 429, 200]


def test_a_subject_has_no_more_of_it_by_more_clients(token_server: TokenServer) -> None:
    door = Door(token_server, caller_limit="1/min")
    one, two = (bearer(token_server.token(AUDIENCE, sub="one", client_id=client)) for client in ("first", "second"))
    assert [door.send(header).status for header in (one, two)] == [200, 429]


def test_a_new_key_of_the_issuer_is_taken_without_a_restart(door: Door) -> None:
    assert door.send(bearer(door.tokens.token(AUDIENCE))).status == 200
    door.tokens.rotate()
    assert door.send(bearer(door.tokens.token(AUDIENCE))).status == 200


def test_where_the_issuer_cannot_be_asked_nobody_is_let_in(token_server: TokenServer) -> None:
    token = token_server.token(AUDIENCE)
    reply = Door(token_server, jwt_issuer="http://127.0.0.1:1").send(bearer(token))
    assert_refused(reply, 503, "ACCESS_UNAVAILABLE")
    assert reply.header("retry-after") == "5"


@pytest.mark.parametrize("path", [PAGE, f"{PAGE}/", f"{PAGE}/mcp", f"{PAGE}/mcp/"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_the_metadata_of_the_resource_is_open_to_all(door: Door, path: str, method: str) -> None:
    reply = door.send(method=method, path=path, without="content-type")
    assert reply.status == 200
    assert reply.header("content-type") == "application/json"
    if method == "HEAD":
        assert reply.body == b""
        return
    assert reply.json() == {
        "resource": AUDIENCE,
        "authorization_servers": [door.tokens.issuer],
        "scopes_supported": list(EVERY_TOOL),
        "bearer_methods_supported": ["header"],
        "resource_name": "Bedivere",
    }


@pytest.mark.parametrize("path", [PAGE, f"{PAGE}/docs/mcp", f"/docs{PAGE}", f"/docs{PAGE}/mcp"])
def test_under_a_base_path_the_metadata_is_where_clients_and_gateways_look(
    token_server: TokenServer, path: str
) -> None:
    door = Door(token_server, base_path="/docs")
    assert door.send(method="GET", path=path).json()["resource"] == "http://localhost:3000/docs/mcp"
    assert f'resource_metadata="http://localhost:3000/docs{PAGE}/mcp"' in challenge(door.send(path="/docs/mcp"))


def test_behind_a_proxy_the_urls_are_those_that_clients_know(token_server: TokenServer) -> None:
    door = Door(token_server, public_url="https://mcp.example.com/mcp")
    assert door.send(method="GET", path=PAGE).json()["resource"] == "https://mcp.example.com/mcp"
    assert f'resource_metadata="https://mcp.example.com{PAGE}/mcp"' in challenge(door.send())


def test_the_scopes_of_private_collections_are_told_to_nobody(token_server: TokenServer) -> None:
    door = Door(token_server, private_collections={"hr": "hr.read"})
    for reply in (door.send(), door.send(method="GET", path=PAGE)):
        assert "hr" not in repr(reply)


def test_a_page_that_may_ask_may_read_the_metadata(token_server: TokenServer) -> None:
    door = Door(token_server, allowed_origins=("https://a.example",))
    assert door.send(LISTED, method="OPTIONS", path=PAGE).header("access-control-allow-methods") == "GET, HEAD, OPTIONS"
    shown = door.send(LISTED, method="GET", path=PAGE)
    assert (shown.status, shown.header("access-control-allow-origin")) == (200, "https://a.example")
    assert door.send(LISTED, method="OPTIONS").status == 204
    assert_refused(door.send(("origin", "https://evil.example"), method="GET", path=PAGE), 403, "ORIGIN_REFUSED")


def test_the_metadata_can_only_be_read(door: Door) -> None:
    reply = door.send(method="POST", path=PAGE)
    assert_refused(reply, 405, "METHOD_NOT_ALLOWED")
    assert reply.header("allow") == "GET, HEAD"


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"jwt_issuer": "https://issuer.example"},
        {"jwt_audience": ("docs",)},
        {"jwt_issuer": "http://issuer.example", "jwt_audience": ("docs",)},
    ],
)
def test_without_an_issuer_that_is_safe_to_ask_and_an_audience_nothing_starts(settings: dict[str, Any]) -> None:
    with pytest.raises(BedivereError) as caught:
        gate_of(Settings(access="jwt", **settings))
    assert caught.value.code is ErrorCode.SETTING_INVALID
