"""The words of an index with their frequencies: which words it does not know, and what was probably meant by them.

A word is known exactly where LanceDB's text index would find it: both cut words at everything that is neither letter
nor digit, and both stem by Snowball's English algorithm. `retrieval.indexing.vocabulary` writes the file.
"""

from __future__ import annotations

import re
from binascii import crc32
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Final, Literal, NamedTuple, TypeAlias

from retrieval.search import text as lexicon
from retrieval.search.english import is_english, spellings, stem
from retrieval.search.everyday import EVERYDAY
from retrieval.search.lines import SortedLines
from retrieval.search.neighbours import (
    LIKELY,
    POSSIBLE,
    SURE,
    Neighbours,
    differ_in_doubling,
    one_edit,
    points,
    points_of_share,
)

MAGIC: Final = "bedivere-vocabulary"
FORMAT: Final = 2
MAX_STEMS: Final = 200_000
"""More are left out, the rarest first."""

MAX_IDENTIFIERS: Final = 50_000
"""The same of identifiers."""

MAX_BYTES: Final = 32 * 2**20
"""A file of more is taken for damaged."""

MAX_TOKEN: Final = 64
"""Characters of the longest token that is counted; what is longer is data, not a word."""

_KIND: Final = [MAGIC.encode(), str(FORMAT).encode()]
_MOST_DIGITS: Final = 12
_MOST_REMEMBERED: Final = 4_096
TOKEN: Final = re.compile(r"[^\W_]+")
_DIGITS: Final = re.compile(r"\d+")
_SHARED_WITH_STEM: Final = 4
_SEPARATORS: Final = re.compile(r"[\W_]+")
# German without its keyboard, but not where the `e` belongs to another vowel (`neue`, `Frequenz`).
_SPELT_OUT: Final = re.compile(r"(?<![aeq])([aou])e")
_UMLAUTS: Final = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})

# Below this a word has too many neighbours, and what is near it is most often another word.
_SHORTEST: Final = 4
_TWO_EDITS_IN_ODD_FROM: Final = 5
_TWO_EDITS_FROM: Final = 8
_VERY_ODD: Final = 2
# What stands in one chunk of so many may be a mistake itself, unless it is English.
_CHUNKS_TO_ONE: Final = 1_000
# Of fewer chunks many a word stands in many.
_LEAST_SHARED: Final = 1_000
_SHORTEST_IN_NAME: Final = 4
# Of more, in which the letters stand and not as a word, the rest hardly holds it.
_MOST_NAMES_READ: Final = 1_000
_SHORTEST_JOINED: Final = 4
# Identifiers are made of words, and names that differ by a letter or two are often two names.
_SHORTEST_IDENTIFIER: Final = 8
_TWO_EDITS_FROM_IDENTIFIER: Final = 14
_SHORTEST_DOUBLED: Final = 6
_SHORTEST_PART: Final = 3
# What is rarer than this many times the commonest word that was left out may be the rarer word, spelt right.
_TIMES_LEFT_OUT: Final = 20
_MAX_CORRECTIONS: Final = 6
_LONGEST_EVERYDAY: Final = max(map(len, EVERYDAY)) + 1
# How far what is read in its place counts as known where nothing can be sure that the word is misspelt.
_TRUST_LIKELY: Final = 0.85
_TRUST_POSSIBLE: Final = 0.6


_Stands: TypeAlias = Literal["first", "within", "alone"]


@dataclass(frozen=True, slots=True)
class Correction:
    """A word of the question that the index does not hold, and the one that was searched in its place."""

    written: str
    read: str
    trust: float = 1.0
    """How far it is a mistake: 1 where it hardly can be another word, spelt right."""


def tokens(text: str) -> Iterator[re.Match[str]]:
    """The words of `text` as the index cuts them, but for scripts without spaces, which it cuts by a dictionary."""
    for match in TOKEN.finditer(text):
        if len(match.group()) <= MAX_TOKEN and not lexicon.has_unspaced(match.group()):
            yield match


