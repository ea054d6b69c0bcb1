"""The part of a chunk that answers a question best, and where the question's words stand in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

from retrieval.search import english
from retrieval.search import text as lexicon

SNIPPET_CHARS: Final = 280

_WORD: Final = re.compile(r"\w+")
_BEYOND_ASCII: Final = re.compile(r"[^\W\x00-\x7f]")
# Adornment to a reader: underlines and table rules, and the headings that a hit names beside its snippet.
_RULE: Final = "|:=~^+- \t"
_OPENING_HEADINGS: Final = re.compile(r"\A(?:\s*#{1,6} [^\n]*(?:\n|\Z))+")
_ELLIPSIS: Final = "…"
_ENDINGS: Final = tuple("ations ation ating ates ated ate ings ing ies ied ers er es ed ly s e y".split())
_SHORTEST_STEM: Final = 3
_LEAST_SHARED: Final = 2
_LONGEST_STEMMED: Final = 64
_MANY_STEMS: Final = 24
_FIRST: Final = 3
# Choosing a window is quadratic in the matches; a chunk of ours has far fewer, a table of others may hold whole books.
_MAX_SPANS: Final = 200
_MAX_SCANNED: Final = 100_000
# A word at the edge of the window that is longer than the rest of it is cut: a whole snippet of one word helps nobody.
_LEAST_KEPT: Final = 40


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
    return line if len(line) <= limit else _cut_out(line, matched_spans(line, question), limit)


def snippet_and_words(text: str, labels: str, question: str) -> tuple[str, list[str]]:
    """`snippet` of `text`, and `matched_words` of `labels` and `text` together: `text` is searched once for both."""
    line, headings = _line(text)
    around = f"{labels}\n{headings}"
    quick, beside = list(_matching_quickly(line, question)), list(_matching_quickly(around, question))
    is_cut = len(line) > SNIPPET_CHARS
    within = quick if quick or (beside and not is_cut) else _matching_as_indexed(line, question)
    words = _meant(question, [*quick, *beside] or [*within, *_matching_as_indexed(around, question)])
    if not is_cut:
        return line, words
    return _cut_out(line, [(start, start + len(word)) for start, word in within], SNIPPET_CHARS), words


def _meant(question: str, matching: Iterable[tuple[int, str]]) -> list[str]:
    """The telling words of `question` that are words of `matching`, by the quick stemmer or else by the index's."""
    words = {part for _, word in matching for part in _parts(word)}
    held = set(map(_stem, words))
    quick = [term for term in _terms(question) if _stem(term) in held]
    if quick or not words:
        return quick
    held = set(map(_stem_of_index, words))
    return [term for term in _terms_of_index(question) if _stem_of_index(term) in held]


def _line(text: str) -> tuple[str, str]:
    """`text` on one line without what is adornment, and the headings that were taken from its beginning."""
    text = text[:_MAX_SCANNED]
    bare = "\n".join(line for line in text.split("\n") if line.strip(_RULE))
    headings = _OPENING_HEADINGS.match(bare)
    start = headings.end() if headings else 0
    line = " ".join(bare[start:].split())
    # Of a chunk that is headings alone they are what there is.
    return (line, bare[:start]) if line else (" ".join(text.split()), "")


def _cut_out(text: str, spans: Sequence[tuple[int, int]], limit: int) -> str:
    room = limit - 2 * len(_ELLIPSIS)
    start = _best_start(text, spans[:_MAX_SPANS], room)
    end = min(start + room, len(text))
    start, end = _to_word_start(text, start, end), _to_word_end(text, start, end)
    return (_ELLIPSIS if start else "") + text[start:end].strip() + (_ELLIPSIS if end < len(text) else "")


