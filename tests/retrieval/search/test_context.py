"""The block of a question: which search ran and how it went is in it, and it never passes its budget."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrieval.types import Narrowing
from tests.retrieval.asking import DATABASE, ask, ask_context, index, retriever

OLD = "---\nstatus: superseded\nsuperseded_by: {}\n---\n# {}\n\nThe ferry leaves the harbour at {}.\n"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two versions of a few pages, of which some are outdated: whatever there is to note of a search."""
    folder = tmp_path_factory.mktemp("ferries")
    for version in ("1.0", "2.0"):
        index(
            folder,
            {
                "old.md": OLD.format("new.md", "Old timetable of the ferries across the sound", "noon"),
                "older.md": OLD.format("new.md", "Older timetable of the ferries across the sound", "dawn"),
                "gone.md": OLD.format("The printed timetable", "Printed timetable of the ferries", "dusk"),
                "new.md": "# New timetable\n\nThe ferry leaves the harbour every hour.\n",
                "food.md": "# Food\n\nLunch is served on deck.\n",
            },
            doc_version=version,
        )
    return folder / DATABASE


def test_a_corrected_word_is_told_in_the_block(database: Path) -> None:
    reply = ask_context(retriever(database), "when does the ferry leave the harbuor")
    assert "Search: text." in reply.context
    assert "Note: 'harbuor' was read as 'harbour'." in reply.context
    assert [(one.written, one.read) for one in reply.corrections] == [("harbuor", "harbour")]


def test_the_version_and_the_outdated_documents_are_told_in_the_block(database: Path) -> None:
    reply = ask_context(retriever(database), "when does the ferry leave the harbour")
    assert "Note: Searched in the newest version, 2.0" in reply.context
    assert reply.context.count("New timetable (new.md) has taken its place;") == 2
    assert [source.path for source in reply.sources] == ["new.md"]
    assert reply.sources[0].ids == ["@2.0:new.md#0"]


def test_a_refusal_says_what_is_missing_and_that_nothing_is_to_be_invented(database: Path) -> None:
    reply = ask_context(retriever(database), "zeppelin licence and turbine fees")
    assert reply.sources == []
    assert "no document holds" in reply.context or "Nothing in the table matches" in reply.context
    assert reply.context.endswith("No passage answers the question: say so, and do not invent.")


@pytest.mark.parametrize("budget", [500, 600, 1_000, 8_000])
@pytest.mark.parametrize(
    "question",
    [
        "when does the ferry leave the harbuor across the sound",
        "zeppelin licence and turbine fees for lunch on deck",
        "ferry " * 400,
        f"lunch {'w' * 400} zeppelin licence",
    ],
    ids=["notes", "refusal", "many words", "a long word"],
)
def test_the_block_keeps_to_its_budget_whatever_there_is_to_note(database: Path, question: str, budget: int) -> None:
    reply = ask_context(retriever(database), question, budget=budget)
    assert len(reply.context) <= budget
    for line in reply.context.splitlines():
        if line.startswith("Note: "):
            assert line.endswith(".")
    if not reply.sources and not reply.left_out:
        assert reply.context.endswith("do not invent.")


def test_notes_take_no_more_than_half_of_what_passages_could_have(database: Path) -> None:
    reply = ask_context(retriever(database), "when does the ferry leave the harbuor", budget=600)
    told = [line for line in reply.context.splitlines() if line.startswith("Note: ")]
    assert reply.sources
    assert sum(map(len, told)) <= 300
    assert "more in the notes of this reply." in told[-1]
    assert len(reply.notes) > len(told) - 1


def test_an_outdated_passage_that_was_asked_for_says_so_in_the_block(database: Path) -> None:
    narrowing = Narrowing(include_outdated=True)
    reply = ask_context(retriever(database), "ferry leaves at noon", narrowing=narrowing)
    found = ask(retriever(database), "ferry leaves at noon", narrowing=narrowing)
    (label,) = {hit.outdated for hit in found.hits if hit.path == "old.md"}
    assert label == "superseded; replaced by New timetable (new.md)"
    assert f"\nStatus: {label}\n" in reply.context
