"""Makes shared libraries smaller without the tools of a compiler, which AWS's base image does not have.

Two things go that no running program reads: what follows the last byte that is loaded, which is the symbols of
debuggers and the table of sections; and the names of libraries that were to be loaded beside this one, where they were
removed. What is loaded is not touched otherwise, so a library that needs something of a removed one cannot be loaded
with `LD_BIND_NOW=1`, which the build tries. ELF of 64 bits, little-endian: both of Lambda's processors.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

_MAGIC = b"\x7fELF\x02\x01"
_HEADER_BYTES = 64
# Of the header: where the segments are described, where the sections are, and how many there are of each.
_SEGMENTS_AT, _SECTIONS_AT, _SEGMENT_BYTES_AT, _SECTION_COUNT_AT = 32, 40, 54, 60
_LOADED, _DYNAMIC = 1, 2
_END, _NEEDED, _STRINGS = 0, 1, 5
_ENTRY = struct.Struct("<qQ")


class _Segment(NamedTuple):
    kind: int
    flags: int
    offset: int
    address: int
    physical: int
    bytes: int
    memory: int
    alignment: int


_SEGMENT = struct.Struct("<IIQQQQQQ")


def slim(library: Path, removed: Collection[str] = ()) -> int:
    """Rewrites `library` without what is said above, with `removed` the names of the libraries that are gone.

    Returns the bytes saved; 0 for a file that is no such library, which stays as it is. The file is replaced, so that
    others that share its bytes by a hard link keep theirs.
    """
    with library.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            return 0
    content = bytearray(library.read_bytes())
    before = len(content)
    segments = _segments(content)
    del content[max(_HEADER_BYTES, *(segment.offset + segment.bytes for segment in segments)) :]
    struct.pack_into("<Q", content, _SECTIONS_AT, 0)
    # The number of sections and which of them has their names.
    struct.pack_into("<HH", content, _SECTION_COUNT_AT, 0, 0)
    changed = _forget(content, segments, removed)
    if len(content) == before and not changed:
        return 0
    fresh = library.with_name(f"{library.name}.new")
    fresh.write_bytes(content)
    shutil.copymode(library, fresh)
    fresh.replace(library)
    return before - len(content)


def _segments(content: bytes | bytearray) -> list[_Segment]:
    (start,) = struct.unpack_from("<Q", content, _SEGMENTS_AT)
    size, count = struct.unpack_from("<HH", content, _SEGMENT_BYTES_AT)
    return [_Segment(*_SEGMENT.unpack_from(content, start + number * size)) for number in range(count)]


def _forget(content: bytearray, segments: Collection[_Segment], removed: Collection[str]) -> bool:
    """Strikes those of `removed` from the libraries that the loader looks for; says whether there were any."""
    dynamic = next((segment for segment in segments if segment.kind == _DYNAMIC), None)
    if dynamic is None:
        return False
    entries: list[tuple[int, int]] = []
    for tag, value in _ENTRY.iter_unpack(content[dynamic.offset : dynamic.offset + dynamic.bytes]):
        if tag == _END:
            break
        entries.append((tag, value))
    address = next(value for tag, value in entries if tag == _STRINGS)
    strings = next(
        segment.offset + address - segment.address
        for segment in segments
        if segment.kind == _LOADED and segment.address <= address < segment.address + segment.bytes
    )

    def name(place: int) -> str:
        return content[strings + place : content.index(0, strings + place)].decode()

    kept = [(tag, value) for tag, value in entries if tag != _NEEDED or name(value) not in removed]
    gone = len(entries) - len(kept)
    for number, entry in enumerate(kept + [(_END, 0)] * gone):
        _ENTRY.pack_into(content, dynamic.offset + number * _ENTRY.size, *entry)
    return gone > 0
