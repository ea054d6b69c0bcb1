"""Outdated documents that a question calls by name."""

from __future__ import annotations

from retrieval.catalog import Catalog, Document
from retrieval.search.mentions import Mentions


def document(path: str, title: str, status: str | None = None, successor: str | None = None) -> Document:
    return Document(path, "", title, None, None, None, status, None, successor, 1, f"{path}#0")


CATALOG = Catalog.of_documents(
    [
        document("adr-001.md", "Use Postgres", "Superseded by ADR-003"),
        document("adr-002.md", "Use Redis", "accepted"),
        document("adr-003.md", "Use SQLite", "accepted"),
        document("adr-004.md", "Use files", "final", "ADR-003"),
    ]
)


def called(question: str) -> list[str]:
    return [one.path for one in Mentions(CATALOG, ("superseded",)).called(question)]


def test_one_that_is_outdated_by_its_status_or_its_successor_is_found_by_its_name() -> None:
    assert called("what did ADR-1 say") == ["adr-001.md"]
    assert called("Use files") == ["adr-004.md"]


def test_a_current_one_is_not() -> None:
    assert called("ADR-002 or adr-003.md") == []
