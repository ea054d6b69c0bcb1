"""How likely one word is another misspelt."""

from __future__ import annotations

import pytest

from retrieval.search.neighbours import LIKELY, SURE, Neighbours, differ_in_doubling, points, points_of_share


def total(word: str, other: str, odd: int = 0, *, is_name: bool = False) -> int:
    return points(word, other, odd, is_name=is_name)


@pytest.mark.parametrize(
    ("likelier", "less"),
    [
        (("rotaet", "rotate"), ("rotape", "rotate")),  # swapped, not changed
        (("acccess", "access"), ("accxess", "access")),  # doubled, not added
        (("replca", "replica"), ("replic", "replica")),  # left out within, not at the end
        (("servcr", "servbr"), ("servar", "servbr")),  # a consonant, not a vowel, for a consonant
        (("applicatoin", "application"), ("podn", "pod")),  # a long word, not a short one
        (("authz", "autha"), ("zutha", "autha")),  # within, not the first letter
    ],
)
def test_some_mistakes_are_likelier_than_others(likelier: tuple[str, str], less: tuple[str, str]) -> None:
    assert total(*likelier) > total(*less)


def test_a_name_needs_more_and_odd_letters_say_more() -> None:
    assert total("grafna", "grafana", is_name=True) < total("grafna", "grafana")
    assert total("grafna", "grafana", 1) > total("grafna", "grafana")


def test_a_long_swapped_word_is_sure_and_a_short_changed_one_is_not_even_likely() -> None:
    assert total("anonymuos", "anonymous") >= SURE
    assert total("paris", "parts") < LIKELY


def test_only_a_single_letter_for_a_double_one_is_a_doubling() -> None:
    assert differ_in_doubling("basses", "bases")
    assert differ_in_doubling("bases", "basses")
    assert not differ_in_doubling("bases", "basest")
    assert not differ_in_doubling("bases", "basis")


def test_a_word_that_stands_in_many_chunks_is_meant_more_often() -> None:
    assert [points_of_share(share) for share in (0.001, 0.02, 0.03, 0.2, 1.0)] == [0, 0, 1, 2, 3]


@pytest.mark.parametrize(("serviles", "services", "meant"), [(3, 3, "service"), (3_000, 3, "servile")])
def test_of_neighbours_the_likelier_mistake_counts_and_how_common_each_is(
    serviles: int, services: int, meant: str
) -> None:
    words = Neighbours({"servile": ("servil", serviles), "service": ("servic", services)})
    assert words.best("servcie", words.words) == meant
