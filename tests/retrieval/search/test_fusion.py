"""Two rankings made one."""

from __future__ import annotations

import pytest

from retrieval.search.fusion import DEPTH, RANK_CONSTANT, Ranked, fuse
from retrieval.types import Row


def rows(*names: str) -> list[Row]:
    """Best first, each of a lower score than the one before."""
    return [
        Row(name, f"text of {name}", 10.0 - place / 1000, None, None, None, None, None, {})
        for place, name in enumerate(names)
    ]


def names(ranked: list[Ranked]) -> list[str]:
    return [one.row.id for one in ranked]


def test_what_both_arms_found_comes_before_what_one_found_as_high() -> None:
    assert names(fuse(rows("a", "b"), rows("c", "b"))) == ["b", "a", "c"]


def test_the_score_is_the_sum_of_the_reciprocal_ranks() -> None:
    best = fuse(rows("a", "b"), rows("b"))[0]
    assert best.score == pytest.approx(1 / (RANK_CONSTANT + 2) + 1 / (RANK_CONSTANT + 1))


def test_each_row_says_which_arm_found_it_where_and_how_well() -> None:
    found = {one.row.id: one for one in fuse(rows("a", "b"), rows("b", "c"))}
    assert {name: one.why for name, one in found.items()} == {"a": "text", "b": "both", "c": "vector"}
    assert (found["b"].text_rank, found["b"].vector_rank) == (2, 1)
    assert (found["b"].text_score, found["b"].vector_score) == (9.999, 10.0)
    assert (found["a"].vector_rank, found["a"].vector_score) == (None, None)


def test_equal_scores_go_by_id() -> None:
    assert names(fuse(rows("b"), rows("a"))) == ["a", "b"]


def test_where_one_arm_is_empty_scores_and_order_are_the_others_own() -> None:
    for found in (fuse(rows("b", "a"), []), fuse([], rows("b", "a"))):
        assert [(one.row.id, one.score) for one in found] == [("b", 10.0), ("a", 9.999)]


def test_deeper_rows_do_not_change_the_order_of_the_best() -> None:
    text = rows(*(f"t{n}" for n in range(DEPTH)), "deep", "both")
    vector = rows(*(f"v{n}" for n in range(DEPTH)), "both", "deep")
    shallow = names(fuse(text[:DEPTH], vector[:DEPTH]))
    assert names(fuse(text, vector)) == [*shallow, "both", "deep"]


def test_a_row_that_is_found_twice_counts_where_it_was_found_first() -> None:
    found = fuse(rows("a", "b")[:1] + rows("c", "a"), rows("d"))
    twice = [one for one in found if one.row.id == "a" and one.row.text == "text of a"]
    assert len(twice) == 1
    assert twice[0].text_rank == 1


def test_other_rows_under_the_same_id_stay_rows_of_their_own() -> None:
    one, other = rows("a")[0], Row("a", "another text", 3.0, None, None, None, None, None, {})
    assert [one.row.text for one in fuse([one, other], [])] == ["text of a", "another text"]
