"""Words and identifiers of a text, found the same way when a table is built and when it is asked."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

MAX_TERMS: Final = 64
"""Words of a query that are searched; LanceDB's cost grows with each, and a question has far fewer."""

_CJK: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\uff66-\uff9f"
_CJK_RUN: Final = re.compile(f"[{_CJK}]{{2,}}")
# Thai, Lao, Burmese and Khmer write no spaces between words either.
_UNSPACED: Final = re.compile(f"[{_CJK}\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
_UNSPACED_RUN: Final = re.compile(f"{_UNSPACED.pattern}+")
_WORD: Final = re.compile(r"\w+", re.UNICODE)
_QUOTED: Final = re.compile(r'"([^"]+)"|“([^“”]+)”|«([^«»]+)»')

# Words that are in most sentences say nothing about where the answer stands.
_COMMON: Final = frozenset(
    "a an and are as at be but by can do does for from has have how i in is it its my not of on or should so that the "
    "their then there these this to was we what when where which who why will with you your".split()
)

# A candidate runs to the next white space or to a mark that code and prose put around names, never inside them.
_AROUND: Final = r"\s\"'`<>()\[\]{},;|“”‘’«»…*!?"
_EDGES: Final = ".:/\\=+~^&%#@-"
# Nine of ten are plain words, which are no identifiers: the pattern itself passes over them, many times faster than a
# look at each would be. Possessive, and the candidate may be missing, so that no text is gone over twice.
_CANDIDATE: Final = re.compile(
    rf"(?:[{_AROUND}]++|(?:[A-Za-z][a-zß-öø-ÿ]*+|[A-Z]++)[{re.escape(_EDGES)}]*+(?=[{_AROUND}]|\Z))*+([^{_AROUND}]++)?"
)
_JOINED: Final = re.compile(r"[0-9A-Za-z][._/\\:@=+#-]+[0-9A-Za-z]")
_CAMEL: Final = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]")
_LETTER_AND_DIGIT: Final = re.compile(r"[A-Za-z]\d|\d[A-Za-z]")
_FLAG: Final = re.compile(r"--?[A-Za-z]")
_ABBREVIATION: Final = re.compile(r"[A-Za-z](?:\.[A-Za-z])+")
_HYPHENATED: Final = re.compile(r"[A-Za-z]+(?:-[A-Za-z]+)+")
_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SEGMENT: Final = re.compile(r"[^/\\=:@#]+")
_DOTTED: Final = re.compile(r"[^.+]+")

# Longer than any hash or dotted name; what is longer is base64 or a data URL.
_MAX_IDENTIFIER: Final = 200


# Combining marks are neither letters nor digits, so no long word is looked at twice.
_MANY_MARKS: Final = re.compile(r"[^\w\s\x00-\u02ff]{31,}")
_MOST_MARKS: Final = 30
_GRAPHEME_JOINER: Final = "\N{COMBINING GRAPHEME JOINER}"

# Scripts whose marks a writer may leave out; those of Devanagari, Thai or kana are vowels and consonants.
_LATIN: Final = "A-Za-z\u00aa\u00ba\u00c0-\u02af\u1d00-\u1dbf\u1e00-\u1eff\u2c60-\u2c7f\ua722-\ua7ff\uab30-\uab6f"
_GREEK: Final = "\u0370-\u03ff\u1f00-\u1fff"
_CYRILLIC: Final = "\u0400-\u052f\u1c80-\u1c8f\ua640-\ua66e\ua680-\ua69d"
_HEBREW: Final = "\u05d0-\u05f4"
_ARABIC: Final = "\u0620-\u064a\u066e-\u06d3\u06d5\u06ee-\u06ff\u0750-\u077f\u0870-\u0887\u08a0-\u08c9"
_MARKS: Final = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u08ca-\u08e1\u08e3-\u08ff\u1ab0-\u1ace\u1dc0-\u1dff\u20d0-\u20f0\ufe20-\ufe2f"
)
_ACCENTS: Final = re.compile(f"(?<=[{_LATIN}{_GREEK}{_CYRILLIC}{_HEBREW}{_ARABIC}])[{_MARKS}]+")
# Ligatures, the shapes of Arabic letters, and letters as wide as a Chinese one or half as wide.
_SHAPES: Final = re.compile(
    "[\ufb00-\ufb17\ufb1d-\ufdff\ufe70-\ufefc\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\uff66-\uffdc]+"
)
# Letters that no decomposition makes plain, a hyphen that shows only where a line ends, a dash that stretches Arabic.
_PLAIN: Final = str.maketrans(
    {
        letter[0]: letter[1:]
        for letter in "ßss ẞSS æae ÆAE œoe ŒOE øo ØO łl ŁL đd ĐD ðd ÐD þth ÞTH ħh ĦH ıi ςσ \u00ad \u0640".split(" ")
    }
)


