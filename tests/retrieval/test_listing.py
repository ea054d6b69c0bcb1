"""The documents of a table, page by page and narrowed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from retrieval.database import Database
from retrieval.errors import BedivereError, ErrorCode
from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options
from retrieval.listing import FIELDS, list_documents
from retrieval.table import Table
from retrieval.types import CatalogReply, CatalogRequest
from tests.retrieval.asking import index

if TYPE_CHECKING:
    from tests.conftest import TableMaker

WORDS = ("superseded", "draft")

PAGES = {
    "guides/keys.md": "---\nstatus: final\nowner: platform\npriority: 2\n---\n# Keys\n\n## Rotation\n\n"
    + "Rotate them. " * 40
    + "\n\n## Storage\n\n"
    + "Store them. " * 40,
    "guides/old-keys.md": "---\nstatus: superseded\ndate: 2024-05-01\nsuperseded_by: guides/keys.md\n---\n# Old\n",
    "guides/plan.md": "---\nstatus: draft\nowner: security\n---\n# Plan\n\nPerhaps.\n",
    "index.md": "# Handbook\n\nHow it is run.\n",
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two versions of a handbook and a set without a name; tests only read it."""
    folder = tmp_path_factory.mktemp("library")
    database = folder / "database"
    for version in ("1", "2"):
        source = folder / version
        source.mkdir()
        (source / "start.md").write_text(f"# Start\n\nVersion {version}.\n", encoding="utf-8")
        build_table(Options(source=source, database=database, collection="handbook", doc_version=version))
    source = folder / "docs"
    (source / "guides").mkdir(parents=True)
    for name, text in PAGES.items():
        (source / name).write_text(text, encoding="utf-8")
    build_table(Options(source=source, database=database, base_url="https://docs.example.com/"))
    return database


def catalog(database: Path, *, narrowing: Mapping[str, Any] = MappingProxyType({}), **request: Any) -> CatalogReply:
    asked = CatalogRequest(narrowing=replace(CatalogRequest().narrowing, **narrowing), **request)

    async def run() -> CatalogReply:
        async def ask(table: Table) -> CatalogReply:
            return await list_documents(table, table.layout("text"), asked, WORDS)

        return await Database(str(database)).read("documents", ask)

    return asyncio.run(run())


def refusal(database: Path, **request: Any) -> tuple[ErrorCode, str]:
    with pytest.raises(BedivereError) as raised:
        catalog(database, **request)
    return raised.value.code, raised.value.sentence


def listed(database: Path, **request: Any) -> list[str | None]:
    return [document.path for document in catalog(database, **request).documents]


def test_every_document_is_listed_once_by_path_outdated_ones_and_all_versions_among_them(library: Path) -> None:
    reply = catalog(library)
    assert [(document.path, document.version) for document in reply.documents] == [
        ("guides/keys.md", None),
        ("guides/old-keys.md", None),
        ("guides/plan.md", None),
        ("index.md", None),
        ("start.md", "1"),
        ("start.md", "2"),
    ]
    assert (reply.total, reply.cursor, reply.unchanged, reply.notes) == (6, None, False, [])


def test_an_entry_says_what_the_document_says_of_itself(library: Path) -> None:
    old = next(one for one in catalog(library).documents if one.path == "guides/old-keys.md")
    assert old.model_dump(exclude_none=True, by_alias=False) == {
        "path": "guides/old-keys.md",
        "title": "Old",
        "url": "https://docs.example.com/guides/old-keys.md",
        "status": "superseded",
        "date": "2024-05-01",
        "superseded_by": "guides/keys.md",
        "chunks": 1,
        "id": "guides/old-keys.md#0",
    }


def test_only_the_fields_that_are_asked_for_come_back(library: Path) -> None:
    entries = catalog(library, fields=("path", "supersededBy")).documents
    told = [one.model_dump(exclude_none=True, by_alias=True) for one in entries]
    assert told[0] == {"path": "guides/keys.md"}
    assert told[1] == {"path": "guides/old-keys.md", "supersededBy": "guides/keys.md"}


def test_an_unknown_field_is_refused_with_the_nearest_and_all_there_are(library: Path) -> None:
    code, sentence = refusal(library, fields=("superseded_from",))
    assert code is ErrorCode.INVALID_ARGUMENT
    assert "did you mean 'supersededBy'?" in sentence
    assert all(field in sentence for field in FIELDS)


