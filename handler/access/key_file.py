"""The one small object that holds what is kept of API keys: names, salted hashes, scopes. No key is in it."""

from __future__ import annotations

import hmac
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError, model_validator

from handler.access.caller import checked_scopes
from handler.access.key import SALT_BYTES, digest, is_key
from handler.access.limits import parse_limit
from retrieval.errors import BedivereError, ErrorCode
from retrieval.release.store import Store, open_store
from retrieval.settings import Settings

OBJECT: Final = "keys.json"
"""Its name beside the pointer of a store of releases."""

MAX_KEYS: Final = 1000
MAX_BYTES: Final = 2**20

NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"

_STORES: Final = ("s3://", "file://")
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"

Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
Salt = Annotated[str, StringConstraints(pattern=rf"^[0-9a-f]{{{2 * SALT_BYTES}}}$")]
Hash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Moment = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]


class KeyRecord(BaseModel):
    """What is kept of one key; times are UTC."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    salt: Salt
    hash: Hash
    scopes: tuple[str, ...]
    created: Moment
    expires: Moment | None = None
    limit: str | None = None

    @cached_property
    def expires_at(self) -> datetime | None:
        return parsed_moment(self.expires) if self.expires else None

    @model_validator(mode="after")
    def _is_as_it_was_made(self) -> Self:
        """What somebody wrote by hand must not fail in the middle of a request."""
        parsed_moment(self.created)
        _ = self.expires_at
        try:
            checked_scopes(self.scopes)
            if self.limit is not None:
                parse_limit(self.limit)
        except BedivereError as error:
            raise ValueError(error.sentence) from None
        return self

    def is_expired(self, now: datetime) -> bool:
        return self.expires_at is not None and now >= self.expires_at


class KeyFile(BaseModel):
    """All keys, by their names."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    keys: tuple[KeyRecord, ...] = ()

    @classmethod
    def load(cls, data: bytes) -> KeyFile:
        """From the bytes of the object. Raises `BedivereError` KEYS_DAMAGED."""
        try:
            return cls.model_validate_json(data)
        except ValidationError:
            raise BedivereError(
                ErrorCode.KEYS_DAMAGED,
                f"The object of the API keys, {OBJECT}, is not what bedivere keys wrote, or a newer one wrote it: "
                "restore an earlier version of it, or delete it and make new keys.",
            ) from None

    def dump(self) -> bytes:
        return self.model_dump_json(indent=1, exclude_none=True).encode()

    @cached_property
    def _hashes(self) -> Mapping[str, tuple[bytes, bytes]]:
        return {record.name: (bytes.fromhex(record.salt), bytes.fromhex(record.hash)) for record in self.keys}

    def find(self, key: str) -> KeyRecord | None:
        """The record of `key`, expired or not. What it takes does not depend on which key it is."""
        if not is_key(key):
            return None
        found: KeyRecord | None = None
        for record in self.keys:
            salt, kept = self._hashes[record.name]
            if hmac.compare_digest(kept, digest(key, salt)):
                found = record
        return found


def written_moment(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime(_TIME)


def parsed_moment(text: str) -> datetime:
    """Raises `ValueError` where there is no such day or hour."""
    return datetime.strptime(text, _TIME).replace(tzinfo=UTC)


def place_of_keys(settings: Settings, given: str | None = None) -> str:
    """Where the keys are kept: as `given`, else as the settings say, else beside the releases or the settings file."""
    named = given or settings.keys
    if named:
        return named
    if (settings.database or "").startswith(_STORES):
        return str(settings.database)
    home = os.environ.get("XDG_CONFIG_HOME", "").strip() or os.path.expanduser("~/.config")  # noqa: PTH111 - Path.expanduser raises where there is no home
    return str(Path(home) / "bedivere" / OBJECT)


def open_place(place: str) -> tuple[Store, str]:
    """The store that holds the keys, and the object's name in it. Raises `BedivereError` as `open_store` does."""
    if place.startswith(_STORES):
        return open_store(place), OBJECT
    file = Path(os.path.expanduser(place)).absolute()  # noqa: PTH111 - never raises
    if not file.name or file.name.startswith(".") or "\0" in place or "://" in place:
        raise BedivereError(
            ErrorCode.INVALID_ARGUMENT,
            "Keys are kept at s3://BUCKET/PREFIX, in file:///FOLDER or in a file that is named.",
        )
    return open_store(file.parent.as_uri()), file.name
