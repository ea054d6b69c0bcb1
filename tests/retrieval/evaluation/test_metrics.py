"""Figures of one ranking; those of trec_eval were computed with pytrec_eval."""

from __future__ import annotations

import pytest

from retrieval.evaluation import metrics

RELEVANT = {"a": 4, "b": 2, "c": 1, "d": 1, "e": 3, "f": 1}
RANKING = ["x1", "b", "x2", "a", "c", "x3", "x4", "x5", "x6", "x7", "e", "x8", "d"]


@pytest.mark.parametrize(("cut", "of_trec_eval"), [(5, 0.4372605997490816), (10, 0.4179517458660065)])
def test_ndcg_is_that_of_trec_eval(cut: int, of_trec_eval: float) -> None:
    assert metrics.ndcg(RANKING, RELEVANT, cut) == pytest.approx(of_trec_eval, abs=1e-12)


@pytest.mark.parametrize(("cut", "of_trec_eval"), [(5, 0.5), (10, 0.5), (100, 0.8333333333333334)])
def test_recall_is_that_of_trec_eval(cut: int, of_trec_eval: float) -> None:
    assert metrics.recall(RANKING, RELEVANT, cut) == pytest.approx(of_trec_eval)


def test_the_reciprocal_rank_is_that_of_the_first_relevant_document() -> None:
    assert metrics.reciprocal_rank(RANKING, RELEVANT, 10) == 0.5


def test_a_relevant_document_beyond_the_cut_counts_for_nothing() -> None:
    ranking = [*(f"x{n}" for n in range(10)), "a"]

    assert metrics.reciprocal_rank(ranking, RELEVANT, 10) == 0.0
    assert metrics.ndcg(ranking, RELEVANT, 10) == 0.0


def test_documents_by_falling_grade_are_the_ideal() -> None:
    assert metrics.ndcg(["a", "e", "b", "c", "d", "f"], RELEVANT, 10) == pytest.approx(1.0)


def test_a_ranking_without_a_document_is_worth_nothing() -> None:
    assert (metrics.ndcg([], RELEVANT, 10), metrics.recall([], RELEVANT, 10)) == (0.0, 0.0)
    assert metrics.reciprocal_rank([], RELEVANT, 10) == 0.0


@pytest.mark.parametrize(
    ("ranking", "figure"),
    [
        (["x", "new", "old"], 1.0),
        (["old", "new"], 0.0),
        (["x", "new"], 1.0),
        (["old"], 0.0),
        (["x"], 0.0),
    ],
)
def test_the_current_document_must_be_found_and_stand_above_each_outdated_one(
    ranking: list[str], figure: float
) -> None:
    assert metrics.stands_above(ranking, {"new"}, {"old", "older"}) == figure