class _Head(NamedTuple):
    """The first line of the file, behind what says that it is one."""

    chunks: int
    left_out: int
    """Chunks of the commonest stem that was left out; 0 where all are here."""
    stems: int
    stem_bytes: int
    """Bytes of the lines of stems, which come first."""

    @classmethod
    def read(cls, data: bytes) -> tuple[_Head, int]:
        """The first line of the file `data`, and how many bytes it has. Raises `ValueError` where it is damaged."""
        *kind, checksum, told = [*data.split(b"\t", len(_KIND) + 1), b"", b""][: len(_KIND) + 2]
        numbers = told.partition(b"\n")[0].split(b"\t")
        if kind != _KIND or len(numbers) != len(cls._fields):
            raise ValueError("the file is no vocabulary of this format")
        # To look at every line would take longer than all else that a first question needs of them.
        if int(checksum) != crc32(told):
            raise ValueError("the vocabulary is damaged")
        return cls(*map(_number, numbers)), data.index(b"\n") + 1


def to_bytes(chunks: int, left_out: int, stems: Sequence[str], identifiers: Sequence[str]) -> bytes:
    """The file: UTF-8 text, a line of what it is, then the lines of stems, in order, and those of identifiers.

    The first line has a CRC-32 of all that follows that, and numbers. A line of a stem holds, with tabs between them,
    its name, its chunks and each of its forms with a space and theirs; that of an identifier its name and its chunks.
    """
    its, rest = ("".join(f"{line}\n" for line in lines).encode() for lines in (stems, identifiers))
    numbers = "\t".join(map(str, (chunks, left_out, len(stems), len(its))))
    told = f"{numbers}\n".encode() + its + rest
    return b"\t".join([*_KIND, str(crc32(told)).encode(), told])


