"""Opaque cursors: where a listing goes on, without the server remembering anything.

A cursor is URL-safe text: a tag that names the state of the table, a check over all of it, and the position as JSON.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from retrieval.errors import BedivereError, ErrorCode

MAX_CURSOR_CHARS: Final = 50_000
"""Longer is no cursor of ours: one with the longest path and headings that are taken stays below."""

_TAG_BYTES: Final = 8
_CHECK_BYTES: Final = 16
_ALPHABET: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")

Position = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Anchor:
    """What a cursor belongs to: one listing of one state of one table.

    `parameters` is what the caller repeats on each page, and must repeat unchanged.
    """

    listing: Literal["fetch", "catalog"]
    table: str
    state: str
    """The corpus version, or what else changes with the documents."""
    parameters: Any = None

    @property
    def tag(self) -> bytes:
        return _digest(["state", self.state], _TAG_BYTES)

    def check(self, tag: bytes, position: bytes) -> bytes:
        """The check of a cursor made at the state that `tag` names.

        A server that keeps nothing has no secret to sign with: the key follows from what is being listed. That finds
        cursors that were cut, altered or carried over from another listing. It does not stop who reads this and makes
        his own, and need not: a position says nothing that could not be asked in plain arguments, and is looked up
        like those.
        """
        key = _digest(["bedivere cursor 1", self.listing, self.table, self.parameters], hashlib.blake2b.MAX_KEY_SIZE)
        return hmac.digest(key, tag + position, "sha256")[:_CHECK_BYTES]


def encode(anchor: Anchor, position: Position) -> str:
    """A cursor for `position`, whose values JSON can carry."""
    told = json.dumps(position, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    tag = anchor.tag
    return base64.urlsafe_b64encode(tag + anchor.check(tag, told) + told).rstrip(b"=").decode("ascii")


def decode(anchor: Anchor, cursor: str) -> Position:
    """The position in `cursor`, as it was encoded.

    Raises `BedivereError`: INVALID_CURSOR where it was not made here for this listing, or was altered; CURSOR_STALE
    where it was made for another state of the table.
    """
    raw = _bytes(cursor)
    head = _TAG_BYTES + _CHECK_BYTES
    tag, check, told = raw[:_TAG_BYTES], raw[_TAG_BYTES:head], raw[head:]
    if not hmac.compare_digest(check, anchor.check(tag, told)):
        raise invalid(anchor)
    if tag != anchor.tag:
        raise BedivereError(
            ErrorCode.CURSOR_STALE,
            "The documents have changed since the cursor was made: begin again without cursor.",
        )
    try:
        position = json.loads(told)
    except ValueError:
        raise invalid(anchor) from None
    if not isinstance(position, dict):
        raise invalid(anchor)
    return cast("dict[str, Any]", position)


def invalid(anchor: Anchor) -> BedivereError:
    """The refusal of a cursor that is none, or that holds a position there is not."""
    repeated = "table and the filters" if anchor.listing == "catalog" else "table"
    return BedivereError(
        ErrorCode.INVALID_CURSOR,
        f"The cursor was altered or made for another call: pass it as it came, with the same {repeated}, or begin "
        "again without cursor.",
    )


def _bytes(cursor: str) -> bytes:
    """What `cursor` encodes; empty where it encodes nothing, or where another text would encode the same."""
    if len(cursor) > MAX_CURSOR_CHARS or not cursor.isascii():
        return b""
    text = cursor.encode("ascii")
    if not _ALPHABET.issuperset(text):
        return b""
    try:
        raw = base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4))
    except binascii.Error:
        return b""
    return raw if base64.urlsafe_b64encode(raw).rstrip(b"=") == text else b""


def _digest(facts: list[Any], size: int) -> bytes:
    told = json.dumps(facts, separators=(",", ":"), sort_keys=True, default=str)
    return hashlib.blake2b(told.encode(), digest_size=size).digest()
