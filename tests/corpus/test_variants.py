"""Queries made of queries: each is judged as it must be."""

from __future__ import annotations

import random

import pytest

from tests.corpus import variants

RECORDS: list[variants.Record] = [
    {
        "id": str(number),
        "kind": "question",
        "text": f"how is the harbour {number} kept with --dry-run",
        "relevant": [{"path": f"{number // 2}.md"}],
    }
    for number in range(8)
]
UNANSWERABLE: variants.Record = {"id": "n", "kind": "noanswer", "text": "zeppelin", "relevant": [], "answerable": False}


@pytest.mark.parametrize("word", ["spool", "franking", "letters", "aaaaa"])
def test_a_slip_changes_a_word_a_little(word: str) -> None:
    for seed in range(50):
        slip = variants.misspelt(word, random.Random(seed))

        assert slip != word
        assert slip[0] == word[0]
        assert abs(len(slip) - len(word)) <= 1


def test_a_query_is_asked_once_more_with_one_word_misspelt_and_its_names_whole() -> None:
    made = variants.typos([*RECORDS, UNANSWERABLE])

    assert [record["id"] for record in made] == [record["id"] for record in RECORDS]
    for before, after in zip(RECORDS, made, strict=True):
        assert after["text"] != before["text"]
        assert "--dry-run" in after["text"]
        assert (after["relevant"], after["kind"]) == (before["relevant"], "typo")


def test_the_same_seed_makes_the_same_queries() -> None:
    assert variants.typos(RECORDS) == variants.typos(RECORDS)


def test_a_query_whose_pages_are_gone_has_no_answer_and_the_others_have_all_of_theirs() -> None:
    made, gone = variants.removal([*RECORDS, UNANSWERABLE])
    removed = {record["id"] for record in made if record["kind"] == "removed"}
    kept = [record for record in made if record["kind"] == "question"]

    assert len(removed) == len(RECORDS) // 2
    assert all(not record["answerable"] for record in made if record["id"] in removed)
    assert {label["path"] for record in kept for label in record["relevant"]}.isdisjoint(gone)
    assert UNANSWERABLE in made