def _best_start(text: str, spans: Sequence[tuple[int, int]], room: int) -> int:
    """Where a window of `room` characters begins that holds the most distinct matched words, the earliest such."""
    best, most = 0, 0
    stems = [_stem(text[left:right]) for left, right in spans]
    for index, (start, _) in enumerate(spans):
        held = [place for place in range(index, len(spans)) if spans[place][1] <= start + room]
        distinct = len({stems[place] for place in held})
        if distinct > most:
            best, most = start, distinct
            last = spans[held[-1]][1]
            # Half of the spare room goes in front, so that the words are read in their sentence.
            best = max(0, min(start - (room - (last - start)) // 2, len(text) - room))
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


def _matching(text: str, question: str) -> Iterator[tuple[int, str]]:
    """Where each word of `text` begins that matches one of `question`, and the word, in order.

    Where none does by its commonest ending, the index's own stemmer is asked: it takes a hundred times as long.
    """
    quick = list(_matching_quickly(text, question))
    return iter(quick or _matching_as_indexed(text[:_MAX_SCANNED], question))


def _matching_quickly(text: str, question: str) -> Iterator[tuple[int, str]]:
    wanted = _stems(question)
    plain = _are_plain(wanted)
    if plain and len(wanted) > _MANY_STEMS:
        words = _words_by_beginning(text, _first_letters(wanted))
    elif plain and (text.isascii() or not _BEYOND_ASCII.search(text)):
        words = _plain_words(text, wanted)
    else:
        words = ((match.start(), match.group()) for match in _candidates(wanted).finditer(text))
    return ((start, word) for start, word in words if _matches(word, wanted))


def _matching_as_indexed(text: str, question: str) -> list[tuple[int, str]]:
    terms = [term for term in _terms_of_index(question) if term.isalpha()]
    wanted = {_stem_of_index(term) for term in terms}
    # No ending is so long that two words of one stem begin otherwise.
    begin = {lexicon.fold(term)[:_LEAST_SHARED].casefold() for term in terms}

    def matches(word: str) -> bool:
        if word.islower() and word.isascii() and "_" not in word and word[:_LEAST_SHARED] not in begin:
            # So most words need not be taken apart.
            return False
        return any(
            lexicon.fold(part[:_LEAST_SHARED]).casefold() in begin and _stem_of_index(part) in wanted
            for part in _parts(word)
        )

    words = _WORD.finditer(text) if terms else ()
    return [(match.start(), match.group()) for match in words if matches(match.group())]


def _parts(word: str) -> list[str]:
    """`word` and what it is composed of where it is an identifier."""
    plain = word.islower() or word.istitle() or not word.isascii()
    return [word] if plain and "_" not in word else [word, *lexicon.identifier_words(word)]


def _plain_words(text: str, stems: frozenset[str]) -> list[tuple[int, str]]:
    """The same words as of `_candidates`, in a text whose letters are all ASCII: most are, and this is much quicker.

    To look for one stem after the other is quicker than a pattern of all of them, as long as they are not many.
    """
    plain = text.lower()
    found: dict[int, str] = {}
    # Every word that holds an underscore is found by that.
    for stem in (*(one for one in stems if "_" not in one), "_"):
        start = plain.find(stem)
        while start >= 0:
            end = start + 1
            if stem == "_":
                while start and _is_of_word(text[start - 1]):
                    start -= 1
            if (word := _WORD.match(text, start)) is not None:
                end = word.end()
                if not (start and _is_of_word(text[start - 1])):
                    found[start] = word.group()
            start = plain.find(stem, end)
    return sorted(found.items())


def _words_by_beginning(text: str, letters: frozenset[str]) -> Iterator[tuple[int, str]]:
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


@lru_cache(maxsize=16)
def _terms(question: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(lexicon.words(lexicon.telling(lexicon.nfc(question)))))


@lru_cache(maxsize=16)
def _terms_of_index(question: str) -> tuple[str, ...]:
    """The telling words, and those that identifiers are composed of, by which other spellings of them are found."""
    names = lexicon.identifiers(lexicon.nfc(question))
    words = (word for name in names for word in lexicon.identifier_words(name))
    return tuple(dict.fromkeys((*_terms(question), *words)))


@lru_cache(maxsize=16)
def _stems(question: str) -> frozenset[str]:
    return frozenset(_stem(term) for term in _terms(question)) | frozenset(lexicon.phrases(question))


@lru_cache(maxsize=16)
def _are_plain(wanted: frozenset[str]) -> bool:
    """Whether there are stems, and all of ASCII letters, digits and underscores."""
    return bool(wanted) and all(stem.isascii() and stem.replace("_", "").isalnum() for stem in wanted)


@lru_cache(maxsize=16)
def _first_letters(wanted: frozenset[str]) -> frozenset[str]:
    return frozenset(stem[:_FIRST] for stem in wanted)


@lru_cache(maxsize=16)
def _unspaced(wanted: frozenset[str]) -> tuple[str, ...]:
    return tuple(term for term in wanted if lexicon.is_unspaced(term))


@lru_cache(maxsize=16)
def _candidates(wanted: frozenset[str]) -> re.Pattern[str]:
    """Finds the words that may match: a stem is the beginning of its word, so that most words need no stemming."""
    if not all(stem.isascii() for stem in wanted):
        return _WORD
    stems = "|".join(re.escape(stem) for stem in sorted(wanted))
    # Possessive, and at the beginning of a word only: a word of a megabyte is read once. Identifiers are looked at for
    # their parts, and words with a letter beyond ASCII because accents do not count.
    return re.compile(rf"\b(?:{stems})\w*+|\b[^\W_]*+_\w*+|\b[A-Za-z0-9]*+[^\W\x00-\x7f]\w*+", re.IGNORECASE)


def _matches(word: str, wanted: frozenset[str]) -> bool:
    stem = _stem(word)
    if stem in wanted:
        return True
    # Identifiers are one word to a reader and several to the index; unspaced scripts have no words at all.
    if "_" in word:
        return any(_stem(part) in wanted for part in word.split("_"))
    return any(term in word or word in term for term in _unspaced(wanted))


@lru_cache(maxsize=4096)
def _stem_of_index(word: str) -> str:
    return english.stem(lexicon.fold(word).lower()) if len(word) <= _LONGEST_STEMMED else word


@lru_cache(maxsize=4096)
def _stem(word: str) -> str:
    """`word` without its commonest English ending: enough to point at it, the index has a better one to find it."""
    word = lexicon.fold(word).casefold()
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return word.removesuffix(ending)
    return word
