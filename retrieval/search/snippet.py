"""The part of a chunk that answers a question best, and where the question's words stand in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from retrieval.search import english
from retrieval.search import text as lexicon

SNIPPET_CHARS: Final = 280

_WORD: Final = re.compile(r"\w+")
_BEYOND_ASCII: Final = re.compile(r"[^\W\x00-\x7f]")
_UNDERSCORE: Final = re.compile("_")
# Where one word of an identifier ends and the next begins. A class of letters comes first, so that it is found quickly.
_COMPOSED: Final = re.compile("[0-9A-Z_](?:(?<=_)|(?<=[a-z0-9][A-Z])|(?<=[A-Z]{2})[a-z]|(?<=[0-9])[A-Za-z])")
# Adornment to a reader: underlines and table rules, and the headings that a hit names beside its snippet.
_RULE: Final = "|:=~^+- \t"
_OTHER_SPACES: Final = ("  ", "\t", "\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x1f")
_OPENING_HEADINGS: Final = re.compile(r"\A(?:\s*#{1,6} [^\n]*(?:\n|\Z))+")
_ELLIPSIS: Final = "…"
_ENDINGS: Final = tuple("ations ation ating ates ated ate ings ing ies ied ers er es ed ly s e y".split())
_SHORTEST_STEM: Final = 3
_LONGEST_STEMMED: Final = 64
_MANY_STEMS: Final = 24
_FIRST: Final = 3
# Choosing a window is quadratic in the matches; a chunk of ours has far fewer, a table of others may hold whole books.
_MAX_SPANS: Final = 200
_MAX_SCANNED: Final = 100_000
# A word at the edge of the window that is longer than the rest of it is cut: a whole snippet of one word helps nobody.
_LEAST_KEPT: Final = 40

_Match = tuple[int, str]
"""Where a word begins, and the word as it is written there."""


def matched_spans(text: str, question: str) -> list[tuple[int, int]]:
    """Where words of `question`, in any of their forms, stand in `text`: (start, end) character offsets, in order."""
    return [(start, start + len(word)) for start, word in _matching(text, question)]


def matched_words(text: str, question: str) -> list[str]:
    """The telling words of `question`, case-folded, once each and in its order, that stand in `text` in any form."""
    return _meant(question, _matching(text[:_MAX_SCANNED], question))


def snippet(text: str, question: str, limit: int = SNIPPET_CHARS) -> str:
    """At most `limit` characters of `text` around the most distinct words of `question`, on one line.

    Words stay whole; an ellipsis marks each end that was cut. Without a match it is the beginning.
    """
    line, _ = _line(text)
    return line if len(line) <= limit else _cut_out(line, _matching(line, question), limit)


def snippet_and_words(text: str, labels: str, question: str) -> tuple[str, list[str]]:
    """`snippet` of `text`, and `matched_words` of `labels` and `text` together: `text` is searched once for both."""
    line, headings = _line(text)
    around = f"{labels}\n{headings}"
    quick = _matching_quickly(f"{line}\n{around}", question)
    within = [one for one in quick if one[0] < len(line)]
    is_cut = len(line) > SNIPPET_CHARS
    if not within and (is_cut or not quick):
        within = _matching_as_indexed(line, question)
    words = _meant(question, quick or [*within, *_matching_as_indexed(around, question)])
    return _cut_out(line, within, SNIPPET_CHARS) if is_cut else line, words


def _meant(question: str, matching: Iterable[_Match]) -> list[str]:
    """The telling words of `question` that are words of `matching`, by the quick stemmer or else by the index's."""
    words = {word for _, word in matching}
    if not words:
        return []
    held = {stem for word in words for stem in _stems_of_parts(word)}
    quick = [term for term, stem in _wanted(question).terms if stem in held]
    if quick:
        return quick
    held = {_stem_of_index(part) for word in words for part in _parts(word)}
    return [term for term, stem in _wanted_of_index(question).terms if stem in held]


def _line(text: str) -> tuple[str, str]:
    """`text` on one line without what is adornment, and the headings that were taken from its beginning."""
    text = text[:_MAX_SCANNED]
    bare = "\n".join([line for line in text.split("\n") if line.strip(_RULE)])
    headings = _OPENING_HEADINGS.match(bare)
    start = headings.end() if headings else 0
    line = _on_one_line(bare[start:])
    # Of a chunk that is headings alone they are what there is.
    return (line, bare[:start]) if line else (_on_one_line(text), "")


def _on_one_line(text: str) -> str:
    """`text` with one space for all that parts its words: most often there is no other within its lines."""
    line = " ".join(map(str.strip, text.split("\n")))
    if not line.isascii():
        return " ".join(text.split())
    for space in _OTHER_SPACES:
        if space in line:
            return " ".join(text.split())
    return line.strip()


