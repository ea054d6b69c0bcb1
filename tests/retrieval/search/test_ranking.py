"""What moves a row up or down beyond its score."""

from __future__ import annotations

import pytest

from retrieval.search.fusion import Ranked
from retrieval.search.ranking import exact_first, order
from retrieval.types import Row

PROSE = (
    "An explanation that takes some words: what the thing is for, how it is set, and when not to set it at all. " * 2
)


def found(name: str, text: str = PROSE, score: float = 1.0, path: str | None = None, rank: int | None = 1) -> Ranked:
    return Ranked(Row(name, text, score, None, None, path, None, None, {}), score, "text", text_rank=rank)


def names(ranked: list[Ranked]) -> list[str]:
    return [one.row.id for one in ranked]


def test_rows_that_hold_the_identifier_come_first_and_say_so() -> None:
    ranked = exact_first([found("a"), found("b", "Set `ARGOCD_OPTS` first.")], "what is ARGOCD_OPTS")
    assert [(one.row.id, one.why) for one in ranked] == [("b", "exact"), ("a", "text")]


def test_rows_that_hold_more_of_what_is_named_come_before_those_that_hold_less() -> None:
    ranked = [found("one", "v2.3.1"), found("both", "v2.3.1 and get_user_id"), found("none")]
    assert names(exact_first(ranked, "get_user_id in v2.3.1")) == ["both", "one", "none"]


def test_quoted_text_is_found_as_it_stands_whatever_the_space_between_its_words() -> None:
    ranked = [found("a", "clone it, it is shallow"), found("b", "a Shallow\nclone")]
    assert names(exact_first(ranked, 'what is a "shallow clone"')) == ["b", "a"]


@pytest.mark.parametrize("text", ["get_user_id_list", "my-get_user_id", "forget_user_id"])
def test_a_part_of_a_longer_name_is_no_exact_match(text: str) -> None:
    assert exact_first([found("a", text)], "get_user_id")[0].why == "text"


def test_a_question_that_names_nothing_leaves_the_order_as_it_is() -> None:
    ranked = [found("b"), found("a")]
    assert exact_first(ranked, "how is it set") == ranked


def test_a_hyphenated_word_alone_is_a_name() -> None:
    ranked = [found(str(n)) for n in range(9)] + [found("read", "read-only", rank=9)]
    assert names(exact_first(ranked, "read-only"))[0] == "read"


def test_a_hyphenated_word_in_a_sentence_is_one_where_few_rows_hold_it_and_words_rank_them_high() -> None:
    few = [found("a"), found("b", "the repo-server", rank=2)]
    low = [found("a"), found("b", "the repo-server", rank=40)]
    many = [found("a"), *(found(f"b{n}", "the repo-server", rank=2) for n in range(6))]
    question = "how much memory does the repo-server take"
    assert names(exact_first(few, question)) == ["b", "a"]
    assert names(exact_first(low, question)) == ["a", "b"]
    assert names(exact_first(many, question))[0] == "a"


def test_a_stub_sinks_below_an_explanation_that_matched_nearly_as_well() -> None:
    ranked = order([found("stub", "## Keys", score=5.0), found("prose", score=4.0)], {})
    assert [(one.row.id, one.score, one.stub) for one in ranked] == [("prose", 4.0, False), ("stub", 5.0, True)]


def test_a_stub_stays_where_nothing_else_comes_near() -> None:
    assert names(order([found("stub", "## Keys", score=5.0), found("prose", score=1.0)], {})) == ["stub", "prose"]


def test_a_boost_moves_the_documents_below_a_path_and_the_longest_prefix_counts() -> None:
    ranked = [
        found("a", score=3.0, path="archive/a.md"),
        found("b", score=2.9, path="guides/b.md"),
        found("c", score=2.8, path="archive/kept/c.md"),
    ]
    boosts = {"archive/": 0.5, "archive/kept/": 1.5}
    assert [(one.row.id, one.boost) for one in order(ranked, boosts)] == [("c", 1.5), ("b", None), ("a", 0.5)]


def test_a_boost_above_one_moves_up_what_scores_below_zero_too() -> None:
    ranked = [found("a", score=-0.10, path="x"), found("b", score=-0.12, path="guides/b")]
    assert names(order(ranked, {"guides/": 2.0})) == ["b", "a"]


def test_an_order_without_boosts_and_stubs_is_the_one_that_was_given() -> None:
    ranked = [found("b", score=2.0), found("a", score=2.0), found("c", score=1.0)]
    assert order(ranked, {}) == ranked


@pytest.mark.parametrize("question", ["pep-0440", "what says PEP-0440.rst", "see old/pep-0440.rst"])
def test_the_document_that_is_called_what_the_question_names_comes_before_those_that_mention_it(question: str) -> None:
    mentions = found("mentions", "as `old/pep-0440.rst`, PEP-0440.rst and pep-0440 say", path="pep-0008.rst")
    ranked = exact_first([mentions, found("itself", path="text/old/pep-0440.rst")], question)
    assert [(one.row.id, one.why) for one in ranked] == [("itself", "exact"), ("mentions", "exact")]


def test_a_word_of_prose_calls_no_document() -> None:
    assert names(exact_first([found("a"), found("b", path="read-only.md")], "mount it read-only")) == ["a", "b"]
    assert names(exact_first([found("a"), found("b", path="read-only.md")], "read-only")) == ["b", "a"]


def test_a_copyright_notice_sinks_unless_the_question_asks_for_it() -> None:
    notice = found(
        "notice", "## Copyright\n\nThis document is in the public domain, or under the CC0-1.0 license.", 5.0
    )
    ranked = [notice, found("prose", score=4.0)]
    assert names(order(ranked, {}, "how does it work")) == ["prose", "notice"]
    assert names(order(ranked, {}, "under which licence is it")) == ["notice", "prose"]
