"""Which files a walk finds, in which order, and why the others are left out."""

from __future__ import annotations

import os
import socket
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import pytest

from retrieval.errors import BedivereError, ErrorCode
from retrieval.indexing import sources
from retrieval.indexing.sources import Found, SourceFile, Stamp, Unavailable

SUFFIXES = (".md", ".html")
not_as_root = pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    return folder


def write(file: Path, text: str = "text") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def find(
    source: Path, *, include: Sequence[str] = (), exclude: Sequence[str] = (), database: Path | None = None
) -> Found:
    return sources.find(source, suffixes=SUFFIXES, include=include, exclude=exclude, database=database)


def paths(found: Found) -> list[str]:
    return [file.path for file in found.files]


def reasons(found: Found) -> dict[str, str]:
    return {skipped.path: skipped.reason for skipped in found.skipped}


def test_files_come_sorted_by_relative_path_with_size_and_time(source: Path) -> None:
    for name in ("b.md", "a/z.md", "a.md", "a/B.HTML"):
        write(source / name, "12345")
    os.utime(source / "b.md", ns=(7, 1_000_000_007))
    found = find(source)
    assert paths(found) == ["a.md", "a/B.HTML", "a/z.md", "b.md"]
    assert (found.files[-1].stamp.size, found.files[-1].stamp.mtime_ns) == (5, 1_000_000_007)


def test_names_that_start_with_a_dot_are_passed_over_in_silence(source: Path) -> None:
    write(source / ".hidden.md")
    write(source / ".git/notes.md")
    assert find(source) == Found((), ())


def test_a_file_without_a_reader_is_named_with_its_suffix(source: Path) -> None:
    write(source / "logo.PNG")
    write(source / "LICENSE")
    assert reasons(find(source)) == {
        "LICENSE": "no reader for files without a suffix",
        "logo.PNG": "no reader for .png files",
    }


def test_include_and_exclude_are_gitignore_patterns(source: Path) -> None:
    for name in ("guide/a.md", "guide/draft/b.md", "guide/draft/keep/c.md", "api/d.md", "e.md"):
        write(source / name)
    assert paths(find(source, include=["guide/", "/e.md"])) == [
        "e.md",
        "guide/a.md",
        "guide/draft/b.md",
        "guide/draft/keep/c.md",
    ]
    assert paths(find(source, exclude=["draft/", "d.*"])) == ["e.md", "guide/a.md"]
    assert paths(find(source, exclude=["guide/**", "!guide/a.md"])) == ["api/d.md", "e.md", "guide/a.md"]


def test_an_excluded_file_is_not_reported(source: Path) -> None:
    write(source / "logo.png")
    assert find(source, exclude=["*.png"]) == Found((), ())


def test_a_pattern_that_is_no_glob_is_refused(source: Path) -> None:
    with pytest.raises(BedivereError) as refused:
        find(source, include=["!"])
    assert refused.value.code == ErrorCode.INVALID_ARGUMENT


def test_a_link_that_leaves_the_source_is_not_followed(source: Path) -> None:
    write(source.parent / "secret/a.md")
    (source / "out.md").symlink_to(source.parent / "secret/a.md")
    (source / "out").symlink_to(source.parent / "secret")
    (source / "up").symlink_to("..")
    assert paths(find(source)) == []
    assert set(reasons(find(source)).values()) == {"symbolic link that leaves the source"}


def test_a_folder_whose_name_begins_like_the_source_is_outside(source: Path) -> None:
    write(source.parent / "docs-private/a.md")
    (source / "out").symlink_to("../docs-private")
    assert paths(find(source)) == []


def test_a_linked_file_comes_once_under_its_real_name(source: Path) -> None:
    write(source / "z/real.md")
    (source / "alias.md").symlink_to("z/real.md")
    (source / "y").symlink_to("z")
    assert paths(find(source)) == ["z/real.md"]


def test_a_link_to_what_has_no_name_of_its_own_within_reach_is_followed(source: Path) -> None:
    write(source / ".data/v1/a.md")
    (source / "current").symlink_to(".data/v1")
    write(source / ".data/v1/b.md")
    (source / "also.md").symlink_to(".data/v1/a.md")
    assert paths(find(source)) == ["also.md", "current/b.md"]


