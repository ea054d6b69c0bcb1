"""One ranking from two: reciprocal rank fusion of what the text search and the vector search found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from retrieval.types import Row

# Cormack, Clarke and Büttcher, SIGIR 2009. Between 1 and 100 it moved no figure by more than noise: docs/retrieval.md.
RANK_CONSTANT: Final = 60

DEPTH: Final = 50
"""Rows of each arm whose places add up; a deeper place only counts where no better one does."""

Why = Literal["text", "vector", "both", "exact"]

_NOWHERE: Final = (None, None)

Places = dict[object, tuple[int, Row]]


@dataclass(frozen=True, slots=True)
class Ranked:
    """A row in its place in a ranking, with the place (from 1) and score each arm gave it; None where it did not."""

    row: Row
    score: float
    why: Why
    text_rank: int | None = None
    text_score: float | None = None
    """BM25."""
    vector_rank: int | None = None
    vector_score: float | None = None
    """Cosine similarity, -1 to 1."""
    stub: bool = False
    """Whether it was placed as a stub is."""
    boost: float | None = None
    """What its score was multiplied by for its place, as the settings say for its path."""


def fuse(text: Sequence[Row], vector: Sequence[Row]) -> list[Ranked]:
    """The rows of both arms, best first, each once; both are best first and a row's score is its arm's.

    The score is the sum of 1 / (60 + rank) over the arms; where one arm is empty it is the other's own. Ties go by id.
    The best rows come in the same order however many more than `DEPTH` are passed.
    """
    by_text, by_vector = _places(text), _places(vector)
    if not (text and vector):
        return _of_one_arm(by_text, by_vector)
    ranked: list[Ranked] = []
    for key, (_, its) in (by_text | by_vector).items():
        text_rank, text_row = by_text.get(key, _NOWHERE)
        vector_rank, vector_row = by_vector.get(key, _NOWHERE)
        row = text_row or its
        ranked.append(
            Ranked(
                row,
                _fused([rank for rank in (text_rank, vector_rank) if rank]),
                "both" if text_row and vector_row else "text" if text_row else "vector",
                text_rank,
                text_row.score if text_row else None,
                vector_rank,
                vector_row.score if vector_row else None,
            )
        )
    return sorted(ranked, key=lambda one: (-one.score, one.row.id))


def _of_one_arm(text: Places, vector: Places) -> list[Ranked]:
    """What `fuse` says of the rows of one arm, where the other is empty."""
    ranked = [Ranked(row, row.score, "text", rank, row.score) for rank, row in text.values()]
    ranked += [
        Ranked(row, row.score, "vector", vector_rank=rank, vector_score=row.score) for rank, row in vector.values()
    ]
    return sorted(ranked, key=lambda one: (-one.score, one.row.id))


def _fused(ranks: list[int]) -> float:
    parts = [1 / (RANK_CONSTANT + rank) for rank in ranks if rank <= DEPTH]
    return sum(parts) if parts else 1 / (RANK_CONSTANT + min(ranks))


def _places(rows: Sequence[Row]) -> Places:
    """The best rank of each row. In tables of others ids may repeat: only the same text under one id is one row."""
    places: dict[object, tuple[int, Row]] = {}
    for rank, row in enumerate(rows, start=1):
        places.setdefault((row.id, row.text), (rank, row))
    return places
