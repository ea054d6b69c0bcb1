"""Reads releases from S3 without botocore while all is plain: two modules of Python's own, and a signature.

botocore is as much as a quarter of a cold start, for every service, every way to credentials and every odd setting. A
function on Lambda has the plain case: credentials and a region in its environment, one bucket, a few GETs, each of them
answered. So `open_reader` looks whether that is the case, and `S3Reader` asks for each object itself. Whatever else S3
answers or the network does, a redirect, a refusal, a clock that is wrong, a host that does not answer, it does not try
to understand: botocore asks again, by `S3Store`, from then on, with its retries, its rules and our sentences.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import logging
import os
import re
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final
from urllib.parse import quote

from retrieval.release.faults import failure
from retrieval.release.store import Fetched, Reader, S3Store, TooLarge, opened

logger: Final = logging.getLogger("bedivere")

_CONNECT_SECONDS: Final = 5.0
_READ_SECONDS: Final = 20.0

# Whatever else AWS's tools read from the environment may change how S3 is to be asked.
_UNDERSTOOD: Final = re.compile(
    r"AWS_(ACCESS_KEY_ID|SECRET_ACCESS_KEY|SESSION_TOKEN|REGION|DEFAULT_REGION|ENDPOINT_URL(_S3)?|EXECUTION_ENV"
    r"|EC2_METADATA_DISABLED|LAMBDA_\w+|XRAY_\w+)"
)
_PROXIES: Final = frozenset({"http_proxy", "https_proxy", "all_proxy"})
_BUNDLE: Final = "REQUESTS_CA_BUNDLE"
# Of the partition that is called aws: China's and the governments' have hosts of their own.
_REGION: Final = re.compile(r"(?:af|ap|ca|eu|il|me|mx|sa|us)-[a-z]+-\d")
# A host name of its own, with a certificate: no dots; and no bucket of one zone, which is asked in another way.
_BUCKET: Final = re.compile(r"(?!.*--)[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
_EMPTY: Final = hashlib.sha256(b"").hexdigest()


class Odd(Exception):
    """An answer that botocore is to make sense of, or none."""


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


def open_reader(uri: str) -> Reader:
    """What reads releases at `uri`; raises what `open_store` raises, and asks nothing of the store yet."""

    def reader(bucket: str, prefix: str) -> Reader:
        place = plain_place(bucket, os.environ)
        return S3Store(bucket, prefix) if place is None else S3Reader(bucket, prefix, place)

    return opened(uri, reader)


def plain_place(bucket: str, environment: Mapping[str, str]) -> Place | None:
    """Where `bucket` is, as botocore would find it; None where anything could make it find another way."""
    found = {name: value for name, value in environment.items() if value}
    access_key, secret_key = found.get("AWS_ACCESS_KEY_ID"), found.get("AWS_SECRET_ACCESS_KEY")
    region = found.get("AWS_DEFAULT_REGION", "")
    unknown = [name for name in found if name.startswith("AWS_") and not _UNDERSTOOD.fullmatch(name)]
    proxied = any(name.lower() in _PROXIES for name in found)
    if not access_key or not secret_key or unknown or proxied or _has_files():
        return None
    if not _REGION.fullmatch(region) or not _BUCKET.fullmatch(bucket):
        return None
    signed = (region, access_key, secret_key, found.get("AWS_SESSION_TOKEN"))
    endpoint = found.get("AWS_ENDPOINT_URL_S3") or found.get("AWS_ENDPOINT_URL")
    if not (endpoint or "").startswith("http://") and _BUNDLE in found:
        return None
    if endpoint is None:
        return Place("https", f"{bucket}.s3.{region}.amazonaws.com", "/", *signed)
    match = re.fullmatch(r"(https?)://([A-Za-z0-9.-]+(?::[0-9]{1,5})?)/?", endpoint)
    # The port would be in the request twice, once left out.
    if match is None or match[2].endswith((":80", ":443")):
        return None
    return Place(match[1], match[2].lower(), f"/{bucket}/", *signed)


def _has_files() -> bool:
    """Whether AWS's tools have settings in files here."""
    try:
        return Path("~/.aws").expanduser().exists()
    except (OSError, RuntimeError):
        return True


