"""Outdated documents among the hits: left out, or labelled, and who stands in their place."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from retrieval.catalog import Document
from retrieval.retriever import Retriever
from retrieval.search.fusion import Ranked
from retrieval.search.references import References
from retrieval.search.relevance import NOISE, SIGNAL
from retrieval.successors import bringing, key_of
from retrieval.types import FetchRequest, Narrowing, Row
from tests.embedding_server import EmbeddingServer
from tests.retrieval.asking import DATABASE, ask, index, paths, retriever

if TYPE_CHECKING:
    from tests.conftest import TableMaker


def page(title: str, text: str, **fields: str) -> str:
    written = "".join(f"{name}: {value}\n" for name, value in fields.items())
    return f"---\n{written}---\n# {title}\n\n{text}\n" if fields else f"# {title}\n\n{text}\n"


OLD = "Wire transfers above ten thousand need two signatures from the treasury desk."
NEW = "Wire transfers of any amount are released by one signature and a second factor of the treasury desk."


QUESTION = "how many signatures do wire transfers above ten thousand need"


def asking_of(folder: Path, documents: dict[str, str], server: EmbeddingServer | None = None) -> Retriever:
    """A retriever over `documents` and some that say nothing of wire transfers."""
    filler = {f"other{n}.md": page(f"Other {n}", f"Lunch number {n} is served at noon.") for n in range(3)}
    return retriever(index(folder, {**filler, **documents}, server), server)


@pytest.mark.parametrize("asked", ["text", "vector", "hybrid"])
def test_the_successor_stands_in_the_place_of_what_would_have_won_and_a_note_names_both(
    tmp_path: Path, embedding_server: EmbeddingServer, asked: Any
) -> None:
    asking = asking_of(
        tmp_path,
        {
            "old.md": page("Old rule", OLD, status="superseded", superseded_by="new.md"),
            "new.md": page("New rule", NEW),
        },
        embedding_server,
    )
    reply = ask(asking, QUESTION, search_type=asked, min_score=0)
    assert reply.search_type == asked
    assert paths(reply)[0] == "new.md"
    assert "old.md" not in paths(reply)
    assert reply.hits[0].stands_for == "old.md"
    assert reply.notes == [
        "Old rule (old.md) is outdated (superseded) and left out: New rule (new.md) has taken its place; pass "
        "includeOutdated true to see it."
    ]
    assert [hit.score for hit in reply.hits] == sorted((hit.score for hit in reply.hits), reverse=True)


@pytest.mark.parametrize("asked", ["text", "vector", "hybrid"])
def test_who_asks_for_outdated_documents_gets_them_with_a_label(
    tmp_path: Path, embedding_server: EmbeddingServer, asked: Any
) -> None:
    asking = asking_of(
        tmp_path,
        {
            "old.md": page("Old rule", OLD, status="superseded", superseded_by="new.md", date="2020-05-01"),
            "new.md": page("New rule", NEW),
        },
        embedding_server,
    )
    narrowing = Narrowing(include_outdated=True)
    reply = ask(asking, QUESTION, search_type=asked, min_score=0, narrowing=narrowing)
    assert paths(reply)[0] == "old.md"
    assert reply.hits[0].outdated == "superseded (2020-05-01); replaced by New rule (new.md)"
    assert [hit.outdated for hit in reply.hits if hit.path == "new.md"] == [None]
    assert reply.notes == []


@pytest.mark.parametrize("asked", ["text", "vector", "hybrid"])
def test_a_successor_that_shares_no_word_with_the_question_stands_there_too(
    tmp_path: Path, embedding_server: EmbeddingServer, asked: Any
) -> None:
    asking = asking_of(
        tmp_path,
        {
            "old.md": page("Old rule", OLD, superseded_by="new.md"),
            "new.md": page("Payments", "Money goes out after approval."),
        },
        embedding_server,
    )
    reply = ask(asking, QUESTION, search_type=asked, min_score=0)
    assert (paths(reply)[0], reply.hits[0].stands_for) == ("new.md", "old.md")
    assert reply.hits[0].text_rank is None
    assert "Payments (new.md) has taken its place;" in reply.notes[0]


def test_a_successor_that_is_not_indexed_is_named_as_it_is_written(tmp_path: Path) -> None:
    asking = asking_of(tmp_path, {"old.md": page("Old rule", OLD, superseded_by="POL-77")})
    reply = ask(asking, QUESTION)
    assert "old.md" not in paths(reply)
    assert "pass includeOutdated true" in reply.notes[0]
    assert "POL-77" in reply.notes[0]


def test_a_draft_without_a_successor_is_left_out_and_named(tmp_path: Path) -> None:
    reply = ask(asking_of(tmp_path, {"old.md": page("Old rule", OLD, status="Draft")}), QUESTION)
    assert reply.hits == []
    assert reply.notes == ["Old rule (old.md) is outdated (Draft) and left out; pass includeOutdated true to see it."]


def test_documents_that_name_each_other_have_no_current_one(tmp_path: Path) -> None:
    asking = asking_of(
        tmp_path,
        {
            "one.md": page("One", OLD, superseded_by="two.md"),
            "two.md": page("Two", NEW, superseded_by="one.md"),
        },
    )
    reply = ask(asking, QUESTION)
    assert not {"one.md", "two.md"} & set(paths(reply))
    assert len(reply.notes) == 2
    assert all("has taken its place" not in note for note in reply.notes)


def test_a_final_document_with_a_successor_is_called_superseded(tmp_path: Path) -> None:
    asking = asking_of(
        tmp_path,
        {
            "old.md": page("Old rule", OLD, status="Final", superseded_by="new.md"),
            "new.md": page("New rule", NEW),
        },
    )
    assert "is outdated (superseded)" in ask(asking, QUESTION).notes[0]


def test_a_chain_is_followed_to_its_end(tmp_path: Path) -> None:
    asking = asking_of(
        tmp_path,
        {
            "a.md": page("A", OLD, superseded_by="b.md"),
            "b.md": page("B", "Wire transfers, second edition.", superseded_by="c.md"),
            "c.md": page("C", "Wire transfers, third edition."),
        },
    )
    reply = ask(asking, QUESTION)
    assert (paths(reply)[0], reply.hits[0].stands_for) == ("c.md", "a.md")
    assert paths(reply).count("c.md") == 1


def test_a_successor_that_the_call_leaves_out_is_named_and_stays_out(tmp_path: Path) -> None:
    asking = asking_of(
        tmp_path,
        {
            "old/rule.md": page("Old rule", OLD, superseded_by="../new/rule.md"),
            "new/rule.md": page("New rule", NEW),
        },
    )
    reply = ask(asking, QUESTION, narrowing=Narrowing(path_prefix="old/"))
    assert reply.hits == []
    assert reply.notes == [
        "Old rule (old/rule.md) is outdated (superseded) and left out: New rule (new/rule.md) has taken its place, and "
        "does not pass the filters; pass includeOutdated true to see it."
    ]


@pytest.mark.parametrize("text", [NEW, "Money goes out after approval."], ids=["a candidate", "no candidate"])
def test_one_successor_of_two_documents_is_there_once(tmp_path: Path, text: str) -> None:
    asking = asking_of(
        tmp_path,
        {
            "old1.md": page("Old rule", OLD, superseded_by="new.md"),
            "old2.md": page("Older rule", f"{OLD} Always.", superseded_by="new.md"),
            "new.md": page("Payments", text),
        },
    )
    reply = ask(asking, QUESTION)
    assert paths(reply).count("new.md") == 1
    assert reply.hits[0].stands_for == "old1.md"
    assert len(reply.notes) == 2


def test_a_successor_that_stands_higher_anyway_stays_there(tmp_path: Path) -> None:
    asking = asking_of(
        tmp_path,
        {
            "old.md": page("Old rule", NEW, superseded_by="new.md"),
            "new.md": page("New rule", OLD),
        },
    )
    reply = ask(asking, QUESTION)
    assert (paths(reply)[0], reply.hits[0].stands_for) == ("new.md", None)
    assert paths(reply).count("new.md") == 1


def test_the_successor_of_the_same_collection_is_meant(tmp_path: Path) -> None:
    for collection in (None, "north", "south"):
        index(
            tmp_path,
            {
                "old.md": page(f"Old {collection}", OLD, superseded_by="new.md"),
                "new.md": page(f"New {collection}", NEW if collection == "north" else "Money goes out after approval."),
            },
            collection=collection,
        )
    reply = ask(retriever(tmp_path / DATABASE), QUESTION, narrowing=Narrowing(filters={"path": "old.md"}))
    assert reply.hits == []
    reply = ask(retriever(tmp_path / DATABASE), QUESTION)
    assert {(hit.id, hit.stands_for) for hit in reply.hits} == {
        ("new.md#0", "old.md"),
        ("north:new.md#0", "old.md"),
        ("south:new.md#0", "old.md"),
    }


def test_the_words_that_hide_are_a_setting(tmp_path: Path) -> None:
    database = index(tmp_path, {"old.md": page("Old rule", OLD, status="draft")})
    assert paths(ask(retriever(database, outdated_statuses="obsolete"), QUESTION)) == ["old.md"]


def test_a_table_of_outdated_documents_alone_says_so(tmp_path: Path) -> None:
    database = index(tmp_path, {"old.md": page("Old rule", OLD, status="draft")})
    reply = ask(retriever(database), "lunch")
    assert reply.hits == []
    assert reply.notes == ["All documents are outdated: pass includeOutdated true to search them."]


def test_what_was_rejected_is_no_document_that_is_left_out(tmp_path: Path) -> None:
    asking = asking_of(tmp_path, {"old.md": page("Old rule", "Zebras eat lunch, lunch and lunch.", status="draft")})
    reply = ask(asking, "lunch for xylophones, quokkas and platypuses")
    assert reply.rejected is not None
    assert (reply.rejected.id or "").startswith("other")


def test_in_tables_of_others_a_shared_id_hides_no_current_chunk(make_table: TableMaker) -> None:
    rows: dict[str, object] = {
        "id": ["same", "same"],
        "path": ["old.md", "new.md"],
        "text": ["the old boat boat", "the new boat"],
        "status": ["superseded", "final"],
    }
    assert paths(ask(retriever(make_table(rows, fts=["text"])), "boat")) == ["new.md"]


def test_a_title_of_any_length_makes_a_note_of_some(make_table: TableMaker) -> None:
    rows: dict[str, object] = {
        "path": ["old.md", "new.md"],
        "title": ["Old " * 10_000, "New " * 10_000],
        "text": ["the old boat boat", "the new boat"],
        "superseded_by": ["new.md", None],
    }
    assert len(ask(retriever(make_table(rows, fts=["text"])), "boat").notes[0]) < 600


RULES = {
    "adr-1.md": page("Wire transfers", "Signing is done by two people.", status="superseded", superseded_by="adr-2.md"),
    "adr-2.md": page("Payments", "The desk releases payments by a second factor."),
    "adr-9.md": page("ADR reviews", "An ADR is reviewed by two people, and an ADR is short. ADR and ADR."),
}


@pytest.mark.parametrize("asked", ["ADR-1", "adr 1", "what does ADR-1 say", "adr-1.md", "Wire transfers"])
def test_who_asks_for_an_outdated_document_by_its_name_gets_its_successor_and_hears_of_it(
    tmp_path: Path, asked: str
) -> None:
    reply = ask(asking_of(tmp_path, RULES), asked, min_score=0)
    assert (reply.hits[0].path, reply.hits[0].stands_for) == ("adr-2.md", "adr-1.md")
    assert "adr-1.md" not in paths(reply)
    assert any(note.startswith("Wire transfers (adr-1.md) is outdated") for note in reply.notes)


def test_an_outdated_document_that_does_not_pass_the_filters_is_not_spoken_of_though_it_is_named(
    tmp_path: Path,
) -> None:
    reply = ask(asking_of(tmp_path, RULES), "ADR-1", min_score=0, narrowing=Narrowing(path_prefix="adr-9"))
    assert paths(reply) == ["adr-9.md"]
    assert not any("adr-1.md" in note for note in reply.notes)


def test_an_outdated_document_that_is_named_is_spoken_of_where_nothing_is_relevant_too(tmp_path: Path) -> None:
    reply = ask(asking_of(tmp_path, RULES), "ADR-1 zeppelin quetzal xylophone", min_score=1)
    assert reply.hits == []
    assert any(note.startswith("Wire transfers (adr-1.md) is outdated") for note in reply.notes)


@pytest.mark.parametrize("asked", ["text", "vector", "hybrid"])
def test_ranks_count_the_rows_that_are_shown_and_what_is_left_out_is_told_with_its_place(
    tmp_path: Path, embedding_server: EmbeddingServer, asked: Any
) -> None:
    documents = {
        "old.md": page("Old rule", OLD, status="withdrawn"),
        "new.md": page("New rule", NEW),
    }
    reply = ask(asking_of(tmp_path, documents, embedding_server), QUESTION, search_type=asked, min_score=0)
    ranks = {"text": [hit.text_rank for hit in reply.hits], "vector": [hit.vector_rank for hit in reply.hits]}
    for arm, found in ranks.items():
        shown = [rank for rank in found if rank is not None]
        assert sorted(shown) == list(range(1, len(shown) + 1))
        assert bool(shown) == (asked in {arm, "hybrid"})
    assert [(one.id, one.place) for one in reply.outdated_left_out or ()] == [("old.md#0", 1)]


def test_nothing_is_told_to_be_left_out_where_nothing_is(tmp_path: Path) -> None:
    reply = ask(asking_of(tmp_path, {"new.md": page("New rule", NEW)}), QUESTION)
    assert reply.outdated_left_out is None
    assert reply.relevance is not None
    assert reply.relevance.score >= reply.relevance.threshold > 0


@pytest.mark.parametrize("outdated", [True, False])
def test_successors_are_looked_for_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, outdated: bool
) -> None:
    asking = asking_of(
        tmp_path,
        {
            "old.md": page("Old rule", OLD, status="superseded", superseded_by="new.md"),
            "new.md": page("New rule", NEW),
        },
    )
    looking: list[threading.Thread] = []
    find = References.find

    def recorded(self: References, written: str, by: Document) -> list[int]:
        looking.append(threading.current_thread())
        return find(self, written, by)

    monkeypatch.setattr(References, "find", recorded)
    ask(asking, QUESTION, min_score=0, narrowing=Narrowing(include_outdated=outdated))
    # The first makes the indexes of names, which takes the time.
    assert looking[0] is not threading.main_thread()
    looking.clear()
    asyncio.run(asking.fetch(FetchRequest(path="old.md")))
    assert looking
    assert threading.main_thread() not in looking


@pytest.mark.parametrize("asked", ["auto", "text", "vector"])
def test_where_only_what_is_left_out_answers_nothing_else_is_shown_and_a_note_says_so(
    tmp_path: Path, embedding_server: EmbeddingServer, asked: Any
) -> None:
    asking = asking_of(tmp_path, {"old.md": page("Old rule", OLD, status="withdrawn")}, embedding_server)
    reply = ask(asking, "wire transfers signatures treasury", search_type=asked)
    assert reply.hits == []
    assert any(note.startswith("Old rule (old.md) is outdated (withdrawn) and left out") for note in reply.notes)
    shown = ask(
        asking, "wire transfers signatures treasury", search_type=asked, narrowing=Narrowing(include_outdated=True)
    )
    assert paths(shown)[0] == "old.md"


@pytest.mark.parametrize("asked", ["auto", "text", "vector"])
def test_a_successor_answers_for_the_words_of_what_it_replaces(
    tmp_path: Path, embedding_server: EmbeddingServer, asked: Any
) -> None:
    documents = {
        "old.md": page("Old rule", OLD, superseded_by="new.md"),
        "new.md": page("Payments", "Money goes out after approval."),
    }
    reply = ask(
        asking_of(tmp_path, documents, embedding_server), "wire transfers signatures treasury", search_type=asked
    )
    assert paths(reply)[0] == "new.md"


class TestBringing:
    """Which hidden rows are evidence for their successors."""

    @staticmethod
    def brings(cosine: float, *, shown: float = 0.5, text_rank: int | None = None, calibrated: bool = True) -> bool:
        def ranked(name: str, cosine: float, text_rank: int | None = None) -> Ranked:
            row = Row(name, name, 1.0, None, None, None, None, None, {})
            return Ranked(row, 1.0, "vector", text_rank=text_rank, vector_score=cosine)

        hidden = ranked("hidden", cosine, text_rank)
        calibration = {NOISE: 0.0, SIGNAL: 1.0} if calibrated else None
        return key_of(hidden.row) in bringing([hidden, ranked("shown", shown)], {key_of(hidden.row)}, calibration)

    def test_what_is_near_is(self) -> None:
        assert self.brings(0.55, shown=0.6)

    def test_what_is_nearer_than_all_that_is_shown_is_unless_it_is_far(self) -> None:
        assert self.brings(0.4, shown=0.3)
        assert not self.brings(0.4, shown=0.45)
        assert not self.brings(0.2, shown=0.1)

    def test_what_words_found_is_however_far(self) -> None:
        assert self.brings(0.1, text_rank=1)

    def test_without_a_calibration_nothing_is_far(self) -> None:
        assert self.brings(0.1, calibrated=False)