def _cut_out(text: str, matching: Sequence[_Match], limit: int) -> str:
    room = limit - 2 * len(_ELLIPSIS)
    start = _best_start(text, matching[:_MAX_SPANS], room)
    end = min(start + room, len(text))
    start, end = _to_word_start(text, start, end), _to_word_end(text, start, end)
    return (_ELLIPSIS if start else "") + text[start:end].strip() + (_ELLIPSIS if end < len(text) else "")


def _best_start(text: str, matching: Sequence[_Match], room: int) -> int:
    """Where a window of `room` characters begins that holds the most distinct matched words, the earliest such."""
    best, most, beyond = 0, 0, 0
    stems = [_stem(word) for _, word in matching]
    ends = [start + len(word) for start, word in matching]
    of_all = len(set(stems))
    for index, (start, _) in enumerate(matching):
        while beyond < len(ends) and ends[beyond] <= start + room:
            beyond += 1
        if beyond - index <= most:
            continue
        distinct = len(set(stems[index:beyond]))
        if distinct > most:
            most = distinct
            # Half of the spare room goes in front, so that the words are read in their sentence.
            best = max(0, min(start - (room - (ends[beyond - 1] - start)) // 2, len(text) - room))
            if most == of_all:
                break
    return best


def _to_word_start(text: str, start: int, end: int) -> int:
    if start == 0 or text[start - 1].isspace():
        return start
    space = text.find(" ", start, end)
    return space + 1 if 0 <= space < end - _LEAST_KEPT else start


def _to_word_end(text: str, start: int, end: int) -> int:
    if end == len(text) or text[end].isspace():
        return end
    space = text.rfind(" ", start, end)
    return space if space > start + _LEAST_KEPT else end


def _matching(text: str, question: str) -> list[_Match]:
    """Where each word of `text` begins that matches one of `question`, and the word, in order.

    Where none does by its commonest ending, the index's own stemmer is asked: it takes a hundred times as long.
    """
    return _matching_quickly(text, question) or _matching_as_indexed(text[:_MAX_SCANNED], question)


def _matching_quickly(text: str, question: str) -> list[_Match]:
    wanted = _wanted(question)
    stems = wanted.stems
    if wanted.plain and len(stems) > _MANY_STEMS:
        words = _words_by_beginning(text, _first_letters(stems))
    elif wanted.plain and _is_plain(text):
        # Every word that holds an underscore is found by that.
        found = _words_begun(text, wanted.beginnings)
        if "_" in text:
            found |= _words_around(text, _UNDERSCORE)
        words = sorted(found.items())
    else:
        words = ((match.start(), match.group()) for match in _candidates(stems).finditer(text))
    # Most words by far match as they are: those are not asked for what else there may be.
    return [one for one in words if _stem(one[1]) in stems or _matches_in_part(one[1], wanted)]


def _matching_as_indexed(text: str, question: str) -> list[_Match]:
    wanted = _wanted_of_index(question)
    stems, beginnings = wanted.stems, wanted.beginnings
    if not stems:
        return []
    if len(beginnings) <= _MANY_STEMS and _is_plain(text):
        found = _words_begun(text, beginnings) | _words_around(text, _COMPOSED)
        words = sorted(found.items())
    else:
        words = [(match.start(), match.group()) for match in _WORD.finditer(text)]

    def matches(word: str) -> bool:
        if word.islower() and word.isascii() and "_" not in word and not word.startswith(beginnings):
            # So most words need not be taken apart.
            return False
        return any(
            lexicon.fold(part).lower().startswith(beginnings) and _stem_of_index(part) in stems for part in _parts(word)
        )

    return [one for one in words if matches(one[1])]


def _parts(word: str) -> list[str]:
    """`word` and what it is composed of where it is an identifier."""
    plain = word.islower() or word.istitle() or not word.isascii()
    return [word] if plain and "_" not in word else [word, *lexicon.identifier_words(word)]


def _is_plain(text: str) -> bool:
    """Whether all letters of `text` are ASCII: of most texts they are, and these are looked at much quicker."""
    return text.isascii() or not _BEYOND_ASCII.search(text)


def _words_begun(text: str, beginnings: Iterable[str]) -> dict[int, str]:
    """The words of `text`, which is plain, that begin with one of `beginnings`, of letters and digits, by their place.

    To look for one after the other is quicker than a pattern of all of them, as long as they are not many.
    """
    plain = text.lower()
    found: dict[int, str] = {}
    for beginning in beginnings:
        start = plain.find(beginning)
        while start >= 0:
            end = start + len(beginning)
            before = plain[start - 1] if start else " "
            # Nearly always it is a space, and the rest is not asked.
            if (before == " " or not _is_of_word(before)) and (match := _WORD.match(text, start)):
                found[start] = match.group()
                end = match.end()
            start = plain.find(beginning, end)
    return found


def _words_around(text: str, mark: re.Pattern[str]) -> dict[int, str]:
    """The words of `text` that hold a `mark`, by their place."""
    found: dict[int, str] = {}
    end = 0
    for match in mark.finditer(text):
        if (start := match.start()) < end:
            continue
        while start and _is_of_word(text[start - 1]):
            start -= 1
        if word := _WORD.match(text, start):
            found[start], end = word.group(), word.end()
    return found


def _words_by_beginning(text: str, letters: frozenset[str]) -> Iterator[_Match]:
    """Those of all words that may match, as they begin as a stem does: quicker than to look for hundreds of stems."""
    for match in _WORD.finditer(text):
        word = match.group()
        plain = word.lower()
        begins = plain[:1] in letters or plain[:2] in letters or plain[:_FIRST] in letters
        # An identifier is looked at for its parts, and a word with a letter beyond ASCII because accents do not count.
        if begins or "_" in word or not word.isascii():
            yield match.start(), word


def _is_of_word(letter: str) -> bool:
    return letter.isalnum() or letter == "_"


# What depends on the question alone is asked for with each hit of its reply.


class _Wanted(NamedTuple):
    """What is looked for of a question. A named tuple takes a cold start a seventh of what a dataclass takes it."""

    terms: tuple[tuple[str, str], ...]
    """Its telling words with their stems."""
    stems: frozenset[str]
    beginnings: tuple[str, ...]
    """The stems without an underscore."""
    plain: bool
    """Whether there are stems, and all of ASCII letters, digits and underscores."""
    unspaced: tuple[str, ...]


class _WantedOfIndex(NamedTuple):
    """The same by the stemmer of the index."""

    terms: tuple[tuple[str, str], ...]
    """Its telling words, and those that identifiers are composed of, by which other spellings of them are found."""
    stems: frozenset[str]
    beginnings: tuple[str, ...]
    """A word that begins with none of these has none of the stems."""


@lru_cache(maxsize=16)
def _wanted(question: str) -> _Wanted:
    terms = tuple((term, _stem(term)) for term in _terms(question))
    stems = frozenset(stem for _, stem in terms) | frozenset(lexicon.phrases(question))
    return _Wanted(
        terms,
        stems,
        beginnings=tuple(stem for stem in stems if "_" not in stem),
        plain=bool(stems) and all(stem.isascii() and stem.replace("_", "").isalnum() for stem in stems),
        unspaced=tuple(stem for stem in stems if lexicon.is_unspaced(stem)),
    )


@lru_cache(maxsize=16)
def _wanted_of_index(question: str) -> _WantedOfIndex:
    names = lexicon.identifiers(lexicon.nfc(question))
    words = (word for name in names for word in lexicon.identifier_words(name))
    terms = tuple((term, _stem_of_index(term)) for term in dict.fromkeys((*_terms(question), *words)))
    stems = frozenset(stem for term, stem in terms if term.isalpha())
    return _WantedOfIndex(terms, stems, tuple({one for stem in stems for one in english.beginnings(stem)}))


def _terms(question: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(lexicon.words(lexicon.telling(lexicon.nfc(question)))))


@lru_cache(maxsize=16)
def _first_letters(wanted: frozenset[str]) -> frozenset[str]:
    return frozenset(stem[:_FIRST] for stem in wanted)


@lru_cache(maxsize=16)
def _candidates(wanted: frozenset[str]) -> re.Pattern[str]:
    """Finds the words that may match: a stem is the beginning of its word, so that most words need no stemming."""
    if not all(stem.isascii() for stem in wanted):
        return _WORD
    stems = "|".join(re.escape(stem) for stem in sorted(wanted))
    # Possessive, and at the beginning of a word only: a word of a megabyte is read once. Identifiers are looked at for
    # their parts, and words with a letter beyond ASCII because accents do not count.
    return re.compile(rf"\b(?:{stems})\w*+|\b[^\W_]*+_\w*+|\b[A-Za-z0-9]*+[^\W\x00-\x7f]\w*+", re.IGNORECASE)


def _matches_in_part(word: str, wanted: _Wanted) -> bool:
    # Identifiers are one word to a reader and several to the index; unspaced scripts have no words at all.
    if "_" in word:
        return any(_stem(part) in wanted.stems for part in word.split("_"))
    return bool(wanted.unspaced) and any(term in word or word in term for term in wanted.unspaced)


def _stem_of_index(word: str) -> str:
    return english.stem(lexicon.fold(word).lower()) if len(word) <= _LONGEST_STEMMED else word


@lru_cache(maxsize=4096)
def _stems_of_parts(word: str) -> tuple[str, ...]:
    return tuple(map(_stem, _parts(word)))


@lru_cache(maxsize=4096)
def _stem(word: str) -> str:
    """`word` without its commonest English ending: enough to point at it, the index has a better one to find it."""
    word = lexicon.fold(word).casefold()
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return word.removesuffix(ending)
    return word
