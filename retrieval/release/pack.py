"""Packs the files of a dataset into parts, byte for byte the same for the same files; unpacking is the reader's.

A part is a tar archive of whole files, compressed by zstd. Owners, times and modes of the files are left out.
"""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import tarfile
import tempfile
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import pyarrow as pa

from retrieval.errors import BedivereError, ErrorCode
from retrieval.release.manifest import PART_BYTES, Part, is_safe

COMPRESSION: Final = "zstd"

_LEFT_OUT: Final = frozenset({"_transactions"})
_READ_AT_ONCE: Final = 1 << 20
_WORKSPACES: Final = "bedivere-publish-"
_LOCK: Final = "lock"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file to pack: where it stands, and what it is called in the archive."""

    path: str
    place: Path
    bytes: int


@dataclass(frozen=True, slots=True)
class Packed:
    """A part as it was written; `sha256` in hexadecimal."""

    bytes: int
    sha256: str


def files_of(table: str, place: Path) -> list[SourceFile]:
    """The files of the table whose folder is `place`, by their names in the archive.

    Raises `BedivereError` DATASET_NOT_WHOLE for a link, a name that no reader would unpack, or what cannot be read.
    """
    found: list[SourceFile] = []
    try:
        for folder, folders, names in _walk(place):
            if folder == place:
                folders[:] = [name for name in folders if name not in _LEFT_OUT]
            for name in (*names, *folders):
                entry = folder / name
                path = f"{table}.lance/{entry.relative_to(place).as_posix()}"
                if entry.is_symlink() or not is_safe(path):
                    raise not_whole(table, "holds a link, or a file whose name cannot be packed")
                if entry.is_file():
                    found.append(SourceFile(path, entry, entry.stat().st_size))
    except OSError as error:
        raise not_whole(table, f"has files that cannot be read ({error.strerror})") from None
    return sorted(found, key=lambda file: file.path)


def plan(files: Iterable[SourceFile], earlier: Iterable[Part] = ()) -> list[tuple[SourceFile, ...]]:
    """Which files go into which part, each of about `PART_BYTES`; a larger file has a part of its own.

    Where an earlier release packed the same files together, they stay together, so that its part can serve again.
    """
    left = {file.path: file for file in sorted(files, key=lambda file: file.path)}
    groups: list[tuple[SourceFile, ...]] = []
    for part in earlier:
        group = tuple(left[file.path] for file in part.files if file.path in left)
        same = [(file.path, file.bytes) for file in group] == [(file.path, file.bytes) for file in part.files]
        if same and sum(file.bytes for file in group) >= PART_BYTES // 2:
            groups.append(group)
            for file in group:
                del left[file.path]
    rest: list[SourceFile] = []
    size = 0
    for file in left.values():
        another_table = bool(rest) and _table_of(rest[0]) != _table_of(file)
        # A table that stays as it is should not be packed together with one that changes, unless both are small.
        if rest and (size + file.bytes > PART_BYTES or (another_table and size > PART_BYTES // 8)):
            groups.append(tuple(rest))
            rest, size = [], 0
        rest.append(file)
        size += file.bytes
    if rest:
        groups.append(tuple(rest))
    return sorted(groups, key=lambda group: group[0].path)


def write(files: Sequence[SourceFile], target: Path) -> Packed:
    """Writes the archive of `files` to `target`.

    Raises `BedivereError`: DATASET_NOT_WHOLE where a file is not what it was when it was found, DATASET_TOO_LARGE
    where the disk is full.
    """
    try:
        with target.open("wb") as file:
            hashing = _Hashing(file)
            with pa.CompressedOutputStream(pa.PythonFile(hashing, mode="w"), COMPRESSION) as compressed:
                sink = cast("BinaryIO", _Counting(compressed))
                with tarfile.TarFile(
                    fileobj=sink, mode="w", format=tarfile.PAX_FORMAT, copybufsize=_READ_AT_ONCE
                ) as archive:
                    for each in files:
                        _add(archive, each)
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise BedivereError(
                ErrorCode.DATASET_TOO_LARGE,
                "The folder for temporary files is full: free some space, or name another folder with TMPDIR.",
            ) from None
        raise
    return Packed(hashing.bytes, hashing.digest.hexdigest())


@contextmanager
def workspace() -> Generator[Path]:
    """A fresh folder for parts on their way, removed at the end; those of killed runs are removed first."""
    base = Path(tempfile.gettempdir())
    for folder in base.glob(f"{_WORKSPACES}*"):
        with _locked(folder) as free:
            if free:
                shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_WORKSPACES, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        # Locked before it has the name by which other runs look for it.
        with (folder / "new").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            (folder / "new").rename(folder / _LOCK)
            yield folder


def not_whole(table: str, lack: str) -> BedivereError:
    """DATASET_NOT_WHOLE, whose sentence names the table and what it lacks."""
    return BedivereError(
        ErrorCode.DATASET_NOT_WHOLE, f"Table {table!r} {lack}: index it again, then publish. Nothing was published."
    )


def _walk(place: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    return ((Path(folder), folders, names) for folder, folders, names in os.walk(place, onerror=_raise))


def _raise(error: OSError) -> None:
    raise error


def _table_of(file: SourceFile) -> str:
    return file.path.partition("/")[0]


def _add(archive: tarfile.TarFile, file: SourceFile) -> None:
    entry = tarfile.TarInfo(file.path)
    entry.size = file.bytes
    entry.mode = 0o644
    try:
        with file.place.open("rb") as stream:
            archive.addfile(entry, stream)
            whole = not stream.read(1)
    except OSError as error:
        if error.errno is not None and error.errno != errno.ENOENT:
            raise
        whole = False
    if not whole:
        raise not_whole(_table_of(file).removesuffix(".lance"), "changed while it was packed")


@contextmanager
def _locked(folder: Path) -> Generator[bool]:
    """Holds the folder's lock, if nobody else does."""
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


class _Hashing:
    """A file to write that knows the size and the SHA-256 of what was written."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.bytes = 0
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        self.bytes += len(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self.closed = True


class _Counting:
    """A stream that knows where it is, which tarfile asks of it."""

    def __init__(self, stream: Any) -> None:  # noqa: ANN401 - a class of pyarrow's, without types
        self._stream = stream
        self._position = 0

    def write(self, data: bytes) -> int:
        self._stream.write(data)
        self._position += len(data)
        return len(data)

    def tell(self) -> int:
        return self._position
