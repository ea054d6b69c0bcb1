"""GETs of S3: signed as botocore signs, over connections that serve again and are replaced where they cannot."""

from __future__ import annotations

import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.httpsession import DEFAULT_CA_BUNDLE
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

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


def certified(name: str, folder: Path) -> Path:
    """A file with a certificate of `name` that is its own authority, and its key."""
    key, subject, now = ec.generate_private_key(ec.SECP256R1()), x509.Name([]), datetime.now(UTC)
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(hours=1))
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=True)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = folder / "certificate.pem"
    file.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM) + secret)
    return file


def test_a_server_is_asked_by_tls_for_the_name_that_its_certificate_must_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = certified("localhost", tmp_path)
    its_own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    its_own.load_cert_chain(file)
    trusting = ssl.create_default_context(cafile=file)
    asked: list[str | None] = []
    its_own.sni_callback = lambda _socket, name, _context: asked.append(name)

    class Handler(QuietHandler):
        def setup(self) -> None:
            self.request = its_own.wrap_socket(self.request, server_side=True, do_handshake_on_connect=False)
            super().setup()

        def handle(self) -> None:
            with self.request, suppress(ssl.SSLError):
                super().handle()

        def do_GET(self) -> None:  # noqa: N802 - http.server's name
            self.send_response_only(200)
            self.send_header("Content-Length", "10")
            self.end_headers()
            self.wfile.write(b"0123456789")

    def create(*, cafile: Path) -> ssl.SSLContext:
        assert cafile.is_file()
        return trusting

    monkeypatch.setattr(s3_requests.ssl, "create_default_context", create)
    with listening(Handler, threading.Event()) as origin:
        port = origin.rpartition(":")[2]
        connections = Connections(place_at(f"localhost:{port}", "https"))
        assert ask(connections) == b"0123456789"
        connections.close()
        assert asked == ["localhost"]
        with pytest.raises(ssl.SSLCertVerificationError):
            Connections(place_at(f"127.0.0.1:{port}", "https")).get("key", {})


def test_a_name_in_ascii_loads_nothing_for_names_in_other_scripts(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "encodings.idna", raising=False)
    ask(connections)
    assert "encodings.idna" not in sys.modules