class S3Reader:
    """Objects below a prefix of a bucket, to be read. Safe to use from many threads.

    `make_store` makes what reads them once anything is odd.
    """

    def __init__(self, bucket: str, prefix: str, place: Place, make_store: Callable[[], Reader] | None = None) -> None:
        self.uri = f"s3://{bucket}/{prefix}" if prefix else f"s3://{bucket}"
        self._bucket = bucket
        self._prefix = prefix
        self._place = place
        self._make_store = make_store or (lambda: S3Store(bucket, prefix))
        self._store: Reader | None = None
        self._lock = threading.Lock()
        self._certificates: ssl.SSLContext | None = None

    def get(self, key: str, *, unless_tag: str | None = None, max_bytes: int) -> Fetched | None:
        if self._store is None:
            try:
                return self._get(key, unless_tag, max_bytes)
            except (Odd, OSError, http.client.HTTPException, ValueError) as error:
                self._give_up(error)
        return self._botocore().get(key, unless_tag=unless_tag, max_bytes=max_bytes)

    def stream(self, key: str, *, chunk_bytes: int = 1 << 20) -> Iterator[bytes]:
        if self._store is None:
            try:
                return self._body(*self._ask(key), chunk_bytes)
            except (Odd, OSError, http.client.HTTPException, ValueError) as error:
                self._give_up(error)
        return self._botocore().stream(key, chunk_bytes=chunk_bytes)

    def _get(self, key: str, unless_tag: str | None, max_bytes: int) -> Fetched | None:
        connection, answer = self._ask(key, unless_tag)
        try:
            if answer.status == 304:
                return None
            tag = answer.headers["ETag"]
            if not tag:
                raise Odd("no tag")
            if (answer.length or 0) > max_bytes:
                raise TooLarge(key, tag)
            return Fetched(answer.read(), tag)
        finally:
            connection.close()

    def _body(
        self, connection: http.client.HTTPConnection, answer: http.client.HTTPResponse, chunk_bytes: int
    ) -> Iterator[bytes]:
        try:
            while data := answer.read(chunk_bytes):
                yield data
            left = answer.length
        except (OSError, http.client.HTTPException):
            # What was yielded cannot be taken back; the whole object is asked for again, by botocore.
            left = None
        finally:
            connection.close()
        if left != 0:
            self._botocore()
            raise failure(self._bucket, "IncompleteBody")

    def _ask(
        self, key: str, unless_tag: str | None = None
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """An answer of which the body is to be read. Raises `Odd` for any but 200 with a length, and 304 if asked."""
        place = self._place
        path = quote(f"{place.path}{self._prefix}/{key}" if self._prefix else f"{place.path}{key}", safe="/-._~")
        headers = signed(place, path, datetime.now(UTC), {"if-none-match": unless_tag} if unless_tag else {})
        if place.scheme == "https":
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                place.host, timeout=_CONNECT_SECONDS, context=self._trusted()
            )
        else:
            connection = http.client.HTTPConnection(place.host, timeout=_CONNECT_SECONDS)
        try:
            connection.connect()
            connection.sock.settimeout(_READ_SECONDS)
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
        except BaseException:
            connection.close()
            raise
        if (answer.status == 200 and answer.length is not None) or (answer.status == 304 and unless_tag):
            return connection, answer
        connection.close()
        raise Odd(f"status {answer.status}")

    def _trusted(self) -> ssl.SSLContext:
        """Trusts whom botocore trusts: it brings a list of its own."""
        with self._lock:
            if self._certificates is None:
                package = PathFinder.find_spec("botocore")
                [folder] = (package and package.submodule_search_locations) or [""]
                self._certificates = ssl.create_default_context(cafile=Path(folder) / "cacert.pem")
            return self._certificates

    def _give_up(self, error: Exception) -> None:
        # What the error says may hold an address or worse.
        logger.info("S3 is read by botocore from now on: %s", error if isinstance(error, Odd) else type(error).__name__)

    def _botocore(self) -> Reader:
        with self._lock:
            if self._store is None:
                self._store = self._make_store()
            return self._store


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
