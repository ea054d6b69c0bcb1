"""Documents that a question calls by name, from the question to the hits."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrieval.retriever import Retriever
from retrieval.types import Narrowing
from tests.retrieval.asking import ask, index, paths, retriever

DOCUMENTS = {
    "adr/0002-use-postgres.md": "---\nstatus: superseded\nsuperseded_by: ADR-0003\n---\n# Postgres\n\nFor ledgers.\n",
    "adr/0003-use-cockroach.md": "# Use Cockroach\n\nThe ledger spans regions.\n\n## Cost\n\nThree nodes a ledger.\n",
    "adr/0004-use-kafka.md": "# Use Kafka\n\nAs ADR-0003 says, the ledger sends events: ADR-0003, ADR-0003.\n",
    "guides/atomiccommit.md": "# Writing\n\nEither all pages are written or none.\n",
    "guides/install.md": "# Getting it\n\nHow to put the ledger on a server, and install what it needs.\n",
    "guides/pages.md": "# Pages\n\nInstall pages, write pages, read the pages of the ledger.\n",
}


@pytest.fixture(scope="module")
def handbook(tmp_path_factory: pytest.TempPathFactory) -> Retriever:
    return retriever(index(tmp_path_factory.mktemp("handbook"), DOCUMENTS))


@pytest.mark.parametrize(
    ("question", "path"),
    [
        ("ADR-0003", "adr/0003-use-cockroach.md"),
        ("what is in ADR 3", "adr/0003-use-cockroach.md"),
        ("0003-use-cockroach", "adr/0003-use-cockroach.md"),
        ("atomiccommit", "guides/atomiccommit.md"),
        ("what does atomiccommit say of the pages", "guides/atomiccommit.md"),
        ("install", "guides/install.md"),
        ("getting it", "guides/install.md"),
        ("guides/install.md", "guides/install.md"),
    ],
)
def test_a_document_that_is_called_by_name_comes_first(handbook: Retriever, question: str, path: str) -> None:
    reply = ask(handbook, question)
    assert (reply.hits[0].path, reply.hits[0].why) == (path, "exact")
    assert reply.corrections == []
    assert not [note for note in reply.notes if note.startswith("No document holds")]


def test_a_word_that_texts_hold_is_no_name_within_a_sentence(handbook: Retriever) -> None:
    assert paths(ask(handbook, "how do I install pages"))[0] == "guides/pages.md"


def test_all_its_rows_come_before_those_that_mention_it(handbook: Retriever) -> None:
    assert paths(ask(handbook, "what says ADR-0003 of the ledger"))[:3] == [
        *["adr/0003-use-cockroach.md"] * 2,
        "adr/0004-use-kafka.md",
    ]


def test_of_two_that_are_called_each_has_its_best_row_in_front(handbook: Retriever) -> None:
    first = paths(ask(handbook, "ledger in ADR-0003 and ADR-0004"))[:2]
    assert sorted(map(str, first)) == ["adr/0003-use-cockroach.md", "adr/0004-use-kafka.md"]


def test_one_that_the_call_may_not_show_stays_away_and_its_name_is_missing(handbook: Retriever) -> None:
    reply = ask(handbook, "atomiccommit", narrowing=Narrowing(path_prefix="adr"))
    assert reply.hits == []
    assert reply.rejected is None or "atomiccommit" in reply.notes[0]


def test_for_an_outdated_one_its_successor_stands(handbook: Retriever) -> None:
    reply = ask(handbook, "Postgres ledgers of ADR-0002")
    assert paths(reply)[0] == "adr/0003-use-cockroach.md"
    assert "ADR-0002" not in "".join(note for note in reply.notes if note.startswith("No document holds"))


def test_of_several_versions_the_one_that_is_shown_is_called(tmp_path: Path) -> None:
    for number in (1, 2):
        text = {"adr-7.md": f"# Choice\n\nRead number {number}.\n", "b.md": "# Other\n\nNothing of it, and more.\n"}
        database = index(tmp_path, text, collection="x", doc_version=str(number))
    reply = ask(retriever(database), "ADR-7")
    assert [hit.id for hit in reply.hits][:1] == ["x@2:adr-7.md#0"]
