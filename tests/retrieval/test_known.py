"""Columns that are known of rows are not read, and the rows are those that reading all columns gives."""

# pyarrow and lancedb ship no types, or some.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import asyncio
import json
import logging
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import lancedb
import pyarrow as pa
import pytest

from retrieval.catalog import (
    CHECKSUM_KEY,
    CORPUS_KEY,
    FRAGMENTS_KEY,
    NO_VERSION,
    VERSION_KEY,
    Catalog,
    RowNumbers,
    checksum,
)
from retrieval.confinement import confine
from retrieval.core import Api
from retrieval.database import Database
from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options
from retrieval.known import Known, UnknownRowError
from retrieval.layout import Layout
from retrieval.schema import CATALOG_FILE, COMPANIONS
from retrieval.search.filters import Condition, Not
from retrieval.search.plan import plan_text
from retrieval.table import Table
from retrieval.types import Row, Span
from tests.embedding_server import EmbeddingServer, vector_of
from tests.retrieval.asking import DATABASE, index

APART = 'title: Quays\nurl: "https://harbour.example/q"\nsuperseded_by: new.md\nowner: pilots\npriority: 2'
DOCUMENTS = {
    "a%3Ab.md": "# Quays\n\n## North\n\nThe ferry leaves the north quay.\n\n## South\n\nAnother ferry is late.\n",
    "a:b#1.md": "---\nstatus: draft\ndate: 2026-01-02\nversion: '7'\n---\nA ferry without a heading.\n",
    "deep/x#0.md": f"---\n{APART}\n---\nFerry.\n\n## East wharf\n\nThe ferry sails.\n\n## West wharf\n\nNo ferry.\n",
    "new.md": "# New\n\nA new ferry.\n",
}
NOBODY = {"n.md": "---\nsuperseded_by: none\nstatus: final\n---\n# N\n\nA ferry that nothing replaces.\n"}


