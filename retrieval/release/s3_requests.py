"""Signed GETs of one bucket's objects by Python's own HTTP, over connections that are used again."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import socket
import ssl
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final, cast
from urllib.parse import quote

_CONNECT_SECONDS: Final = 5.0
_READ_SECONDS: Final = 20.0
_EMPTY: Final = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a bucket is, and what a request to it is signed with."""

    scheme: str
    host: str
    """With the port, where it is not the scheme's own."""
    path: str
    """Before each key; ends with a slash."""
    region: str
    access_key: str
    secret_key: str
    token: str | None


class Answer:
    """What S3 answers; its connection serves another request once the body was read to its end, and ends otherwise."""

    def __init__(
        self, connections: Connections, connection: http.client.HTTPConnection, response: http.client.HTTPResponse
    ) -> None:
        self._connections = connections
        self._connection = connection
        self._response = response

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def left(self) -> int | None:
        """Bytes of the body that are not read yet; None where the header does not say."""
        return self._response.length

    def header(self, name: str) -> str:
        """Empty where there is none."""
        return self._response.headers.get(name, "")

    def read(self) -> bytes:
        return self._response.read()

    def chunks(self, chunk_bytes: int) -> Iterator[bytes]:
        """The body; `left` is not 0 afterwards where it was cut short. Raises `OSError` and `HTTPException`."""
        while data := self._response.read(chunk_bytes):
            yield data

    def close(self) -> None:
        """To be called once, whatever happened."""
        if self._response.isclosed() and not self.left and self._connection.sock is not None:
            self._connections.keep(self._connection)
        else:
            self._connection.close()


class Connections:
    """Connections to one place, each of one request at a time. Safe to use from many threads."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        # One that comes back after `close` goes with this.
        weakref.finalize(self, _end, self._idle)
        self._certificates: ssl.SSLContext | None = None

    def get(self, key: str, headers: Mapping[str, str]) -> Answer:
        """The answer to a GET of `key`, below the place's path, with more `headers`, whose names are in lower case.

        Whoever gets it closes it. Raises `OSError` and `HTTPException`.
        """
        path = quote(f"{self._place.path}{key}", safe="/-._~")
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is not None:
            # The other end may have closed it meanwhile, which tells nothing about S3.
            with suppress(ConnectionError):
                return self._asked(connection, path, headers)
        return self._asked(self._connected(), path, headers)

    def keep(self, connection: http.client.HTTPConnection) -> None:
        """Takes a connection back, for another request."""
        with self._lock:
            self._idle.append(connection)

    def close(self) -> None:
        """Ends those that are idle; a later request opens new ones."""
        with self._lock:
            _end(self._idle)

    def _asked(self, connection: http.client.HTTPConnection, path: str, headers: Mapping[str, str]) -> Answer:
        try:
            connection.request("GET", path, headers=signed(self._place, path, datetime.now(UTC), headers))
            return Answer(self, connection, connection.getresponse())
        except BaseException:
            connection.close()
            raise

    def _connected(self) -> http.client.HTTPConnection:
        secure = self._trusted() if self._place.scheme == "https" else None
        host = self._place.host
        connection = http.client.HTTPSConnection(host, context=secure) if secure else http.client.HTTPConnection(host)
        # In bytes: of a name in letters Python first loads what names in other scripts need, 8 ms of a cold start.
        name = connection.host.encode("ascii")
        opened = socket.create_connection((cast("str", name), connection.port), _CONNECT_SECONDS)
        try:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if secure:
                opened = secure.wrap_socket(opened, server_hostname=name)
            opened.settimeout(_READ_SECONDS)
        except BaseException:
            opened.close()
            raise
        connection.sock = opened
        return connection

    def _trusted(self) -> ssl.SSLContext:
        """Trusts whom botocore trusts: it brings a list of its own."""
        with self._lock:
            if self._certificates is None:
                package = PathFinder.find_spec("botocore")
                [folder] = (package and package.submodule_search_locations) or [""]
                self._certificates = ssl.create_default_context(cafile=Path(folder) / "cacert.pem")
            return self._certificates


def _end(connections: list[http.client.HTTPConnection]) -> None:
    while connections:
        connections.pop().close()


def signed(place: Place, path: str, now: datetime, headers: Mapping[str, str]) -> dict[str, str]:
    """The headers of a GET of `path`, percent-encoded, without a body: `headers`, in lower case, and the signature.

    AWS Signature Version 4 as S3 has it, https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html.
    """
    moment = now.strftime("%Y%m%dT%H%M%SZ")
    scope = f"{moment[:8]}/{place.region}/s3/aws4_request"
    told = {**headers, "host": place.host, "x-amz-content-sha256": _EMPTY, "x-amz-date": moment}
    if place.token:
        told["x-amz-security-token"] = place.token
    names = ";".join(sorted(told))
    lines = "".join(f"{name}:{told[name]}\n" for name in sorted(told))
    request = f"GET\n{path}\n\n{lines}\n{names}\n{_EMPTY}"
    text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{place.secret_key}".encode()
    for part in (*scope.split("/"), text):
        key = hmac.digest(key, part.encode(), "sha256")
    credential = f"Credential={place.access_key}/{scope}, SignedHeaders={names}, Signature={key.hex()}"
    return {**told, "authorization": f"AWS4-HMAC-SHA256 {credential}"}
