"""GETs of S3: signed as botocore signs, over connections that serve again and are replaced where they cannot."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.httpsession import DEFAULT_CA_BUNDLE

from retrieval.release import s3_requests
from retrieval.release.s3_requests import Connections, Place, signed
from tests.loopback import QuietHandler, listening

NOW = datetime(2026, 11, 30, 2, 15, 7, tzinfo=UTC)
TOKEN = "IQoJb3JpZ2luX2VjE+/="
HOST = "bucket.s3.eu-west-1.amazonaws.com"


def place_at(host: str, scheme: str = "http", token: str | None = None) -> Place:
    key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
    return Place(scheme, host, "/", "eu-west-1", "AKIDEXAMPLE", key, token)


@pytest.mark.parametrize("token", [None, TOKEN])
@pytest.mark.parametrize(
    "headers",
    [{}, {"if-none-match": '"d41d8cd98f00b204e9800998ecf8427e"'}, {"range": "bytes=5-9", "if-match": '"d41d"'}],
    ids=["plain", "conditional", "a range"],
)
@pytest.mark.parametrize("path", ["/current.json", "/docs/a%20b%2B%28c%29%C3%A9/part-0000.tar.zst", "/bucket/docs/x"])
@pytest.mark.parametrize("host", [HOST, "127.0.0.1:5000"])
def test_a_request_has_the_signature_that_botocore_gives_it(
    host: str, path: str, headers: dict[str, str], token: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = place_at(host, "http" if ":" in host else "https", token)
    theirs: Any = AWSRequest("GET", f"{place.scheme}://{host}{path}", headers=dict(headers))
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: NOW.replace(tzinfo=None))
    S3SigV4Auth(Credentials(place.access_key, place.secret_key, token), "s3", place.region).add_auth(theirs)

    ours = signed(place, path, NOW, headers)

    assert ours["authorization"] == theirs.headers["Authorization"]
    assert ours["x-amz-date"] == theirs.headers["X-Amz-Date"]
    assert ours.get("x-amz-security-token") == theirs.headers.get("X-Amz-Security-Token")


def test_it_trusts_the_authorities_that_botocore_trusts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []

    def create(*, cafile: Path) -> None:
        asked.append(cafile)

    monkeypatch.setattr(s3_requests.ssl, "create_default_context", create)

    Connections(place_at(HOST, "https"))._trusted()  # pyright: ignore[reportPrivateUsage]

    assert asked == [Path(DEFAULT_CA_BUNDLE)]


class Server:
    """Answers ten bytes; `came` has the port that each request came from, and `gone` lets connections end unasked."""

    def __init__(self) -> None:
        self.origin = ""
        self.came: list[int] = []
        self.gone = False


@pytest.fixture
def server() -> Iterator[Server]:
    told = Server()

    class Handler(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 - http.server's name
            told.came.append(self.client_address[1])
            self.send_response_only(200)
            self.send_header("Content-Length", "10")
            self.end_headers()
            self.wfile.write(b"0123456789")
            # Without a word of it, as a server ends what has long been idle.
            self.close_connection = told.gone

    with listening(Handler, threading.Event()) as origin:
        told.origin = origin
        yield told


@pytest.fixture
def connections(server: Server) -> Iterator[Connections]:
    made = Connections(place_at(server.origin.removeprefix("http://")))
    yield made
    made.close()


def ask(connections: Connections) -> bytes:
    answer = connections.get("key", {})
    try:
        return b"".join(answer.chunks(4))
    finally:
        answer.close()


def test_a_connection_serves_one_request_after_the_other(server: Server, connections: Connections) -> None:
    assert [ask(connections), ask(connections)] == [b"0123456789"] * 2
    assert len(set(server.came)) == 1


def test_a_body_that_was_not_read_to_its_end_ends_its_connection(server: Server, connections: Connections) -> None:
    connections.get("key", {}).close()

    assert ask(connections) == b"0123456789"
    assert len(set(server.came)) == 2


def test_two_requests_at_once_have_a_connection_each(server: Server, connections: Connections) -> None:
    first, second = connections.get("key", {}), connections.get("key", {})

    assert (first.read(), second.read()) == (b"0123456789",) * 2
    first.close()
    second.close()
    assert len(set(server.came)) == 2


def test_one_that_the_server_has_ended_meanwhile_is_replaced(server: Server, connections: Connections) -> None:
    server.gone = True

    assert [ask(connections), ask(connections)] == [b"0123456789"] * 2
    assert len(set(server.came)) == 2


def test_those_that_are_idle_end_when_they_are_closed(server: Server, connections: Connections) -> None:
    ask(connections)
    connections.close()

    assert ask(connections) == b"0123456789"
    assert len(set(server.came)) == 2