def built(folder: Path, documents: Mapping[str, str], server: EmbeddingServer | None = None) -> Path:
    """`documents` by themselves, in two versions of a collection, and in a private one."""
    index(folder, documents, server)
    for number in ("1", "2"):
        index(folder, documents, server, collection="harbour", doc_version=number)
    return index(folder, documents, server, collection="private")


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By what is said in `superseded_by`: of successors alone, or of nobody too."""
    given = {"named": DOCUMENTS, "nobody": DOCUMENTS | NOBODY}
    return {name: built(tmp_path_factory.mktemp(name), documents) for name, documents in given.items()}


def opened(database: Path, api: Api = "auto") -> Table:
    return asyncio.run(Database(str(database), api).table("documents"))


def knowing(database: Path, api: Api = "auto") -> Table:
    """The table, once its catalog has been read; until then all columns are."""
    table = opened(database, api)
    asyncio.run(table.catalog(table.layout("text")))
    return table


def tells(table: Table) -> bool:
    return table.known is not None and table.known.tells(table.layout("text"))


def everything(table: Table) -> list[list[Row]]:
    """What each kind of question finds, in an order that only the search decides where it has one."""
    layout = table.layout("text")
    plan = plan_text("the ferry", layout.searchable)
    assert plan is not None
    filtered = Condition("path", "prefix", "a")

    async def asked() -> list[list[Row]]:
        return [
            await table.search_text(plan, layout, 7),
            await table.search_text(plan, layout, 100, where=filtered),
            sorted(await table.select(None, layout), key=lambda row: row.id),
            sorted(await table.select(Not(filtered), layout), key=lambda row: row.id),
            sorted(await table.chunks([Span("deep/x#0.md", 1, 2)], layout), key=lambda row: row.id),
            await table.select(Condition("path", "eq", "nowhere"), layout),
        ]

    return asyncio.run(asked())


@pytest.mark.parametrize("api", get_args(Api))
@pytest.mark.parametrize("name", ["named", "nobody"])
def test_known_rows_are_those_that_are_read(databases: dict[str, Path], name: str, api: Api) -> None:
    known, read = knowing(databases[name], api), opened(databases[name], api)
    assert tells(known)
    assert read.known is None
    found = everything(known)
    assert found == everything(read)
    # Equal mappings may still differ in their order, which a reply shows.
    assert [[*row.metadata] for rows in found for row in rows] == [
        [*row.metadata] for rows in everything(read) for row in rows
    ]
    assert all(found[:5])
    # What makes the comparison worth it.
    rows = found[2]
    assert {row.metadata.get("superseded_by") for row in rows} >= {None, "new.md"}
    assert {row.metadata.get("version") for row in rows} == {None, "1", "2", "7"}
    assert {"https://harbour.example/q#east-wharf", None} < {row.url for row in rows}
    assert any(row.metadata.get("owner") == "pilots" and row.metadata.get("priority") == 2 for row in rows)
    assert ("none" in {row.metadata.get("superseded_by") for row in rows}) == (name == "nobody")


def test_of_vectors_too(tmp_path: Path, embedding_server: EmbeddingServer) -> None:
    database = index(tmp_path, DOCUMENTS, embedding_server)
    layout = (known := knowing(database)).layout("text")
    assert tells(known)
    found, read = (
        asyncio.run(table.search_vector(vector_of("a ferry"), "vector", layout, 5))
        for table in (known, opened(database))
    )
    assert found == read
    assert len(found) == 5


def test_what_is_known_is_not_asked_for(databases: dict[str, Path]) -> None:
    def asked(name: str) -> list[str]:
        table = knowing(databases[name])
        return table.asking(table.layout("text"), "_score", 9, None, None, table.known).columns

    # Documents that say their version though they were indexed in another have it in a column of their own.
    own = ["meta_version", "owner", "priority"]
    assert asked("named") == ["text", "heading", "url", *own, "_score"]
    # That nothing replaces a document is said in words of its own, which the catalog does not keep.
    assert asked("nobody") == ["text", "heading", "url", "superseded_by", *own, "_score"]


def test_addresses_without_anchors_of_their_own_are_known(tmp_path: Path) -> None:
    page = "---\nurl: https://harbour.example/q\n---\nA ferry.\n"
    database = index(tmp_path, {"a.md": page, "b.md": "A ferry of no page.\n"})
    table = knowing(database)
    assert table.asking(table.layout("text"), None, None, None, None, table.known).columns == ["text", "heading"]
    assert everything(table) == everything(opened(database))
    assert {row.url for row in everything(table)[2]} == {"https://harbour.example/q", None}


@pytest.mark.parametrize("column", ["search_text", "heading", "title"])
def test_another_column_of_text_has_all_columns_read(databases: dict[str, Path], column: str) -> None:
    table = knowing(databases["named"])
    assert table.known is not None
    assert not table.known.tells(table.layout(column))


def test_a_caller_from_whom_rows_are_hidden_gets_the_others_as_they_are(databases: dict[str, Path]) -> None:
    table = opened(databases["named"])
    confined = asyncio.run(confine(table, frozenset({"private"}), "text"))
    assert isinstance(confined, Table)
    assert tells(confined)
    rows = [row for row in everything(opened(databases["named"]))[2] if row.metadata.get("collection") != "private"]
    assert everything(confined)[2] == rows


def copied(database: Path, folder: Path) -> Path:
    """The table as plain files in a folder of its own."""
    shutil.copytree((database / "documents.lance").resolve(), folder / "documents.lance")
    return folder


def test_a_copy_of_the_files_is_known_as_well(databases: dict[str, Path], tmp_path: Path) -> None:
    copy = copied(databases["named"], tmp_path)
    assert tells(knowing(copy))
    assert everything(knowing(copy)) == everything(opened(databases["named"]))


def retitle(table: Any) -> None:
    table.update("chunk = 1", {"title": "Retitled", "status": "secret"})


def swap(table: Any) -> None:
    row = table.search().where("path = 'new.md' AND collection IS NULL").to_arrow()
    table.delete("path = 'new.md' AND collection IS NULL")
    table.add(row.set_column(row.schema.get_field_index("title"), "title", pa.array(["Swapped"])))


def shuffle(table: Any) -> None:
    rows = table.to_arrow()
    table.delete("path <> 'new.md'")
    table.add(rows.filter(pa.array([path != "new.md" for path in rows.column("path").to_pylist()])))


@pytest.mark.parametrize("change", [retitle, swap, shuffle])
def test_a_table_that_others_changed_is_read_though_it_has_as_many_rows(
    databases: dict[str, Path], tmp_path: Path, change: Callable[[Any], None]
) -> None:
    copy = copied(databases["named"], tmp_path)
    table: Any = lancedb.connect(copy).open_table("documents")
    before = table.count_rows()
    change(table)
    assert table.count_rows() == before
    assert not tells(knowing(copy))
    assert everything(knowing(copy)) == everything(opened(copy))


def rewrite(database: Path, change: Callable[[dict[bytes, bytes]], object]) -> None:
    """Changes the records in the catalog of the table that stands now."""
    file = (database / "documents.lance").resolve() / COMPANIONS / CATALOG_FILE
    with pa.ipc.open_file(pa.BufferReader(file.read_bytes())) as reader:
        batch = reader.get_batch(0)
    metadata = dict(batch.schema.metadata)
    change(metadata)
    if CHECKSUM_KEY in metadata:
        metadata[CHECKSUM_KEY] = str(checksum(pa.Table.from_batches([batch]), metadata)).encode()
    schema = batch.schema.with_metadata(metadata)
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(batch.replace_schema_metadata(metadata))


def test_rows_that_have_no_number_are_read_whole(
    databases: dict[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    copy = copied(databases["named"], tmp_path)
    rewrite(copy, lambda metadata: metadata.update({FRAGMENTS_KEY: json.dumps([[7, 0]]).encode()}))
    table = knowing(copy)
    assert tells(table)
    with caplog.at_level(logging.WARNING):
        assert everything(table) == everything(opened(copy))
    assert not tells(table)
    assert len(caplog.messages) == 1


def test_the_catalog_of_another_table_as_large_tells_nothing_of_this_one(
    databases: dict[str, Path], tmp_path: Path
) -> None:
    one, other = (copied(databases["named"], tmp_path / name) for name in ("one", "other"))
    rewrite(one, lambda metadata: metadata.update({CORPUS_KEY: b"of another"}))
    assert not tells(knowing(one))
    assert everything(knowing(one)) == everything(opened(other))


def test_what_may_not_be_shown_is_not_told_of_other_rows() -> None:
    confined = Known(rows=replace(NUMBERS, seen=frozenset({1})), told=("path",))
    assert confined.columns([0])["path"] == ["b:.md"]
    with pytest.raises(UnknownRowError):
        confined.columns([2])


def test_a_table_of_before_the_numbers_is_read_and_written_anew_once(tmp_path: Path) -> None:
    database = index(tmp_path, DOCUMENTS)
    rewrite(database, lambda metadata: metadata.pop(VERSION_KEY))
    assert not tells(knowing(database))
    assert everything(knowing(database)) == everything(opened(database))
    options = Options(tmp_path / "docs", tmp_path / DATABASE)
    assert not build_table(options).unchanged
    assert tells(knowing(database))
    assert build_table(options).unchanged


def test_rows_that_others_changed_stay_as_they_are_in_the_next_table(tmp_path: Path) -> None:
    database = index(tmp_path, DOCUMENTS)
    place = (database / "documents.lance").resolve()
    lancedb.connect(place.parent).open_table("documents").update("path = 'a%3Ab.md' AND chunk = 1", {"title": "Odd"})
    index(tmp_path, NOBODY, collection="other")
    assert "Odd" in {row.title for row in everything(knowing(database))[2]}
    assert everything(knowing(database)) == everything(opened(database))
    catalog = Catalog.load(((database / "documents.lance").resolve() / COMPANIONS / CATALOG_FILE).read_bytes())
    assert (catalog.version, catalog.rows) == (NO_VERSION, None)
    assert build_table(Options(tmp_path / "docs-other", database, collection="other")).unchanged


NUMBERS = RowNumbers(
    {0: 0, 5: 3},
    # The second document of the catalog comes first, and the first lies in two fragments.
    starts=[0, 2],
    places=[1, 0],
    columns={"first_id": ["a.md#0", "x:b%3A.md#0"], "path": ["a.md", "b:.md"], "chunks": [3, 2]},
    pages=True,
    corpus="a,b",
)


def test_the_number_of_a_row_says_its_document_and_its_place_in_it() -> None:
    known = Known(rows=NUMBERS, told=("path",))
    assert known.columns([1, 5 << 32 | 1, 2]) == {
        "id": ["x:b%3A.md#1", "a.md#2", "a.md#0"],
        "chunk": [1, 2, 0],
        "path": ["b:.md", "a.md", "a.md"],
    }
    assert known.columns([]) == {"id": [], "chunk": [], "path": []}


@pytest.mark.parametrize("place", [-1, 2])
def test_a_document_that_is_not_there_is_nobodys(place: int) -> None:
    with pytest.raises(UnknownRowError):
        Known(rows=replace(NUMBERS, places=[place, 0])).columns([0])


@pytest.mark.parametrize("number", [5 << 32 | 2, 1 << 32, 2**40 + 1])
def test_a_number_that_no_document_has_is_nobodys(number: int) -> None:
    with pytest.raises(UnknownRowError):
        Known(rows=NUMBERS).columns([0, number])


def test_layouts_without_our_ids_have_all_columns_read() -> None:
    layout = Layout(**{**dict.fromkeys(Layout.__slots__), "text": "text", "metadata": ()})  # pyright: ignore[reportArgumentType]
    assert not Known(rows=NUMBERS).tells(layout)
