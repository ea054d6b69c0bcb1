"""Unpacking a part: what the manifest lists reaches the disk, and nothing else that an archive may hold."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from retrieval.errors import BedivereError, ErrorCode
from retrieval.release.manifest import PackedFile, Part
from retrieval.release.unpack import unpack
from tests.retrieval.release.crafted import archive, compressed, member, packed

FILES = {"a.lance/data/one.lance": b"one" * 1000, "a.lance/two": b"", "a.lance/three": b"3"}


def chunks(data: bytes, size: int = 700) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "release" / "a.lance" / "data").mkdir(parents=True)
    return tmp_path / "release"


def files_in(folder: Path) -> Mapping[str, bytes]:
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def refuse(part: Part, data: bytes, folder: Path) -> str:
    """The sentence with which the part is refused as damaged."""
    with pytest.raises(BedivereError) as refused:
        unpack(chunks(data), part, folder)
    assert refused.value.code is ErrorCode.RELEASE_DAMAGED
    return refused.value.sentence


@pytest.mark.parametrize("size", [1, 700, 1 << 20])
def test_a_whole_part_is_unpacked_however_it_arrives(folder: Path, size: int) -> None:
    part, data = packed(FILES)
    unpack(chunks(data, size), part, folder)
    assert files_in(folder) == FILES


def test_names_too_long_for_the_plain_header_are_unpacked(folder: Path) -> None:
    files = {f"a.lance/{'n' * 200}": b"long", "a.lance/" + "é" * 90: b"accents"}
    part, data = packed(files)
    unpack(chunks(data), part, folder)
    assert files_in(folder) == files


def test_files_are_for_their_owner_only(folder: Path) -> None:
    part, data = packed({"a.lance/one": b"1"})
    unpack(chunks(data), part, folder)
    assert (folder / "a.lance" / "one").stat().st_mode & 0o777 == 0o600


def test_bytes_after_the_archive_count_for_the_checksum(folder: Path) -> None:
    whole, data = packed(FILES)
    part, longer = packed(FILES, data=data + compressed(b"\0" * 100_000))
    unpack(chunks(longer), part, folder)
    assert files_in(folder) == FILES
    assert "checksum" in refuse(replace(part, sha256=whole.sha256), longer, fresh(folder))


def fresh(folder: Path) -> Path:
    other = folder.with_name("other")
    (other / "a.lance" / "data").mkdir(parents=True)
    return other


def test_another_checksum_is_refused(folder: Path) -> None:
    part, data = packed(FILES)
    assert "checksum" in refuse(replace(part, sha256="0" * 64), data, folder)


@pytest.mark.parametrize("kept", [0, 1, 100, -1])
def test_a_part_cut_short_is_refused(folder: Path, kept: int) -> None:
    part, data = packed(FILES)
    refuse(part, data[:kept], folder)


def test_a_part_longer_than_the_manifest_says_is_not_read_to_its_end(folder: Path) -> None:
    part, data = packed({"a.lance/one": b"1"})
    read = 0

    def endless() -> Iterator[bytes]:
        nonlocal read
        for chunk in [data, *[b"\0" * 1000] * 10]:
            read += len(chunk)
            yield chunk

    with pytest.raises(BedivereError, match="larger than its manifest"):
        unpack(endless(), part, folder)
    assert read <= len(data) + 1000


@pytest.mark.parametrize("data", [b"", b"not zstd at all", compressed(b"no archive" * 1000), compressed(b"")])
def test_what_is_no_archive_is_refused(folder: Path, data: bytes) -> None:
    part, data = packed(FILES, data=data)
    refuse(part, data, folder)


HOSTILE = {
    "a path with ..": member("../outside", b"x"),
    "a path with .. inside": member("a.lance/../../outside", b"x"),
    "an absolute path": member("/tmp/bedivere-outside", b"x"),
    "a symbolic link": member("a.lance/one", b"", kind=tarfile.SYMTYPE, link="/etc/passwd"),
    "a hard link": member("a.lance/one", b"", kind=tarfile.LNKTYPE, link="/etc/passwd"),
    "a device": member("a.lance/one", b"", kind=tarfile.CHRTYPE),
    "a pipe": member("a.lance/one", b"", kind=tarfile.FIFOTYPE),
    "a folder": member("a.lance/one", b"", kind=tarfile.DIRTYPE),
    "an unlisted file": member("a.lance/two", b"x"),
    "a longer file": member("a.lance/one", b"xx"),
    "a shorter file": member("a.lance/one", b""),
    "a name that means the same": member("./a.lance/one", b"x"),
}


@pytest.mark.parametrize("entry", HOSTILE.values(), ids=HOSTILE)
def test_an_entry_that_the_manifest_does_not_describe_is_refused(
    folder: Path, entry: tuple[tarfile.TarInfo, bytes]
) -> None:
    part, data = packed({"a.lance/one": b"x"}, data=archive([entry]))
    refuse(part, data, folder)
    assert files_in(folder) == {}
    assert [path.name for path in folder.parent.iterdir()] == ["release"]


def test_a_file_that_comes_twice_is_refused(folder: Path) -> None:
    part, data = packed({"a.lance/one": b"x"}, data=archive([member("a.lance/one", b"x")] * 2))
    assert "twice" in refuse(part, data, folder)


def test_a_listed_file_that_does_not_come_is_missed(folder: Path) -> None:
    _, data = packed({"a.lance/one": b"x"})
    part, data = packed({"a.lance/one": b"x", "a.lance/two": b"y"}, data=data)
    assert "lacks files" in refuse(part, data, folder)


def test_a_link_that_stands_in_the_way_is_not_followed(folder: Path) -> None:
    (folder / "a.lance" / "one").symlink_to(folder.parent / "outside")
    part, data = packed({"a.lance/one": b"x"})
    with pytest.raises(OSError):  # noqa: PT011 - of this or that kind, by platform
        unpack(chunks(data), part, folder)
    assert not (folder.parent / "outside").exists()


def test_a_bomb_is_refused_before_it_is_unpacked(folder: Path) -> None:
    bomb = archive([member("a.lance/one", b"\0" * 50_000_000)])
    part, data = packed({"a.lance/one": b"x"}, data=bomb)
    assert len(data) < 10_000
    assert "another size" in refuse(part, data, folder)
    assert files_in(folder) == {}


def test_a_bomb_in_what_surrounds_the_files_is_refused(folder: Path) -> None:
    header = tarfile.TarInfo("a.lance/one")
    header.type, header.size = tarfile.XHDTYPE, 200_000_000
    part, data = packed({"a.lance/one": b"x"}, data=compressed(header.tobuf() + b"\0" * 50_000_000))
    assert "unpacks to more" in refuse(part, data, folder)


def test_a_sparse_file_is_refused(folder: Path) -> None:
    info, content = member("a.lance/one", b"x")
    info.pax_headers = {"GNU.sparse.major": "0", "GNU.sparse.map": "0,1", "GNU.sparse.size": "1000000"}
    part, data = packed({"a.lance/one": b"x"}, data=archive([(info, content)]))
    part = replace(part, files=(PackedFile("a.lance/one", 1_000_000),))
    assert "plain file" in refuse(part, data, folder)


def test_what_the_store_raises_is_raised(folder: Path) -> None:
    part, data = packed(FILES)

    def broken() -> Iterator[bytes]:
        yield data[:100]
        raise BedivereError(ErrorCode.STORE_UNREACHABLE, "It went away.")

    with pytest.raises(BedivereError) as raised:
        unpack(broken(), part, folder)
    assert raised.value.code is ErrorCode.STORE_UNREACHABLE