def nfc(text: str) -> str:
    """`text` in Unicode's composed form: the index's tokenizer splits decomposed letters."""
    return text if text.isascii() else unicodedata.normalize("NFC", _stream_safe(text))


def fold(text: str) -> str:
    """`text` as it is searched: without accents and the like, letters in their plain shape, case as it was.

    The index strips accents only after it has stemmed, so that `resume` would not find `résumé`: what is searched,
    and what is asked of it, is folded before. Marks go from Latin, Greek, Cyrillic, Hebrew and Arabic letters only.
    """
    if text.isascii():
        return text
    shaped = _SHAPES.sub(lambda match: unicodedata.normalize("NFKC", match[0]), _stream_safe(text))
    bare = _ACCENTS.sub("", unicodedata.normalize("NFD", shaped))
    return unicodedata.normalize("NFC", bare.translate(_PLAIN))


def _stream_safe(text: str) -> str:
    """The Stream-Safe Text Format of Unicode (UAX #15): sorting a run of marks takes the square of its length."""
    return _MANY_MARKS.sub(_parted, text)


def _parted(match: re.Match[str]) -> str:
    parts: list[str] = []
    marks = 0
    for char in match[0]:
        marks = marks + 1 if unicodedata.combining(char) else 0
        if marks > _MOST_MARKS:
            parts.append(_GRAPHEME_JOINER)
            marks = 1
        parts.append(char)
    return "".join(parts)


def words(text: str) -> list[str]:
    """The words of `text`, case-folded, in order."""
    return [match.group().casefold() for match in _WORD.finditer(text)]


def first_terms(text: str, limit: int = MAX_TERMS) -> tuple[str, bool]:
    """`text` up to its `limit`-th word, and whether anything was cut."""
    for count, match in enumerate(_WORD.finditer(text)):
        if count == limit:
            return text[: match.start()].rstrip(), True
    return text, False


def telling(text: str) -> str:
    """`text` without the words that are in most English sentences; all of it where it has no others."""
    kept = [word for word in text.split() if not is_common(word.strip("\"'.,:;!?()"))]
    return " ".join(kept) if any(_WORD.search(word) for word in kept) else text


def is_common(word: str) -> bool:
    """Whether `word` is in most English sentences, so that no search looks for it."""
    return word.casefold() in _COMMON


def phrases(query: str) -> list[str]:
    """What must stand together: quoted text of two or more words and unspaced CJK runs, in order, once each."""
    quoted = (next(group for group in match.groups() if group) for match in _QUOTED.finditer(query))
    spaced = [text.strip() for text in quoted if len(_WORD.findall(text)) > 1 or _CJK_RUN.search(text)]
    runs = [match.group() for match in _CJK_RUN.finditer(_QUOTED.sub(" ", query))]
    return list(dict.fromkeys(spaced + runs))


def is_unspaced(term: str) -> bool:
    """Whether `term` is a run of a script that writes no spaces between words."""
    return _CJK_RUN.fullmatch(term) is not None


def has_unspaced(text: str) -> bool:
    """Whether `text` holds a letter of a script that writes no spaces between words."""
    return not text.isascii() and _UNSPACED.search(text) is not None


def unspaced_runs(text: str) -> list[str]:
    """The runs of `text` in scripts that write no spaces between words, in order, once each; Korean's are words."""
    return [] if text.isascii() else list(dict.fromkeys(_UNSPACED_RUN.findall(text)))


def quoted(query: str) -> list[str]:
    """The quoted text of `query`, without its quotes, once each."""
    found = (next(group for group in match.groups() if group) for match in _QUOTED.finditer(query))
    return list(dict.fromkeys(text.strip() for text in found if _WORD.search(text)))


