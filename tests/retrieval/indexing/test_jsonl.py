"""A file of documents, one a line: what a line is, and what a table of them holds."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import lancedb
import pytest

from retrieval.errors import BedivereError, ErrorCode
from retrieval.indexing.build import build_table
from retrieval.indexing.document import Block, Unreadable
from retrieval.indexing.formats import jsonl
from retrieval.indexing.job import Options

ONE = {"id": "a/1", "title": "Boats", "text": "A red boat.\n\nA blue one.", "author": "K. Hull", "year": 1962}
TWO = {"id": "2", "title": "", "text": "# A heading?"}


def line(record: object) -> bytes:
    return json.dumps(record).encode()


@pytest.fixture
def options(tmp_path: Path) -> Options:
    source = tmp_path / "corpus.jsonl"
    write(source, ONE, TWO)
    return Options(source, tmp_path / "database")


def write(source: Path, *records: object) -> None:
    lines = [record if isinstance(record, bytes) else line(record) for record in records]
    source.write_bytes(b"\n".join(lines) + b"\n")


def rows(options: Options) -> dict[str, dict[str, Any]]:
    found: list[dict[str, Any]] = lancedb.connect(options.database).open_table(options.table).search().to_list()
    return {row["id"]: row for row in found}


def test_the_paragraphs_of_the_text_are_the_blocks() -> None:
    document = jsonl.parse(line(ONE))

    assert document.title == "Boats"
    assert document.blocks == (Block("paragraph", "A red boat."), Block("paragraph", "A blue one."))


def test_the_text_is_plain_text() -> None:
    assert jsonl.parse(line(TWO)).blocks == (Block("paragraph", "# A heading?"),)


def test_further_scalars_are_metadata_and_nested_values_are_not() -> None:
    record = {**ONE, "lastModified": "3 May 2024", "tags": ["sea", "sail"], "nested": {"a": 1}, "none": None}

    assert jsonl.parse(line(record)).metadata == {
        "author": "K. Hull",
        "year": 1962,
        "last_modified": "3 May 2024",
        "date": "2024-05-03",
        "tags": "sea, sail",
    }


@pytest.mark.parametrize(("given", "name"), [("x", "x"), (17, "17"), (" e\u0301 ", "é")])
def test_the_id_is_a_string_or_a_whole_number(given: object, name: str) -> None:
    assert jsonl.identify(line({"id": given})) == name


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"id": "\xff"}', "not UTF-8"),
        (b"[1]", "not a JSON object"),
        (b'{"text": "a"}', "no id"),
        (b'{"id": ""}', "no id"),
        (b'{"id": true}', "no id"),
        (b'{"id": 1.5}', "no id"),
        (b'{"id": "a\\u0000b"}', "control characters"),
        (b'{"id": "\\ud800"}', "control characters"),
        (line({"id": "x" * 1_001}), "longer than 1,000"),
    ],
)
def test_a_line_that_is_no_document_is_refused_with_a_reason(data: bytes, reason: str) -> None:
    with pytest.raises(Unreadable, match=reason):
        jsonl.identify(data)


@pytest.mark.parametrize("text", [None, 5, ["a"]])
def test_a_document_whose_text_is_no_string_is_refused(text: object) -> None:
    with pytest.raises(Unreadable, match="no text"):
        jsonl.parse(line({"id": "a", "text": text}))


def test_the_id_is_the_path_and_the_scalars_are_columns(options: Options) -> None:
    summary = build_table(options)
    row = rows(options)["a/1#0"]

    assert (summary.files, summary.chunks) == (2, 2)
    assert (row["path"], row["title"], row["author"], row["year"]) == ("a/1", "Boats", "K. Hull", 1962)
    assert row["text"] == "A red boat.\n\nA blue one."
    assert rows(options)["2#0"]["year"] is None


def test_an_id_with_the_suffix_of_another_format_is_still_plain_text(options: Options) -> None:
    write(options.source, {"id": "guide.md", "text": "# A heading?"})
    build_table(options)

    assert rows(options)["guide.md#0"]["text"] == "# A heading?"


def test_lines_that_are_no_documents_are_counted_by_reason_and_cost_the_others_nothing(options: Options) -> None:
    write(options.source, ONE, b"{", b"", {"text": "no id"}, {**TWO, "text": ""}, {**ONE, "text": "again"}, {"id": "3"})
    summary = build_table(options)

    assert {group.reason: group.examples for group in summary.skipped} == {
        "not JSON": ("corpus.jsonl:2",),
        "no id: `id` must be a string or a whole number": ("corpus.jsonl:4",),
        "empty": ("2",),
        "an earlier line has the same id": ("corpus.jsonl:6",),
        "no text: `text` must be a string": ("3",),
    }
    assert list(rows(options)) == ["a/1#0"]


def test_a_file_that_has_not_changed_is_not_read_again(options: Options) -> None:
    ancient = 1_700_000_000
    os.utime(options.source, (ancient, ancient))
    build_table(options)
    summary = build_table(options)

    assert (summary.unchanged, summary.reused) == (True, 2)


def test_only_lines_that_changed_are_read_anew(options: Options) -> None:
    build_table(options)
    write(options.source, {"id": "0", "text": "First of all."}, TWO, {**ONE, "text": "A grey boat."})
    summary = build_table(options)

    assert (summary.files, summary.reused, summary.removed) == (3, 1, 0)
    assert rows(options)["a/1#0"]["text"] == "A grey boat."
    assert rows(options)["2#0"]["text"] == "# A heading?"


def test_lines_that_are_gone_are_removed(options: Options) -> None:
    build_table(options)
    write(options.source, ONE)

    assert build_table(options).removed == 1
    assert list(rows(options)) == ["a/1#0"]


def test_patterns_are_matched_against_the_ids(options: Options) -> None:
    build_table(replace(options, include=("a/",)))

    assert list(rows(options)) == ["a/1#0"]


def test_a_file_without_a_document_is_refused_and_says_why(options: Options) -> None:
    write(options.source, b"{", b"[]")
    with pytest.raises(BedivereError) as refused:
        build_table(options)

    assert refused.value.code is ErrorCode.NOTHING_INDEXED
    assert "1 document: not JSON." in refused.value.sentence


def test_another_file_is_no_source(tmp_path: Path) -> None:
    (tmp_path / "corpus.csv").write_text("id,text\n")
    with pytest.raises(BedivereError) as refused:
        build_table(Options(tmp_path / "corpus.csv", tmp_path / "database"))

    assert refused.value.code is ErrorCode.SOURCE_NOT_FOUND
