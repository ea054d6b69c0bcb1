"""Nothing that a store may hold reaches the disk or the server but what its manifest describes."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from retrieval.errors import BedivereError, ErrorCode
from retrieval.release.manifest import Manifest, PackedFile, Part, Pointer, part_key
from retrieval.release.unpack import unpack
from tests.fuzz.examples import examples
from tests.fuzz.schemas import JSON, places, put
from tests.retrieval.release.crafted import RELEASE, archive, compressed, manifest_of, member, packed

FILES: Final = {"a.lance/data/one": b"1" * 3_000, "a.lance/two": b"two"}
REFUSED: Final = {ErrorCode.RELEASE_DAMAGED, ErrorCode.RELEASE_TOO_NEW}


def chunks(data: bytes) -> Iterator[bytes]:
    return (data[at : at + 700] for at in range(0, len(data), 700))


def refusal(read: Callable[[bytes], object], data: bytes) -> str | None:
    """The code with which `read` refuses `data`; None where it takes it."""
    try:
        read(data)
    except BedivereError as error:
        return error.code
    return None


def _tar(entry: tuple[tarfile.TarInfo, bytes]) -> bytes:
    info, content = entry
    return info.tobuf() + content + b"\0" * (-len(content) % tarfile.BLOCKSIZE)


def unpacked(data: bytes, place: Path) -> str | None:
    """The code with which `data` is refused as the part of FILES; what reaches the disk is of FILES, whole or not."""
    folder = place / "release"
    (folder / "a.lance" / "data").mkdir(parents=True, exist_ok=True)
    outside = place / "outside"
    outside.write_text("untouched")
    files = tuple(PackedFile(path, len(content)) for path, content in FILES.items())
    part = Part(part_key(RELEASE, 0), len(data), hashlib.sha256(data).hexdigest(), files)
    code = refusal(lambda given: unpack(chunks(given), part, folder), data)
    assert code in {None, *REFUSED}
    for file in [*place.rglob("*")]:
        name = file.relative_to(folder).as_posix() if file.is_relative_to(folder) else ""
        if file.is_symlink() or (file.is_file() and file != outside):
            assert not file.is_symlink()
            assert file.stat().st_size <= len(FILES[name])
            file.unlink()
    assert outside.read_text() == "untouched"
    return code


def test_an_archive_with_anything_in_the_place_of_its_bytes_is_refused_or_what_it_was(tmp_path: Path) -> None:
    _, whole = packed(FILES)
    plain = b"".join(_tar(member(name, content)) for name, content in FILES.items()) + b"\0" * 1024
    assert unpacked(whole, tmp_path) is None

    @examples(80)
    @given(st.integers(0, len(plain) - 1), st.binary(min_size=1, max_size=12), st.booleans())
    def alter(at: int, put: bytes, pack_after: bool) -> None:
        # Before it is packed, so that only what reads the archive can tell; or after, where its compression may.
        data = plain if pack_after else whole
        at %= len(data)
        altered = data[:at] + put + data[at + len(put) :]
        unpacked(compressed(altered) if pack_after else altered, tmp_path)

    alter()


def test_a_member_of_any_name_kind_and_size_stays_within_the_release(tmp_path: Path) -> None:
    names = st.sampled_from([*FILES, "../outside", "/tmp/x", "a.lance/../../outside", "a.lance", ".", "x" * 300])
    kinds = st.sampled_from([b"0", b"\0", b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"S", b"L", b"K", b"x", b"g", b"Z"])

    @examples(80)
    @given(st.lists(st.tuples(names, kinds, st.sampled_from([b"", b"two", b"1" * 3_000])), max_size=4))
    def craft(entries: list[tuple[str, bytes, bytes]]) -> None:
        members: list[Any] = []
        for name, kind, content in entries:
            members.append(member(name, content, kind=kind, link="../outside"))
        unpacked(archive(members), tmp_path)

    craft()


def test_a_manifest_with_anything_in_the_place_of_a_part_of_it_is_one_or_is_damaged() -> None:
    part, _ = packed(FILES)
    manifest = manifest_of([part])
    record: Any = json.loads(Pointer(manifest.release, manifest).to_json())

    @examples(100)
    @given(st.sampled_from(list(places(record))), JSON | st.sampled_from([-1, 2**64, "../x", "/", "a\nb", 1e308]))
    def alter(place: tuple[Any, ...], other: Any) -> None:
        altered = put(record, place, other)
        for reads, value in ((Pointer.from_json, altered), (Manifest.from_json, other)):
            assert refusal(reads, json.dumps(value).encode()) in {None, *REFUSED}

    alter()


def test_any_bytes_for_a_pointer_are_refused() -> None:
    @examples(60)
    @given(st.binary(max_size=60) | st.sampled_from([b"[" * 200_000, b'{"manifest":' * 50_000, b"1" * 10_000, b"NaN"]))
    def refuse(data: bytes) -> None:
        assert refusal(Pointer.from_json, data) in REFUSED

    refuse()
