"""Where the issuer's keys come from, how long they are kept, and how often it is asked."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from handler.access.issuer_keys import KEPT_SECONDS, IssuerKeys, fetch_json, is_safe
from handler.access.rereading import Moment
from retrieval.errors import BedivereError, ErrorCode

ISSUER = "https://issuer.example/tenant"
KEY = rsa.generate_private_key(65537, 2048)
PUBLIC = json.loads(RSAAlgorithm.to_jwk(KEY.public_key()))


class Issuer:
    """An issuer whose answers and clock the test sets, and which counts how often its keys were asked for."""

    def __init__(self) -> None:
        self.kids = ["first"]
        self.its: dict[str, Any] = {}
        self.beside: list[Any] = []
        self.metadata: Any = {"issuer": ISSUER, "jwks_uri": f"{ISSUER}/jwks"}
        self.well_known = f"{ISSUER}/.well-known/openid-configuration"
        self.down = False
        self.asked = 0
        self.seconds = 0.0
        self.frozen = 0.0
        self.keys = IssuerKeys(
            ISSUER,
            fetch=self.fetch,
            now=lambda: Moment(self.seconds, self.seconds + self.frozen),
        )

    def fetch(self, address: str) -> object:
        if self.down:
            raise BedivereError(ErrorCode.STORE_UNREACHABLE, "The issuer is not there.")
        if address == self.well_known:
            return self.metadata
        if address == f"{ISSUER}/jwks":
            self.asked += 1
            return {"keys": [*self.beside, *({**PUBLIC, **self.its, "kid": kid} for kid in self.kids)]}
        raise LookupError(address)

    def has(self, kid: str) -> bool:
        return asyncio.run(self.keys.find(kid, "RS256")) is not None

    def refused(self) -> ErrorCode:
        with pytest.raises(BedivereError) as caught:
            self.has("first")
        return caught.value.code


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


def test_keys_are_fetched_once_for_many_tokens(issuer: Issuer) -> None:
    assert all(issuer.has("first") for _ in range(5))
    assert issuer.asked == 1


def test_the_metadata_of_rfc_8414_serves_where_there_is_none_of_openid(issuer: Issuer) -> None:
    issuer.well_known = "https://issuer.example/.well-known/oauth-authorization-server/tenant"
    assert issuer.has("first")


def test_a_new_key_is_found_as_soon_as_a_token_names_it(issuer: Issuer) -> None:
    assert issuer.has("first")
    issuer.kids = ["second"]
    assert issuer.has("second")
    assert not issuer.has("first")


def test_made_up_names_of_keys_do_not_make_us_ask_again_and_again(issuer: Issuer) -> None:
    assert issuer.has("first")
    for number in range(20):
        assert not issuer.has(f"made-up-{number}")
    assert issuer.asked == 2
    issuer.seconds += 30
    assert not issuer.has("made-up")
    assert issuer.asked == 3


def test_a_new_key_is_found_after_a_made_up_one_though_the_instance_was_frozen(issuer: Issuer) -> None:
    assert not issuer.has("made-up")
    issuer.kids = ["second"]
    assert not issuer.has("second")
    issuer.frozen += 30
    assert issuer.has("second")


def test_a_key_that_the_issuer_withdrew_is_gone_within_the_hour(issuer: Issuer) -> None:
    assert issuer.has("first")
    issuer.kids = []
    issuer.seconds += 3600
    assert not issuer.has("first")


def test_keys_outlast_an_issuer_that_is_down_for_a_day_and_no_longer(issuer: Issuer) -> None:
    assert issuer.has("first")
    issuer.down = True
    issuer.seconds += KEPT_SECONDS - 1
    assert issuer.has("first")
    issuer.seconds += 1
    assert issuer.refused() is ErrorCode.ACCESS_UNAVAILABLE


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://evil.example", "jwks_uri": f"{ISSUER}/jwks"},
        {"issuer": ISSUER, "jwks_uri": "http://issuer.example/jwks"},
        {"issuer": ISSUER, "jwks_uri": "file:///etc/passwd"},
        {"issuer": ISSUER, "jwks_uri": 7},
        {"issuer": ISSUER},
        [],
        "text",
    ],
)
def test_metadata_that_cannot_be_trusted_lets_nobody_in(
    issuer: Issuer, metadata: object, caplog: pytest.LogCaptureFixture
) -> None:
    issuer.metadata = metadata
    with caplog.at_level(logging.WARNING, "bedivere"):
        assert issuer.refused() is ErrorCode.ACCESS_UNAVAILABLE
    assert "The keys of the issuer of tokens could not be read" in caplog.text


def test_a_key_whose_private_half_is_published_checks_nothing(issuer: Issuer) -> None:
    issuer.its = json.loads(RSAAlgorithm.to_jwk(KEY))
    assert not issuer.has("first")


def test_what_is_no_key_does_not_spoil_the_others(issuer: Issuer) -> None:
    issuer.kids = ["first", "second"]
    issuer.beside = ["no key", 7, None, []]
    assert issuer.has("first")


def test_an_issuer_without_metadata_lets_nobody_in(issuer: Issuer) -> None:
    issuer.well_known = "https://elsewhere.example"
    assert issuer.refused() is ErrorCode.ACCESS_UNAVAILABLE


@pytest.mark.parametrize(
    ("address", "safe"),
    [
        ("https://issuer.example", True),
        ("http://127.0.0.1:8080/x", True),
        ("http://localhost", True),
        ("http://[::1]:1", True),
        ("http://issuer.example", False),
        ("http://localhost.evil.example", False),
        ("file:///etc/passwd", False),
        ("https://", False),
        ("http://[", False),
    ],
)
def test_only_what_nobody_could_change_on_the_way_is_fetched(address: str, safe: bool) -> None:
    assert is_safe(address) is safe


Answer = tuple[int, dict[str, str], bytes]


@pytest.fixture
def page() -> Iterator[Callable[[Answer], str]]:
    """Serves one answer on loopback, and gives its address."""
    servers: list[HTTPServer] = []

    def serve(answer: Answer) -> str:
        class Page(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, headers, body = answer
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object, **__: object) -> None:
                """Nothing."""

        server = HTTPServer(("127.0.0.1", 0), Page)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def test_json_is_fetched(page: Callable[[Answer], str]) -> None:
    assert fetch_json(page((200, {}, b'{"keys":[]}'))) == {"keys": []}


def test_what_is_not_there_is_told_from_what_fails(page: Callable[[Answer], str]) -> None:
    with pytest.raises(LookupError):
        fetch_json(page((404, {}, b"")))


@pytest.mark.parametrize(
    "answer",
    [
        (302, {"location": "http://127.0.0.1:1/elsewhere"}, b""),
        (500, {}, b"{}"),
        (200, {}, b"<html>"),
        (200, {}, b"\xff"),
        (200, {"transfer-encoding": "chunked"}, b"no size\r\n"),
        (200, {}, b"[" * 100_000),
        (200, {}, b'"' + b"x" * 600_000 + b'"'),
    ],
    ids=["a redirect", "a failure", "no JSON", "no text", "no chunks", "too deep", "too large"],
)
def test_anything_else_is_a_failure_in_our_own_words(page: Callable[[Answer], str], answer: Answer) -> None:
    with pytest.raises(BedivereError) as caught:
        fetch_json(page(answer))
    assert caught.value.code is ErrorCode.STORE_UNREACHABLE
    assert "elsewhere" not in caught.value.sentence


def test_an_answer_that_trickles_in_is_a_failure(
    page: Callable[[Answer], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handler.access.issuer_keys._WHOLE_SECONDS", 0)
    with pytest.raises(BedivereError) as caught:
        fetch_json(page((200, {}, b'{"keys":[]}')))
    assert "did not answer" in caught.value.sentence


def test_nobody_there_is_a_failure_too() -> None:
    with pytest.raises(BedivereError) as caught:
        fetch_json("http://127.0.0.1:1/")
    assert caught.value.code is ErrorCode.STORE_UNREACHABLE
