"""Reads releases from S3 without botocore while all is plain: two modules of Python's own, and a signature.

botocore is as much as a quarter of a cold start, for every service, every way to credentials and every odd setting. A
function on Lambda has the plain case: credentials and a region in its environment, one bucket, a few GETs, each of them
answered. So `open_reader` looks whether that is the case, and `S3Reader` asks for each object itself. Whatever else S3
answers or the network does, a redirect, a refusal, a clock that is wrong, a host that does not answer, it does not try
to understand: botocore asks again, by `S3Store`, from then on, with its retries, its rules and our sentences.
"""

from __future__ import annotations

import http.client
import logging
import os
import re
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from retrieval.release.faults import failure
from retrieval.release.pieces import Pieces
from retrieval.release.s3_requests import Answer, Connections, Place
from retrieval.release.store import Fetched, Reader, S3Store, TooLarge, opened

logger: Final = logging.getLogger("bedivere")

PIECE_BYTES: Final = 4 * 1024 * 1024
"""One connection carries so much of an object while others carry what follows; as much waits in memory for each."""

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


class Odd(Exception):
    """An answer that botocore is to make sense of, or none."""


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

    An object of more than `piece_bytes` is fetched in pieces of so many, side by side. `make_store` makes what reads
    objects once anything is odd.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str,
        place: Place,
        make_store: Callable[[], Reader] | None = None,
        *,
        piece_bytes: int = PIECE_BYTES,
    ) -> None:
        self.uri = f"s3://{bucket}/{prefix}" if prefix else f"s3://{bucket}"
        self._bucket = bucket
        self._prefix = prefix
        self._piece_bytes = piece_bytes
        self._connections = Connections(place)
        self._make_store = make_store or (lambda: S3Store(bucket, prefix))
        self._store: Reader | None = None
        self._lock = threading.Lock()

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
                return self._stream(key, chunk_bytes)
            except (Odd, OSError, http.client.HTTPException, ValueError) as error:
                self._give_up(error)
        return self._botocore().stream(key, chunk_bytes=chunk_bytes)

    def close(self) -> None:
        self._connections.close()

    def _get(self, key: str, unless_tag: str | None, max_bytes: int) -> Fetched | None:
        answer = self._ask(key, {"if-none-match": unless_tag} if unless_tag else {})
        try:
            if answer.status == 304 and unless_tag:
                return None
            tag = answer.header("ETag")
            if answer.status != 200 or not tag:
                raise Odd(f"status {answer.status}")
            if (answer.left or 0) > max_bytes:
                raise TooLarge(key, tag)
            return Fetched(answer.read(), tag)
        finally:
            answer.close()

    def _stream(self, key: str, chunk_bytes: int) -> Iterator[bytes]:
        first = self._ask(key, {"range": f"bytes=0-{self._piece_bytes - 1}"})
        try:
            size = _size(first, self._piece_bytes)
        except Odd:
            first.close()
            raise
        return self._pieces(key, first, size, chunk_bytes)

    def _pieces(self, key: str, first: Answer, size: int, chunk_bytes: int) -> Iterator[bytes]:
        """The object of `size` bytes that begins with the body of `first`."""
        same = {"if-match": first.header("ETag")}

        def fetch(start: int) -> Generator[bytes]:
            last = min(start + self._piece_bytes, size) - 1
            answer = self._ask(key, {"range": f"bytes={start}-{last}", **same})
            if answer.header("Content-Range") != f"bytes {start}-{last}/{size}":
                answer.close()
                raise Odd("another range")
            return _body(answer, chunk_bytes)

        starts = range(first.left or size, size, self._piece_bytes)
        try:
            with closing(Pieces(fetch, starts, max(1, self._piece_bytes // chunk_bytes))) as rest:
                yield from _body(first, chunk_bytes)
                yield from rest
        except (Odd, OSError, http.client.HTTPException) as error:
            # What was yielded cannot be taken back; the whole object is asked for again, by botocore.
            self._give_up(error)
            self._botocore()
            raise failure(self._bucket, "IncompleteBody") from None

    def _ask(self, key: str, headers: Mapping[str, str]) -> Answer:
        """An answer whose body has a length. Raises `Odd` for any but 200, 206 and 304."""
        answer = self._connections.get(f"{self._prefix}/{key}" if self._prefix else key, headers)
        if answer.status in {200, 206, 304} and answer.left is not None:
            return answer
        answer.close()
        raise Odd(f"status {answer.status}")

    def _give_up(self, error: Exception) -> None:
        # What the error says may hold an address or worse.
        logger.info("S3 is read by botocore from now on: %s", error if isinstance(error, Odd) else type(error).__name__)

    def _botocore(self) -> Reader:
        with self._lock:
            if self._store is None:
                self._store = self._make_store()
            return self._store


def _size(first: Answer, asked: int) -> int:
    """The bytes of the object that `first` is the beginning of, or all. Raises `Odd` where it is not what was asked."""
    if first.status == 200 and first.left is not None:
        return first.left
    match = re.fullmatch(r"bytes 0-([0-9]+)/([0-9]+)", first.header("Content-Range"))
    if match is None or not first.left == int(match[1]) + 1 == min(asked, int(match[2])):
        raise Odd("another range")
    return int(match[2])


def _body(answer: Answer, chunk_bytes: int) -> Generator[bytes]:
    """The body of `answer`, whole or with an `Odd` at its end."""
    try:
        yield from answer.chunks(chunk_bytes)
        if answer.left:
            raise Odd("a body cut short")
    finally:
        answer.close()
