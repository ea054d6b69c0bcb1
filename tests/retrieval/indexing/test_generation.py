"""How tables change places on disk, who may be at it, and what is cleared away after."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from retrieval.errors import BedivereError, ErrorCode
from retrieval.indexing import generation
from retrieval.indexing.generation import IN_USE, TableFolder


@pytest.fixture
def folder(tmp_path: Path) -> TableFolder:
    return TableFolder(tmp_path / "db", "documents")


def build(folder: TableFolder, content: str) -> Path:
    made = folder.create()
    table = made / "documents.lance"
    table.mkdir()
    (table / "rows").write_text(content)
    return made


def content(folder: TableFolder) -> str:
    return (folder.link / "rows").read_text()


def left(folder: TableFolder) -> set[str]:
    return {child.name for child in folder.generations.iterdir()}


@contextmanager
def reading(place: Path) -> Generator[None]:
    descriptor = os.open(place / IN_USE, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("name", ["", "a/b", "../x", ".x", "-x", "_x", "a.b", "a b", "é", "x" * 65, "a\n"])
def test_a_name_that_is_no_plain_table_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BedivereError) as refused:
        TableFolder(tmp_path, name)
    assert refused.value.code == ErrorCode.INVALID_ARGUMENT


def test_the_link_is_relative_so_that_the_database_can_be_moved(folder: TableFolder) -> None:
    with folder.locked():
        made = build(folder, "one")
        folder.place(made)
    assert folder.link.readlink() == Path(".bedivere/documents", made.name, "documents.lance")
    moved = folder.database.rename(folder.database.with_name("moved"))
    assert (moved / "documents.lance" / "rows").read_text() == "one"


def test_a_swap_replaces_the_table_and_clearing_removes_the_old_one(folder: TableFolder) -> None:
    with folder.locked():
        folder.place(build(folder, "one"))
        second = build(folder, "two")
        folder.place(second)
        assert content(folder) == "two"
        folder.clear()
    assert left(folder) == {second.name}
    assert folder.current() == second


def test_clearing_removes_half_built_generations_and_stray_files(folder: TableFolder) -> None:
    with folder.locked():
        made = build(folder, "one")
        folder.place(made)
        build(folder, "half")
        (folder.create() / IN_USE).unlink()
        (folder.generations / "20260101T000000Z-0.gone").mkdir()
        (folder.generations / "stray").touch()
        folder.clear()
    assert left(folder) == {made.name}


def test_a_generation_that_a_reader_holds_stays_until_it_is_let_go(folder: TableFolder) -> None:
    with folder.locked():
        first = build(folder, "one")
        folder.place(first)
        with reading(first):
            folder.place(build(folder, "two"))
            folder.clear()
            assert (first / "documents.lance" / "rows").read_text() == "one"
        folder.clear()
    assert not first.exists()


def test_several_readers_share_a_generation(folder: TableFolder) -> None:
    with folder.locked():
        first = build(folder, "one")
        folder.place(first)
        with reading(first):
            with reading(first):
                folder.place(build(folder, "two"))
            folder.clear()
            assert first.exists()


def test_what_cannot_be_removed_is_left_for_the_next_run(folder: TableFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, target: Path) -> Path:
        raise PermissionError(self, target)

    with folder.locked():
        half = build(folder, "half")
        with monkeypatch.context() as patched:
            patched.setattr(Path, "rename", refuse)
            folder.clear()
        assert half.exists()
        folder.clear()
        assert not half.exists()


def test_a_second_indexer_is_refused_with_the_holders_process(folder: TableFolder) -> None:
    again = TableFolder(folder.database, "documents")
    holder = f"Process {os.getpid()} is indexing"
    with folder.locked(), pytest.raises(BedivereError, match=holder) as refused, again.locked():
        pass
    assert refused.value.code == ErrorCode.INDEX_LOCKED
    with again.locked():
        pass


def test_another_table_of_the_same_database_is_not_locked(folder: TableFolder) -> None:
    with folder.locked(), TableFolder(folder.database, "other").locked():
        assert folder.current() is None


@pytest.mark.parametrize("place", ["file", "file/db"])
def test_a_file_in_the_databases_place_is_told_in_one_sentence(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(BedivereError, match="A file stands where") as failed,
        TableFolder(tmp_path / place, "t").locked(),
    ):
        pass
    assert failed.value.code == ErrorCode.BUILD_FAILED
    assert failed.value.__cause__ is None


def test_a_database_that_cannot_be_made_is_a_failed_build(tmp_path: Path) -> None:
    (tmp_path / "db").symlink_to("nowhere")
    with pytest.raises(BedivereError) as failed, TableFolder(tmp_path / "db", "documents").locked():
        pass
    assert failed.value.code == ErrorCode.BUILD_FAILED
    assert str(tmp_path) not in failed.value.sentence


def test_what_was_made_for_a_run_that_fails_before_the_first_table_goes_again(folder: TableFolder) -> None:
    with pytest.raises(KeyboardInterrupt), folder.locked():
        raise KeyboardInterrupt
    assert not folder.database.exists()


def test_what_another_table_needs_stays_when_a_first_run_fails(folder: TableFolder) -> None:
    other = TableFolder(folder.database, "other")
    with pytest.raises(KeyboardInterrupt), folder.locked(), other.locked():
        raise KeyboardInterrupt
    with other.locked(), pytest.raises(KeyboardInterrupt), folder.locked():
        raise KeyboardInterrupt
    assert not folder.lock_file.exists()
    assert other.lock_file.exists()


def test_a_lock_whose_file_was_removed_meanwhile_is_taken_anew(
    folder: TableFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open
    removals: list[Path] = []

    def removed_at_once(path: Path, *rest: int) -> int:
        descriptor = real(path, *rest)
        if path == folder.lock_file and not removals:
            removals.append(path)
            path.unlink()
            folder.generations.rmdir()
            path.parent.rmdir()
        return descriptor

    monkeypatch.setattr(generation.os, "open", removed_at_once)
    with folder.locked():
        assert folder.lock_file.read_text() == f"{os.getpid()}\n"
        folder.create()
    assert removals


def test_folders_that_are_removed_again_and_again_end_the_run(
    folder: TableFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_arguments: object) -> int:
        raise FileNotFoundError

    monkeypatch.setattr(generation.os, "open", gone)
    with pytest.raises(BedivereError) as failed, folder.locked():
        pass
    assert failed.value.code == ErrorCode.BUILD_FAILED


@pytest.mark.parametrize("target", ["elsewhere", ".bedivere/other/1/documents.lance", ".bedivere/documents/../x.lance"])
def test_a_link_that_no_indexer_made_is_anothers_table(folder: TableFolder, target: str) -> None:
    folder.generations.mkdir(parents=True)
    folder.link.symlink_to(target)
    assert folder.is_foreign()
    assert folder.current() is None


def test_a_link_whose_generation_is_gone_is_no_table(folder: TableFolder) -> None:
    folder.generations.mkdir(parents=True)
    folder.link.symlink_to(".bedivere/documents/20260101T000000Z-0/documents.lance")
    assert not folder.is_foreign()
    assert folder.current() is None


def anothers(folder: TableFolder) -> None:
    folder.link.mkdir(parents=True)
    (folder.link / "rows").write_text("theirs")


def test_anothers_table_is_moved_aside_for_ours_and_goes_with_the_clearing(folder: TableFolder) -> None:
    anothers(folder)
    with folder.locked():
        made = build(folder, "ours")
        folder.place(made)
        assert content(folder) == "ours"
        folder.clear()
    assert left(folder) == {made.name}


def test_anothers_table_comes_back_when_placing_ours_fails(
    folder: TableFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device", self, target)

    anothers(folder)
    monkeypatch.setattr(Path, "replace", refuse)
    with folder.locked(), pytest.raises(OSError, match="No space"):
        folder.place(build(folder, "ours"))
    assert content(folder) == "theirs"
    assert folder.is_foreign()


def test_anothers_table_comes_back_after_a_crash_between_the_two_steps(folder: TableFolder) -> None:
    anothers(folder)
    with folder.locked():
        aside = folder.generations / "20260101T000000Z-0.aside"
        aside.mkdir()
        folder.link.rename(aside / folder.link.name)
        folder.clear()
    assert content(folder) == "theirs"
    assert left(folder) == set()


def test_everything_is_on_disk_before_the_swap(folder: TableFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: set[int] = set()
    swapped_with: list[set[int]] = []
    fsync, replace = os.fsync, Path.replace

    def record(descriptor: int) -> None:
        flushed.add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def swap(self: Path, target: Path) -> Path:
        swapped_with.append(set(flushed))
        return replace(self, target)

    with folder.locked():
        made = build(folder, "one")
        needed = {place.stat().st_ino for place in (made, made / "documents.lance", made / "documents.lance" / "rows")}
        monkeypatch.setattr(generation.os, "fsync", record)
        monkeypatch.setattr(Path, "replace", swap)
        folder.place(made)
    assert len(swapped_with) == 1
    assert needed <= swapped_with[0]
    assert folder.database.stat().st_ino in flushed - swapped_with[0]
