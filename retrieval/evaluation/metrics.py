"""What a ranking is worth, by the definitions of trec_eval: one query, one list of documents, one figure each.

A ranking holds each document once, best first; `relevant` holds the grade, 1 or more, of each document that answers.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence


def ndcg(ranking: Sequence[str], relevant: Mapping[str, int], cut: int) -> float:
    """Normalized discounted cumulative gain, 0 to 1; the gain is the grade itself, as in trec_eval's ndcg_cut.

    Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR techniques", ACM TOIS 20(4), 2002.
    """
    ideal = _discounted(sorted(relevant.values(), reverse=True)[:cut])
    return _discounted([relevant.get(document, 0) for document in ranking[:cut]]) / ideal if ideal else 0.0


def recall(ranking: Sequence[str], relevant: Collection[str], cut: int) -> float:
    """The share of the relevant documents that stands in the first `cut`, 0 to 1."""
    return len(set(relevant).intersection(ranking[:cut])) / len(relevant) if relevant else 0.0


def reciprocal_rank(ranking: Sequence[str], relevant: Collection[str], cut: int) -> float:
    """One by the place of the first relevant document; 0 where none stands in the first `cut`."""
    place = next((place for place, document in enumerate(ranking[:cut], start=1) if document in relevant), None)
    return 1 / place if place else 0.0


def stands_above(ranking: Sequence[str], upper: Collection[str], lower: Collection[str]) -> float:
    """1 where a document of `upper` was found and none of `lower` stands above it, else 0."""
    first = next((document for document in ranking if document in upper or document in lower), None)
    return float(first is not None and first in upper)


def _discounted(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(place + 1) for place, gain in enumerate(gains, start=1))
