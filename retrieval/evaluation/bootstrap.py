"""How far a mean over queries may be off by the luck of which queries were asked: the percentile bootstrap.

Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13; for retrieval, Sakai, SIGIR 2006.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import fmean
from typing import Final

RESAMPLES: Final = 2_000
CONFIDENCE: Final = 0.95
_SEED: Final = 20_251
_MOST_DRAWS: Final = 2_000_000
"""Of thousands of queries fewer resamples do: they differ less from one another."""
_LEAST_RESAMPLES: Final = 200


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """The interval that holds the mean of `values` with 95% confidence; None for fewer than two of them.

    The same values in the same order give the same interval. Of differences between two runs, query by query, it is
    the paired bootstrap: where it does not hold 0, the runs differ by more than the luck of the queries.
    """
    count = len(values)
    if count < 2:
        return None
    if min(values) == max(values):
        return values[0], values[0]
    draws = random.Random(_SEED)  # noqa: S311 - a statistic, not a secret
    resamples = max(_LEAST_RESAMPLES, min(RESAMPLES, _MOST_DRAWS // count))
    means = sorted(fmean(draws.choices(values, k=count)) for _ in range(resamples))
    tail = int(resamples * (1 - CONFIDENCE) / 2)
    return means[tail], means[-1 - tail]