def test_a_link_is_told_of_only_where_a_document_of_its_name_would_have_been_read(source: Path) -> None:
    write(source / "docs/a.md")
    (source / "docs/gone.md").symlink_to("nowhere")
    (source / "build").symlink_to("/")
    assert reasons(find(source, include=["/docs/"])) == {"docs/gone.md": "broken symbolic link"}


def test_links_in_a_circle_end(source: Path) -> None:
    write(source / "a/b/page.md")
    (source / "a/b/again").symlink_to("../..")
    (source / "self").symlink_to("self")
    found = find(source)
    assert paths(found) == ["a/b/page.md"]
    assert reasons(found) == {"self": "broken symbolic link"}


def test_a_broken_link_is_reported(source: Path) -> None:
    (source / "gone.md").symlink_to("nowhere.md")
    assert reasons(find(source)) == {"gone.md": "broken symbolic link"}


def test_a_source_that_is_itself_a_link_is_walked(source: Path) -> None:
    write(source / "a.md")
    link = source.parent / "link"
    link.symlink_to(source)
    assert paths(find(link)) == ["a.md"]


def test_pipes_and_sockets_are_never_opened(source: Path) -> None:
    os.mkfifo(source / "pipe.md")
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(source)  # a socket's address is at most about 100 bytes
        try:
            listener.bind("socket.md")
        finally:
            os.chdir(here)
        assert reasons(find(source)) == {"pipe.md": "not a regular file", "socket.md": "not a regular file"}


def test_a_huge_file_is_left_out_by_its_size(source: Path) -> None:
    with (source / "dump.md").open("wb") as stream:
        stream.truncate(sources.MAX_FILE_BYTES + 1)
    assert reasons(find(source)) == {"dump.md": "larger than 50 MB"}


def test_names_are_composed(source: Path) -> None:
    decomposed = unicodedata.normalize("NFD", "é/é.md")
    write(source / decomposed)
    assert paths(find(source)) == [unicodedata.normalize("NFC", decomposed)]
    assert find(source, exclude=[decomposed]).files == ()


def test_of_two_files_whose_composed_names_are_one_the_first_counts(source: Path) -> None:
    write(source / unicodedata.normalize("NFD", "é.md"))
    write(source / unicodedata.normalize("NFC", "é.md"))
    if len(list(source.iterdir())) == 1:
        pytest.skip("the file system composes names itself")
    found = find(source)
    assert paths(found) == ["é.md"]
    assert reasons(found) == {"é.md": "another file has the same name in composed Unicode"}


def test_a_name_that_is_not_utf8_is_reported_readably(source: Path) -> None:
    try:
        Path(os.fsdecode(os.fsencode(source) + b"/caf\xe9.md")).write_text("text")
    except OSError:
        pytest.skip("the file system takes UTF-8 names only")
    assert reasons(find(source)) == {"caf�.md": "its name is not UTF-8"}


def test_a_database_within_the_source_is_never_walked(source: Path) -> None:
    write(source / "a.md")
    write(source / "db/notes.md")
    (source / "way-in").symlink_to("db")
    assert paths(find(source, database=source / "db")) == ["a.md"]


def test_a_database_around_the_source_leaves_only_its_tables_out(source: Path) -> None:
    write(source / "a.md")
    write(source / "documents.lance/data.md")
    write(source / "sub/kept.lance/b.md")
    assert paths(find(source, database=source)) == ["a.md", "sub/kept.lance/b.md"]
    assert paths(find(source, database=source.parent)) == ["a.md", "documents.lance/data.md", "sub/kept.lance/b.md"]


@not_as_root
def test_a_folder_that_may_not_be_listed_is_reported_unless_root_asks(source: Path) -> None:
    write(source / "closed/a.md")
    (source / "closed").chmod(0)
    try:
        assert reasons(find(source)) == {"closed/": "permission denied"}
    finally:
        (source / "closed").chmod(0o755)


