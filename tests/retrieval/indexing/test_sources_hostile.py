"""A folder that means harm: names, links, sizes and files that change under the reader's eyes."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from time import thread_time
from typing import Any

import pytest

from retrieval.errors import BedivereError
from retrieval.indexing import sources
from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options
from retrieval.indexing.sources import Found, Unavailable


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.md").write_text("text")
    return folder


def find(source: Path) -> Found:
    return sources.find(source, suffixes=(".md", ".txt"))


def reasons(found: Found) -> dict[str, str]:
    return {skipped.path: skipped.reason for skipped in found.skipped}


# Names


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("b\n.md", "b\\u000a.md"),
        ("b\t.md", "b\\u0009.md"),
        ("b\x1b[31m.md", "b\\u001b[31m.md"),
        ("b\u202edm.md", "b\\u202edm.md"),
        ("b\u200b.md", "b\\u200b.md"),
        ("b\u2028Source: c.md", "b\\u2028Source: c.md"),
        ("b\U000e0041.md", "b\\ue0041.md"),
    ],
)
def test_a_name_with_control_or_invisible_characters_is_skipped_and_shown_so_that_it_can_be_read(
    source: Path, name: str, shown: str
) -> None:
    (source / name).write_text("text")
    found = find(source)
    assert [file.path for file in found.files] == ["a.md"]
    assert reasons(found) == {shown: "its name holds control or invisible characters"}


def test_a_folder_of_such_a_name_is_not_entered(source: Path) -> None:
    (source / "b\n").mkdir()
    (source / "b\n" / "c.md").write_text("text")
    assert [file.path for file in find(source).files] == ["a.md"]


def test_names_that_differ_in_case_only_are_both_read_and_told(source: Path) -> None:
    (source / "A.md").write_text("# Upper\n\nOne text.\n")
    if (source / "a.md").read_text() != "text":
        pytest.skip("the file system tells no cases apart")
    (source / "b.md").write_text("text")
    assert find(source).alike == ("A.md", "a.md")
    summary = build_table(Options(source, source.parent / "database"))
    assert summary.files == 3
    assert summary.notes == ("Names differ in upper and lower case only: A.md, a.md",)


# Links and devices


def test_a_link_that_took_a_files_place_is_not_followed(source: Path) -> None:
    (source.parent / "secret.md").write_text("secret")
    (file,) = find(source).files
    Path(file.location).unlink()
    Path(file.location).symlink_to(source.parent / "secret.md")
    with pytest.raises(Unavailable, match="a symbolic link took its place"):
        sources.read(file)


@pytest.mark.parametrize("target", ["/dev/zero", "/dev/stdin", "/proc/self/environ", "/etc/passwd", ".."])
def test_a_link_out_of_the_source_is_told_and_never_read(source: Path, target: str) -> None:
    (source / "b.md").symlink_to(target)
    found = find(source)
    assert [file.path for file in found.files] == ["a.md"]
    assert set(reasons(found).values()) <= {"symbolic link that leaves the source", "broken symbolic link"}
    assert list(reasons(found)) == ["b.md"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device_is_never_opened(source: Path) -> None:
    try:
        os.mknod(source / "zero.md", 0o20666, os.makedev(1, 5))
    except OSError:
        pytest.skip("devices cannot be made here")
    assert reasons(find(source)) == {"zero.md": "not a regular file"}


# Sizes


def test_a_text_of_500_megabytes_is_refused_without_being_read(source: Path) -> None:
    with (source / "dump.txt").open("wb") as stream:
        stream.truncate(500_000_000)  # sparse: it takes no room
    tracemalloc.start()
    try:
        found = find(source)
        with pytest.raises(Unavailable, match="larger than 50 MB"):
            sources.read(sources.SourceFile("dump.txt", str(source / "dump.txt"), found.files[0].stamp))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert reasons(found) == {"dump.txt": "larger than 50 MB"}
    # What is read of a file that grew since it was found is a byte more than the limit.
    assert most < 2 * sources.MAX_FILE_BYTES + 10_000_000


def test_a_file_at_the_limit_is_read_and_one_past_it_is_not(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_FILE_BYTES", 4)
    (source / "b.md").write_text("texts")
    found = find(source)
    assert [sources.read(file).data for file in found.files] == [b"text"]
    assert list(reasons(found)) == ["b.md"]


def test_a_folder_of_ten_times_the_files_takes_no_more_than_in_proportion(source: Path) -> None:
    def timed(files: int) -> float:
        folder = source / str(files)
        folder.mkdir()
        for place in range(files):
            # Names of one file: a folder is as large, and takes a tenth of the time to make.
            os.link(_target(place), folder / f"{place}.md")
        began = thread_time()
        found = find(folder)
        assert len(found.files) == files
        return thread_time() - began

    def _target(place: int) -> Path:
        file = source.parent / f"target-{place // 30_000}"
        if not file.exists():
            file.write_text("text")
        return file

    small, large = timed(2_000), timed(20_000)
    assert large < 40 * small


# Files that change while they are read


def changing(file: Path, times: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Has `file` written, with another size each time, after it was opened, the first `times` times."""
    opened: list[int] = []
    fdopen: Callable[..., Any] = os.fdopen

    def opening(descriptor: int, *rest: Any) -> Any:
        stream = fdopen(descriptor, *rest)
        read = stream.read

        class Stream:
            def __enter__(self) -> Stream:
                return self

            def __exit__(self, *_: object) -> None:
                stream.close()

            def read(self, size: int) -> bytes:
                data = read(size)
                opened.append(len(data))
                if len(opened) <= times:
                    file.write_text("text" * (len(opened) + 1))
                return data

        return Stream()

    monkeypatch.setattr(os, "fdopen", opening)
    return opened


def test_a_file_that_is_written_while_it_is_read_is_read_again(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file,) = find(source).files
    with monkeypatch.context() as patched:
        opened = changing(source / "a.md", 2, patched)
        content = sources.read(file)
    assert len(opened) == 3
    assert content.data == b"text" * 3
    assert content.stamp.size == 12


def test_a_file_that_is_written_all_the_time_is_left_out(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file,) = find(source).files
    with monkeypatch.context() as patched:
        changing(source / "a.md", 100, patched)
        with pytest.raises(Unavailable, match="changed while it was read"):
            sources.read(file)


def test_one_file_that_never_holds_still_costs_the_others_nothing(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source / "a.md").unlink()
    (source / "b.md").write_text("# Log\n\nline\n")
    with monkeypatch.context() as patched:
        changing(source / "b.md", 100, patched)
        with pytest.raises(BedivereError, match=r"NOTHING_INDEXED.*changed while it was read"):
            build_table(Options(source, source.parent / "database"))
    (source / "b.md").write_text("# Log\n\nline\n")
    assert build_table(Options(source, source.parent / "database")).files == 1
