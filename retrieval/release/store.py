"""Where releases are kept: an S3 prefix or a folder, behind one small interface. The only module that speaks to S3.

A store knows keys, bytes and tags; what they mean is the manifest's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Fetched:
    """A small object and the tag that changes with its content."""

    data: bytes
    tag: str


@dataclass(frozen=True, slots=True)
class Stored:
    """An object as a listing shows it."""

    key: str
    bytes: int


class Conflict(Exception):
    """A conditional write found another tag than it expected."""


class Store(Protocol):
    """Keys are relative to the store's prefix and use `/`.

    Every method raises `BedivereError`: STORE_DENIED (403, expired or missing credentials), STORE_NOT_FOUND (no such
    bucket or folder) or STORE_UNREACHABLE (network, 5xx and throttling after the retries).
    """

    uri: str

    def get(self, key: str, *, unless_tag: str | None = None, max_bytes: int) -> Fetched | None:
        """The object, or None where its tag is still `unless_tag`. Raises `KeyError` where there is none."""
        ...

    def stream(self, key: str, *, chunk_bytes: int = 1 << 20) -> Iterator[bytes]:
        """The object's bytes. Raises `KeyError` where there is none; a body cut short raises STORE_UNREACHABLE."""
        ...

    def put(self, key: str, data: bytes, *, if_tag: str | None = None, if_absent: bool = False) -> str:
        """Writes a small object and returns its tag. Raises `Conflict` where the condition does not hold."""
        ...

    def upload(self, key: str, file: Path, *, sha256: str) -> None:
        """Writes a part, multipart where it is large; the store verifies `sha256` (hexadecimal) where it can."""
        ...

    def size(self, key: str) -> int | None:
        """The object's size in bytes, None where there is none."""
        ...

    def list(self, prefix: str) -> Iterable[Stored]:
        """Objects whose key begins with `prefix`, in order. Serving never lists."""
        ...

    def delete(self, keys: Iterable[str]) -> None:
        """Removes objects; those that are not there are no error."""
        ...
