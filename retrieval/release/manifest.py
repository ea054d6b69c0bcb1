"""What a release consists of, and the pointer that names the current one. Both are JSON; nothing in them is trusted.

PREFIX/current.json                          {"release": id, "manifest": {...}}: the only object that changes
PREFIX/releases/<id>/manifest.json           the same manifest, kept for listing and for rolling back
PREFIX/releases/<id>/pending.json            there while the release is being published
PREFIX/releases/<id>/part-0000.tar.zst …     whole files, packed to about `PART_BYTES`
"""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Annotated, Any, Final

from pydantic import Field, TypeAdapter, ValidationError

from retrieval.errors import BedivereError, ErrorCode

READER_FORMAT: Final = 1
"""The newest format of releases that this reader understands."""

PART_BYTES: Final = 64 * 1024 * 1024
"""Files are packed to parts of about this size, so that parts download, verify and unpack side by side."""

POINTER_KEY: Final = "current.json"
RELEASES: Final = "releases"

MAX_POINTER_BYTES: Final = 8 * 1024 * 1024
MAX_PARTS: Final = 10_000
MAX_FILES: Final = 100_000

_ID: Final = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}(?:-\d{1,3})?")
# It is printed to terminals and told to agents, whatever it says.
_PRINTABLE: Final = r"^[ -~]{0,40}$"
_SHA256: Final = r"^[0-9a-f]{64}$"
_PART_KEY: Final = re.compile(rf"{RELEASES}/{_ID.pattern}/part-\d{{4}}\.tar\.zst")

Count = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class PackedFile:
    """One file of the dataset; `path` is relative, POSIX, without `.` and `..`."""

    path: str
    bytes: Count


@dataclass(frozen=True, slots=True)
class Part:
    """One archive of whole files. Its key may lie in an earlier release, which had the same part."""

    key: str
    bytes: Count
    sha256: Annotated[str, Field(pattern=_SHA256)]
    files: tuple[PackedFile, ...]


@dataclass(frozen=True, slots=True)
class TableEntry:
    """One table of the release: its size, the state of its indexes and its provenance record, or null."""

    name: str
    rows: Count
    columns: tuple[str, ...]
    indexed: dict[str, int]
    """Rows that each searched column's index covers."""
    provenance: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything that a reader needs to fetch, verify and unpack a release; sizes are in bytes."""

    release: str
    created_at: Annotated[str, Field(pattern=_PRINTABLE)]
    """UTC, ISO 8601, to the second."""
    minimum_reader: Count
    """The oldest format of readers that can serve it."""
    tool_version: str
    corpus: Annotated[str, Field(pattern=_SHA256)]
    """SHA-256 over the tables' names and contents: equal means the same dataset."""
    parts: tuple[Part, ...]
    tables: tuple[TableEntry, ...]

    @property
    def packed_bytes(self) -> int:
        """Bytes to download."""
        return sum(part.bytes for part in self.parts)

    @property
    def unpacked_bytes(self) -> int:
        """Bytes on disk."""
        return sum(file.bytes for part in self.parts for file in part.files)

    @property
    def rows(self) -> int:
        """Chunks in all tables."""
        return sum(table.rows for table in self.tables)

    def to_json(self) -> bytes:
        """The manifest as it is stored beside its parts."""
        return json.dumps(asdict(self), separators=(",", ":"), sort_keys=True).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Manifest:
        """Raises `BedivereError`: RELEASE_TOO_NEW, or RELEASE_DAMAGED for whatever is not a manifest."""
        return _checked(_parse(data))


@dataclass(frozen=True, slots=True)
class Pointer:
    """The content of `current.json`."""

    release: str
    manifest: Manifest
    replaced: dict[str, str] = field(default_factory=dict[str, str])
    """When earlier releases ceased to be current, UTC in ISO 8601, as far back as pruning asks. Readers ignore it."""

    def to_json(self) -> bytes:
        """The pointer as it is stored."""
        return json.dumps(asdict(self), separators=(",", ":"), sort_keys=True).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Pointer:
        """Raises `BedivereError`: RELEASE_TOO_NEW, or RELEASE_DAMAGED for whatever is not a pointer."""
        record = _parse(data)
        manifest = _checked(record.get("manifest"))
        if record.get("release") != manifest.release:
            raise damaged("it names one release and holds the manifest of another")
        try:
            replaced = TypeAdapter(dict[str, str]).validate_python(record.get("replaced", {}), strict=True)
        except ValidationError:
            replaced = {}
        return cls(manifest.release, manifest, replaced)


def release_id(corpus: str, now: datetime | None = None) -> str:
    """A new release's id: UTC time and the first eight characters of the corpus hash."""
    return f"{now or datetime.now(UTC):%Y%m%dT%H%M%SZ}-{corpus[:8] or secrets.token_hex(4)}"


def is_release_id(text: str) -> bool:
    """Whether `text` may be used in a key."""
    return _ID.fullmatch(text) is not None


def part_key(release: str, number: int) -> str:
    """Where part `number` of `release` is stored, below the store's prefix."""
    return f"{RELEASES}/{release}/part-{number:04}.tar.zst"


def manifest_key(release: str) -> str:
    """Where the manifest of `release` is kept, below the store's prefix."""
    return f"{RELEASES}/{release}/manifest.json"


def pending_key(release: str) -> str:
    """What claims the id of `release` while it is being published, and says which parts it will refer to."""
    return f"{RELEASES}/{release}/pending.json"


def damaged(reason: str) -> BedivereError:
    """RELEASE_DAMAGED, whose sentence holds `reason`."""
    return BedivereError(
        ErrorCode.RELEASE_DAMAGED, f"The release cannot be used: {reason}. Publish again, or roll back to another."
    )


def _parse(data: bytes) -> dict[str, Any]:
    if len(data) > MAX_POINTER_BYTES:
        raise damaged("its manifest is larger than any of ours")
    try:
        record = json.loads(data)
    except (ValueError, RecursionError):
        raise damaged("its manifest is not JSON") from None
    if not isinstance(record, dict):
        raise damaged("its manifest is not an object")
    return record  # pyright: ignore[reportUnknownVariableType] - checked field by field in `_checked`


def _checked(record: object) -> Manifest:
    needed = record.get("minimum_reader") if isinstance(record, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if isinstance(needed, int) and needed > READER_FORMAT:
        raise BedivereError(
            ErrorCode.RELEASE_TOO_NEW,
            f"The release needs a reader of format {needed} and this one knows {READER_FORMAT}: update Bedivere.",
        )
    try:
        manifest = TypeAdapter(Manifest).validate_json(json.dumps(record), strict=True)
    except (ValidationError, ValueError):
        raise damaged("its manifest lacks what a manifest has") from None
    if not is_release_id(manifest.release) or len(manifest.parts) > MAX_PARTS:
        raise damaged("its manifest has an impossible id or number of parts")
    paths = [file.path for part in manifest.parts for file in part.files]
    if len(paths) > MAX_FILES or len(set(paths)) != len(paths):
        raise damaged("its manifest lists too many files, or one twice")
    if not all(_PART_KEY.fullmatch(part.key) for part in manifest.parts) or not all(is_safe(path) for path in paths):
        raise damaged("its manifest names places outside of the release")
    return manifest


def is_safe(path: str) -> bool:
    """Whether `path` is relative, in normal form and below the folder it is unpacked to."""
    pure = PurePosixPath(path)
    return (
        bool(path)
        and not pure.is_absolute()
        and ".." not in pure.parts
        and path != "."
        and str(pure) == path
        and "\\" not in path
        and path.isprintable()
        and len(path) < 1024
    )
