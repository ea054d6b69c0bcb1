"""Words that are near another: which they are, and how likely it is that one was written for the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from math import floor, log
from typing import Final, Literal, TypeAlias

from retrieval.search.english import english_words

# In fewer words most groups of letters stand in none, and those of English tell more.
_LEAST_COMPARED: Final = 2_000
_ODD_LETTERS: Final = 3
_MOST_COMPARED: Final = 40_000
# Of longer words there are so few that it takes less to compare them than to write down all that is an edit away.
_LONGEST_EDITED: Final = 24
_LATIN: Final = "abcdefghijklmnopqrstuvwxyz"
_VOWELS: Final = frozenset("aeiouy")

# What speaks for a mistake, in points; measured on names, words of other subjects and mistakes made at random.
POSSIBLE: Final = -1
"""From here on a word in small letters that is not English is worth being read as one that is a letter away."""

LIKELY: Final = 2
"""From here on a word is more often a mistake than another word."""

SURE: Final = 3
"""From here on it hardly ever is another word."""

_POINTS_OF_LENGTH: Final = ((11, 4), (8, 3), (6, 2), (5, 1))
_POINTS_OF_SHORTEST: Final = -1
_MOST_POINTS_OF_ODD: Final = 2
_POINTS_OF_TWO: Final = -2
# Two mistakes make almost any short word of another; what ends in two other letters is a word of its own (`graphql`).
_POINTS_OF_TWO_IN_SHORT: Final = -5
_POINTS_OF_ENDING: Final = -6
_SHORT: Final = 6
_POINTS_OF_HAND: Final = 2
# A word that is so many times as common as another is as likely meant by a mistake that is a point less likely.
_TIMES_A_POINT: Final = 4
_OFTEN: Final = 1 / 50
"""Of the chunks: what stands in more is what most questions are about."""

_End: TypeAlias = tuple[int, str, bool]
"""A length, and a letter that words of that length begin with, or end with where it is true."""


def points(word: str, other: str, odd: int, *, is_name: bool) -> int:
    """What speaks for `word` being `other` misspelt, to be compared with `LIKELY` and `SURE`.

    A long word has few neighbours; letters that stand so in no word are `odd`; swapped and doubled letters are
    mistakes of the hand. Against it: another first letter, something hung on at either end, as inflections are, a vowel
    for a consonant, a second mistake, above all in a short word or at the very end of one, and that `word` is written
    as a name.
    """
    length = next((points for least, points in _POINTS_OF_LENGTH if len(word) >= least), _POINTS_OF_SHORTEST)
    total = length + odd + _points_of_edit(word, other)
    return total - (word[0] != other[0]) - 2 * is_name


def points_of_share(share: float) -> int:
    """What further speaks for a word that stands in `share` of the chunks, from 0 to 1: most questions are about it."""
    return 1 + floor(log(share / _OFTEN, _TIMES_A_POINT)) if share > _OFTEN else 0


def _points_of_edit(word: str, other: str) -> int:
    start = _shared(word, other)
    end = _shared(word[start:][::-1], other[start:][::-1])
    written, meant = word[start : len(word) - end], other[start : len(other) - end]
    match len(written), len(meant):
        case 2, 2 if written == meant[::-1]:
            return _POINTS_OF_HAND
        case 1, 1:
            return -1 if (written in _VOWELS) != (meant in _VOWELS) else 0
        case 1, 0:
            return _POINTS_OF_HAND if word[start - 1 : start] == written else -2 if not end or not start else 0
        case 0, 1:
            return _POINTS_OF_HAND if other[start - 1 : start] == meant else 0 if not end else 1
        case 2, _ if start and not end:
            return _POINTS_OF_ENDING
        case _:
            return _POINTS_OF_TWO_IN_SHORT if len(word) <= _SHORT else _POINTS_OF_TWO


def differ_in_doubling(one: str, other: str) -> bool:
    """Whether a letter that is double in one of them is single in the other, and that is all."""
    return abs(len(one) - len(other)) == 1 and _points_of_edit(one, other) == _POINTS_OF_HAND


def _shared(one: str, other: str) -> int:
    """Letters that both begin with."""
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


class Neighbours:
    """Words, each with what is known of it and its frequency, that can be asked for those near another."""

    __slots__ = ("_alike", "_joined", "_shapes", "words")

    def __init__(self, words: dict[str, tuple[str, int]]) -> None:
        self.words: Final = words
        self._alike: dict[_End, list[str]] | None = None
        self._shapes: dict[_End, list[tuple[str, int]]] = {}
        self._joined: str | None = None

    def odd_letters(self, word: str) -> int:
        """Groups of letters side by side in `word`, its ends included, that do not stand so in any of the words.

        At most as many as count in `points`. Where the words are few, those of English stand in for them.
        """
        if self._joined is None:
            self._joined = _lines(self.words) if len(self.words) >= _LEAST_COMPARED else _english() + _lines(self.words)
        joined = self._joined
        ended = f"\n{word}\n"
        groups = (ended[place : place + _ODD_LETTERS] for place in range(len(ended) - _ODD_LETTERS + 1))
        odd = (group for group in groups if group not in joined)
        return sum(1 for _ in islice(odd, _MOST_POINTS_OF_ODD))

    def one_edit(self, word: str) -> Iterable[str]:
        """The words one edit from `word`."""
        if not word.isascii() or len(word) > _LONGEST_EDITED:
            return self.within(word, 1)
        return [other for other in set(one_edit(word)) if other in self.words]

    def within(self, word: str, edits: int, shared: Literal["start", "end", "anything"] = "end") -> set[str]:
        """The words at most `edits` from `word`: those that begin as it does, also those that end so, or all there are.

        Where there are very many words, all of them are too many to compare.
        """
        letters = _letters(word)
        near: set[str] = set()
        for length in range(len(word) - edits, len(word) + edits + 1):
            # Each edit changes the set of letters by two at most, one that changes the length by one.
            most = 2 * edits - abs(length - len(word))
            ends = [(length, word[0], False)]
            if shared == "anything" and len(self.words) <= _MOST_COMPARED:
                ends = [end for end in self._ends() if end[0] == length and not end[2]]
            elif shared != "start":
                ends.append((length, word[-1], True))
            for end in ends:
                near.update(
                    other
                    for other, shape in self._with_end(end)
                    if (letters ^ shape).bit_count() <= most and _is_within(word, other, edits)
                )
        return near

    def best(self, word: str, near: Iterable[str], least: int = 0) -> str | None:
        """What `word` most likely is misspelt, of those of `near` that more than `least` chunks hold."""

        def likelihood(other: str) -> float:
            return points(word, other, 0, is_name=False) + log(self.words[other][1], _TIMES_A_POINT)

        return max(sorted(other for other in near if self.words[other][1] > least), key=likelihood, default=None)

    def _ends(self) -> dict[_End, list[str]]:
        if self._alike is None:
            alike: dict[_End, list[str]] = {}
            for word in self.words:
                alike.setdefault((len(word), word[0], False), []).append(word)
                alike.setdefault((len(word), word[-1], True), []).append(word)
            # Set when it is whole: other threads may be asking.
            self._alike = alike
        return self._alike

    def _with_end(self, end: _End) -> list[tuple[str, int]]:
        """The words of that length and first or last letter, each with its set of letters."""
        shapes = self._shapes.get(end)
        if shapes is None:
            shapes = self._shapes[end] = [(word, _letters(word)) for word in self._ends().get(end, ())]
        return shapes


@cache
def _english() -> str:
    return _lines(sorted(english_words()))


def _lines(words: Iterable[str]) -> str:
    return "\n".join(["", *words, ""])


def _letters(word: str) -> int:
    """The set of letters of `word`, one bit each."""
    shape = 0
    for letter in word:
        shape |= 1 << (ord(letter) & 63)
    return shape


def one_edit(word: str) -> Iterator[str]:
    """Everything in small Latin letters that is one edit from `word`."""
    for place in range(len(word) + 1):
        before, after = word[:place], word[place:]
        for letter in _LATIN:
            yield before + letter + after
        if after:
            yield before + after[1:]
            for letter in _LATIN:
                yield before + letter + after[1:]
        if len(after) > 1:
            yield before + after[1] + after[0] + after[2:]


def _is_within(one: str, other: str, most: int) -> bool:
    """Whether `one` becomes `other` by at most `most` edits; a swap of neighbours counts as one (Damerau, OSA)."""
    start, stop_one, stop_other = 0, len(one), len(other)
    while start < stop_one and start < stop_other and one[start] == other[start]:
        start += 1
    while stop_one > start and stop_other > start and one[stop_one - 1] == other[stop_other - 1]:
        stop_one -= 1
        stop_other -= 1
    if max(stop_one, stop_other) - start <= most:
        return True
    one, other = one[start:stop_one], other[start:stop_other]
    before: list[int] = []
    row = list(range(len(other) + 1))
    for place, letter in enumerate(one, start=1):
        two_before, before = before, row
        row = [place]
        for at, another in enumerate(other, start=1):
            cost = min(row[-1] + 1, before[at] + 1, before[at - 1] + (letter != another))
            if place > 1 and at > 1 and letter == other[at - 2] and one[place - 2] == another:
                cost = min(cost, two_before[at - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return False
    return row[-1] <= most
