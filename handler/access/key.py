"""The text of an API key: how one is made, told from other text, and turned into what may be kept of it.

A key is `bdv_`, 256 random bits in base 62, and six characters of a checksum. Scanners of secrets find it by its prefix
and, by the checksum, without false alarms; a key that was cut or mistyped is refused before any hash is compared.
"""

from __future__ import annotations

import hmac
import re
import secrets
import string
import zlib
from typing import Final

PREFIX: Final = "bdv_"
PATTERN: Final = r"bdv_[0-9A-Za-z]{49}"
"""What a scanner looks for."""

SALT_BYTES: Final = 16

_ALPHABET: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
_RANDOM_BYTES: Final = 32
_RANDOM_CHARS: Final = 43
_CHECKSUM_CHARS: Final = 6
_KEY: Final = re.compile(PATTERN)


def new_key() -> str:
    """A key that nobody has seen."""
    body = _base62(int.from_bytes(secrets.token_bytes(_RANDOM_BYTES)), _RANDOM_CHARS)
    return f"{PREFIX}{body}{_checksum(body)}"


def is_key(text: str) -> bool:
    """Whether `text` has the form of a key, its checksum included; it says nothing of whether anyone was given it."""
    body, checksum = text[len(PREFIX) : -_CHECKSUM_CHARS], text[-_CHECKSUM_CHARS:]
    return _KEY.fullmatch(text) is not None and _checksum(body) == checksum


def digest(key: str, salt: bytes) -> bytes:
    """What is kept of `key`: HMAC-SHA-256, 32 bytes.

    A slow hash protects what people choose, because that can be guessed. 256 random bits cannot, at any speed; and a
    slow one would be paid for with every request.
    """
    return hmac.digest(salt, key.encode(), "sha256")


def _checksum(body: str) -> str:
    return _base62(zlib.crc32(f"{PREFIX}{body}".encode()), _CHECKSUM_CHARS)


def _base62(number: int, chars: int) -> str:
    digits: list[str] = []
    for _ in range(chars):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))
