"""What a table holds after a folder was indexed."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import lancedb
import pytest
from lancedb.table import Table

from retrieval.errors import BedivereError, ErrorCode
from retrieval.indexing import chunks, rows
from retrieval.indexing.build import build_table
from retrieval.indexing.generation import TableFolder
from retrieval.indexing.job import Options, Quiet
from retrieval.schema import COLUMNS, Provenance
from retrieval.search.text import fold

GUIDE = """---
title: The Guide
status: final
weight: 3
---
# The Guide

Opening words.

## Setup

Run `make_all --now` first.

### On Linux

Install the package.
"""


@pytest.fixture
def options(tmp_path: Path) -> Options:
    source = tmp_path / "docs"
    write(source / "guide.md", GUIDE)
    write(source / "notes/getting-started.txt", "Plain words about starting.")
    return Options(source, tmp_path / "db")


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def table_of(options: Options) -> Table:
    return lancedb.connect(options.database).open_table(options.table)


def rows_of(options: Options) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table_of(options).search().to_list()
    return sorted(rows, key=lambda row: row["id"])


def search(options: Options, text: str, column: str) -> list[str]:
    found = table_of(options).search(text, query_type="fts", fts_columns=column).select(["id", "_score"])
    return [row["id"] for row in found.limit(10).to_list()]


def refusal(options: Options) -> ErrorCode:
    with pytest.raises(BedivereError) as refused:
        build_table(options)
    assert str(options.database.parent) not in refused.value.sentence
    return refused.value.code


def left(options: Options) -> list[Path]:
    return sorted((options.database / ".bedivere" / options.table).iterdir())


def test_every_column_of_the_schema_is_filled_from_the_document(options: Options) -> None:
    build_table(replace(options, base_url="https://docs.example.com/v1/"))
    guide = [row for row in rows_of(options) if row["path"] == "guide.md"]
    assert set(guide[0]) == {*COLUMNS, "weight"}
    assert [row["id"] for row in guide] == [f"guide.md#{n}" for n in range(len(guide))]
    assert [row["chunk"] for row in guide] == list(range(len(guide)))
    assert {row["title"] for row in guide} == {"The Guide"}
    assert {row["status"] for row in guide} == {"final"}
    assert {row["weight"] for row in guide} == {3}
    assert all(row["url"].startswith("https://docs.example.com/v1/guide.md") for row in guide)
    assert len({row["content_hash"] for row in guide}) == 1


def test_the_breadcrumb_leaves_out_a_first_heading_that_repeats_the_title(options: Options) -> None:
    build_table(options)
    headings = [row["heading"] for row in rows_of(options) if row["path"] == "guide.md"]
    assert headings[0] is None
    assert "Setup > On Linux" in headings


def test_the_searched_text_is_the_title_twice_breadcrumb_and_text_on_lines_of_their_own(options: Options) -> None:
    build_table(options)
    row = next(row for row in rows_of(options) if row["heading"] == "Setup > On Linux")
    assert row["search_text"] == f"The Guide\nThe Guide\nSetup > On Linux\n{row['text']}"


def test_a_document_without_a_title_is_named_after_its_file(options: Options) -> None:
    build_table(options)
    assert next(row["title"] for row in rows_of(options) if row["path"].startswith("notes/")) == "Getting started"


def test_words_and_identifiers_are_found_through_their_indexes(options: Options) -> None:
    build_table(options)
    assert "guide.md" in search(options, "installing packages", "search_text")[0]
    assert search(options, "make_all", "idents")
    assert search(options, "guide", "title")
    assert search(options, "linux", "heading")


def test_every_row_is_indexed_in_every_searched_column(options: Options) -> None:
    build_table(options)
    table = table_of(options)
    stats = {tuple(index.columns): table.index_stats(index.name) for index in table.list_indices()}
    assert set(stats) == {("search_text",), ("idents",), ("title",), ("heading",)}
    assert all(stat is not None and stat.num_unindexed_rows == 0 for stat in stats.values())


def test_the_table_tells_where_it_comes_from(options: Options) -> None:
    summary = build_table(options)
    provenance = Provenance.from_metadata(table_of(options).schema.metadata)
    assert provenance is not None
    assert provenance.chunker == chunks.PARAMETERS
    assert provenance.corpus_version == summary.corpus_version
    assert provenance.source == {"files": 2, "bytes": summary.bytes, "revision": None}
    assert provenance.embedding is None


def test_the_revision_is_the_commit_that_is_checked_out(options: Options) -> None:
    git = ["git", "-C", str(options.source), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *command], check=True)
    build_table(options)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    provenance = Provenance.from_metadata(table_of(options).schema.metadata)
    assert provenance is not None
    assert provenance.source["revision"] == head


def test_a_machine_without_git_indexes_all_the_same(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert build_table(options).files == 2


def test_the_same_content_has_the_same_corpus_version_wherever_and_whenever(options: Options, tmp_path: Path) -> None:
    first = build_table(options).corpus_version
    elsewhere = replace(options, source=options.source.rename(tmp_path / "moved"), database=tmp_path / "other")
    for file in elsewhere.source.rglob("*"):
        os.utime(file, (1, 1))
    assert build_table(elsewhere).corpus_version == first
    write(elsewhere.source / "guide.md", GUIDE + "More.")
    assert build_table(elsewhere).corpus_version != first


def test_metadata_keys_become_columns_of_one_type_each(options: Options) -> None:
    heads = {
        "a": {"Flag": True, "count": 1, "ratio": 1, "mixed": 1, "huge": 1, "2fast": "x", "path": "theirs"},
        "b": {"Flag": False, "count": 2, "ratio": 0.5, "mixed": True, "huge": 2**70, "_private": "y"},
        "c": {"Flag": None, "mixed": "word"},
    }
    for name, head in heads.items():
        write(options.source / f"{name}.md", f"---\n{json.dumps(head)}\n---\nText of {name}.")
    build_table(options)
    table = table_of(options)
    types = {field.name: str(field.type) for field in table.schema}
    own = {name: types[name] for name in types if name not in COLUMNS and name != "weight"}
    assert own == {
        "count": "int64",
        "flag": "bool",
        "huge": "string",
        "meta_2fast": "string",
        "meta_path": "string",
        "mixed": "string",
        "private": "string",
        "ratio": "double",
    }
    by_path = {row["path"]: row for row in rows_of(options)}
    assert [by_path[f"{name}.md"]["mixed"] for name in "abc"] == ["1", "true", "word"]
    assert [by_path[f"{name}.md"]["ratio"] for name in "abc"] == [1.0, 0.5, None]
    assert by_path["b.md"]["huge"] == str(2**70)
    assert by_path["a.md"]["meta_path"] == "theirs"


def test_only_the_most_frequent_keys_become_columns_and_the_summary_names_others(options: Options) -> None:
    common = {f"key_{n:03}": n for n in range(rows.MAX_OWN_COLUMNS)}
    write(options.source / "a.md", f"---\n{json.dumps({**common, 'aaa_rare': 1, 'aab_rare': 1})}\n---\nText.")
    write(options.source / "b.md", f"---\n{json.dumps(common)}\n---\nText.")
    summary = build_table(options)
    names = table_of(options).schema.names
    assert set(names) == {*COLUMNS, *common}
    assert [note for note in summary.notes if "3 rarer keys" in note and "aaa_rare" in note]


def test_a_documents_own_address_counts_where_no_base_is_given(options: Options) -> None:
    write(options.source / "a.md", "---\nurl: https://example.com/a\n---\nText.")
    write(options.source / "b.md", "---\nurl: javascript:alert(1)\n---\nText.")
    build_table(options)
    urls = {row["path"]: (row["url"], row["meta_url"]) for row in rows_of(options)}
    assert urls["a.md"] == ("https://example.com/a", None)
    assert urls["b.md"] == (None, "javascript:alert(1)")


def test_an_address_is_percent_encoded_and_leads_to_the_section(options: Options) -> None:
    write(options.source / "an über page.html", '<h2 id="set up">Set up</h2><p>Words of it.</p>')
    build_table(replace(options, base_url="https://example.com"))
    urls = [row["url"] for row in rows_of(options) if row["path"] == "an über page.html"]
    assert urls == ["https://example.com/an%20%C3%BCber%20page.html#set%20up"]


def test_ids_begin_with_collection_and_version(options: Options) -> None:
    scopes = {"": (None, None), "kb:": ("kb", None), "@2.0:": (None, "2.0"), "kb@2.0:": ("kb", "2.0")}
    for prefix, (collection, version) in scopes.items():
        build_table(replace(options, collection=collection, doc_version=version))
        mine = [row for row in rows_of(options) if row["id"].startswith(f"{prefix}guide.md#")]
        assert mine
        assert {(row["collection"], row["version"]) for row in mine} == {(collection, version)}


def test_a_run_replaces_its_own_scope_and_carries_the_others_over(options: Options) -> None:
    build_table(replace(options, collection="a"))
    before = rows_of(options)
    write(options.source / "guide.md", "---\nversion: '9'\nweight: heavy\n---\nAll new.")
    second = build_table(replace(options, collection="b"))
    assert second.other_rows == len(before)
    after = {row["id"]: row for row in rows_of(options)}
    for row in before:
        kept = {**after[row["id"]], "weight": row["weight"]}
        assert kept == row
    assert after["a:guide.md#0"]["weight"] == "3"
    assert after["b:guide.md#0"]["weight"] == "heavy"
    assert after["b:guide.md#0"]["version"] == "9"


def test_text_that_utf8_cannot_hold_does_not_end_the_run(options: Options) -> None:
    write(options.source / "odd.md", '---\nnote: "\\ud800"\ntitle: "x\\ud800"\n---\nText.')
    assert build_table(options).files == 3


def test_empty_and_unreadable_documents_are_reported(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    write(options.source / "empty.md", "")
    (options.source / "binary.txt").write_bytes(bytes(range(256)) * 8)
    write(options.source / "logo.png", "")
    real = rows.read_document

    def fail_on_notes(path: str, *rest: Any) -> rows.DocumentRows:
        if path.startswith("notes/"):
            raise RecursionError
        return real(path, *rest)

    monkeypatch.setattr(rows, "read_document", fail_on_notes)
    summary = build_table(options)
    reasons = {group.reason: group.examples for group in summary.skipped}
    assert reasons["empty"] == ("empty.md",)
    assert reasons["its reader failed (RecursionError)"] == ("notes/getting-started.txt",)
    assert reasons["no reader for .png files"] == ("logo.png",)
    assert [examples for examples in reasons.values() if examples == ("binary.txt",)]
    assert summary.files == 1


def test_skipped_files_are_grouped_by_reason_with_the_first_few_named(options: Options) -> None:
    for n in range(9):
        write(options.source / f"{n}.png", "")
    (group,) = build_table(options).skipped
    assert (group.reason, group.files, group.examples) == ("no reader for .png files", 9, ("0.png", "1.png", "2.png"))


def test_a_file_that_vanishes_between_walk_and_reading_is_skipped(options: Options) -> None:
    class Remover(Quiet):
        def found(self, files: int) -> None:
            (options.source / "guide.md").unlink()

    summary = build_table(options, Remover())
    assert (summary.files, summary.skipped[0].examples) == (1, ("guide.md",))


def test_rows_beyond_one_batch_all_arrive(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(40):
        write(options.source / f"many/{n}.md", f"---\nnumber: {n}\n---\nText {n}.")
    monkeypatch.setattr("retrieval.indexing.spool.BATCH_ROWS", 7)
    monkeypatch.setattr("retrieval.indexing.lance.BATCH_ROWS", 5)
    summary = build_table(options)
    build_table(replace(options, collection="again"))
    numbers = {row["path"]: row["number"] for row in rows_of(options) if row["collection"] is None}
    assert len(rows_of(options)) == 2 * summary.chunks
    assert all(numbers[f"many/{n}.md"] == n for n in range(40))


def test_a_database_within_the_source_is_not_indexed(options: Options) -> None:
    inside = replace(options, database=options.source / "db")
    build_table(inside)
    write(inside.database / "stray.md", "Not a document.")
    assert build_table(inside).files == 2


def test_a_source_that_is_no_folder_is_refused_and_nothing_is_created(options: Options) -> None:
    assert refusal(replace(options, source=options.source / "guide.md")) == ErrorCode.SOURCE_NOT_FOUND
    assert not options.database.exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"collection": "a@b"},
        {"collection": "a:b"},
        {"collection": ""},
        {"doc_version": " 1"},
        {"doc_version": "a#b"},
        {"doc_version": "x" * 129},
        {"base_url": "ftp://example.com"},
        {"base_url": "https://example.com/?page="},
        {"table": "a/b"},
        {"include": ("!",)},
    ],
)
def test_a_wrong_option_is_refused(options: Options, wrong: dict[str, Any]) -> None:
    assert refusal(replace(options, **wrong)) == ErrorCode.INVALID_ARGUMENT


def test_a_folder_without_text_leaves_the_old_table_alone(options: Options, tmp_path: Path) -> None:
    build_table(options)
    before = rows_of(options)
    write(tmp_path / "bare/empty.md", "")
    assert refusal(replace(options, source=tmp_path / "bare")) == ErrorCode.NOTHING_INDEXED
    assert rows_of(options) == before
    assert len(left(options)) == 1


def test_a_pattern_that_no_file_matches_is_named(options: Options) -> None:
    write(options.source / "guide.md", GUIDE)
    with pytest.raises(BedivereError, match=r"NOTHING_INDEXED: No file matches --include; "):
        build_table(replace(options, include=("*.zip",)))


@pytest.mark.parametrize("wrong", [{"include": ("!",)}, {"include": ("none",)}])
def test_a_first_run_that_fails_leaves_no_folder(options: Options, tmp_path: Path, wrong: dict[str, Any]) -> None:
    refusal(replace(options, database=tmp_path / "new/db", **wrong))
    assert not (tmp_path / "new").exists()


def test_a_database_folder_that_was_there_stays(options: Options) -> None:
    options.database.mkdir()
    refusal(replace(options, include=("none",)))
    assert list(options.database.iterdir()) == []


def test_a_path_with_a_colon_is_not_mistaken_for_a_collection(options: Options) -> None:
    write(options.source / "a:guide.md", GUIDE)
    build_table(replace(options, collection="a"))
    build_table(options)
    ids = [row["id"] for row in rows_of(options)]
    assert len(ids) == len(set(ids))
    assert {"a:guide.md#0", "a%3Aguide.md#0", "a:a%3Aguide.md#0"} <= set(ids)
    (options.source / "a:guide.md").unlink()
    assert build_table(options).removed == 1


@pytest.mark.parametrize(
    ("asked", "written"),
    [("resume", "résumé"), ("cliche", "cliché"), ("fiance", "fiancé"), ("grosse", "Größe"), ("Istanbul", "İstanbul")],
)
def test_words_are_found_with_and_without_their_accents(options: Options, asked: str, written: str) -> None:
    write(options.source / "words.md", f"About {written} here.")
    build_table(options)
    assert (
        search(options, fold(asked), "search_text") == search(options, fold(written), "search_text") == ["words.md#0"]
    )


def test_another_programs_table_is_replaced_only_when_asked(options: Options) -> None:
    lancedb.connect(options.database).create_table("documents", [{"text": "theirs"}])
    assert refusal(options) == ErrorCode.TABLE_NOT_OURS
    assert [row["text"] for row in table_of(options).search().to_list()] == ["theirs"]
    build_table(replace(options, rebuild=True))
    assert {row["path"] for row in rows_of(options)} == {"guide.md", "notes/getting-started.txt"}
    assert len(left(options)) == 1


def test_tables_lie_side_by_side_and_are_listed(options: Options) -> None:
    build_table(options)
    build_table(replace(options, table="second"))
    assert lancedb.connect(options.database).list_tables().tables == ["documents", "second"]


def test_a_second_run_on_the_same_table_is_refused_and_on_another_is_not(options: Options) -> None:
    with TableFolder(options.database, "documents").locked():
        assert refusal(options) == ErrorCode.INDEX_LOCKED
        assert build_table(replace(options, table="other")).files == 2


def test_progress_is_told_of_files_bytes_and_chunks(options: Options) -> None:
    told: dict[str, int] = {"found": 0, "files": 0, "bytes": 0, "chunks": 0}
    stages: list[str] = []

    class Counter:
        def stage(self, name: str) -> None:
            stages.append(name)

        def found(self, files: int) -> None:
            told["found"] += files

        def read(self, path: str, size: int) -> None:
            told["files"] += 1
            told["bytes"] += size

        def wrote(self, chunks: int) -> None:
            told["chunks"] += chunks

        def embedding(self, texts: int, tokens: int, dollars: float | None) -> None:
            raise AssertionError("nothing is embedded")

        def embedded(self, texts: int, tokens: int) -> None:
            raise AssertionError("nothing is embedded")

        def waiting(self, why: str, seconds: float) -> None:
            raise AssertionError("nothing is embedded")

    summary = build_table(options, Counter())
    assert told == {"found": 2, "files": 2, "bytes": summary.bytes, "chunks": summary.chunks}
    assert stages == [
        "Looking for documents",
        "Reading documents",
        "Writing the table",
        "Indexing",
        "Swapping it in",
    ]