@pytest.mark.parametrize("limit", [1, 2, 4, 5])
def test_pages_hold_every_document_once(library: Path, limit: int) -> None:
    pages = [catalog(library, limit=limit)]
    while pages[-1].cursor is not None:
        pages.append(catalog(library, limit=limit, cursor=pages[-1].cursor))
    assert [one.id for page in pages for one in page.documents] == [one.id for one in catalog(library).documents]
    assert {page.total for page in pages} == {6}


def test_a_cursor_goes_on_with_another_limit_and_other_fields(library: Path) -> None:
    cursor = catalog(library, limit=1).cursor
    page = catalog(library, limit=3, cursor=cursor, fields=("path",))
    assert [one.path for one in page.documents] == ["guides/old-keys.md", "guides/plan.md", "index.md"]


def test_a_cursor_holds_for_the_same_narrowing_only(library: Path) -> None:
    cursor = catalog(library, limit=1).cursor
    code, sentence = refusal(library, limit=1, cursor=cursor, narrowing={"path_prefix": "guides/"})
    assert code is ErrorCode.INVALID_CURSOR
    assert "same table and the filters" in sentence


def test_a_cursor_of_documents_that_changed_is_stale(tmp_path: Path) -> None:
    source = tmp_path / "docs"
    source.mkdir()
    for name in ("a.md", "b.md"):
        (source / name).write_text("# Page\n\nText.\n", encoding="utf-8")
    build_table(Options(source=source, database=tmp_path / "database"))
    cursor = catalog(tmp_path / "database", limit=1).cursor
    (source / "c.md").write_text("# Page\n\nText.\n", encoding="utf-8")
    build_table(Options(source=source, database=tmp_path / "database"))
    assert refusal(tmp_path / "database", limit=1, cursor=cursor)[0] is ErrorCode.CURSOR_STALE


@pytest.mark.parametrize(
    ("narrowing", "paths"),
    [
        ({"path_prefix": "guides/"}, ["guides/keys.md", "guides/old-keys.md", "guides/plan.md"]),
        ({"exclude": ("keys", "start")}, ["guides/plan.md", "index.md"]),
        ({"collection": "handbook"}, ["start.md", "start.md"]),
        ({"version": "2"}, ["start.md"]),
        ({"version": "v2.0"}, ["start.md"]),
        ({"version": "3"}, []),
        ({"include_outdated": False}, ["guides/keys.md", "index.md", "start.md", "start.md"]),
        ({"filters": {"owner": "platform"}}, ["guides/keys.md"]),
        ({"filters": {"priority": {"gte": 2}}}, ["guides/keys.md"]),
        ({"filters": {"heading": {"prefix": "Storage"}}}, ["guides/keys.md"]),
        ({"filters": {"Heading": {"prefix": "Storage"}}}, ["guides/keys.md"]),
        ({"filters": {"chunk": {"gte": 1}}}, ["guides/keys.md"]),
        ({"filters": {"owner": {"exists": True}}, "include_outdated": False}, ["guides/keys.md"]),
        ({"filters": {"owner": "security"}, "path_prefix": "guides/", "exclude": ("keys",)}, ["guides/plan.md"]),
    ],
)
def test_what_narrows_a_search_narrows_the_catalog(library: Path, narrowing: dict[str, Any], paths: list[str]) -> None:
    assert listed(library, narrowing=narrowing) == paths


@pytest.mark.parametrize("status", ["superseded", "SUPERSEDED"])
def test_a_status_is_found_in_any_case(library: Path, status: str) -> None:
    assert listed(library, status=status) == ["guides/old-keys.md"]


def test_a_status_that_no_document_has_is_answered_with_those_there_are(library: Path) -> None:
    reply = catalog(library, status="retired")
    assert (reply.documents, reply.total) == ([], 0)
    assert "'draft', 'final', 'superseded'" in reply.notes[0]


def test_a_filter_that_lets_nothing_through_is_told(library: Path) -> None:
    reply = catalog(library, narrowing={"filters": {"owner": "nobody"}})
    assert reply.notes == ["None of the 6 documents passes the filters."]


