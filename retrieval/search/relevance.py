"""Whether the best rows answer a question at all, or nothing in the table does.

What tells is what the question names and the table does not: a word that no chunk holds in any form, an identifier that
no row holds. Where vectors were searched, how near the nearest row came is weighed against that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Final

from retrieval.search import text as lexicon
from retrieval.search.everyday import EVERYDAY
from retrieval.search.fusion import Ranked
from retrieval.search.vocabulary import Vocabulary, tokens
from retrieval.types import Ran

# Each with its figures in docs/retrieval.md.
THRESHOLDS: Final[Mapping[Ran, float]] = {"text": 0.66, "vector": 0.65, "hybrid": 0.65}
IDENTIFIER_WEIGHT: Final = 2.0
"""What an identifier counts, in words that a single chunk holds."""

NEARNESS_WEIGHT: Final = 0.3
NEARNESS_NEUTRAL: Final = 0.4
"""On the scale from the table's noise, 0, to its own headings, 1: what speaks neither for nor against an answer."""

_FAR: Final = 0.25
"""Below this it is worth a word."""

LOOKED_AT: Final = 50
"""The best rows that are read for the identifiers of the question."""

NOISE: Final = "noise"
SIGNAL: Final = "signal"
"""Keys of a calibration: cosine similarity of the nearest row, for questions of other worlds and for the table's own
headings, the median of each."""

_MAX_NAMED: Final = 4
_SHORTEST_MISSED: Final = 4
# What a reader brings along: versions, numbers, addresses, paths and hashes of their own. No document need hold them.
_READERS_OWN: Final = re.compile(r"v?\d[\d.,:x-]*|.*(?:://|@).*|[0-9a-f]{7,}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the question has an answer here; `score` and `threshold` are from 0 to 1."""

    answers: bool
    score: float
    threshold: float
    reasons: tuple[str, ...]
    """What the score suffered from, as clauses."""


def judge(
    question: str,
    ranked: Sequence[Ranked],
    vocabulary: Vocabulary | None,
    calibration: Mapping[str, object] | None,
    ran: Ran,
    min_score: float | None,
) -> Verdict:
    """The verdict on `ranked`, the best rows of a search, best first, before it is cut to the caller's limit.

    `question` is as corrected; `min_score` stands in for the threshold. A table without vocabulary is only asked for
    the identifiers, one without calibration is not asked how near its rows came.
    """
    threshold = THRESHOLDS[ran] if min_score is None else min_score
    if not ranked:
        return Verdict(False, 0.0, threshold, ())
    missing, known = _named(question, ranked, vocabulary, ran)
    lacking, unknown = sum(missing.values()), list(missing)
    score = 1 - lacking / (lacking + known) if lacking else 1.0
    reasons = [f"no document holds {', '.join(map(repr, unknown[:_MAX_NAMED]))}"] if unknown else []
    nearness = None if ran == "text" else _nearness(ranked, calibration)
    if nearness is not None:
        score += NEARNESS_WEIGHT * (nearness - NEARNESS_NEUTRAL)
        if nearness < _FAR:
            reasons.append("no passage is near in meaning")
    score = min(max(score, 0.0), 1.0)
    return Verdict(score >= threshold, score, threshold, tuple(reasons))


def _named(
    question: str, ranked: Sequence[Ranked], vocabulary: Vocabulary | None, ran: Ran
) -> tuple[dict[str, float], float]:
    """What the question names and the table lacks, each with its weight, and the weight of what the table holds.

    Weights are inverse document frequencies (BM25's), so that what is rare counts most and what is nowhere even more.
    """
    chunks = vocabulary.chunks if vocabulary else len(ranked)
    heaviest = _rarity(0, chunks)
    missing: dict[str, float] = {}
    known = 0.0
    spans = lexicon.identifier_spans(question)
    names = dict.fromkeys(question[start:end] for start, end in spans if _must_be_held(question, start, end))
    texts = [_text(one) for one in ranked[:LOOKED_AT]] if names else []
    for name in names:
        plain = name.casefold()
        if any(plain in text for text in texts) or (vocabulary is not None and vocabulary.holds_identifier(name)):
            known += IDENTIFIER_WEIGHT * heaviest
        elif vocabulary is not None or ran != "vector":
            # By meaning alone, rows come first that need not hold what is named, though others may.
            missing[name] = IDENTIFIER_WEIGHT * heaviest
    if vocabulary is None:
        return missing, known
    # A hyphenated word counts by its words: the two of "read-only" are in the index.
    taken = [span for span in spans if not lexicon.is_hyphenated(question[slice(*span)])]
    words: dict[str, str] = {}
    for match in tokens(question):
        word = match.group()
        if not any(start <= match.start() < end for start, end in taken) and not lexicon.is_common(word):
            words.setdefault(lexicon.fold(word).lower(), word)
    for plain, word in words.items():
        frequency = vocabulary.frequency(word)
        if frequency:
            known += _rarity(frequency, chunks)
        elif plain not in EVERYDAY and _counts(word) and not vocabulary.left_out:
            missing[word] = heaviest
    return missing, known


def _must_be_held(question: str, start: int, end: int) -> bool:
    name = question[start:end]
    is_path = question[:start].endswith(("/", "~"))
    return not is_path and not lexicon.is_hyphenated(name) and _READERS_OWN.fullmatch(name) is None


def _counts(word: str) -> bool:
    """Whether it says something that no document holds `word`: of a few small letters, it may be a slip."""
    return len(word) >= _SHORTEST_MISSED or word.isupper()


def _text(one: Ranked) -> str:
    return "\n".join(part for part in (one.row.title, one.row.heading, one.row.text) if part).casefold()


def _rarity(frequency: int, chunks: int) -> float:
    return log(1 + (chunks - frequency + 0.5) / (frequency + 0.5))


def _nearness(ranked: Sequence[Ranked], calibration: Mapping[str, object] | None) -> float | None:
    """Where the nearest row stands between the table's noise and its own headings; None where neither is known."""
    noise, signal = (calibration or {}).get(NOISE), (calibration or {}).get(SIGNAL)
    cosines = [one.vector_score for one in ranked if one.vector_score is not None]
    if not cosines or not isinstance(noise, float) or not isinstance(signal, float) or signal <= noise:
        return None
    return (max(cosines) - noise) / (signal - noise)
