"""Ranked chunks as ranked documents."""

from __future__ import annotations

from retrieval.layout import Column, lay_out
from retrieval.search.collapse import MAX_MATCHED_HEADINGS, by_document, limits
from retrieval.search.fusion import Ranked
from retrieval.types import Row


def ranked(path: str | None, chunk: int, *, heading: str | None = None, scope: str = "", rank: int = 1) -> Ranked:
    row = Row(f"{scope}{path}#{chunk}", "text", 1.0, None, heading, path, None, chunk, {})
    return Ranked(row=row, score=1 / rank, why="text", text_rank=rank)


def test_a_document_stands_where_its_best_chunk_stood() -> None:
    groups = by_document([ranked("b.md", 4), ranked("a.md", 0), ranked("b.md", 1)])
    assert [(group.best.row.id, group.matching_chunk_count) for group in groups] == [("b.md#4", 2), ("a.md#0", 1)]


def test_headings_are_named_once_best_first() -> None:
    chunks = [ranked("a.md", chunk, heading=heading) for chunk, heading in enumerate(["Keys", None, "Vault", "Keys"])]
    assert by_document(chunks)[0].matched_headings == ("Keys", "Vault")


def test_only_the_best_headings_are_named_while_every_chunk_counts() -> None:
    (group,) = by_document([ranked("a.md", chunk, heading=f"Part {chunk}") for chunk in range(50)])
    assert group.matching_chunk_count == 50
    assert group.matched_headings == tuple(f"Part {chunk}" for chunk in range(MAX_MATCHED_HEADINGS))


def test_a_heading_as_long_as_a_text_is_not_named() -> None:
    assert by_document([ranked("a.md", 0, heading="x" * 601)])[0].matched_headings == ()


def test_versions_of_a_document_are_two_documents() -> None:
    assert len(by_document([ranked("a.md", 0, scope="@1:"), ranked("a.md", 0, scope="@2:")])) == 2


def test_a_chunk_without_a_document_stands_for_itself() -> None:
    assert [group.matching_chunk_count for group in by_document([ranked(None, 0), ranked(None, 0)])] == [1, 1]


def test_a_table_that_names_no_documents_says_that_nothing_is_collapsed() -> None:
    columns = [Column("text", "string", "text"), Column("path", "string", "text")]
    assert limits(lay_out(columns, [], "text")) is None
    assert "hits are not collapsed" in (limits(lay_out(columns[:1], [], "text")) or "")


def test_nothing_collapses_to_nothing() -> None:
    assert by_document([]) == []