def test_an_unknown_collection_or_version_is_answered_as_a_search_is(library: Path, make_table: TableMaker) -> None:
    assert catalog(library, narrowing={"version": "3"}).notes == ["There is no version '3'; there are 2, 1."]
    assert catalog(library, narrowing={"collection": "x"}).notes == [
        "There is no collection 'x'; there is only handbook."
    ]
    database = make_table({"text": ["a"], "path": ["x.txt"]})
    reply = catalog(database, narrowing={"version": "3"})
    assert (reply.documents, reply.notes) == ([], ["The documents have no version: leave version out."])


def test_an_unknown_field_of_a_filter_is_refused(library: Path) -> None:
    assert refusal(library, narrowing={"filters": {"color": "red"}})[0] is ErrorCode.INVALID_FILTER


def test_a_corpus_version_that_still_holds_saves_the_list(library: Path) -> None:
    known = catalog(library).corpus_version
    reply = catalog(library, if_corpus_version=known)
    assert (reply.unchanged, reply.documents, reply.corpus_version) == (True, [], known)
    assert not catalog(library, if_corpus_version="4bad").unchanged


def test_who_reads_on_gets_the_next_page_although_nothing_changed(library: Path) -> None:
    first = catalog(library, limit=1)
    reply = catalog(library, limit=1, cursor=first.cursor, if_corpus_version=first.corpus_version)
    assert [one.path for one in reply.documents] == ["guides/old-keys.md"]


def test_a_page_ends_before_it_is_too_long_for_its_reader(make_table: TableMaker) -> None:
    count = 300
    database = make_table(
        {
            "text": ["x"] * count,
            "path": [f"{n:03}/{'y' * 500}" for n in range(count)],
            "id": [str(n) for n in range(count)],
        }
    )
    page = catalog(database, limit=1_000)
    assert 0 < len(page.documents) < count
    assert len(page.model_dump_json(exclude_none=True)) < 70_000
    following = catalog(database, limit=1_000, cursor=page.cursor)
    assert following.documents[0].path == f"{len(page.documents):03}/{'y' * 500}"


def test_a_table_of_others_is_listed_as_far_as_it_tells(make_table: TableMaker) -> None:
    database = make_table({"text": ["a", "b", "c"], "docSource": ["x.txt", "y.txt", "x.txt"], "title": ["X", "Y", "X"]})
    reply = catalog(database, if_corpus_version="4bad")
    assert [(one.path, one.title, one.chunks) for one in reply.documents] == [("x.txt", "X", 2), ("y.txt", "Y", 1)]
    assert reply.corpus_version is None
    assert "no corpus version" in reply.notes[0]


def test_a_cursor_of_a_table_of_others_is_stale_once_its_documents_changed(make_table: TableMaker) -> None:
    columns: dict[str, Any] = {"text": ["a", "b"], "path": ["x.txt", "y.txt"], "chunk": pa.array([0, 0], pa.int32())}
    cursor = catalog(make_table(columns), limit=1).cursor
    assert [one.path for one in catalog(make_table(columns), limit=1, cursor=cursor).documents] == ["y.txt"]
    changed = make_table({**columns, "path": ["x.txt", "z.txt"]})
    assert refusal(changed, limit=1, cursor=cursor)[0] is ErrorCode.CURSOR_STALE


def test_a_table_that_names_no_documents_has_none_to_list(make_table: TableMaker) -> None:
    code, sentence = refusal(make_table({"text": ["a"]}))
    assert code is ErrorCode.COLUMN_NOT_FOUND
    assert "names the document" in sentence


def test_a_field_may_be_asked_for_as_its_column_is_written(library: Path) -> None:
    assert (
        catalog(library, fields=("path", "superseded_by")).documents
        == catalog(library, fields=("path", "supersededBy")).documents
    )


def test_a_status_is_what_a_documents_own_begins_with(tmp_path: Path) -> None:
    texts = {"a.md": "---\nstatus: '**Superseded** by ADR-2'\n---\n# A\n\nAn a.\n", "b.md": "# B\n\nA b.\n"}
    database = index(tmp_path, texts)
    assert listed(database, status="superseded") == ["a.md"]
    assert listed(database, status="supers") == []


def test_where_outdated_ones_were_asked_for_and_left_out_the_note_says_so(library: Path) -> None:
    reply = catalog(library, status="superseded", narrowing={"include_outdated": False})
    assert reply.documents == []
    assert reply.notes[0].endswith("Outdated ones were left out: pass includeOutdated true to list them.")
