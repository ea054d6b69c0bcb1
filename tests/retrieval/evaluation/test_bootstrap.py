"""Confidence intervals of means."""

from __future__ import annotations

import random
from statistics import fmean, stdev

import pytest

from retrieval.evaluation.bootstrap import interval


def test_the_interval_holds_the_mean_and_is_as_wide_as_theory_says() -> None:
    draws = random.Random(1)
    values = [draws.gauss(0.5, 0.2) for _ in range(400)]
    low, high = interval(values) or (0.0, 0.0)

    assert low < fmean(values) < high
    assert high - low == pytest.approx(2 * 1.96 * stdev(values) / 20, rel=0.1)


def test_the_same_values_give_the_same_interval() -> None:
    values = [0.0, 1.0, 0.5, 1.0, 0.0, 1.0]

    assert interval(values) == interval(list(values))


def test_equal_values_leave_no_room() -> None:
    assert interval([0.25] * 10) == (0.25, 0.25)


@pytest.mark.parametrize("values", [[], [0.7]])
def test_of_fewer_than_two_values_nothing_can_be_said(values: list[float]) -> None:
    assert interval(values) is None


def test_thousands_of_queries_are_resampled_less_often_but_enough() -> None:
    low, high = interval([0.0, 1.0] * 10_000) or (0.0, 0.0)

    assert 0.48 < low < 0.5 < high < 0.52
