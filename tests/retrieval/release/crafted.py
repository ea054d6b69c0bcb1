"""Releases made by hand, whole and broken, and a store in memory to keep them in."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, cast

import lancedb
import pyarrow as pa

from retrieval.errors import BedivereError, ErrorCode
from retrieval.release.manifest import POINTER_KEY, Manifest, PackedFile, Part, Pointer, TableEntry, part_key
from retrieval.release.store import Conflict, Fetched, OnSent, Stored

RELEASE = "20261129T181500Z-3f2a9c1b"
LATER_RELEASE = "20261129T191500Z-4a2a9c1b"


class MemoryStore:
    """A store that lives in a dictionary; `before_stream` is called with the key of each part that is asked for."""

    def __init__(self) -> None:
        self.uri = "memory://"
        self.objects: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.before_stream: Callable[[str], object] = lambda _: None
        self.failure: ErrorCode | None = None

    def get(self, key: str, *, unless_tag: str | None = None, max_bytes: int) -> Fetched | None:
        del max_bytes
        self._ask(key)
        tag = hashlib.sha256(self.objects[key]).hexdigest()
        return None if tag == unless_tag else Fetched(self.objects[key], tag)

    def stream(self, key: str, *, chunk_bytes: int = 1 << 20) -> Iterator[bytes]:
        self._ask(key)
        self.before_stream(key)
        data = self.objects[key]
        return (data[at : at + chunk_bytes] for at in range(0, len(data), chunk_bytes))

    def close(self) -> None: ...

    def _ask(self, key: str) -> None:
        self.asked.append(key)
        if self.failure is not None:
            raise BedivereError(self.failure, "The store fails, as it was told to.")

    def put(
        self, key: str, data: bytes, *, if_tag: str | None = None, if_absent: bool = False, private: bool = False
    ) -> str:
        del private
        there = hashlib.sha256(self.objects[key]).hexdigest() if key in self.objects else None
        if (if_tag or if_absent) and there != if_tag:
            raise Conflict(key)
        self.objects[key] = data
        return hashlib.sha256(data).hexdigest()

    def upload(self, key: str, file: Path, *, sha256: str, on_sent: OnSent | None = None) -> None:
        del sha256, on_sent
        self.objects[key] = file.read_bytes()

    def size(self, key: str) -> int | None:
        return len(self.objects[key]) if key in self.objects else None

    def holds(self, key: str, *, size: int, sha256: str) -> bool:
        del sha256
        return self.size(key) == size

    def list(self, prefix: str) -> Iterable[Stored]:
        return [
            Stored(key, len(data), datetime.now(UTC))
            for key, data in sorted(self.objects.items())
            if key.startswith(prefix)
        ]

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.objects.pop(key, None)

    def abandon(self, prefix: str, before: datetime) -> int:
        del prefix, before
        return 0

    @property
    def fetched_parts(self) -> list[str]:
        """The keys of the parts that were asked for, in order."""
        return [key for key in self.asked if key != POINTER_KEY]


def archive(members: Iterable[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    """A tar stream under zstd that holds `members` as they are."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for member, content in members:
            tar.addfile(member, io.BytesIO(content))
    return compressed(buffer.getvalue())


def compressed(data: bytes) -> bytes:
    """`data` as one zstd frame, written as a stream."""
    arrow: Any = pa
    sink = arrow.BufferOutputStream()
    with arrow.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return cast("bytes", sink.getvalue().to_pybytes())


def member(
    name: str, content: bytes, *, kind: bytes = tarfile.REGTYPE, link: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    """An entry of an archive, of whatever kind."""
    info = tarfile.TarInfo(name)
    info.size = len(content)
    info.type = kind
    info.linkname = link
    return info, content


def packed(
    files: Mapping[str, bytes], *, number: int = 0, release: str = RELEASE, data: bytes | None = None
) -> tuple[Part, bytes]:
    """A part that says it holds `files`, and its bytes: those of an archive of them, or `data`."""
    data = archive(member(name, content) for name, content in files.items()) if data is None else data
    listed = tuple(PackedFile(name, len(content)) for name, content in files.items())
    return Part(part_key(release, number), len(data), hashlib.sha256(data).hexdigest(), listed), data


def manifest_of(
    parts: Sequence[Part], *, release: str = RELEASE, tables: Sequence[TableEntry] = (), minimum_reader: int = 1
) -> Manifest:
    """A manifest of `parts`."""
    return Manifest(
        release=release,
        created_at="2026-11-29T18:15:00Z",
        minimum_reader=minimum_reader,
        tool_version="0.1.0",
        corpus="0" * 64,
        parts=tuple(parts),
        tables=tuple(tables),
    )


def put_release(
    store: MemoryStore,
    database: Path,
    *,
    release: str = RELEASE,
    rows: int | None = None,
    parts: int = 2,
    table: str = "documents",
) -> Manifest:
    """Stores the table of `database` as a release in `parts` parts and points at it; `rows` where it shall lie."""
    place = (database / f"{table}.lance").resolve()
    found = sorted(file for file in place.rglob("*") if file.is_file() and "_transactions" not in file.parts)
    files = {f"{table}.lance/{file.relative_to(place).as_posix()}": file.read_bytes() for file in found}
    made = [packed(dict(list(files.items())[number::parts]), number=number, release=release) for number in range(parts)]
    for part, data in made:
        store.objects[part.key] = data
    entry = TableEntry(table, count_rows(database, table) if rows is None else rows, ("text",), {}, None)
    manifest = manifest_of([part for part, _ in made], release=release, tables=[entry])
    point_at(store, manifest)
    return manifest


def count_rows(database: Path, table: str) -> int:
    """Rows of a table."""
    return lancedb.connect(str(database)).open_table(table).count_rows()


def point_at(store: MemoryStore, manifest: Manifest) -> None:
    """Makes `manifest` the current release."""
    store.objects[POINTER_KEY] = Pointer(manifest.release, manifest).to_json()


class DiskUsage(NamedTuple):
    """What `shutil.disk_usage` answers; in bytes."""

    total: int
    used: int
    free: int


def small_disk(path: object) -> DiskUsage:
    """The usage of a disk that is nearly full, in place of `shutil.disk_usage`."""
    del path
    return DiskUsage(total=512_000_000, used=511_000_000, free=1_000_000)
