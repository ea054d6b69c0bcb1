"""A second run over the same folder: what is read again, what is copied, and when nothing is touched at all."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lancedb
import pytest

from retrieval.indexing import chunks, rows, sources
from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options
from retrieval.schema import Provenance

LONG_AGO_NS = 1_000_000_000 * 1_000_000_000


@pytest.fixture
def options(tmp_path: Path) -> Options:
    options = Options(tmp_path / "docs", tmp_path / "db")
    for name in ("a", "b", "c"):
        write(options, f"{name}.md", f"---\nkind: {name}\n---\nThe first words of {name}.")
    return options


def write(options: Options, name: str, text: str) -> None:
    """An old file: its time can be trusted."""
    file = options.source / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    os.utime(file, ns=(LONG_AGO_NS, LONG_AGO_NS))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were opened."""
    return recorded(monkeypatch, sources, "read", lambda file: file.path)


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were parsed."""
    return recorded(monkeypatch, rows, "read_document", lambda path, *_rest: path)


def recorded(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, told: Callable[..., str]) -> list[str]:
    calls: list[str] = []
    real = getattr(module, name)

    def call(*arguments: Any) -> Any:
        calls.append(told(*arguments))
        return real(*arguments)

    monkeypatch.setattr(module, name, call)
    return calls


def rows_of(options: Options) -> list[dict[str, Any]]:
    found = lancedb.connect(options.database).open_table(options.table).search().to_list()
    return sorted(found, key=lambda row: row["id"])


def texts(options: Options) -> dict[str, str]:
    return {row["id"]: row["text"] for row in rows_of(options)}


def generation(options: Options) -> Path:
    return (options.database / "documents.lance").resolve().parent


def fingerprint(folder: Path) -> dict[str, tuple[int, str]]:
    return {
        str(file): (file.stat().st_mtime_ns, hashlib.sha256(file.read_bytes()).hexdigest())
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.name != "documents.lock"
    }


def test_a_run_after_which_nothing_changed_touches_nothing(options: Options, opened: list[str]) -> None:
    first = build_table(options)
    before = fingerprint(options.database)
    opened.clear()
    second = build_table(options)
    assert second.unchanged
    assert opened == []
    assert fingerprint(options.database) == before
    same = ("files", "chunks", "bytes", "total_rows", "corpus_version")
    assert {name: getattr(second, name) for name in same} == {name: getattr(first, name) for name in same}
    assert (second.reused, second.removed, second.other_rows) == (3, 0, 0)


def test_only_what_changed_is_opened_and_parsed(options: Options, opened: list[str], parsed: list[str]) -> None:
    build_table(options)
    write(options, "b.md", "Other words, and more of them.")
    opened.clear()
    parsed.clear()
    summary = build_table(options)
    assert (opened, parsed) == (["b.md"], ["b.md"])
    assert (summary.unchanged, summary.reused, summary.files) == (False, 2, 3)
    assert texts(options)["b.md#0"] == "Other words, and more of them."
    assert texts(options)["a.md#0"] == "The first words of a."


def test_a_file_with_a_new_time_and_the_old_content_is_read_but_not_parsed(
    options: Options, opened: list[str], parsed: list[str]
) -> None:
    build_table(options)
    os.utime(options.source / "a.md", ns=(LONG_AGO_NS, LONG_AGO_NS + 1))
    opened.clear()
    parsed.clear()
    assert build_table(options).unchanged
    assert (opened, parsed) == (["a.md"], [])


def test_an_edit_that_kept_size_and_time_is_found(options: Options) -> None:
    build_table(options)
    before = (options.source / "a.md").stat()
    write(options, "a.md", "---\nkind: a\n---\nThe other words of a.")
    after = (options.source / "a.md").stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    build_table(options)
    assert texts(options)["a.md#0"] == "The other words of a."


def test_another_file_in_the_place_of_one_is_found_whatever_its_times(options: Options, opened: list[str]) -> None:
    build_table(options)
    file = options.source / "a.md"
    same = shutil.copy2(file, file.with_name(".copy"))
    Path(same).replace(file)
    opened.clear()
    assert build_table(options).unchanged
    assert opened == ["a.md"]


def test_a_record_without_the_systems_own_time_means_that_the_file_is_read(
    options: Options, opened: list[str], parsed: list[str]
) -> None:
    build_table(options)
    record = generation(options) / "state.json"
    state = json.loads(record.read_text())
    for file in state["scopes"][""]["files"].values():
        del file["ctime_ns"], file["inode"]
    record.write_text(json.dumps(state))
    opened.clear()
    parsed.clear()
    assert build_table(options).unchanged
    assert (opened, parsed) == (["a.md", "b.md", "c.md"], [])


def test_a_file_written_while_the_last_run_read_is_not_trusted_by_its_time(options: Options) -> None:
    build_table(options)
    now = (options.source / "a.md").stat().st_ctime_ns
    os.utime(options.source / "a.md", ns=(now, now))
    write(options, "b.md", "Changed.")
    build_table(options)
    (options.source / "a.md").write_text("---\nkind: a\n---\nThe other words of a.")
    os.utime(options.source / "a.md", ns=(now, now))
    assert not build_table(options).unchanged
    assert texts(options)["a.md#0"] == "The other words of a."


def test_an_incremental_table_is_the_one_that_a_full_build_makes(options: Options, tmp_path: Path) -> None:
    write(options, "a.md", "---\nmixed: word\nrare: 1\n---\nA.")
    write(options, "b.md", "---\nmixed: 2\n---\nB.")
    build_table(options)
    write(options, "a.md", "---\nother: 1.5\n---\nA, later.")
    (options.source / "c.md").unlink()
    write(options, "d.md", "---\nother: 2\n---\nD.")
    build_table(options)
    fresh = replace(options, database=tmp_path / "fresh")
    build_table(fresh)
    assert rows_of(options) == rows_of(fresh)
    schemas = [lancedb.connect(each.database).open_table("documents").schema for each in (options, fresh)]
    assert schemas[0].equals(schemas[1])
    assert str(schemas[0].field("mixed").type) == "int64"
    versions = [Provenance.from_metadata(schema.metadata) for schema in schemas]
    assert versions[0] is not None
    assert versions[1] is not None
    assert versions[0].corpus_version == versions[1].corpus_version
    assert versions[0].source == versions[1].source


def test_removed_files_go(options: Options) -> None:
    build_table(options)
    (options.source / "b.md").unlink()
    summary = build_table(options)
    assert (summary.removed, summary.reused, summary.files) == (1, 2, 2)
    assert set(texts(options)) == {"a.md#0", "c.md#0"}


def test_a_document_that_became_empty_goes(options: Options) -> None:
    build_table(options)
    write(options, "b.md", "")
    summary = build_table(options)
    assert summary.removed == 1
    assert [(group.reason, group.examples) for group in summary.skipped] == [("empty", ("b.md",))]
    assert set(texts(options)) == {"a.md#0", "c.md#0"}


def test_an_empty_document_is_not_opened_again_but_still_reported(options: Options, opened: list[str]) -> None:
    write(options, "empty.md", "")
    build_table(options)
    opened.clear()
    summary = build_table(options)
    assert opened == []
    assert summary.unchanged
    assert summary.skipped[0].examples == ("empty.md",)


def test_rebuild_reads_everything_again_and_keeps_other_collections(options: Options, parsed: list[str]) -> None:
    build_table(replace(options, collection="other"))
    build_table(options)
    parsed.clear()
    summary = build_table(replace(options, rebuild=True))
    assert parsed == ["a.md", "b.md", "c.md"]
    assert (summary.unchanged, summary.reused, summary.other_rows) == (False, 0, 3)
    assert "other:a.md#0" in texts(options)


def test_another_base_address_makes_other_rows(options: Options, parsed: list[str]) -> None:
    build_table(options)
    parsed.clear()
    build_table(replace(options, base_url="https://example.com"))
    assert len(parsed) == 3
    assert rows_of(options)[0]["url"] == "https://example.com/a.md"


def test_other_chunk_parameters_reuse_nothing(
    options: Options, parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    build_table(options)
    build_table(replace(options, collection="other"))
    parsed.clear()
    monkeypatch.setitem(chunks.PARAMETERS, "max_chars", chunks.PARAMETERS["max_chars"] + 1)
    summary = build_table(options)
    assert len(parsed) == 3
    assert [note for note in summary.notes if "index them again" in note]
    assert len(texts(options)) == 6


def test_other_code_reuses_nothing(options: Options, parsed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    build_table(options)
    parsed.clear()
    monkeypatch.setattr(rows, "_code", lambda: "another release")
    assert not build_table(options).unchanged
    assert len(parsed) == 3


def test_a_table_of_another_lancedb_is_written_anew_without_parsing(
    options: Options, parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    build_table(options)
    parsed.clear()
    monkeypatch.setattr("retrieval.indexing.build.version", lambda _package: "99.0")
    summary = build_table(options)
    assert (summary.unchanged, summary.reused, parsed) == (False, 3, [])


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.unlink(),
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(b"\xff{"),
        lambda file: file.write_text("[" * 100_000),
        lambda file: file.write_text(json.dumps({"scopes": {"": {"files": {"a.md": {"size": "x"}}}}, "format": 1})),
        lambda file: file.write_text(json.dumps({**json.loads(file.read_text()), "format": 99})),
    ],
    ids=["missing", "emptied", "no JSON", "deep", "other types", "other format"],
)
def test_a_damaged_record_means_a_full_build_that_loses_nothing(
    options: Options, parsed: list[str], damage: Callable[[Path], object]
) -> None:
    build_table(replace(options, collection="other"))
    build_table(options)
    before = rows_of(options)
    damage(generation(options) / "state.json")
    parsed.clear()
    summary = build_table(options)
    assert (summary.unchanged, summary.other_rows) == (False, 3)
    assert len(parsed) == 3
    assert rows_of(options) == before
    assert build_table(options).unchanged


def damage_data(place: Path) -> None:
    for file in (place / "documents.lance" / "data").iterdir():
        file.write_bytes(b"\0" * file.stat().st_size)


def damage_manifest(place: Path) -> None:
    shutil.rmtree(place / "documents.lance" / "_versions")


@pytest.mark.parametrize("damage", [damage_data, damage_manifest])
def test_an_unreadable_table_means_a_full_build(options: Options, damage: Callable[[Path], None]) -> None:
    build_table(options)
    damage(generation(options))
    write(options, "b.md", "Changed.")
    summary = build_table(options)
    assert [note for note in summary.notes if "could not be read" in note]
    assert (summary.files, summary.reused) == (3, 0)
    assert texts(options)["b.md#0"] == "Changed."


def test_a_table_without_its_provenance_is_built_anew(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    build_table(options)
    place = generation(options)
    plain = lancedb.connect(options.database).open_table("documents").to_arrow().replace_schema_metadata(None)
    lancedb.connect(place).create_table("documents", plain, mode="overwrite")
    assert build_table(options).reused == 0


def test_rows_that_went_missing_mean_a_full_build(options: Options) -> None:
    build_table(options)
    lancedb.connect(generation(options)).open_table("documents").delete("path = 'a.md'")
    summary = build_table(options)
    assert not summary.unchanged
    assert set(texts(options)) == {"a.md#0", "b.md#0", "c.md#0"}


def test_rows_that_are_not_indexed_are_indexed(options: Options) -> None:
    build_table(options)
    lancedb.connect(generation(options)).open_table("documents").drop_index("idents_idx")
    summary = build_table(options)
    assert (summary.unchanged, summary.reused) == (False, 3)


def test_damaged_indexes_are_made_anew(options: Options) -> None:
    build_table(options)
    shutil.rmtree(generation(options) / "documents.lance" / "_indices")
    assert not build_table(options).unchanged
    found = lancedb.connect(options.database).open_table("documents").search("words", query_type="fts")
    assert len(found.select(["id", "_score"]).limit(9).to_list()) == 3


def test_scopes_are_unchanged_each_on_its_own(options: Options, parsed: list[str]) -> None:
    for version in ("1", "2"):
        build_table(replace(options, doc_version=version))
    parsed.clear()
    summary = build_table(replace(options, doc_version="1"))
    assert (summary.unchanged, summary.files, summary.other_rows, parsed) == (True, 3, 3, [])
    write(options, "a.md", "Changed.")
    build_table(replace(options, doc_version="2"))
    assert texts(options)["@1:a.md#0"] == "The first words of a."
    assert texts(options)["@2:a.md#0"] == "Changed."
    assert parsed == ["a.md"]


def test_the_corpus_version_does_not_hang_on_the_order_of_runs(options: Options, tmp_path: Path) -> None:
    there = replace(options, database=tmp_path / "there")
    for each, order in ((options, "xy"), (there, "yx")):
        for collection in order:
            build_table(replace(each, collection=collection))
    versions = {build_table(replace(each, collection="x")).corpus_version for each in (options, there)}
    assert len(versions) == 1


def test_vectors_of_the_old_table_are_not_mistaken_for_a_documents_own_key(options: Options) -> None:
    build_table(options)
    table = lancedb.connect(generation(options)).open_table("documents")
    table.add_columns({"vector": "cast(1.0 as float)"})
    write(options, "b.md", "Changed.")
    build_table(options)
    assert "vector" not in rows_of(options)[0]
