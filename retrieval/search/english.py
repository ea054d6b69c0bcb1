"""Which words are English, whatever a table holds, and how the other side of the Atlantic spells them.

`english.txt` beside this module says where its words are from, and under which terms.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from retrieval.search.everyday import EVERYDAY

if TYPE_CHECKING:
    from snowballstemmer.english_stemmer import EnglishStemmer

_END: Final = r"(?=(?:e|ed|es|er|ers|ing|ings|able|ation|ations)$)"
_SPELLINGS: Final = tuple(
    (re.compile(one), other)
    for one, other in (
        (rf"is{_END}", "iz"),
        (rf"iz{_END}", "is"),
        (rf"ys{_END}", "yz"),
        (rf"yz{_END}", "ys"),
        (r"(?<=..)our", "or"),
        (r"(?<=..)or(?!.{6})", "our"),
        (r"tre(?=s?$)", "ter"),
        (r"ter(?=s?$)", "tre"),
        (r"ogue(?=s?$)", "og"),
        (r"og(?=s?$)", "ogue"),
        (r"ence(?=s?$)", "ense"),
        (r"ense(?=s?$)", "ence"),
        (r"mme(?=s?$)", "m"),
        (r"dgement", "dgment"),
        (r"dgment", "dgement"),
        (r"ae", "e"),
        (r"grey", "gray"),
        (r"gray", "grey"),
    )
)

_SHORT: Final = len("die")


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """The stem of `word`, a folded token in lower case, by Snowball's English algorithm: what the index keeps of it."""
    return cast("str", _stemmer().stemWord(word))


def beginnings(stem: str) -> tuple[str, ...]:
    """What words of `stem`, of which `stem()` makes it, begin with: with one of these."""
    # Endings go, and of what is left no letter changes but the last: `happi` is of happy, `hope` of hoping.
    kept = stem[:-1] or stem
    # There is one rule that changes two: dying, lying, tying and vying are of die, lie, tie and vie.
    return (kept, f"{stem[0]}y") if len(stem) == _SHORT and stem.endswith("ie") else (kept,)


def is_english(word: str) -> bool:
    """Whether `word`, in lower case, is a common English word, in this form."""
    return word in EVERYDAY or word in english_words()


def spellings(word: str) -> Iterator[str]:
    """Other ways to spell `word`, in lower case, British or American; not each is a word."""
    for pattern, other in _SPELLINGS:
        spelt = pattern.sub(other, word, count=1)
        if spelt != word:
            yield spelt


@cache
def english_words() -> frozenset[str]:
    """44,000 forms of common English words of four letters or more."""
    lines = Path(__file__).with_name("english.txt").read_text(encoding="ascii").splitlines()
    return frozenset(line for line in lines if not line.startswith("#"))


def _stemmer() -> EnglishStemmer:
    # Imported where it is used: a server that is asked for its tools alone needs none.
    from snowballstemmer.english_stemmer import EnglishStemmer

    # One a call: it keeps the word it works on in itself, and threads share this module.
    return EnglishStemmer()
