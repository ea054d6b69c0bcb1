"""Packing: which files go together, that the same files give the same bytes, and that a reader gets them back."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import errno
import fcntl
import hashlib
import io
import os
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.errors import BedivereError, ErrorCode
from retrieval.release import pack
from retrieval.release.manifest import PackedFile, Part, is_safe, part_key
from retrieval.release.pack import SourceFile

RELEASE = "20261129T181500Z-3f2a9c1b"
MB = 1_000_000


def read_part(part: Path) -> dict[str, bytes]:
    """The files of a part, as a reader with nothing of ours would see them."""
    with pa.CompressedInputStream(pa.OSFile(str(part)), "zstd") as stream:
        data = stream.read()
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        assert {(member.mtime, member.uid, member.gid, member.mode, member.uname) for member in archive} <= {
            (0, 0, 0, 0o644, "")
        }
        return {member.name: extracted.read() for member in archive if (extracted := archive.extractfile(member))}


def write_tree(folder: Path, tree: Mapping[str, bytes]) -> Path:
    for name, data in tree.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return folder


def of_size(path: str, size: int) -> SourceFile:
    return SourceFile(path, Path("nowhere"), size)


def earlier(*files: SourceFile) -> Part:
    return Part(part_key(RELEASE, 0), 1, "0" * 64, tuple(PackedFile(file.path, file.bytes) for file in files))


names = st.from_regex(r"[a-z_0-9]{1,12}(\.lance)?", fullmatch=True)
trees = st.dictionaries(
    st.lists(names, min_size=1, max_size=3).map("/".join), st.binary(max_size=2000), min_size=1, max_size=12
).filter(lambda tree: not any(other.startswith(f"{path}/") for path in tree for other in tree))


@given(trees)
def test_what_is_packed_is_what_is_read_and_the_same_files_give_the_same_bytes(tree: Mapping[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = write_tree(Path(name) / "t.lance", tree)
        files = pack.files_of("t", folder)
        first, second = Path(name, "first"), Path(name, "second")
        packed = pack.write(files, first)
        for file in folder.rglob("*"):
            os.utime(file, (1, 1))
            file.chmod(0o700)
        pack.write(pack.files_of("t", folder), second)

        assert read_part(first) == {f"t.lance/{path}": data for path, data in tree.items()}
        assert first.read_bytes() == second.read_bytes()
        assert packed.bytes == first.stat().st_size
        assert packed.sha256 == hashlib.sha256(first.read_bytes()).hexdigest()


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 90 * MB)), max_size=40))
def test_a_plan_holds_each_file_once_and_no_part_of_several_files_is_too_large(sizes: list[tuple[str, int]]) -> None:
    files = [of_size(f"{table}.lance/{number:03}", size) for number, (table, size) in enumerate(sizes)]

    groups = pack.plan(files)

    assert sorted(file.path for group in groups for file in group) == sorted(file.path for file in files)
    assert all(len(group) == 1 or sum(file.bytes for file in group) <= pack.PART_BYTES for group in groups)
    assert groups == pack.plan(reversed(files))


def test_a_file_larger_than_a_part_has_a_part_of_its_own() -> None:
    small, large, other = of_size("t.lance/a", 1), of_size("t.lance/b", 100 * MB), of_size("t.lance/c", 1)

    assert pack.plan([small, large, other]) == [(small,), (large,), (other,)]


def test_small_tables_share_a_part_and_larger_ones_do_not() -> None:
    tiny, small, large = of_size("a.lance/1", 10), of_size("b.lance/1", 20 * MB), of_size("c.lance/1", 20 * MB)

    assert pack.plan([tiny, small, large]) == [(tiny, small), (large,)]


def test_files_that_were_packed_together_stay_together_when_others_come_before_them() -> None:
    old = [of_size(f"t.lance/m{number}", 20 * MB) for number in range(3)]
    new = of_size("t.lance/a", 30 * MB)

    assert pack.plan([*old, new], [earlier(*old)]) == [(new,), tuple(old)]


@pytest.mark.parametrize(
    "before",
    [
        [of_size("t.lance/m0", 40 * MB), of_size("t.lance/gone", 1)],
        [of_size("t.lance/m0", 39 * MB)],
        [of_size("t.lance/a", 10)],
    ],
    ids=["one of them is gone", "one of them has another size", "too small to be worth a part"],
)
def test_files_that_were_packed_together_are_packed_anew_where_their_part_is_of_no_use(
    before: list[SourceFile],
) -> None:
    files = [of_size("t.lance/a", 10), of_size("t.lance/m0", 40 * MB)]

    assert pack.plan(files, [earlier(*before)]) == [tuple(files)]


def test_transactions_are_left_out_at_the_top_only(tmp_path: Path) -> None:
    tree = {"_transactions/1.txn": b"", "data/_transactions/x": b"1", "_versions/1.manifest": b"2"}
    write_tree(tmp_path, tree)

    paths = [file.path for file in pack.files_of("t", tmp_path)]

    assert paths == ["t.lance/_versions/1.manifest", "t.lance/data/_transactions/x"]
    assert all(map(is_safe, paths))


@pytest.mark.parametrize("name", ["a\nb", "a\\b"])
def test_a_name_that_no_reader_would_unpack_is_refused(tmp_path: Path, name: str) -> None:
    write_tree(tmp_path, {name: b""})

    assert refused(lambda: pack.files_of("t", tmp_path)) == ErrorCode.DATASET_NOT_WHOLE


@pytest.mark.parametrize("target", [".", "file"])
def test_a_link_within_a_table_is_refused(tmp_path: Path, target: str) -> None:
    write_tree(tmp_path, {"file": b""})
    (tmp_path / "link").symlink_to(target)

    assert refused(lambda: pack.files_of("t", tmp_path)) == ErrorCode.DATASET_NOT_WHOLE


def test_a_table_whose_folder_is_gone_is_refused(tmp_path: Path) -> None:
    assert refused(lambda: pack.files_of("t", tmp_path / "gone")) == ErrorCode.DATASET_NOT_WHOLE


@pytest.mark.parametrize("now", [b"", b"longer than before", None], ids=["shorter", "longer", "gone"])
def test_a_file_that_changes_while_it_is_packed_is_noticed(tmp_path: Path, now: bytes | None) -> None:
    folder = write_tree(tmp_path / "t.lance", {"file": b"before"})
    files = pack.files_of("t", folder)
    if now is None:
        (folder / "file").unlink()
    else:
        (folder / "file").write_bytes(now)

    assert refused(lambda: pack.write(files, tmp_path / "part")) == ErrorCode.DATASET_NOT_WHOLE


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_a_full_disk_is_told_as_such(tmp_path: Path) -> None:
    folder = write_tree(tmp_path / "t.lance", {"file": os.urandom(1 << 20)})

    assert refused(lambda: pack.write(pack.files_of("t", folder), Path("/dev/full"))) == ErrorCode.DATASET_TOO_LARGE


def test_another_failure_of_the_disk_is_not_hidden(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        pack.write([], tmp_path)


def refused(ask: Any) -> ErrorCode:
    with pytest.raises(BedivereError) as caught:
        ask()
    assert str(errno.ENOENT) not in caught.value.sentence
    return caught.value.code


# The folder for parts on their way


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_the_workspace_is_gone_afterwards(temporary: Path) -> None:
    with pack.workspace() as folder:
        (folder / "part-0000").write_bytes(b"1")
        assert folder.parent == temporary

    assert list(temporary.iterdir()) == []


def test_the_workspace_of_a_killed_run_is_removed_and_that_of_a_living_one_is_not(temporary: Path) -> None:
    with pack.workspace() as living:
        dead = temporary / "bedivere-publish-dead"
        dead.mkdir()
        (dead / "lock").touch()
        (dead / "part-0000").touch()
        with pack.workspace():
            assert not dead.exists()
            assert living.exists()


def test_a_workspace_that_is_just_being_made_is_left_alone(temporary: Path) -> None:
    (temporary / "bedivere-publish-new").mkdir()
    with (temporary / "bedivere-publish-new/new").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pack.workspace():
            assert (temporary / "bedivere-publish-new/new").exists()
