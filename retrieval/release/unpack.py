"""Unpacks one part of a release as it arrives. Nothing in the archive is trusted beyond what the manifest says of it.

A part is a tar stream under zstd. Only plain files that the manifest lists for this part, each once and of the size it
states, reach the disk; anything else ends the sync, and so does a checksum that differs at the end.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final, cast

from retrieval.errors import BedivereError
from retrieval.release.manifest import Part, damaged

# Much more would be mapped and unmapped by the system each time, which costs as much as unpacking itself.
_READ_BYTES: Final = 1 << 16
_BLOCK_BYTES: Final = 512
# What tar writes around a file: its header, and a long name's own header and content.
_OVERHEAD_BYTES: Final = 8 * _BLOCK_BYTES
_END_BYTES: Final = 1 << 20


def unpack(chunks: Iterator[bytes], part: Part, folder: Path) -> None:
    """Writes the files of `part` below `folder`, whose subfolders exist, from the packed bytes that `chunks` yields.

    Returns only where every byte was read and has the part's checksum and every file is there. Raises `BedivereError`
    RELEASE_DAMAGED, `OSError` where the disk fails, and whatever `chunks` raises; files written so far stay.
    """
    packed = _Packed(chunks, part.bytes)
    missing = {file.path: file.bytes for file in part.files}
    content = _Unpacked(packed, sum(_padded(size) + _OVERHEAD_BYTES for size in missing.values()) + _END_BYTES)
    try:
        with tarfile.open(fileobj=cast("IO[bytes]", content), mode="r|", bufsize=_READ_BYTES) as archive:
            for member in archive:
                _write(archive, member, _claim(member, missing), folder)
    except (tarfile.TarError, ValueError, RecursionError):
        # The latter two of headers that nobody writes.
        raise damaged("a part is not an archive, or one cut short") from None
    if packed.checksum() != part.sha256:
        raise damaged("a part has another checksum than its manifest says")
    if missing:
        raise damaged("a part lacks files that its manifest lists")


def _claim(member: tarfile.TarInfo, missing: dict[str, int]) -> int:
    """The size of `member`, struck off `missing`; a name is good only once, and only for a plain file."""
    if member.type not in {tarfile.REGTYPE, tarfile.AREGTYPE} or member.issparse():
        raise damaged("a part holds a link, a device or something else that is no plain file")
    size = missing.pop(member.name, None)
    if size is None:
        raise damaged("a part holds a file that its manifest does not list, or one twice")
    if member.size != size:
        raise damaged("a file in a part has another size than its manifest says")
    return size


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, size: int, folder: Path) -> None:
    # The stream stands at the file's content; what `extractfile` gives would copy each byte twice more.
    content = archive.fileobj
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(folder / member.name, flags, 0o600), "wb", buffering=0) as file:
        while size > 0:
            data = content.read(min(size, _READ_BYTES))
            if not data:
                raise damaged("a file in a part is cut short")
            file.write(data)
            size -= len(data)


def _padded(size: int) -> int:
    return -(-size // _BLOCK_BYTES) * _BLOCK_BYTES


class _Packed:
    """The packed bytes as a file, hashed on the way; never more of them than the manifest says."""

    closed = False

    def __init__(self, chunks: Iterator[bytes], limit: int) -> None:
        self._chunks = chunks
        self._left = limit
        self._hash = hashlib.sha256()
        self._chunk = memoryview(b"")

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes, as pyarrow asks for them; empty at the end."""
        while not self._chunk:
            chunk = next(self._chunks, None)
            if chunk is None:
                return b""
            self._left -= len(chunk)
            if self._left < 0:
                raise damaged("a part is larger than its manifest says")
            self._hash.update(chunk)
            self._chunk = memoryview(chunk)
        taken, self._chunk = self._chunk[:size], self._chunk[size:]
        return bytes(taken)

    def checksum(self) -> str:
        """The checksum of all bytes, those that unpacking did not need included."""
        self._chunk = memoryview(b"")
        while self.read(_READ_BYTES):
            self._chunk = memoryview(b"")
        return self._hash.hexdigest()

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        """Nothing: whoever made the chunks ends them."""


class _Unpacked:
    """The unpacked bytes as a file for `tarfile`: never more of them than the manifest's files can take."""

    def __init__(self, packed: _Packed, limit: int) -> None:
        # Imported where it is used: a cold start asks the store before it loads this.
        import pyarrow as pa

        self._stream: Any = pa.CompressedInputStream(cast("Any", pa.PythonFile(cast("Any", packed), mode="r")), "zstd")
        self._left = limit

    def read(self, size: int) -> bytes:
        try:
            data = cast("bytes", self._stream.read(size))
        except BedivereError:
            raise
        except OSError:
            raise damaged("a part is not compressed as parts are, or is cut short") from None
        self._left -= len(data)
        if self._left < 0:
            raise damaged("a part unpacks to more than its manifest says")
        return data
