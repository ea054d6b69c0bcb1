"""Vectors that were paid for, kept on disk by what was embedded, so that nothing is embedded twice.

One file for each way of embedding (model, length asked for, prefix): a line of JSON, then records of equal size, added
at the end and flushed. A record that a crash cut short, or that was damaged since, is as good as not there.

    header \\n | key (16 bytes) | CRC-32 of the vector (4 bytes) | float32 values | key | …
"""

# pyarrow ships no types: what comes out of it is checked where it enters our own types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
from __future__ import annotations

import hashlib
import json
import os
import struct
import zlib
from array import array
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import pyarrow as pa

from retrieval.indexing.generation import flush_folder

FORMAT: Final = 1
UNUSED_SHARE: Final = 0.1
"""The share of records that no row uses, above which a file is written anew without them."""

_KEY_BYTES: Final = 16
_HEAD: Final = struct.Struct(f"<{_KEY_BYTES}sI")
_READ_RECORDS: Final = 1_024


@dataclass(frozen=True, slots=True)
class Way:
    """All that makes a vector other than the text. `asked_dimensions` is None for the model's own length."""

    model: str
    asked_dimensions: int | None
    prefix: str

    @property
    def file_name(self) -> str:
        described = json.dumps(asdict(self), sort_keys=True)
        return f"{hashlib.sha256(described.encode()).hexdigest()[:16]}.vectors"

    def key(self, text: str) -> bytes:
        """What the vector of `text`, without its prefix, is found by."""
        return hashlib.sha256(text.encode()).digest()[:_KEY_BYTES]


class VectorCache:
    """The vectors of one way of embedding. Belongs to whoever holds the table's lock."""

    def __init__(self, folder: Path, way: Way) -> None:
        self.folder = folder
        self.way = way
        self.dimensions: int | None = None
        """The length of the vectors; None until there is one."""
        self._file = folder / way.file_name
        self._places: dict[bytes, int] = {}
        self._stream: BinaryIO | None = None
        self._start = 0
        if self._file.exists():
            self._read()

    def __contains__(self, key: bytes) -> bool:
        return key in self._places

    def __len__(self) -> int:
        return len(self._places)

    def add(self, keys: Sequence[bytes], vectors: Sequence[array[float]]) -> None:
        """Keeps vectors for good: they are on the disk when this returns. All are of one length."""
        if not keys:
            return
        stream = self._stream or self._begun(len(vectors[0]))
        stream.seek(0, os.SEEK_END)
        place = (stream.tell() - self._start) // self._record_bytes
        stream.write(b"".join(_record(key, vector) for key, vector in zip(keys, vectors, strict=True)))
        stream.flush()
        os.fsync(stream.fileno())
        self._places.update((key, place + number) for number, key in enumerate(keys))

    def column(self, keys: Iterable[bytes]) -> pa.Array[Any]:
        """The vectors of `keys` as a column of the table. Raises `KeyError` for one that is not there."""
        stream, dimensions = self._stream, self.dimensions
        places = [self._places[key] for key in keys]
        if stream is None or dimensions is None:
            raise KeyError("no vectors are kept")
        values = b"".join(
            os.pread(stream.fileno(), dimensions * 4, self._start + place * self._record_bytes + _HEAD.size)
            for place in places
        )
        flat = pa.Array.from_buffers(pa.float32(), len(places) * dimensions, [None, pa.py_buffer(values)])
        return pa.FixedSizeListArray.from_arrays(flat, dimensions)

    def sweep(self, used: Collection[bytes]) -> None:
        """Lets go of what no row uses any more: other ways of embedding, and a good share of unused records."""
        for other in self.folder.iterdir():
            if other.name != self._file.name:
                other.unlink()
        kept = [key for key in self._places if key in used]
        if len(kept) < len(self._places) * (1 - UNUSED_SHARE):
            self._rewrite(kept)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    @property
    def _record_bytes(self) -> int:
        return _HEAD.size + (self.dimensions or 0) * 4

    def _begun(self, dimensions: int) -> BinaryIO:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.dimensions = dimensions
        header = self._header(dimensions)
        self._start = len(header)
        self._stream = self._file.open("w+b")
        self._stream.write(header)
        flush_folder(self.folder)
        return self._stream

    def _header(self, dimensions: int) -> bytes:
        return json.dumps({"format": FORMAT, **asdict(self.way), "dimensions": dimensions}).encode() + b"\n"

    def _read(self) -> None:
        stream = self._file.open("r+b")
        header = stream.readline()
        dimensions: object = None
        with suppress(ValueError, AttributeError):
            dimensions = cast("dict[str, object]", json.loads(header)).get("dimensions")
        if not isinstance(dimensions, int) or dimensions < 1 or header != self._header(dimensions):
            # Of another format, or not ours: nothing in it can be used.
            stream.close()
            self._file.unlink()
            return
        self._stream, self.dimensions, self._start = stream, dimensions, len(header)
        size, place = self._record_bytes, 0
        while records := stream.read(size * _READ_RECORDS):
            for at in range(0, len(records) - size + 1, size):
                key, crc = _HEAD.unpack_from(records, at)
                if zlib.crc32(records[at + _HEAD.size : at + size]) == crc:
                    self._places[key] = place
                place += 1
        stream.truncate(self._start + place * size)

    def _rewrite(self, keys: Sequence[bytes]) -> None:
        stream, fresh = self._stream, self._file.with_suffix(".fresh")
        if stream is None or self.dimensions is None:
            return
        with fresh.open("wb") as copy:
            copy.write(self._header(self.dimensions))
            for key in keys:
                place = self._start + self._places[key] * self._record_bytes
                copy.write(os.pread(stream.fileno(), self._record_bytes, place))
            copy.flush()
            os.fsync(copy.fileno())
        fresh.replace(self._file)
        flush_folder(self.folder)
        stream.close()
        self._stream = self._file.open("r+b")
        self._places = {key: place for place, key in enumerate(keys)}


def _record(key: bytes, vector: array[float]) -> bytes:
    values = vector.tobytes()
    return _HEAD.pack(key, zlib.crc32(values)) + values
