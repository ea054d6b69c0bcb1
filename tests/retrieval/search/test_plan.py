"""From a question to a text query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from retrieval.search import text as lexicon
from retrieval.search.plan import (
    IDENTIFIER_BOOST,
    MAX_POSTINGS,
    MAX_WEIGHED,
    MIN_WORDS,
    PART_BOOST,
    Match,
    Phrase,
    Searchable,
    plan_text,
)
from retrieval.search.text import MAX_TERMS

EVERYTHING = Searchable(text="search_text", title="title", heading="heading", identifiers="idents")


def test_a_plain_table_is_searched_in_its_text_alone() -> None:
    plan = plan_text("shallow clone", Searchable(text="body"))
    assert plan is not None
    assert plan.parts == (Match("body", "shallow clone"),)


def test_identifiers_of_the_question_are_searched_in_their_own_column() -> None:
    plan = plan_text("what does ARGOCD_OPTS do", EVERYTHING)
    assert plan is not None
    assert Match("idents", "argocd_opts", IDENTIFIER_BOOST) in plan.parts


def test_the_words_of_a_name_are_searched_with_less_weight_so_that_its_other_spelling_is_found() -> None:
    plan = plan_text("syncWave", EVERYTHING)
    assert plan is not None
    assert Match("idents", "sync wave", PART_BOOST) in plan.parts
    assert PART_BOOST < IDENTIFIER_BOOST


def test_a_dotted_or_hyphenated_name_is_searched_as_a_whole_alone() -> None:
    plan = plan_text("sync-wave and argocd.argoproj.io/skip", EVERYTHING)
    assert plan is not None
    assert [part.terms for part in plan.parts if part.column == "idents"] == [
        "sync-wave argocd.argoproj.io/skip",
    ]


def test_a_word_that_stands_only_within_names_is_looked_for_there() -> None:
    known, within = {"network": 3}, {"timeout": 2, "network": 1}
    plan = plan_text("network timeout", EVERYTHING, lambda word: known.get(word, 0), lambda word: within.get(word, 0))
    assert plan is not None
    assert [part for part in plan.parts if part.column == "idents"] == [Match("idents", "timeout", IDENTIFIER_BOOST)]


def test_titles_and_headings_weigh_less_than_the_text() -> None:
    plan = plan_text("shallow clone", EVERYTHING)
    assert plan is not None
    boosts = {part.column: part.boost for part in plan.parts if isinstance(part, Match)}
    assert boosts["search_text"] > boosts["title"] > 0
    assert boosts["search_text"] > boosts["heading"] > 0


def test_what_is_asked_of_folded_text_is_folded_and_nothing_else_is() -> None:
    plan = plan_text('résumé "à la carte"', Searchable(text="search_text", title="title", folded=True))
    assert plan is not None
    assert [part.terms for part in plan.parts if part.column == "search_text"] == ['resume "a la carte"', "a la carte"]
    assert [part.terms for part in plan.parts if part.column == "title"] == ['résumé "à la carte"']
    plain = plan_text("résumé", Searchable(text="body"))
    assert plain is not None
    assert plain.parts == (Match("body", "résumé"),)


def test_quoted_text_adds_a_phrase() -> None:
    plan = plan_text('"shallow clone" depth', EVERYTHING)
    assert plan is not None
    assert Phrase("search_text", "shallow clone") in plan.parts


def test_an_index_without_positions_is_never_asked_for_a_phrase() -> None:
    plan = plan_text('"shallow clone"', Searchable(text="body", phrases=False))
    assert plan is not None
    assert not any(isinstance(part, Phrase) for part in plan.parts)


def test_a_question_without_a_word_has_no_plan() -> None:
    assert plan_text("?! -- …", EVERYTHING) is None


def test_a_long_question_is_cut_to_the_words_that_are_searched() -> None:
    plan = plan_text(" ".join(f"word{n}" for n in range(MAX_TERMS + 5)), Searchable(text="body"))
    assert plan is not None
    assert plan.cut
    assert isinstance(plan.parts[0], Match)
    assert len(plan.parts[0].terms.split()) == MAX_TERMS


def test_the_number_of_parts_is_bounded_however_many_phrases_are_quoted() -> None:
    plan = plan_text(" ".join(f'"a{n} b{n}"' for n in range(30)), EVERYTHING)
    assert plan is not None
    assert len(plan.parts) <= 9


def test_a_letter_that_unfolds_to_words_buys_no_more_of_them_than_are_searched() -> None:
    plan = plan_text("\N{ARABIC LIGATURE SALLALLAHOU ALAYHE WASALLAM}" * 4_000, Searchable(text="text", folded=True))
    assert plan is not None
    assert [len(lexicon.words(part.terms)) <= MAX_TERMS for part in plan.parts] == [True]


class TestLongQuestions:
    WORDS: Final = [f"word{number}" for number in range(40)]

    def frequency(self, word: str) -> int:
        return 1_000 * (int(word.removeprefix("word")) + 1)

    def searched(self, words: list[str], frequency: Callable[[str], int]) -> list[str]:
        plan = plan_text(" ".join(words), Searchable("text"), frequency)
        assert plan is not None
        return plan.parts[0].terms.split()

    def test_the_commonest_words_are_left_out_once_the_rest_cost_enough(self) -> None:
        # 1 + 2 + … + 16 thousand are more than may be spent, and the sixteen rarest are searched all the same.
        assert self.searched(self.WORDS, self.frequency) == self.WORDS[:16]

    def test_the_words_that_are_searched_stay_in_order_and_as_often_as_they_were_said(self) -> None:
        asked = [*reversed(self.WORDS), "word3"]
        assert self.searched(asked, self.frequency) == [*reversed(self.WORDS[:16]), "word3"]

    def test_in_a_small_table_every_word_is_searched(self) -> None:
        assert self.searched(self.WORDS, lambda _: MAX_POSTINGS // len(self.WORDS)) == self.WORDS

    def test_a_question_of_few_words_is_never_shortened(self) -> None:
        assert self.searched(self.WORDS[:MIN_WORDS], lambda _: MAX_POSTINGS) == self.WORDS[:MIN_WORDS]

    def test_what_is_several_words_to_the_index_is_as_rare_as_the_rarest(self) -> None:
        asked = ["word39-word0", *self.WORDS[20:]]
        assert "word39-word0" in self.searched(asked, self.frequency)


class TestCommonWords:
    def columns(self, question: str, places: int, *, folded: bool = True) -> list[str]:
        searchable = replace(EVERYTHING, folded=folded)
        plan = plan_text(question, searchable, lambda _: places // 2, lambda _: 0)
        assert plan is not None
        return [part.column for part in plan.parts]

    def test_titles_and_headings_are_searched_as_long_as_the_words_are_not_too_common(self) -> None:
        assert self.columns("harbour lights", MAX_WEIGHED) == ["search_text", "title", "heading"]

    def test_where_they_are_the_text_is_searched_alone_which_holds_the_title(self) -> None:
        assert self.columns("harbour lights", MAX_WEIGHED + 2) == ["search_text"]

    def test_of_a_column_that_holds_no_titles_they_are_searched_whatever_it_costs(self) -> None:
        assert self.columns("harbour lights", MAX_WEIGHED + 2, folded=False) == ["search_text", "title", "heading"]

    def test_identifiers_are_searched_however_common_the_words_are(self) -> None:
        assert self.columns("set get_river", MAX_WEIGHED + 2) == ["search_text", "idents", "idents"]
