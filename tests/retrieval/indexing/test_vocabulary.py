"""Counting the words of a table while it is built."""

from __future__ import annotations

import itertools

import pytest

from retrieval.indexing import vocabulary as module
from retrieval.indexing.vocabulary import VocabularyBuilder
from retrieval.search.text import identifier_terms
from retrieval.search.vocabulary import Vocabulary

CHUNKS = ("Keys and a syncWave", "a key, SYNCWAVE and the resources", "syncwave of Resource words 42")


def built(chunks: tuple[str, ...]) -> bytes:
    builder = VocabularyBuilder()
    for chunk in chunks:
        builder.add(chunk, identifier_terms(chunk))
    return builder.to_bytes()


def test_the_same_chunks_give_the_same_bytes_in_any_order() -> None:
    assert len({built(order) for order in itertools.permutations(CHUNKS)}) == 1


def test_a_form_is_written_beside_its_stem_with_the_chunks_that_hold_it() -> None:
    lines = built(("keys and key", "keys")).decode().splitlines()
    assert "key\t2\tkeys 2\tkey 1" in lines


def test_an_empty_table_has_an_empty_vocabulary() -> None:
    words = Vocabulary.load(VocabularyBuilder().to_bytes())
    assert (words.chunks, words.frequency("key"), words.correct("keyss")) == (0, 0, ("keyss", ()))


def test_where_there_are_too_many_stems_the_rarest_are_left_out_and_that_is_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_STEMS", 2)
    words = Vocabulary.load(built(("alpha beta gamma", "alpha beta", "alpha")))
    assert [words.frequency(word) for word in ("alpha", "beta", "gamma")] == [3, 2, 0]
    assert words.left_out == 1


def test_a_word_that_may_have_been_left_out_is_only_read_as_a_much_more_frequent_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_STEMS", 1)
    rare = built(("alphas", "gamma", "alphas"))
    frequent = built(("gamma", *["alphas"] * 30))
    assert Vocabulary.load(rare).correct("alphss")[0] == "alphss"
    assert Vocabulary.load(frequent).correct("alphss")[0] == "alphas"
