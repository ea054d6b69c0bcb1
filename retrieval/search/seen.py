"""What the rows that a search found hold of its question: names, words, phrases, and runs of unspaced scripts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from retrieval.search import text as lexicon
from retrieval.types import Row

MAX_PHRASE_WORDS: Final = 16
"""As many as are searched side by side; what follows in a longer quotation is not looked at."""

# What an ending may take off a word, and what stays of it: a row that holds `query` was found for `queries`.
_LONGEST_ENDING: Final = 3
_SHORTEST_STEM: Final = 3
_PAIRS_OF_A_WORD: Final = 2


class Seen:
    """The text, titles, headings and paths of some rows, without regard to case and accents; read when first asked."""

    __slots__ = ("_rows", "_texts", "whole")

    def __init__(self, rows: Iterable[Row], *, whole: bool = False) -> None:
        """`whole` says that these are all rows, of those that are searched, which hold anything of the question."""
        self._rows = tuple(rows)
        self._texts: tuple[str, ...] | None = None
        self.whole: Final = whole

    def name(self, name: str) -> bool:
        """Whether a row holds `name` as it is written."""
        plain = _plain(name)
        return any(plain in text for text in self._read())

    def word(self, word: str, *, exactly: bool = False) -> bool:
        """Whether a row holds a form of `word`, rather too many than too few; with `exactly`, what begins with it."""
        plain = _plain(word)
        held = plain if exactly else _stem(plain)
        begins = re.compile(_begins(plain) + re.escape(held))
        # To look for the letters alone first is many times as quick, and most texts lack them.
        return any(held in text and begins.search(text) for text in self._read())

    def phrase(self, phrase: str, *, exactly: bool = False) -> bool:
        """Whether a row holds the words of `phrase` side by side, in any form unless `exactly` as they are."""
        words = lexicon.words(_plain(phrase))[:MAX_PHRASE_WORDS]
        if not words:
            return False
        if exactly:
            pattern = re.compile(_begins(words[0]) + r"\W+".join(map(re.escape, words)) + _ends(words[-1]))
        else:
            pattern = re.compile(r"\w*\W+".join(map(_form, words)))
        return any(pattern.search(text) for text in self._read())

    def share_of_run(self, run: str) -> float:
        """How far the rows hold `run`, of an unspaced script, from 0 to 1: which letters in it stand side by side.

        Every other pair counts as all: those that lie across two words are in few texts.
        """
        plain = _plain(run)
        pairs = {plain[at : at + 2] for at in range(max(len(plain) - 1, 1))}
        held = sum(any(pair in text for text in self._read()) for pair in pairs)
        return min(1.0, _PAIRS_OF_A_WORD * held / len(pairs))

    def any_unspaced(self) -> bool:
        """Whether a row holds a letter of an unspaced script."""
        return any(map(lexicon.has_unspaced, self._read()))

    def _read(self) -> tuple[str, ...]:
        if self._texts is None:
            parts = ((row.text, row.title, row.heading, row.path) for row in self._rows)
            self._texts = tuple(_plain("\n".join(filter(None, its))) for its in parts)
        return self._texts


def _plain(text: str) -> str:
    return lexicon.fold(text).casefold()


def _begins(word: str) -> str:
    """What stands before `word` where it begins: of an unspaced script, anything."""
    return "" if lexicon.has_unspaced(word) else r"(?<![^\W_])"


def _ends(word: str) -> str:
    return "" if lexicon.has_unspaced(word) else r"(?![^\W_])"


def _stem(word: str) -> str:
    return word if lexicon.has_unspaced(word) else word[: max(_SHORTEST_STEM, len(word) - _LONGEST_ENDING)]


def _form(word: str) -> str:
    return _begins(word) + re.escape(_stem(word))
