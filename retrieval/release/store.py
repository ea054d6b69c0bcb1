"""Where releases are kept: an S3 prefix or a folder, behind one small interface. The only module that speaks to S3.

A store knows keys, bytes and tags; what they mean is the manifest's business.
"""

# botocore ships no types: what comes out of it is checked where it enters our own types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import hashlib
import os
import re
from base64 import b64encode
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import Semaphore
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from retrieval.errors import BedivereError, ErrorCode
from retrieval.release.faults import ABSENT, code_of, failure

if TYPE_CHECKING:
    from retrieval.release.folder import FolderStore

T = TypeVar("T")

PIECE_BYTES: Final = 16 * 1024 * 1024
"""A larger file goes to S3 in pieces of this size, each of them checked and tried again by itself."""

_PIECES_AT_ONCE: Final = 4
"""Of one file."""

_PIECES_HELD: Final = 8
"""Of all files that a store is sending: they are in memory meanwhile."""

OnSent = Callable[[int], None]
"""Is told the bytes of each piece that has arrived; what it raises ends the upload."""

_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX: Final = re.compile(r"[\w!.*'()=+@-]+(?:/[\w!.*'()=+@-]+)*", re.ASCII)
_MAX_PREFIX: Final = 512
_DELETED_AT_ONCE: Final = 1000

_CONFLICTS: Final = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey", "404", "409", "412"})


@dataclass(frozen=True, slots=True)
class Fetched:
    """A small object and the tag that changes with its content."""

    data: bytes
    tag: str


@dataclass(frozen=True, slots=True)
class Stored:
    """An object as a listing shows it; `modified` is aware of its zone."""

    key: str
    bytes: int
    modified: datetime


class Conflict(Exception):
    """A conditional write found another tag than it expected."""


class TooLarge(BedivereError):
    """RELEASE_DAMAGED for a small object that is not small; `tag` is its tag, so that it can be replaced."""

    def __init__(self, key: str, tag: str) -> None:
        super().__init__(
            ErrorCode.RELEASE_DAMAGED,
            f"The release cannot be used: {key} is larger than it can be. Publish it again, or make another release "
            "current with bedivere rollback.",
        )
        self.tag = tag


class Reader(Protocol):
    """What serves of a store: keys are relative to the store's prefix and use `/`.

    Every method raises `BedivereError`: STORE_DENIED (`Denied` where it is the policy; expired or missing credentials),
    STORE_NOT_FOUND (no such bucket or folder), STORE_UNREACHABLE (network, 5xx and throttling after the retries) or
    SETTING_INVALID (a setting of the store's own that cannot be used).
    """

    uri: str

    def get(self, key: str, *, unless_tag: str | None = None, max_bytes: int) -> Fetched | None:
        """The object, or None where its tag is still `unless_tag`. Raises `KeyError` where there is none, and
        RELEASE_DAMAGED, `TooLarge`, where it is larger than `max_bytes`."""
        ...

    def stream(self, key: str, *, chunk_bytes: int = 1 << 20) -> Iterator[bytes]:
        """The object's bytes. Raises `KeyError` at once where there is none; a body that is cut short raises
        STORE_UNREACHABLE."""
        ...

    def close(self) -> None:
        """Ends what is kept open from one call to the next; a later call opens it again."""
        ...


class Store(Reader, Protocol):
    """A store that is written to as well; the same holds for each of its methods."""

    def put(
        self, key: str, data: bytes, *, if_tag: str | None = None, if_absent: bool = False, private: bool = False
    ) -> str:
        """Writes a small object and returns its tag. Raises `Conflict` where the condition does not hold.

        In a folder, a `private` one is readable by its owner alone; S3 has its policy for that.
        """
        ...

    def upload(self, key: str, file: Path, *, sha256: str, on_sent: OnSent | None = None) -> None:
        """Writes a file of SHA-256 `sha256` (hexadecimal) and verifies what arrived, by checksums where the store
        keeps them, by size in any case. Raises STORE_UNREACHABLE where it differs; leaves no half behind."""
        ...

    def size(self, key: str) -> int | None:
        """The object's size in bytes, None where there is none."""
        ...

    def holds(self, key: str, *, size: int, sha256: str) -> bool:
        """Whether the object that was uploaded as this is there; a folder reads it, S3 says what it was given."""
        ...

    def list(self, prefix: str) -> Iterable[Stored]:
        """Objects whose key begins with `prefix`, in order. Serving never lists."""
        ...

    def delete(self, keys: Iterable[str]) -> None:
        """Removes objects; those that are not there are no error."""
        ...

    def abandon(self, prefix: str, before: datetime) -> int:
        """Removes what is left of uploads below `prefix` that began before then and never ended; says how many."""
        ...


