"""Which words are English, and their other spelling."""

from __future__ import annotations

import pytest

from retrieval.search.english import beginnings, english_words, is_english, spellings, stem


@pytest.mark.parametrize(
    "word", ["bread", "chocolate", "baking", "loaves", "authorise", "authorize", "kill", "somebody"]
)
def test_common_words_and_their_forms_are_english(word: str) -> None:
    assert is_english(word)


@pytest.mark.parametrize("word", ["kustomize", "trivy", "aplication", "netzwerk", "invoce", "unknow", ""])
def test_names_mistakes_and_other_languages_are_not(word: str) -> None:
    assert not is_english(word)


def test_the_terms_of_the_list_are_no_words_of_it() -> None:
    assert len(english_words()) > 40_000
    assert all(word.isascii() and word.isalpha() and word.islower() for word in english_words())


@pytest.mark.parametrize(("one", "other"), [("organised", "organized"), ("colours", "colors"), ("metre", "meter")])
def test_each_spelling_leads_to_the_other(one: str, other: str) -> None:
    assert other in spellings(one)
    assert one in spellings(other)


def test_every_word_begins_as_one_of_the_beginnings_of_its_stem() -> None:
    # All of them were looked at once; one of fifty takes milliseconds.
    words = [*sorted(english_words())[::50], "dying", "lying", "skies", "sky", "idly", "ability", "aed", "be", "a"]
    assert [word for word in words if not word.startswith(beginnings(stem(word)))] == []


def test_the_beginning_of_a_stem_is_all_but_its_last_letter() -> None:
    assert beginnings("retriev") == ("retrie",)
    assert beginnings("a") == ("a",)
