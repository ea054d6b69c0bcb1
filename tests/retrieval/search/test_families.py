"""Words of one family."""

from __future__ import annotations

import pytest

from retrieval.search.families import relatives


@pytest.mark.parametrize(
    ("word", "relative"),
    [
        ("verification", "verify"),
        ("recover", "recovery"),
        ("auditors", "audit"),
        ("addressee", "address"),
        ("deploy", "deployment"),
    ],
)
def test_a_word_has_relatives_with_other_endings(word: str, relative: str) -> None:
    assert relative in relatives(word)


@pytest.mark.parametrize(("word", "other"), [("replication", "reply"), ("station", "stay"), ("parties", "part")])
def test_words_that_share_few_letters_are_of_no_family(word: str, other: str) -> None:
    assert other not in relatives(word)


def test_no_relative_comes_twice_and_none_is_the_word_itself() -> None:
    given = list(relatives("verifications"))
    assert len(given) == len({*given, "verifications"}) - 1
