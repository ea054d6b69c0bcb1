"""The words of an index with their frequencies: which words it does not know, and what was probably meant by them.

A word is known exactly where LanceDB's text index would find it: both cut words at everything that is neither letter
nor digit, and both stem by Snowball's English algorithm. `retrieval.indexing.vocabulary` writes the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

from retrieval.search import text as lexicon

if TYPE_CHECKING:
    from snowballstemmer.english_stemmer import EnglishStemmer

MAGIC: Final = "bedivere-vocabulary"
FORMAT: Final = 1
MAX_STEMS: Final = 200_000
"""More are left out, the rarest first."""

MAX_IDENTIFIERS: Final = 50_000
"""The same of identifiers."""

MAX_BYTES: Final = 32 * 2**20
"""A file of more is taken for damaged."""

MAX_TOKEN: Final = 64
"""Characters of the longest token that is counted; what is longer is data, not a word."""

TOKEN: Final = re.compile(r"[^\W_]+")
_DIGITS: Final = re.compile(r"\d+")

# Below this a word has too many neighbours, and what is near it is most often another word.
_SHORTEST: Final = 4
_SHORTEST_CHANGED: Final = 5
# From this length on a second mistake is looked for; in a word that looks misspelt, from the shorter one.
_TWO_EDITS_FROM: Final = 8
_TWO_EDITS_IN_ODD_FROM: Final = 5
_ODD_LETTERS: Final = 3
_VERY_ODD: Final = 2
# In fewer words most groups of letters stand in none.
_LEAST_COMPARED: Final = 2_000
# Identifiers are made of words, and names that differ by a letter or two are often two names.
_SHORTEST_IDENTIFIER: Final = 8
_TWO_EDITS_FROM_IDENTIFIER: Final = 14
# What is rarer than this many times the commonest word that was left out may be the rarer word, spelt right.
_TIMES_LEFT_OUT: Final = 20
_MAX_CORRECTIONS: Final = 8
_MOST_COMPARED: Final = 40_000
_LATIN: Final = "abcdefghijklmnopqrstuvwxyz"


_End: TypeAlias = tuple[int, str, bool]
"""A length, and a letter that words of that length begin with, or end with where it is true."""


@dataclass(frozen=True, slots=True)
class Correction:
    """A word of the question that the index does not hold, and the one that was searched in its place."""

    written: str
    read: str


def tokens(text: str) -> Iterator[re.Match[str]]:
    """The words of `text` as the index cuts them, but for scripts without spaces, which it cuts by a dictionary."""
    for match in TOKEN.finditer(text):
        if len(match.group()) <= MAX_TOKEN and not lexicon.has_unspaced(match.group()):
            yield match


def stem(word: str) -> str:
    """What the index keeps of `word`, a folded token in lower case."""
    return cast("str", _stemmer().stemWord(word))


class Vocabulary:
    """The stems of one table with the number of chunks that hold each, the forms they were written in, and identifiers.

    `forms` are by form in lower case: its stem and chunks; `identifiers` by identifier in lower case: as written, and
    its chunks. `left_out` is the chunks of the commonest stem that was left out; 0 where all are here.
    """

    __slots__ = ("_forms", "_identifiers", "_stems", "chunks", "left_out")

    def __init__(
        self,
        chunks: int,
        left_out: int,
        stems: dict[str, int],
        forms: dict[str, tuple[str, int]],
        identifiers: dict[str, tuple[str, int]],
    ) -> None:
        self.chunks: Final = chunks
        self.left_out: Final = left_out
        self._stems = stems
        self._forms = _Neighbours(forms)
        self._identifiers = _Neighbours(identifiers)

    @classmethod
    def load(cls, data: bytes) -> Vocabulary:
        """Reads what `VocabularyBuilder.to_bytes` wrote. Raises `ValueError` where it is damaged."""
        if len(data) > MAX_BYTES:
            raise ValueError("the vocabulary is larger than one is written")
        head, _, body = data.decode().partition("\n")
        fields = head.split("\t")
        if len(fields) != 6 or fields[:2] != [MAGIC, str(FORMAT)]:
            raise ValueError("the file is no vocabulary of this format")
        chunks, left_out, stem_count, identifier_count = (int(field) for field in fields[2:])
        lines = body.split("\n")
        whole = len(lines) == stem_count + identifier_count + 1 and not lines.pop()
        if not whole or stem_count > MAX_STEMS or identifier_count > MAX_IDENTIFIERS:
            raise ValueError("the vocabulary is cut")
        stems: dict[str, int] = {}
        forms: dict[str, tuple[str, int]] = {}
        for line in lines[:stem_count]:
            name, frequency, *written = line.split("\t")
            stems[name] = int(frequency)
            for form in written:
                spelt, _, times = form.partition(" ")
                forms[spelt] = (name, int(times))
        identifiers: dict[str, tuple[str, int]] = {}
        for line in lines[stem_count:]:
            written, _, frequency = line.partition("\t")
            identifiers[written.lower()] = (written, int(frequency))
        if len(stems) != stem_count:
            raise ValueError("the vocabulary names a stem twice")
        return cls(chunks, left_out, stems, forms, identifiers)

    def frequency(self, word: str) -> int:
        """Chunks that hold a form of `word`, one token; 0 where the index does not know it."""
        plain = lexicon.fold(word).lower()
        known = self._forms.words.get(plain)
        # Most words of a question are forms that were indexed: the stemmer need not even be imported for them.
        return self._stems.get(known[0] if known else stem(plain), 0)

    def holds_identifier(self, name: str) -> bool:
        """Whether a chunk holds `name` as an identifier; False also for one of the rarest in a table of very many."""
        return name.lower() in self._identifiers.words

    def correct(self, question: str) -> tuple[str, tuple[Correction, ...]]:
        """`question` with each misspelt word replaced, and the replacements in order.

        A word is misspelt if the index does not know it and does know one that is near: at most one letter added,
        left out, changed or swapped with its neighbour, or two in words of eight letters or more. In shorter words two
        are only looked for where three letters stand side by side that do so in no word of the index. The nearest is
        taken, then the most frequent. An identifier is corrected as a whole, to one with the same digits. Quoted text,
        words in capitals, with digits or of fewer than four letters stay as they are.
        """
        quoted = lexicon.quoted_spans(question)
        names = lexicon.identifier_spans(question)
        plain = [span for span in (match.span() for match in tokens(question)) if not _overlaps(span, names)]
        parts: list[str] = []
        corrections: list[Correction] = []
        end = 0
        for start, stop in sorted([*names, *plain]):
            if _overlaps((start, stop), quoted) or len(corrections) == _MAX_CORRECTIONS:
                continue
            written = question[start:stop]
            # A capital in the wrong place makes an identifier of a word.
            read = self._identifier(written) if (start, stop) in names else self._word(written)
            if read is None and written.isalpha() and (start, stop) in names:
                read = self._word(written)
            if read is not None:
                corrections.append(Correction(written, read))
                parts += question[end:start], read
                end = stop
        return "".join([*parts, question[end:]]), tuple(corrections)

    def _word(self, written: str) -> str | None:
        """The known form that `written` was probably meant to be; None where it is known or none is near enough."""
        if len(written) < _SHORTEST or not written.isalpha() or written.isupper() or self.frequency(written):
            return None
        word = lexicon.fold(written).lower()
        odd = self._forms.odd_letters(word)
        near = self._forms.one_edit(word)
        if len(word) < _SHORTEST_CHANGED and not odd:
            near = [form for form in near if len(form) != len(word) or sorted(form) == sorted(word)]
        if not near and len(word) >= (_TWO_EDITS_IN_ODD_FROM if odd else _TWO_EDITS_FROM):
            # Who makes two mistakes in a word seldom makes one of them in its first letter.
            near = self._forms.within(word, 2, "anything" if odd >= _VERY_ODD else "start")
        # A word that is not here may be one of those left out, and spelt right.
        least = self.left_out * _TIMES_LEFT_OUT
        return self._forms.best(word, (form for form in near if len(form) >= _SHORTEST), least)

    def _identifier(self, written: str) -> str | None:
        name = written.lower()
        if len(name) < _SHORTEST_IDENTIFIER or name in self._identifiers.words:
            return None
        edits = 1 if len(name) < _TWO_EDITS_FROM_IDENTIFIER else 2
        digits = _DIGITS.findall(name)
        for most in range(1, edits + 1):
            near = [other for other in self._identifiers.within(name, most) if _DIGITS.findall(other) == digits]
            if near:
                return self._identifiers.words[self._identifiers.best(name, near) or near[0]][0]
        return None


class _Neighbours:
    """Words, each with what is known of it and its frequency, that can be asked for those near another."""

    __slots__ = ("_alike", "_joined", "_shapes", "words")

    def __init__(self, words: dict[str, tuple[str, int]]) -> None:
        self.words: Final = words
        self._alike: dict[_End, list[str]] | None = None
        self._shapes: dict[_End, list[tuple[str, int]]] = {}
        self._joined: str | None = None

    def odd_letters(self, word: str) -> int:
        """Groups of letters side by side in `word`, its ends included, that do not stand so in any of the words.

        0 where the words are too few to tell.
        """
        if len(self.words) < _LEAST_COMPARED:
            return 0
        if self._joined is None:
            self._joined = "\n".join(["", *self.words, ""])
        ended = f"\n{word}\n"
        groups = (ended[place : place + _ODD_LETTERS] for place in range(len(ended) - _ODD_LETTERS + 1))
        return sum(group not in self._joined for group in groups)

    def one_edit(self, word: str) -> Iterable[str]:
        """The words one edit from `word`."""
        if not word.isascii():
            return self.within(word, 1)
        return [other for other in set(_one_edit(word)) if other in self.words]

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
        """The most likely of `near`, of those that more than `least` chunks hold."""
        frequent = (other for other in near if self.words[other][1] > least)
        # The first letter is seldom the wrong one.
        return min(frequent, key=lambda other: (other[0] != word[0], -self.words[other][1], other), default=None)

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


def _overlaps(span: tuple[int, int], others: Iterable[tuple[int, int]]) -> bool:
    return any(start < span[1] and span[0] < stop for start, stop in others)


def _letters(word: str) -> int:
    """The set of letters of `word`, one bit each."""
    shape = 0
    for letter in word:
        shape |= 1 << (ord(letter) & 63)
    return shape


def _one_edit(word: str) -> Iterator[str]:
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


def _stemmer() -> EnglishStemmer:
    # Its package imports the stemmers of thirty languages, which most questions do not need.
    from snowballstemmer.english_stemmer import EnglishStemmer

    # One a call: it keeps the word it works on in itself, and threads share this module.
    return EnglishStemmer()