@not_as_root
def test_a_file_that_may_not_be_read_says_so_unless_root_asks(source: Path) -> None:
    write(source / "a.md").chmod(0)
    with pytest.raises(Unavailable, match="permission denied"):
        sources.read(find(source).files[0])


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (PermissionError(13, "Permission denied", "/home/me/x"), "permission denied"),
        (OSError(5, "Input/output error", "/home/me/x"), "input/output error"),
        (OSError(), "cannot be read"),
    ],
)
def test_a_folder_that_cannot_be_listed_is_skipped_without_showing_where_it_lies(
    source: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, reason: str
) -> None:
    def refuse(_location: str) -> None:
        raise error

    monkeypatch.setattr(sources.os, "scandir", refuse)
    assert reasons(find(source)) == {".": reason}


def test_a_file_that_vanishes_during_the_walk_is_reported(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(source / "a.md")

    def gone(_location: str) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(sources.os, "lstat", gone)
    assert reasons(find(source)) == {"a.md": "vanished while it was read"}


def test_a_file_that_vanished_before_it_was_read_says_so(source: Path) -> None:
    write(source / "a.md")
    file = find(source).files[0]
    Path(file.location).unlink()
    with pytest.raises(Unavailable, match="vanished"):
        sources.read(file)


def test_a_pipe_that_took_a_files_place_does_not_block(source: Path) -> None:
    write(source / "a.md")
    file = find(source).files[0]
    Path(file.location).unlink()
    os.mkfifo(file.location)
    with pytest.raises(Unavailable, match="not a regular file"):
        sources.read(file)


def test_a_file_that_grew_beyond_the_limit_since_is_refused(source: Path) -> None:
    file = SourceFile("a.md", str(write(source / "a.md")), Stamp(4, 0, 0, 0))
    with Path(file.location).open("ab") as stream:
        stream.truncate(sources.MAX_FILE_BYTES + 1)
    with pytest.raises(Unavailable, match="larger than 50 MB"):
        sources.read(file)


def test_content_carries_hash_size_and_time_of_what_was_read(source: Path) -> None:
    write(source / "a.md", "abc")
    os.utime(source / "a.md", ns=(0, 42))
    content = sources.read(find(source).files[0])
    assert content.data == b"abc"
    assert content.sha256 == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert (content.stamp.size, content.stamp.mtime_ns) == (3, 42)


def lines(source: Path, text: bytes, **patterns: Sequence[str]) -> Found:
    file = source / "corpus.jsonl"
    file.write_bytes(text)
    return sources.find_lines(file, lambda line: line.decode().split()[0], **patterns)


def test_each_line_of_a_file_is_a_document_by_its_id(source: Path) -> None:
    found = lines(source, b"b two\n\na one\r\nc three")

    assert paths(found) == ["a", "b", "c"]
    assert [sources.read(file).data for file in found.files] == [b"a one\r\n", b"b two\n", b"c three"]
    assert [file.stamp.size for file in found.files] == [7, 6, 7]


def test_of_two_lines_with_one_id_the_first_counts(source: Path) -> None:
    found = lines(source, b"a one\na two\n")

    assert [sources.read(file).data for file in found.files] == [b"a one\n"]
    assert reasons(found) == {"corpus.jsonl:2": "an earlier line has the same id"}


def test_a_line_too_large_to_hold_is_skipped_and_the_next_is_read(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "MAX_FILE_BYTES", 10)
    found = lines(source, b"a " + b"x" * 95 + b"\nb two\n")

    assert [sources.read(file).data for file in found.files] == [b"b two\n"]
    assert reasons(found) == {"corpus.jsonl:1": "larger than 50 MB"}


def test_patterns_are_matched_against_the_ids_of_lines(source: Path) -> None:
    assert paths(lines(source, b"a/1\na/2\nb/1\n", include=["a/"], exclude=["*2"])) == ["a/1"]


def test_a_line_of_a_file_that_has_changed_since_is_unavailable(source: Path) -> None:
    (file,) = lines(source, b"a one\n").files
    Path(file.location).write_bytes(b"longer than it was\n")
    os.utime(file.location, ns=(7, 7))

    with pytest.raises(Unavailable, match="changed while it was read"):
        sources.read(file)


def test_a_file_of_lines_that_is_not_there_is_refused(source: Path) -> None:
    with pytest.raises(BedivereError) as refused:
        sources.find_lines(source / "none.jsonl", lambda line: line.decode())

    assert refused.value.code is ErrorCode.SOURCE_NOT_FOUND
    assert str(source) not in refused.value.sentence
