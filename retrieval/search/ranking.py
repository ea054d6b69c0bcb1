"""The order of hits beyond their scores: what the question quotes on top, favoured paths up, stubs down."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from retrieval.search import stubs
from retrieval.search import text as lexicon
from retrieval.search.fusion import Ranked

STUB_FACTOR: Final = 0.5
"""What the score of a stub is multiplied by for its place; the score that is shown stays."""

_FEW_ROWS: Final = 5
_BEST_RANKS: Final = 3

_QUOTES: Final = "\"'`“”«»"


def exact_first(ranked: Sequence[Ranked], question: str) -> list[Ranked]:
    """`ranked` with the rows that hold the most of what `question` names or quotes first, marked `exact`.

    What it names are identifiers, as written but for upper and lower case; of a document that is called so, all rows
    hold the name, and come before those that only mention it. Otherwise the order stays.
    """
    sought = needles(question)
    if not sought:
        return list(ranked)
    held = [0] * len(ranked)
    called: set[int] = set()
    for needle, hyphenated in sought.items():
        pattern, words = _pattern(needle), needle.casefold().split()
        named = {place for place, one in enumerate(ranked) if not hyphenated and _is_called(one, needle)}
        called |= named
        places = [place for place, one in enumerate(ranked) if place in named or _holds(one, pattern, words)]
        if hyphenated:
            # In a sentence it may be a word like others: then many rows hold it, and words alone rank them no higher.
            best = [place for place in places if (ranked[place].text_rank or len(ranked)) <= _BEST_RANKS]
            places = best if len(places) <= _FEW_ROWS else []
        for place in places:
            held[place] += 1
    order = sorted(range(len(ranked)), key=lambda place: (-held[place], place not in called, place))
    return [replace(ranked[place], why="exact") if held[place] else ranked[place] for place in order]


def needles(question: str) -> dict[str, bool]:
    """What an exact match holds, and whether it is a hyphenated word in a sentence."""
    alone = question.strip().strip(_QUOTES)
    names = {name: lexicon.is_hyphenated(name) and name != alone for name in lexicon.identifiers(question)}
    return {**names, **dict.fromkeys(lexicon.quoted(question), False)}


def order(ranked: Sequence[Ranked], boosts: Mapping[str, float], question: str = "") -> list[Ranked]:
    """`ranked` by score, weighed down for stubs and by the longest of `boosts`' path prefixes that fits, marked so.

    Only the order changes: no row comes in or goes, and no score is another. A notice of who owns a text is a stub
    unless `question` asks for it.
    """
    notices = not stubs.asks_for_notice(question)
    marked = [_marked(one, boosts, notices=notices) for one in ranked]
    order = sorted(range(len(marked)), key=lambda place: (-_weighed(marked[place]), place))
    return [marked[place] for place in order]


def _marked(one: Ranked, boosts: Mapping[str, float], *, notices: bool) -> Ranked:
    fitting = [prefix for prefix in boosts if (one.row.path or "").startswith(prefix)] if boosts else []
    boost = boosts[max(fitting, key=len)] if fitting else None
    stub = stubs.is_stub(one.row.text) or (notices and stubs.is_notice(one.row.text))
    return replace(one, stub=stub, boost=boost) if stub or boost is not None else one


def _weighed(one: Ranked) -> float:
    if not one.stub and one.boost is None:
        return one.score
    weight = (STUB_FACTOR if one.stub else 1.0) * (1.0 if one.boost is None else one.boost)
    # The cosine of what is far from the question is below zero.
    return one.score * weight if one.score > 0 else one.score / weight


def _is_called(one: Ranked, needle: str) -> bool:
    name, path = needle.lower(), one.row.path or ""
    return name in lexicon.path_names(path) or ("/" in name and path.lower().endswith(f"/{name}"))


def _pattern(needle: str) -> re.Pattern[str]:
    words = r"\s+".join(re.escape(word) for word in needle.split())
    return re.compile(rf"(?<![\w-]){words}(?![\w-])" if needle.isascii() else words, re.IGNORECASE)


def _holds(one: Ranked, pattern: re.Pattern[str], words: Sequence[str]) -> bool:
    """Whether the row holds what `pattern` finds, of which `words` are the words, case-folded."""
    row = one.row
    for part in filter(None, (row.text, row.title, row.heading)):
        folded = part.casefold()
        # A phrase of many words is looked for ten times as long.
        if all(word in folded for word in words) and pattern.search(part):
            return True
    return False