def quoted_spans(query: str) -> list[tuple[int, int]]:
    """Where quoted text stands in `query`, with its quotes: (start, end) offsets, in order."""
    return [match.span() for match in _QUOTED.finditer(query)]


def identifier_spans(text: str) -> list[tuple[int, int]]:
    """Where the identifiers of `text` stand in it: (start, end) offsets, in order."""
    return [span for span, _ in _identifiers(text)]


def identifiers(text: str) -> list[str]:
    """Identifiers in `text`, as written, once each, in order of first appearance.

    snake_case, camelCase, dotted, kebab and scoped names, --flags, ERROR_CODES, versions, hashes, paths: words that
    a reader would copy rather than rephrase.
    """
    return list(dict.fromkeys(identifier for _, identifier in _identifiers(text)))


def identifier_terms(text: str, path: str = "") -> str:
    """The `idents` column for `text`: its identifiers and their parts, lower-cased, once each, separated by spaces.

    The document at `path` is also found by that, by its file's name, and by the name without what follows the dot.
    """
    terms = (term for identifier in identifiers(text) for term in _terms(identifier))
    return " ".join(dict.fromkeys((*terms, *("_".join(name.split()) for name in path_names(path)))))


def path_names(path: str) -> tuple[str, ...]:
    """What a document at `path` is called by, in lower case: the path, its file's name, and that without its suffix."""
    name = path.rpartition("/")[2]
    return tuple(dict.fromkeys(one.lower() for one in (path, name, name.rpartition(".")[0] or name) if one))


def is_hyphenated(identifier: str) -> bool:
    """Whether `identifier` may be a word of prose as well: letters and hyphens."""
    return _HYPHENATED.fullmatch(identifier) is not None


def identifier_parts(identifier: str) -> list[str]:
    """The names that `identifier` is composed of and their words, lower-cased, without the whole."""
    return [term for term in dict.fromkeys(_terms(identifier)) if term != identifier.lower()]


def identifier_words(identifier: str) -> list[str]:
    """The words that `identifier` is composed of, lower-cased, once each: cut where the index cuts, and at capitals."""
    parts = (part for word in _WORD.findall(identifier) for part in word.split("_"))
    return list(
        dict.fromkeys(
            word.lower() for part in parts for word in (_PART.findall(part) if part.isascii() else [part]) if word
        )
    )


def _identifiers(text: str) -> Iterator[tuple[tuple[int, int], str]]:
    for match in _CANDIDATE.finditer(text):
        if match[1] is None:
            continue
        candidate = _trim(match[1])
        if 2 <= len(candidate) <= _MAX_IDENTIFIER and _is_identifier(candidate):
            start = match.start(1) + match[1].index(candidate)
            yield (start, start + len(candidate)), candidate


def _trim(candidate: str) -> str:
    """`candidate` without the punctuation that a sentence hangs on it; the dashes of a flag stay."""
    end = candidate.rstrip(_EDGES)
    flag = _FLAG.match(end)
    return end if flag else end.lstrip(_EDGES)


def _is_identifier(candidate: str) -> bool:
    # Words of other letters come here, and those with a mark before them: they need none of the patterns.
    if candidate.isalpha() and (candidate[1:].islower() or candidate.isupper()):
        return False
    if _ABBREVIATION.fullmatch(candidate):
        return False
    return (
        ("_" in candidate.strip("_") or (candidate.startswith("__") and candidate.strip("_") != ""))
        or _JOINED.search(candidate) is not None
        or _CAMEL.search(candidate) is not None
        or _LETTER_AND_DIGIT.search(candidate) is not None
        or _FLAG.match(candidate) is not None
    )


def _terms(identifier: str) -> Iterator[str]:
    """The identifier, the names it is composed of and their words, lower-cased."""
    yield identifier.lower()
    bare = identifier.lstrip("-")
    if bare != identifier:
        yield bare.lower()
    for segment in _SEGMENT.findall(bare):
        yield segment.lower()
        for name in _DOTTED.findall(segment):
            yield name.lower()
            yield from (part.lower() for part in _PART.findall(name) if len(part) > 1)