def open_store(uri: str) -> Store:
    """The store at `s3://BUCKET[/PREFIX]` or `file:///FOLDER`; asks nothing of it yet.

    Raises `BedivereError` INVALID_ARGUMENT for any other address; for S3 also SETTING_INVALID and STORE_DENIED where
    the settings of AWS cannot be used.
    """
    return opened(uri, S3Store)


def opened(uri: str, s3: Callable[[str, str], T]) -> T | FolderStore:
    """The folder at `uri`, or what `s3` makes of the bucket and the prefix there; raises as `open_store`."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        raise _unusable("it is not an address") from None
    if parts.scheme not in {"s3", "file"}:
        raise _unusable("for a folder of this machine write file:// and its absolute path")
    if parts.query or parts.fragment or not uri.isprintable():
        raise _unusable("it must not hold a query, a fragment or control characters")
    if parts.scheme == "file":
        folder = Path(unquote(parts.path))
        if parts.netloc not in {"", "localhost"} or not parts.path.startswith("/") or "\0" in str(folder):
            raise _unusable("after file:// comes the absolute path of a folder, which makes three slashes")
        # Imported here: a folder's store builds on the types above.
        from retrieval.release.folder import FolderStore

        return FolderStore(folder)
    bucket, prefix = parts.netloc, parts.path.strip("/")
    if not _BUCKET.fullmatch(bucket) or ".." in bucket:
        raise _unusable("a bucket's name is 3 to 63 lower-case letters, digits, dots and hyphens")
    if prefix and (len(prefix) > _MAX_PREFIX or not _PREFIX.fullmatch(prefix) or {".", ".."} & set(prefix.split("/"))):
        raise _unusable("a prefix is made of letters, digits and !_.*'()=+@- between single slashes, none of them .. ")
    return s3(bucket, prefix)


def _unusable(reason: str) -> BedivereError:
    return BedivereError(
        ErrorCode.INVALID_ARGUMENT, f"A store is s3://BUCKET/PREFIX or file:///FOLDER: {reason.strip()}."
    )


class S3Store:
    """Objects below a prefix of a bucket.

    Credentials, region, profile and endpoint are found as every AWS tool finds them. Safe to use from many threads.
    """

    def __init__(self, bucket: str, prefix: str = "", *, attempts: int = 5, read_seconds: float = 20.0) -> None:
        self.uri = f"s3://{bucket}/{prefix}" if prefix else f"s3://{bucket}"
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self._sending = Semaphore(_PIECES_HELD)
        # Imported here: it costs a sixth of a second that a local database should not pay. Not boto3, which is this
        # client and more: transfers in threads, which nothing here uses.
        from botocore.config import Config
        from botocore.session import get_session

        own_endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        config = Config(
            connect_timeout=5,
            read_timeout=read_seconds,
            retries={"mode": "standard", "total_max_attempts": attempts},
            max_pool_connections=16,
            tcp_keepalive=True,
            # Servers that stand in for S3 have no host name a bucket.
            s3={"addressing_style": "path"} if own_endpoint else {},
            # Every upload brings its SHA-256, and every reader checks it: a second checksum would be paid for twice.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        with self._known():
            core: Any = get_session()
            try:
                self._client: Any = core.create_client("s3", config=config)
            except ValueError as error:
                # It has no exception of its own for this one.
                if "endpoint" in str(error):
                    raise self._failure("Endpoint") from None
                raise
            # It takes any scheme, and would say of the others that there is no connection.
            if urlsplit(self._client.meta.endpoint_url).scheme not in {"http", "https"}:
                raise self._failure("Endpoint")
            if bundle := core.get_config_variable("ca_bundle"):
                self._check_certificates(bundle)

    def _check_certificates(self, bundle: str) -> None:
        # botocore would say of it that there is no connection.
        import ssl

        try:
            ssl.create_default_context(cafile=bundle)
        except OSError:
            raise self._failure("CertificateBundle") from None

    def get(self, key: str, *, unless_tag: str | None = None, max_bytes: int) -> Fetched | None:
        condition = {"IfNoneMatch": unless_tag} if unless_tag else {}
        with self._known(key):
            try:
                answer = self._client.get_object(**self._at(key), **condition)
            except Exception as error:
                if code_of(error) in {"304", "NotModified"}:
                    return None
                raise
        if answer["ContentLength"] > max_bytes:
            answer["Body"].close()
            raise TooLarge(key, answer["ETag"])
        return Fetched(b"".join(self._body(answer, 1 << 20)), answer["ETag"])

    def stream(self, key: str, *, chunk_bytes: int = 1 << 20) -> Iterator[bytes]:
        with self._known(key):
            answer = self._client.get_object(**self._at(key))
        return self._body(answer, chunk_bytes)

    def close(self) -> None:
        # botocore keeps its connections, and opens again what S3 has closed.
        pass

    def put(
        self, key: str, data: bytes, *, if_tag: str | None = None, if_absent: bool = False, private: bool = False
    ) -> str:
        del private
        condition = {"IfMatch": if_tag} if if_tag else {"IfNoneMatch": "*"} if if_absent else {}
        checksum = b64encode(hashlib.sha256(data).digest()).decode()
        with self._known(key):
            try:
                answer = self._client.put_object(**self._at(key), Body=data, ChecksumSHA256=checksum, **condition)
            except Exception as error:
                if condition and code_of(error) in _CONFLICTS:
                    raise Conflict(key) from None
                raise
        return answer["ETag"]

    def upload(self, key: str, file: Path, *, sha256: str, on_sent: OnSent | None = None) -> None:
        size = file.stat().st_size
        data = b"" if size > PIECE_BYTES else file.read_bytes()
        labels = {"Metadata": {"sha256": sha256}, "ContentType": "application/zstd"}
        with self._known(key):
            if size > PIECE_BYTES:
                expected = self._upload_pieces(key, file, labels, on_sent)
            else:
                expected = b64encode(bytes.fromhex(sha256)).decode()
                self._client.put_object(**self._at(key), Body=data, ChecksumSHA256=expected, **labels)
                if on_sent:
                    on_sent(size)
            head = self._client.head_object(**self._at(key), ChecksumMode="ENABLED")
        # A server that keeps no such checksum says none, or one of another kind.
        arrived = head.get("ChecksumSHA256", expected)
        if head["ContentLength"] != size or (arrived != expected and ("-" in arrived) == ("-" in expected)):
            raise BedivereError(
                ErrorCode.STORE_UNREACHABLE, f"What arrived in bucket {self._bucket} is not what was sent: try again."
            )

    def _upload_pieces(self, key: str, file: Path, labels: dict[str, Any], on_sent: OnSent | None) -> str:
        """Uploads `file` in pieces, some at once; the checksum that S3 gives an object made of them."""
        # Imported here: serving uploads nothing.
        from concurrent.futures import ThreadPoolExecutor

        started = self._client.create_multipart_upload(**self._at(key), ChecksumAlgorithm="SHA256", **labels)
        upload = {**self._at(key), "UploadId": started["UploadId"]}
        pieces: list[dict[str, Any]] = []
        digests = b""
        size = file.stat().st_size
        try:
            with file.open("rb") as stream, ThreadPoolExecutor(_PIECES_AT_ONCE) as pool:

                def send(start: int) -> tuple[dict[str, Any], bytes]:
                    with self._sending:
                        data = os.pread(stream.fileno(), PIECE_BYTES, start)
                        digest = hashlib.sha256(data).digest()
                        told = {"PartNumber": start // PIECE_BYTES + 1, "ChecksumSHA256": b64encode(digest).decode()}
                        sent = self._client.upload_part(**upload, **told, Body=data)
                    return {**told, "ETag": sent["ETag"]}, digest

                starts = range(0, size, PIECE_BYTES)
                sending = [pool.submit(send, start) for start in starts]
                try:
                    for start, future in zip(starts, sending, strict=True):
                        piece, digest = future.result()
                        pieces.append(piece)
                        digests += digest
                        if on_sent:
                            on_sent(min(PIECE_BYTES, size - start))
                except BaseException:
                    # Those on their way are waited for: what arrives after the end of an upload would stay for good.
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise
            self._client.complete_multipart_upload(**upload, MultipartUpload={"Parts": pieces})
        except BaseException:
            with suppress(Exception):
                self._client.abort_multipart_upload(**upload)
            raise
        return f"{b64encode(hashlib.sha256(digests).digest()).decode()}-{len(pieces)}"

    def size(self, key: str) -> int | None:
        head = self._head(key)
        return head["ContentLength"] if head else None

    def holds(self, key: str, *, size: int, sha256: str) -> bool:
        head = self._head(key)
        return head is not None and head["ContentLength"] == size and head["Metadata"].get("sha256", sha256) == sha256

    def _head(self, key: str) -> dict[str, Any] | None:
        try:
            with self._known(key):
                return self._client.head_object(**self._at(key))
        except KeyError:
            return None

    def list(self, prefix: str) -> Iterable[Stored]:
        with self._known():
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=self._prefix + prefix
            )
            return [
                Stored(entry["Key"].removeprefix(self._prefix), entry["Size"], entry["LastModified"])
                for page in pages
                for entry in page.get("Contents", ())
            ]

    def delete(self, keys: Iterable[str]) -> None:
        doomed = [{"Key": self._prefix + key} for key in keys]
        for start in range(0, len(doomed), _DELETED_AT_ONCE):
            some = {"Objects": doomed[start : start + _DELETED_AT_ONCE], "Quiet": True}
            with self._known():
                answer = self._client.delete_objects(Bucket=self._bucket, Delete=some)
            if errors := answer.get("Errors"):
                raise self._failure(str(errors[0].get("Code")), "DeleteObjects")

    def abandon(self, prefix: str, before: datetime) -> int:
        with self._known():
            pages = self._client.get_paginator("list_multipart_uploads").paginate(
                Bucket=self._bucket, Prefix=self._prefix + prefix
            )
            doomed = [entry for page in pages for entry in page.get("Uploads", ()) if entry["Initiated"] < before]
            for entry in doomed:
                with suppress(self._client.exceptions.NoSuchUpload):
                    self._client.abort_multipart_upload(
                        Bucket=self._bucket, Key=entry["Key"], UploadId=entry["UploadId"]
                    )
        return len(doomed)

    def _at(self, key: str) -> dict[str, Any]:
        return {"Bucket": self._bucket, "Key": self._prefix + key}

    def _body(self, answer: dict[str, Any], chunk_bytes: int) -> Iterator[bytes]:
        body, left = answer["Body"], answer["ContentLength"]
        try:
            with self._known():
                while data := body.read(chunk_bytes):
                    left -= len(data)
                    yield data
        finally:
            body.close()
        if left:
            raise self._failure("IncompleteBody")

    @contextmanager
    def _known(self, key: str | None = None) -> Generator[None]:
        """Makes one of ours of whatever botocore raises; `KeyError` where it is the object `key` that is absent."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except ClientError as error:
            if key is not None and code_of(error) in ABSENT:
                raise KeyError(key) from None
            raise self._failure(code_of(error), error.operation_name) from None
        except BotoCoreError as error:
            raise self._failure(type(error).__name__) from None
        except (FileNotFoundError, PermissionError, ValueError):
            # The program or the file that is to give the credentials, as botocore leaves it.
            raise self._failure("Unobtainable") from None

    def _failure(self, code: str, operation: str = "") -> BedivereError:
        return failure(self._bucket, code, operation)
