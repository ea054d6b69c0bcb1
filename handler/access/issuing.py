"""Makes and revokes API keys. Only the command line imports this: what serves keys cannot write them."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from handler.access.caller import checked_scopes
from handler.access.key import SALT_BYTES, digest, new_key
from handler.access.key_file import (
    MAX_BYTES,
    MAX_KEYS,
    NAME_PATTERN,
    OBJECT,
    KeyFile,
    KeyRecord,
    open_place,
    written_moment,
)
from handler.access.limits import parse_limit
from retrieval.errors import BedivereError, ErrorCode
from retrieval.release.store import Conflict, Store

_ATTEMPTS: Final = 20
_S3: Final = "s3://"
_DURATION: Final = re.compile(r"([1-9][0-9]{0,4})(h|d|w|y)")
_HOURS: Final = {"h": 1, "d": 24, "w": 7 * 24, "y": 365 * 24}


def create(
    place: str,
    name: str,
    *,
    scopes: tuple[str, ...],
    expires: str | None = None,
    limit: str | None = None,
    now: datetime | None = None,
) -> tuple[str, KeyRecord]:
    """A new key, which is nowhere else, and what was kept of it at `place`.

    `expires` is a duration such as 90d, `limit` a rate such as 60/min. Raises `BedivereError` INVALID_ARGUMENT,
    KEY_EXISTS, KEYS_DAMAGED, or what the store raises.
    """
    if not re.fullmatch(NAME_PATTERN, name):
        raise BedivereError(
            ErrorCode.INVALID_ARGUMENT,
            "A key's name is 1 to 64 letters, digits and . _ -, the first a letter or a digit: it is shown in logs.",
        )
    if limit is not None:
        parse_limit(limit)
    made = (now or datetime.now(UTC)).astimezone(UTC)
    key, salt = new_key(), secrets.token_bytes(SALT_BYTES)
    record = KeyRecord(
        name=name,
        salt=salt.hex(),
        hash=digest(key, salt).hex(),
        scopes=checked_scopes(scopes),
        created=written_moment(made),
        expires=None if expires is None else written_moment(made + duration(expires)),
        limit=limit,
    )

    def add(file: KeyFile) -> KeyFile:
        if any(held.name == name for held in file.keys):
            raise BedivereError(
                ErrorCode.KEY_EXISTS, f"There is a key called {name} already: choose another name, or revoke it first."
            )
        if len(file.keys) == MAX_KEYS:
            raise BedivereError(
                ErrorCode.INVALID_ARGUMENT, f"There are {MAX_KEYS:,} keys, the most there can be: revoke one first."
            )
        return KeyFile(keys=tuple(sorted((*file.keys, record), key=lambda one: one.name)))

    _change(place, add, make_folder=True)
    return key, record


def revoke(place: str, name: str) -> None:
    """Forgets the key called `name`. Raises `BedivereError` KEY_NOT_FOUND, KEYS_DAMAGED, or what the store raises."""

    def remove(file: KeyFile) -> KeyFile:
        kept = tuple(held for held in file.keys if held.name != name)
        if len(kept) == len(file.keys):
            raise BedivereError(
                ErrorCode.KEY_NOT_FOUND, f"There is no key called {name[:64]!r}: bedivere keys list names them."
            )
        return KeyFile(keys=kept)

    _change(place, remove)


def listed(place: str) -> tuple[KeyRecord, ...]:
    """What is kept of each key, by name. Raises `BedivereError` KEYS_DAMAGED, or what the store raises."""
    if "://" not in place and not Path(os.path.expanduser(place)).exists():  # noqa: PTH111 - never raises
        # Neither is its folder, before the first key is made.
        return ()
    return _read(*open_place(place))[0].keys


def duration(text: str) -> timedelta:
    """A duration such as 12h, 90d, 6w or 1y. Raises `BedivereError` INVALID_ARGUMENT."""
    match = _DURATION.fullmatch(text)
    hours = int(match[1]) * _HOURS[match[2]] if match else 0
    if not 0 < hours <= 100 * _HOURS["y"]:
        raise BedivereError(
            ErrorCode.INVALID_ARGUMENT,
            "A duration is a whole number and h, d, w or y, such as 12h or 90d, of at most 100 years.",
        )
    return timedelta(hours=hours)


def _read(store: Store, key: str) -> tuple[KeyFile, str | None]:
    """What is there and its tag, None where there is nothing yet."""
    try:
        fetched = store.get(key, max_bytes=MAX_BYTES)
    except KeyError:
        return KeyFile(), None
    if fetched is None:
        raise AssertionError("without a tag there is no answer but the object")
    return KeyFile.load(fetched.data), fetched.tag


def _change(place: str, change: Callable[[KeyFile], KeyFile], *, make_folder: bool = False) -> None:
    """Writes what `change` makes of what is there, and begins again where another writer came between."""
    place = _written_to(place)
    if make_folder and not place.startswith(_S3):
        _make_folder(Path(place).parent)
    store, key = open_place(place)
    for _ in range(_ATTEMPTS):
        file, tag = _read(store, key)
        data = change(file).dump()
        if len(data) > MAX_BYTES:
            # Written, it could be neither read nor mended: nobody would be let in, and no key be revoked.
            raise BedivereError(
                ErrorCode.INVALID_ARGUMENT,
                f"With this key, what is kept would be larger than {MAX_BYTES:,} bytes: give it fewer or shorter "
                "scopes, or revoke another first.",
            )
        try:
            store.put(key, data, if_tag=tag, if_absent=tag is None, private=True)
        except Conflict:
            continue
        return
    raise BedivereError(
        ErrorCode.STORE_UNREACHABLE, "Others kept changing the keys while they were being written: try again."
    )


def _written_to(place: str) -> str:
    """Where what is written to `place` has to land, as a path where it is on this machine: behind its links.

    A file is written by putting another in its place. In that of a link it would leave the file behind the link as it
    is, and a server that reads that one would go on to let in whom the owner has revoked.
    """
    if place.startswith(_S3):
        return place
    open_place(place)  # refuses what is no place for keys
    if place.startswith("file://"):
        return os.path.realpath(Path(unquote(urlsplit(place).path), OBJECT))
    return os.path.realpath(os.path.expanduser(place))  # noqa: PTH111 - never raises


def _make_folder(folder: Path) -> None:
    """The folder of a local file of keys, readable by its owner alone where it has to be made."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BedivereError(
            ErrorCode.STORE_DENIED, f"The folder of the keys cannot be made ({error.strerror or type(error).__name__})."
        ) from None
