"""Whether what is judged is in the table, and which chunks belong to a section."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from retrieval.database import Database
from retrieval.errors import BedivereError, ErrorCode
from retrieval.evaluation.judgements import Query, Section
from retrieval.evaluation.places import Resolved, resolve, stands_under
from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options
from tests.conftest import TableMaker

DOCUMENTS = {
    "keys.md": "# Keys\n\nAbout keys.\n\n## Rotating `signing` keys\n\nEvery quarter.\n\n### By hand\n\nWith care.\n",
    "old.md": "# Old\n\nNothing holds any more.\n",
    "stub.md": "",
}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("places")
    for name, text in DOCUMENTS.items():
        (folder / name).write_text(text)
    build_table(Options(folder, folder / "database"))
    return folder / "database"


def resolved(database: Path, *queries: Query, with_record: bool = True) -> Resolved:
    async def ask() -> Resolved:
        table = await Database(str(database)).table("documents")
        folder = (database / "documents.lance").resolve().parent if with_record else None
        return await resolve(queries, table, table.layout("text"), folder)

    return asyncio.run(ask())


def refusal(database: Path, *queries: Query, with_record: bool = True) -> str:
    with pytest.raises(BedivereError) as refused:
        resolved(database, *queries, with_record=with_record)
    assert refused.value.code is ErrorCode.JUDGEMENTS_INVALID
    return refused.value.sentence


def judged(*paths: str, sections: tuple[Section, ...] = (), outdated: tuple[str, ...] = ()) -> Query:
    return Query("1", "one", relevant=dict.fromkeys(paths, 1), sections=sections, outdated=outdated)


def test_documents_and_sections_of_the_table_resolve(database: Path) -> None:
    sections = (
        Section("keys.md", "Rotating `signing` keys"),
        Section("keys.md", "By hand"),
        Section("keys.md", "Keys"),
    )

    assert resolved(database, judged("keys.md", sections=sections, outdated=("old.md",))) == Resolved(2, 0)


def test_a_document_that_is_not_there_is_named(database: Path) -> None:
    assert refusal(database, judged("keys.md", "kyes.md")).startswith("1 judged document is not in the table: kyes.md.")


def test_an_outdated_document_must_be_there_too(database: Path) -> None:
    assert "older.md" in refusal(database, judged("keys.md", outdated=("older.md",)))


def test_a_heading_must_be_one_of_its_own_document(database: Path) -> None:
    sentence = refusal(database, judged("old.md", sections=(Section("old.md", "By hand"),)))

    assert sentence.startswith("1 judged section is not in the table: old.md: By hand.")


def test_a_document_without_text_resolves_by_the_indexers_record(database: Path) -> None:
    assert resolved(database, judged("keys.md", "stub.md")) == Resolved(2, 1)


def test_without_that_record_it_does_not(database: Path) -> None:
    assert "stub.md" in refusal(database, judged("stub.md"), with_record=False)


def test_a_table_without_paths_cannot_be_measured(make_table: TableMaker) -> None:
    database = make_table({"text": ["a boat"]}, fts=["text"])

    assert "no column of paths" in refusal(database, judged("a.md"), with_record=False)


@pytest.mark.parametrize(
    ("title", "crumbs", "heading"),
    [
        ("Keys", "", "Keys"),
        ("Keys", "Rotation", "Rotation"),
        ("Keys", "Rotation > By hand", "Rotation"),
        ("Keys", "Rotation > By hand", "By hand"),
        ("Keys", "A > B", "A > B"),
        ("Keys", "The rotate command", "The `rotate` *command*"),
        ("Keys", "See docs", "See [docs](https://example.com)"),
    ],
)
def test_a_chunk_stands_under_its_headings_and_its_title(title: str, crumbs: str, heading: str) -> None:
    assert stands_under(title, crumbs, heading)


@pytest.mark.parametrize(
    ("title", "crumbs", "heading"),
    [("Keys", "Rotation", "Rot"), ("Keys", "Key rotation", "rotation"), ("Keys", "", "Rotation"), ("", "A > B", "C")],
)
def test_a_chunk_does_not_stand_under_a_part_of_a_heading(title: str, crumbs: str, heading: str) -> None:
    assert not stands_under(title, crumbs, heading)
