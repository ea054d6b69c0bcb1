"""Documents that several processes read make the table that one makes, and fail as they fail there."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lancedb
import pytest

from retrieval.catalog import Catalog, Document
from retrieval.errors import BedivereError, ErrorCode
from retrieval.indexing import reading, workers
from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options, Summary
from retrieval.indexing.workers import Workers
from retrieval.schema import CATALOG_FILE, COMPANIONS, VOCABULARY_FILE

pytestmark = pytest.mark.e2e


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Documents of all formats, among them some that cannot be read."""
    folder = tmp_path / "docs"
    folder.mkdir()
    for number in range(40):
        text = "\n\n".join(f"Paragraph {place} of page_{number} says so at length. " * 9 for place in range(number % 7))
        (folder / f"page-{number:02}.md").write_text(f"---\nnumber: {number}\n---\n# Page {number}\n\n{text}")
    (folder / "page.html").write_text("<title>A page</title><h1>A page</h1><p>With words.")
    (folder / "page.rst").write_text("A page\n======\n\nWith words.\n")
    (folder / "binary.md").write_bytes(b"\0\1\2" * 100)
    (folder / "empty.md").write_text("  \n")
    return folder


def built(source: Path, database: Path, processes: int) -> Summary:
    return build_table(Options(source, database, workers=processes))


def learnt(files: Mapping[str, bytes]) -> tuple[bytes, tuple[Document, ...]]:
    """The words and the documents in the companions of a table."""
    return files[VOCABULARY_FILE], Catalog.load(files[CATALOG_FILE]).documents


def content(database: Path) -> tuple[Any, dict[str, bytes], Any]:
    """Rows in their order, the files beside them, and the records of the source's files."""
    table = lancedb.connect(database).open_table("documents")
    place = (database / "documents.lance").resolve()
    state = json.loads((place.parent / "state.json").read_text())["scopes"][""]
    return (
        table.to_arrow().to_pylist(),
        {file.name: file.read_bytes() for file in (place / COMPANIONS).iterdir()},
        list(state["files"].items()),
    )


def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "WORTH_BYTES", 1)
    monkeypatch.setattr(reading, "_TASK_BYTES", 3_000)


def test_the_table_is_the_same_whatever_the_number_of_processes(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = built(source, tmp_path / "alone", 1)
    small_tasks(monkeypatch)
    monkeypatch.setattr("retrieval.indexing.spool.BATCH_ROWS", 9)
    together = built(source, tmp_path / "together", 3)
    rows, companions, records = content(tmp_path / "alone")
    assert len(rows) > 50
    assert content(tmp_path / "together") == (rows, companions, records)
    assert together.skipped == alone.skipped
    assert {group.reason for group in together.skipped} == {"binary, not text", "empty"}


def test_what_has_changed_is_read_by_several_processes_and_what_has_not_is_copied(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_tasks(monkeypatch)
    built(source, tmp_path / "db", 2)
    for number in range(0, 40, 2):
        (source / f"page-{number:02}.md").write_text(f"# Page {number}\n\nNow it says something else.")
    (source / "page.rst").write_text((source / "page.rst").read_text())
    again = built(source, tmp_path / "db", 2)
    fresh = built(source, tmp_path / "fresh", 1)
    assert again.reused == fresh.files - 20
    by_id = [sorted(content(tmp_path / name)[0], key=lambda row: row["id"]) for name in ("db", "fresh")]
    assert by_id[0] == by_id[1]
    # Copied rows lie before those that were read, and the catalog says where each lies.
    assert learnt(content(tmp_path / "db")[1]) == learnt(content(tmp_path / "fresh")[1])


def test_a_process_that_is_lost_costs_the_run_and_not_the_table(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built(source, tmp_path / "db", 1)
    before = content(tmp_path / "db")
    small_tasks(monkeypatch)
    (source / "page.rst").write_text("New words.")
    (source / "page.html").write_text("New words.")
    started = Workers.map

    def lose(self: Workers, *arguments: Any) -> Any:
        results = started(self, *arguments)
        for result in results:
            for process in self.processes:
                process.kill()
                process.wait()
            yield result

    monkeypatch.setattr(reading, "_TASK_DOCUMENTS", 1)
    monkeypatch.setattr(Workers, "map", lose)
    with pytest.raises(BedivereError, match="the old table, if any, is untouched") as failed:
        build_table(Options(source, tmp_path / "db", workers=2, rebuild=True))
    assert failed.value.code is ErrorCode.BUILD_FAILED
    assert "A process that reads documents was ended" in failed.value.sentence
    monkeypatch.undo()
    assert content(tmp_path / "db") == before
