"""What a table's vectors say to questions that it cannot answer and to those it can: measured when it is built."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from heapq import nsmallest
from statistics import median
from typing import Any, Final

from retrieval.indexing.job import Calibrated
from retrieval.schema import BREADCRUMB_SEPARATOR
from retrieval.search.relevance import NOISE, SIGNAL, THRESHOLDS
from retrieval.search.vocabulary import Vocabulary

FOREIGN_QUESTIONS: Final = (
    "how do I remove a red wine stain from a carpet",
    "who won the football world cup in 1974",
    "which visa do I need to work in Canada",
    "side effects of ibuprofen in children",
    "how long should a chicken roast in the oven",
    "capital gains tax on the sale of a house",
    "best time of year to prune roses",
    "how to tune a classical guitar",
    "average lifespan of a domestic cat",
    "history of the roman senate",
    "what causes thunder and lightning",
    "cheap hotels near the railway station",
    "how to tie a bow tie",
    "vitamins in green leafy vegetables",
    "rules of the offside trap",
    "symptoms of a torn ligament",
    "when was the telescope invented",
    "how to apply for a student loan",
    "why do leaves change colour in autumn",
    "knitting pattern for a woollen scarf",
    "distance from the earth to the moon",
    "how to get rid of ants in the kitchen",
    "opening hours of the public library",
    "which wine goes with grilled salmon",
)
"""Questions of many worlds: whatever a table is about, it is about few of them, and the median passes over those."""


@dataclass(frozen=True, slots=True)
class Questions:
    """Vectors of unit length: of questions that the table cannot answer, and of those it can."""

    foreign: Sequence[Sequence[float]]
    own: Sequence[Sequence[float]]


OWN_QUESTIONS: Final = 32
"""Headings that are asked of the table they stand in. All questions of both kinds are embedded as queries are."""

_LEAST_OWN: Final = 4
_MAX_WORDS: Final = 24
_WORD: Final = re.compile(r"[^\W\d_]{3,}")


def own_questions(chunks: Iterable[tuple[str | None, str | None, str]]) -> list[str]:
    """At most `OWN_QUESTIONS` questions that the table can answer, of its chunks' (title, breadcrumb, text).

    A title and a heading, or the first words of a text without them; the same for the same chunks in any order.
    """
    asked = {_question(title, heading, text) for title, heading, text in chunks}
    # By their hash: a sample that is spread over the table and that no order of chunks changes.
    return nsmallest(OWN_QUESTIONS, asked, key=lambda question: sha256(question.encode()).digest())


def calibration(foreign: Sequence[float], own: Sequence[float]) -> dict[str, Any] | None:
    """The record for the provenance, of the cosine similarity of the nearest chunk to each question of either kind.

    None where the two cannot be told apart: too few questions, or vectors that say nothing.
    """
    if not foreign or len(own) < _LEAST_OWN:
        return None
    noise, signal = round(median(foreign), 4), round(median(own), 4)
    if signal <= noise:
        return None
    return {NOISE: noise, SIGNAL: signal, "foreign_questions": len(foreign), "own_questions": len(own)}


def stored(vocabulary: bytes, record: Mapping[str, Any] | None, *, embedded: bool) -> Calibrated:
    """What a search of a table will read: of the file of its words, and of the `calibration` kept with its vectors.

    Raises `ValueError` where the file is none.
    """
    measured = record or {}
    return Calibrated(
        words=Vocabulary.words_in(vocabulary),
        threshold=THRESHOLDS["hybrid" if embedded else "text"],
        noise=measured.get(NOISE),
        signal=measured.get(SIGNAL),
    )


def calibration_line(calibrated: Calibrated, *, embedded: bool) -> str:
    """What the indexer says of it, on one line."""
    words = f"{calibrated.words:,} {'word' if calibrated.words == 1 else 'words'} known"
    line = f"{words}, threshold {calibrated.threshold:.2f}"
    if calibrated.noise is None or calibrated.signal is None:
        return f"{line}; nearness could not be measured, so words decide alone" if embedded else line
    near = f"{calibrated.noise:.2f} for foreign questions, {calibrated.signal:.2f} for its own headings"
    return f"{line}; nearest passage {near}"


def _question(title: str | None, heading: str | None, text: str) -> str:
    last = (heading or "").rpartition(BREADCRUMB_SEPARATOR)[2]
    named = " ".join(part for part in (title, last) if part)
    # A title such as 1032 names nothing.
    return " ".join((named if len(_WORD.findall(named)) > 1 else text).split()[:_MAX_WORDS])
