"""What becomes of ranked candidates: one hit a document, what stands around them, and a reply of bounded size."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from retrieval.hits import MAX_REPLY_CHARS, hits_of
from retrieval.retriever import MAX_CANDIDATES
from retrieval.search.collapse import MAX_MATCHED_HEADINGS
from retrieval.search.found import Found
from retrieval.search.fusion import Ranked
from retrieval.types import Expansion, Narrowing, Row, SearchReply
from tests.embedding_server import EmbeddingServer
from tests.retrieval.asking import DATABASE, ask, index, paths, retriever

if TYPE_CHECKING:
    from tests.conftest import TableMaker


def sections(title: str, count: int, text: str) -> str:
    return f"# {title}\n\n" + "\n\n".join(f"## Part {n}\n\n{text} Number {n}." for n in range(count)) + "\n"


class TestOneHitADocument:
    DOCUMENTS = {  # noqa: RUF012
        "boats.md": sections("Boats", 12, "The boat leaves the harbour at noon with the crew of the day. " * 20),
        "cars.md": sections("Cars", 2, "A car is no boat, though both have an engine and a horn. " * 20),
        "trees.md": sections("Trees", 1, "Trees stand where they are. " * 20),
    }

    @pytest.mark.parametrize("asked", ["text", "hybrid"])
    def test_the_best_chunk_stands_for_its_document_with_what_else_of_it_matched(
        self, tmp_path: Path, embedding_server: EmbeddingServer, asked: Any
    ) -> None:
        asking = retriever(index(tmp_path, self.DOCUMENTS, embedding_server), embedding_server)
        flat = ask(asking, "boat harbour", search_type=asked, limit=50, whole=True)
        reply = ask(asking, "boat harbour", search_type=asked, collapse=True)
        assert len(paths(reply)) == len(set(paths(reply)))
        best = reply.hits[0]
        assert best.model_copy(update={"matching_chunk_count": None, "matched_headings": None}) == flat.hits[0]
        of_boats = [hit.heading for hit in flat.hits if hit.path == "boats.md"]
        assert best.matching_chunk_count == len(of_boats) == 12
        assert best.matched_headings == of_boats[:MAX_MATCHED_HEADINGS]

    def test_without_collapse_nothing_is_counted(self, tmp_path: Path) -> None:
        hit = ask(retriever(index(tmp_path, self.DOCUMENTS)), "boat harbour").hits[0]
        assert (hit.matching_chunk_count, hit.matched_headings) == (None, None)

    @pytest.mark.parametrize(("rows", "found"), [(600, 4), (MAX_CANDIDATES + 50, 1)])
    def test_more_candidates_are_looked_at_within_a_bound_until_there_are_enough_documents(
        self, make_table: TableMaker, rows: int, found: int
    ) -> None:
        others = ["an old boat among many other things that are no such thing at all"] * 3
        table: dict[str, object] = {
            "id": [f"{n:05}" for n in range(rows + 3)],
            "path": ["crowd.md"] * rows + ["a.md", "b.md", "c.md"],
            "text": ["boat boat boat"] * rows + others,
        }
        reply = ask(retriever(make_table(table, fts=["text"])), "boat", collapse=True, limit=4)
        assert len(paths(reply)) == len(set(paths(reply))) == found
        assert reply.hits[0].matching_chunk_count == min(rows, MAX_CANDIDATES)

    def test_each_hit_is_told_of_its_own_document_where_ids_repeat(self, make_table: TableMaker) -> None:
        table: dict[str, object] = {
            "id": ["same"] * 4,
            "path": ["a.md", "b.md", "b.md", "b.md"],
            "text": ["boat boat boat", "a boat", "the boat here", "some boat there"],
        }
        reply = ask(retriever(make_table(table, fts=["text"])), "boat", collapse=True)
        assert {hit.path: hit.matching_chunk_count for hit in reply.hits} == {"a.md": 1, "b.md": 3}


class TestAReplyOfBoundedSize:
    def ranked(self, chars: int) -> list[Ranked]:
        row = Row("é", "A boat.", 1.0, None, None, "é" * chars, None, 0, {})
        return [Ranked(row, 1.0, "text", place) for place in range(1, 101)]

    @pytest.mark.parametrize("chars", [500, 2_000, 3_000, 20_000])
    def test_hits_are_left_out_from_the_first_that_no_longer_fits(self, chars: int) -> None:
        ranked = self.ranked(chars)
        found = Found("text", "boat", ranked)
        every, _ = hits_of(ranked, found, None, {}, whole=True)
        ends = list(accumulate(len(hit.model_dump_json(exclude_none=True)) for hit in every))
        hits, left_out = hits_of(ranked, found, None, {"é": "What stands around."})
        assert len(every) == 100
        assert len(hits) == sum(end <= MAX_REPLY_CHARS for end in ends) < 100
        assert left_out == 100 - len(hits)
        assert all(hit.context is None for hit in hits)


class TestWhatStandsAround:
    def story(self, word: str) -> str:
        return f"# Story of {word}\n\n## Told\n\n" + "\n\n".join(f"{word} line {n}. " * 80 for n in range(6)) + "\n"

    @pytest.fixture
    def asking(self, tmp_path: Path) -> Any:
        for collection, word in (("sea", "boats"), ("land", "carts")):
            index(tmp_path, {"story.md": self.story(word)}, collection=collection)
        return retriever(tmp_path / DATABASE)

    def of(self, asking: Any, expansion: Expansion) -> str:
        reply: SearchReply = ask(
            asking, "boats line 2", limit=1, expand=expansion, narrowing=Narrowing(collection="sea")
        )
        return reply.hits[0].context or ""

    @pytest.mark.parametrize(("before", "after"), [(0, 1), (1, 0), (1, 1), (2, 1)])
    def test_as_many_neighbours_as_are_asked_for(self, asking: Any, before: int, after: int) -> None:
        alone = self.of(asking, Expansion("neighbors", 0, 0))
        around = self.of(asking, Expansion("neighbors", before, after))
        assert alone in around
        assert around.startswith(alone) == (before == 0)
        assert around.endswith(alone) == (after == 0)

    @pytest.mark.parametrize("kind", ["neighbors", "section"])
    def test_nothing_of_another_document_at_the_same_path(self, asking: Any, kind: Any) -> None:
        context = self.of(asking, Expansion(kind, 5, 5))
        assert "boats line" in context
        assert "carts" not in context

    def test_nothing_unless_it_is_asked_for(self, asking: Any) -> None:
        assert ask(asking, "boats line 2").hits[0].context is None

    def test_a_small_reply_keeps_its_hits_and_gives_up_what_stands_around_the_last_of_them(
        self, tmp_path: Path
    ) -> None:
        documents = {f"page{n:02}.md": self.story(f"boats{n}") + "\nThe harbour.\n" for n in range(20)}
        asking = retriever(index(tmp_path, documents))
        reply = ask(asking, "harbour story told", limit=20, expand=Expansion("neighbors", 5, 5))
        with_context = [hit.context is not None for hit in reply.hits]
        assert (len(reply.hits), reply.truncated) == (20, False)
        assert with_context == sorted(with_context, reverse=True)
        assert 0 < sum(with_context) < 20
        assert len(reply.model_dump_json(exclude_none=True)) < MAX_REPLY_CHARS * 1.02
        assert f"the last {20 - sum(with_context)} hits" in reply.notes[-1]
        whole = ask(asking, "harbour story told", limit=20, expand=Expansion("neighbors", 5, 5), whole=True)
        assert all(hit.context for hit in whole.hits)
        assert whole.notes == []
