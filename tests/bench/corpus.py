"""Made-up documentation: the same files and the same questions every time, with words as frequent as in real prose."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Final

_SEED: Final = "bedivere"
_SECTIONS: Final = 8
_FILES_A_FOLDER: Final = 200
# Long before any reading, or the indexer would not trust that nothing was written since.
_WRITTEN: Final = 1_700_000_000

# The commonest words of English prose come first; they are a third of any text and tell nothing of its subject.
_COMMON: Final = tuple(
    "the of and to a in is that for it as with be by on not this are or from at you your can have an will which when "
    "if has all but more one other use no may new then so what there each into than only any we do must how".split()
)
_ONSETS: Final = tuple("b c ch d f g h j k l m n p pr r s sh st t th tr v w".split())
_VOWELS: Final = tuple("a a e e e i i o o u ai ea ou".split())
_CODAS: Final = (*[""] * 12, *"ck d l m n nd ng nt p r rt s st t x".split())
_ENDINGS: Final = ("", "", "", "", *"s s ed ing er ion able ment".split())

_VOCABULARY: Final = 40_000
# Zipf's law as Mandelbrot mended it: the weight of the word at a rank.
_EXPONENT: Final = 1.05
_OFFSET: Final = 2.7
# Of these ranks are the words of headings and names: neither in every page nor in hardly any.
_TELLING_RANKS: Final = (150, 8_000)

_HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)
_IDENTIFIER: Final = re.compile(r"^\w+_\w+_\d+", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Questions:
    """What is asked of a corpus, whatever its size."""

    prose: tuple[str, ...]
    """Natural questions with three telling words each."""
    identifiers: tuple[str, ...]
    """Names that stand in one or two chunks: what an agent pastes from an error message."""


def write(folder: Path, chunks: int) -> None:
    """Writes documents of about `chunks` chunks in all; a smaller corpus is the beginning of a larger one."""
    for number in range(_pages(chunks)):
        file = folder / f"part-{number // _FILES_A_FOLDER:03}" / f"page-{number:05}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(document(number), encoding="utf-8")
        os.utime(file, (_WRITTEN, _WRITTEN))


def document(number: int) -> str:
    """The Markdown of one page: front matter, a title, and a chunk or so a section."""
    dice = random.Random(f"{_SEED} document {number}")
    parts = [f"---\ndate: 2026-{dice.randint(1, 12):02}-{dice.randint(1, 28):02}\n---\n\n# {_heading(dice)}"]
    for section in range(_SECTIONS):
        if section:
            parts.append(f"{'##' if section % 3 else '###'} {_heading(dice)}")
        parts += [_paragraph(dice) for _ in range(2)]
        if section % 4 == 1:
            parts.append("\n".join(f"- {_sentence(dice)}" for _ in range(3)))
        if section % 4 == 3:
            name = "_".join([*_rare(dice, 2), str(number)])
            parts.append(f"```sh\n{name} --{'-'.join(_rare(dice, 2))} {dice.choice(_words())}\n```")
    return "\n\n".join(parts) + "\n"


def questions(count: int, chunks: int) -> Questions:
    """`count` questions of each kind, to which pages of a corpus of `chunks` chunks hold the answers."""
    dice = random.Random(f"{_SEED} questions")
    pages = [document(dice.randrange(_pages(chunks))) for _ in range(count)]
    return Questions(
        prose=tuple("How do I {} the {} of a {}?".format(*dice.sample(_heading_words(page), 3)) for page in pages),
        identifiers=tuple(dice.choice(_IDENTIFIER.findall(page)) for page in pages),
    )


def _pages(chunks: int) -> int:
    return max(1, round(chunks / _SECTIONS))


def _heading_words(page: str) -> Sequence[str]:
    return " ".join(_HEADING.findall(page)).lower().split()


def _rare(dice: random.Random, count: int) -> list[str]:
    # Evenly over the logarithm of the rank, so that there are as many pages about frequent things as about rare ones.
    low, high = _TELLING_RANKS
    return [_words()[int(low * (high / low) ** dice.random())] for _ in range(count)]


def _heading(dice: random.Random) -> str:
    return " ".join(_rare(dice, dice.randint(2, 4))).capitalize()


def _paragraph(dice: random.Random) -> str:
    return " ".join(_sentence(dice) for _ in range(dice.randint(3, 5)))


def _sentence(dice: random.Random) -> str:
    words = dice.choices(_words(), cum_weights=_weights(), k=dice.randint(8, 22))
    return " ".join(words).capitalize() + "."


@cache
def _weights() -> list[float]:
    return list(accumulate((rank + _OFFSET) ** -_EXPONENT for rank in range(1, _VOCABULARY + 1)))


@cache
def _words() -> tuple[str, ...]:
    """The vocabulary, the most frequent word first."""
    return _COMMON + tuple(_made_up(_VOCABULARY - len(_COMMON)))


def _made_up(count: int) -> Iterator[str]:
    dice = random.Random(f"{_SEED} words")
    seen = set[str](_COMMON)
    while count:
        # Frequent words are short.
        syllables = dice.choice((2, 3, 3, 4) if len(seen) > 500 else (1, 2, 2))
        word = "".join(
            dice.choice(_ONSETS) + dice.choice(_VOWELS) + dice.choice(_CODAS) for _ in range(syllables)
        ) + dice.choice(_ENDINGS)
        if word not in seen:
            seen.add(word)
            count -= 1
            yield word