class Vocabulary:
    """The stems of one table with the number of chunks that hold each, the forms they were written in, and identifiers.

    `stems` and `identifiers` are their lines of the file. Most questions ask for a few stems, which are looked up in
    them; the rest is read when the first mistake or the first identifier wants it.
    """

    def __init__(self, head: _Head, stems: str, identifiers: str) -> None:
        self.chunks: Final = head.chunks
        self.left_out: Final = head.left_out
        self.words: Final = head.stems
        self._stem_lines = SortedLines(stems)
        self._identifier_lines = SortedLines(identifiers)
        self._frequencies: dict[str, int] = {}
        self._within_names: dict[str, int] = {}

    @classmethod
    def load(cls, data: bytes) -> Vocabulary:
        """Checks that it is what `to_bytes` wrote, and keeps it. Raises `ValueError` where it is damaged."""
        if len(data) > MAX_BYTES:
            raise ValueError("the vocabulary is larger than one is written")
        head, start = _Head.read(data)
        end = start + head.stem_bytes
        return cls(head, data[start:end].decode(), data[end:].decode())

    @cached_property
    def _forms(self) -> Neighbours:
        """By form, in lower case: its stem and chunks."""
        forms: dict[str, tuple[str, int]] = {}
        for line in self._stem_lines:
            name, *written = line.split("\t")
            for form in written[1:]:
                spelt, _, times = form.partition(" ")
                forms[spelt] = (name, _number(times))
        forms.pop("", None)
        return Neighbours(forms)

    @cached_property
    def _identifiers(self) -> Neighbours:
        """By identifier in lower case: as written, and its chunks."""
        identifiers: dict[str, tuple[str, int]] = {}
        for line in self._identifier_lines:
            written, _, frequency = line.partition("\t")
            identifiers[written.lower()] = (written, _number(frequency))
        identifiers.pop("", None)
        return Neighbours(identifiers)

    @cached_property
    def _names(self) -> str:
        """All identifiers, in lower case: one look at all of them takes a hundredth of a look at each."""
        return "\n".join(self._identifiers.words)

    @cached_property
    def _bare(self) -> dict[str, list[str]]:
        """Identifiers by their letters and digits alone."""
        bare: dict[str, list[str]] = {}
        for name in self._identifiers.words:
            bare.setdefault(_SEPARATORS.sub("", name), []).append(name)
        return bare

    @staticmethod
    def words_in(data: bytes) -> int:
        """`words` of a vocabulary that was written, without reading it. Raises `ValueError` where it is none."""
        return _Head.read(data)[0].stems

    def frequency(self, word: str) -> int:
        """Chunks that hold a form of `word`, one token; 0 where the index does not know it."""
        # Each word of a question is asked for by whoever corrects it, plans the search and judges what was found.
        return _remembered(self._frequencies, word, self._frequency)

    def _frequency(self, word: str) -> int:
        plain = lexicon.fold(word).lower()
        # Most forms stand near their stem, and to find one there takes a tenth of the time of stemming it.
        near = self._stem_lines.beginning_with(plain[:_SHARED_WITH_STEM])
        place = near.find(f"\t{plain} ")
        line = near[near.rfind("\n", 0, place) :] if place >= 0 else self._stem_lines.beginning_with(f"{stem(plain)}\t")
        return _number(line[1:].partition("\t")[2].partition("\n")[0].partition("\t")[0])

    def holds_identifier(self, name: str) -> bool:
        """Whether a chunk holds `name` as an identifier; False also for one of the rarest in a table of very many."""
        return name.lower() in self._identifiers.words

    def names_with(self, word: str) -> int:
        """Chunks that hold an identifier of several words with `word` among them, by the commonest such identifier.

        To the text index `networkTimeoutSeconds` is one word, so that it knows no `timeout`.
        """
        return _remembered(self._within_names, word, self._names_with)

    def _names_with(self, word: str) -> int:
        plain = lexicon.fold(word).lower()
        if len(plain) < _SHORTEST_IN_NAME or not plain.isalpha():
            return 0
        # Most words are in no name.
        if plain not in self._names:
            return 0
        near = (known for name, known in self._identifiers.words.items() if plain in name)
        held = (
            chunks for written, chunks in islice(near, _MOST_NAMES_READ) if plain in lexicon.identifier_words(written)
        )
        return max(held, default=0)

    def correct(self, question: str, names: Collection[str] = ()) -> tuple[str, tuple[Correction, ...]]:
        """`question` with each misspelt word replaced, and the replacements in order.

        A word is misspelt if the index does not know it, it is no common English word, and the index knows one that is
        near: at most one letter added, left out, changed or swapped with its neighbour, or two in words of eight
        letters, or of five where they stand so in no word, as far as `neighbours.points` finds it likely; of a word
        that is all of the question, more so. Of British and American spelling the one that the index knows is read. An
        identifier is corrected as a whole, to one with the same digits, where a part of it is unknown. Quoted text,
        words in capitals, with digits or of fewer than four letters stay as they are, and so do `names`, in lower case:
        those of documents.
        """
        quoted = lexicon.quoted_spans(question)
        identifiers = lexicon.identifier_spans(question)
        plain = [span for span in (match.span() for match in tokens(question)) if not _overlaps(span, identifiers)]
        parts: list[str] = []
        corrections: list[Correction] = []
        end = 0
        for start, stop in sorted([*identifiers, *plain]):
            if _overlaps((start, stop), quoted) or len(corrections) == _MAX_CORRECTIONS:
                continue
            written = question[start:stop]
            if written.casefold() in names:
                continue
            # A capital in the wrong place makes an identifier of a word.
            read = (
                self._identifier(written)
                if (start, stop) in identifiers
                else self._word(written, _stands(question, start, stop))
            )
            if read is None and written.isalpha() and (start, stop) in identifiers:
                read = self._word(written)
            if read is not None:
                corrections.append(read)
                parts += question[end:start], read.read
                end = stop
        return "".join([*parts, question[end:]]), tuple(corrections)

    def _word(self, written: str, stands: _Stands = "within") -> Correction | None:
        """The known form that `written` was probably meant to be; None where it is known or none is near enough.

        A word with a capital is a name, unless a question begins with it. Who asks for one word alone often names what
        it is about: it needs as much.
        """
        if len(written) < _SHORTEST or not written.isalpha() or written.isupper() or self.frequency(written):
            return None
        word = lexicon.fold(written).lower()
        if self.names_with(word):
            return None
        # A word that is not here may be one of those left out, and spelt right.
        least = self.left_out * _TIMES_LEFT_OUT
        english = is_english(word)
        spelt = [other for other in spellings(word) if self.frequency(other) > least]
        spelt += [other for other in _transcribed(written) if self._forms.words.get(other, ("", 0))[1] > least]
        variant = next((other for other in spelt if is_english(other) or not english), None)
        if variant is not None:
            return Correction(written, variant)
        if english:
            doubled = None if word in EVERYDAY else self._doubled(word, least)
            return Correction(written, doubled, _trust(POSSIBLE)) if doubled else None
        odd = self._forms.odd_letters(word)
        is_name = written[0].isupper() and stands != "first"
        least_points = LIKELY if written[0].isupper() or stands == "alone" else POSSIBLE
        near = self._forms.one_edit(word)
        if not near and len(word) >= (_TWO_EDITS_IN_ODD_FROM if odd >= _VERY_ODD else _TWO_EDITS_FROM):
            # Who makes two mistakes in a word seldom makes one of them in its first letter.
            near = self._forms.within(word, 2, "anything" if odd else "start")
        rare, of_chunks = max(least, self.chunks // _CHUNKS_TO_ONE), max(self.chunks, _LEAST_SHARED)
        likely: dict[str, int] = {}
        for other in near:
            chunks = self._forms.words[other][1]
            total = points(word, other, odd, is_name=is_name) + points_of_share(chunks / of_chunks)
            if len(other) >= _SHORTEST and total >= least_points and (chunks > rare or is_english(other)):
                likely[other] = total
        read = self._forms.best(word, likely, least)
        if read is not None:
            return Correction(written, read, _trust(likely[read]))
        if is_name:
            return None
        # That the table lacks it says nothing of the subject.
        everyday = sorted(EVERYDAY.intersection(one_edit(word))) if len(word) <= _LONGEST_EVERYDAY else []
        meant = next((one for one in everyday if points(word, one, odd, is_name=False) >= LIKELY), None)
        return Correction(written, meant) if meant else None

    def _doubled(self, word: str, least: int) -> str | None:
        """The known form that differs from `word` in a doubled letter, as words of English often do (`basses`)."""
        if len(word) < _SHORTEST_DOUBLED:
            return None
        doubled = (one for one in self._forms.one_edit(word) if differ_in_doubling(word, one))
        return self._forms.best(word, doubled, max(least, self.chunks // _CHUNKS_TO_ONE))

    def _identifier(self, written: str) -> Correction | None:
        name = written.lower()
        if name in self._identifiers.words:
            return None
        joined = self._joined_otherwise(name)
        if joined is not None:
            return Correction(written, self._identifiers.words[joined][0])
        if len(name) < _SHORTEST_IDENTIFIER or not self._unknown_parts(written):
            return None
        edits = 1 if len(name) < _TWO_EDITS_FROM_IDENTIFIER else 2
        digits = _DIGITS.findall(name)
        for most in range(1, edits + 1):
            near = [other for other in self._identifiers.within(name, most) if _DIGITS.findall(other) == digits]
            read = self._identifiers.best(name, near)
            if read is not None:
                return Correction(written, self._identifiers.words[read][0])
        return None

    def _joined_otherwise(self, name: str) -> str | None:
        """The known identifier of the same letters and digits with other marks between them: `KW207` is `KW-207`."""
        bare, digits = _SEPARATORS.sub("", name), _DIGITS.findall(name)
        # The words of a hyphenated word are searched as they are.
        if len(bare) < _SHORTEST_JOINED or bare.isdigit() or lexicon.is_hyphenated(name):
            return None
        same = [other for other in self._bare.get(bare, ()) if _DIGITS.findall(other) == digits]
        return self._identifiers.best(name, same)

    def _unknown_parts(self, name: str) -> list[str]:
        """The words that `name` is composed of which are neither in the index nor English, in lower case."""
        words = lexicon.identifier_words(name)
        return [
            word for word in words if len(word) >= _SHORTEST_PART and not self.frequency(word) and not is_english(word)
        ]


def _transcribed(written: str) -> Iterator[str]:
    """`written` with its umlauts spelt out, or what was spelt out so as umlauts, folded: `Muesli` is `Müsli`."""
    plain = written.lower()
    for other in (lexicon.fold(plain.translate(_UMLAUTS)), _SPELT_OUT.sub(r"\1", lexicon.fold(plain))):
        if other != lexicon.fold(plain):
            yield other


def _remembered(known: dict[str, int], word: str, find: Callable[[str], int]) -> int:
    if word not in known:
        if len(known) >= _MOST_REMEMBERED:
            known.clear()
        known[word] = find(word)
    return known[word]


def _number(written: str | bytes) -> int:
    """The number as the indexer writes it; 0 for anything else, which only a file has that was made to mislead."""
    return int(written) if written.isdigit() and len(written) <= _MOST_DIGITS and written.isascii() else 0


def _stands(question: str, start: int, stop: int) -> _Stands:
    """Whether the word there is the first of several, or all there is but for punctuation."""
    before, after = (TOKEN.search(part) is not None for part in (question[:start], question[stop:]))
    return "alone" if not before and not after else "within" if question[:start].strip() else "first"


def _trust(total: int) -> float:
    return 1.0 if total >= SURE else _TRUST_LIKELY if total >= LIKELY else _TRUST_POSSIBLE


def _overlaps(span: tuple[int, int], others: Iterable[tuple[int, int]]) -> bool:
    return any(start < span[1] and span[0] < stop for start, stop in others)
