"""What an agent is told to pass, in the words of the command line."""

from __future__ import annotations

import pytest

from handler.cli.search import search
from handler.cli.wording import OWN_WORDS, in_own_words
from retrieval.notes import Advice


def test_each_advice_has_words_of_the_command_line() -> None:
    assert set(OWN_WORDS) == set(Advice)


@pytest.mark.parametrize("advice", Advice)
def test_none_of_them_speaks_of_a_call(advice: Advice) -> None:
    own = in_own_words(f"This is so: {advice} to see it.")
    assert not {"minScore", "includeOutdated", "textColumn", "lancedb_catalog"} & set(own.replace(",", "").split())


def test_each_option_that_is_named_is_one_of_the_search() -> None:
    options = {f"--{name.replace('_', '-')}" for name in search.__annotations__} | {"--filter"}
    named = {word.strip(",") for own in OWN_WORDS.values() for word in own.split() if word.startswith("--")}
    assert named <= options


def test_the_owner_at_his_terminal_is_not_spoken_of() -> None:
    told = "It is refused (status 401; for the server's owner: check the key)."
    assert in_own_words(told) == "It is refused (status 401; check the key)."


def test_what_is_no_advice_stays_as_it_is() -> None:
    assert (
        in_own_words("A page on minScore (minScore.md) is outdated.") == "A page on minScore (minScore.md) is outdated."
    )
