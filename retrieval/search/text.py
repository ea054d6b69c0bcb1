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
_WORD: Final = re.compile(r"\w+", re.UNICODE)
_QUOTED: Final = re.compile(r'"([^"]+)"|“([^”]+)”|«([^»]+)»')

# Words that are in most sentences say nothing about where the answer stands.
_COMMON: Final = frozenset(
    "a an and are as at be but by can do does for from has have how i in is it its my not of on or should so that the "
    "their then there these this to was we what when where which who why will with you your".split()
)

# A candidate runs to the next white space or to a mark that code and prose put around names, never inside them.
_CANDIDATE: Final = re.compile(r"[^\s\"'`<>()\[\]{},;|“”‘’«»…*!?]+")
_EDGES: Final = ".:/\\=+~^&%#@-"
_JOINED: Final = re.compile(r"[0-9A-Za-z][._/\\:@=+#-]+[0-9A-Za-z]")
_CAMEL: Final = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]")
_LETTER_AND_DIGIT: Final = re.compile(r"[A-Za-z]\d|\d[A-Za-z]")
_FLAG: Final = re.compile(r"--?[A-Za-z]")
_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SEGMENT: Final = re.compile(r"[^/\\=:@#]+")
_DOTTED: Final = re.compile(r"[^.+]+")

# Longer than any hash or dotted name; what is longer is base64 or a data URL.
_MAX_IDENTIFIER: Final = 200


def nfc(text: str) -> str:
    """`text` in Unicode's composed form: the index's tokenizer splits decomposed letters."""
    return unicodedata.normalize("NFC", text)


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
    kept = [word for word in text.split() if word.strip("\"'.,:;!?()").casefold() not in _COMMON]
    return " ".join(kept) if any(_WORD.search(word) for word in kept) else text


def phrases(query: str) -> list[str]:
    """What must stand together: quoted text of two or more words and unspaced CJK runs, in order, once each."""
    quoted = (next(group for group in match.groups() if group) for match in _QUOTED.finditer(query))
    spaced = [text.strip() for text in quoted if len(_WORD.findall(text)) > 1 or _CJK_RUN.search(text)]
    runs = [match.group() for match in _CJK_RUN.finditer(_QUOTED.sub(" ", query))]
    return list(dict.fromkeys(spaced + runs))


def identifiers(text: str) -> list[str]:
    """Identifiers in `text`, as written, once each, in order of first appearance.

    snake_case, camelCase, dotted, kebab and scoped names, --flags, ERROR_CODES, versions, hashes, paths: words that
    a reader would copy rather than rephrase.
    """
    return list(dict.fromkeys(_identifiers(text)))


def identifier_terms(text: str) -> str:
    """The `idents` column for `text`: its identifiers and their parts, lower-cased, once each, separated by spaces."""
    return " ".join(dict.fromkeys(term for identifier in identifiers(text) for term in _terms(identifier)))


def _identifiers(text: str) -> Iterator[str]:
    for match in _CANDIDATE.finditer(text):
        candidate = _trim(match.group())
        if 2 <= len(candidate) <= _MAX_IDENTIFIER and _is_identifier(candidate):
            yield candidate


def _trim(candidate: str) -> str:
    """`candidate` without the punctuation that a sentence hangs on it; the dashes of a flag stay."""
    end = candidate.rstrip(_EDGES)
    flag = _FLAG.match(end)
    return end if flag else end.lstrip(_EDGES)


def _is_identifier(candidate: str) -> bool:
    # Nine of ten candidates are plain words, and need none of the patterns.
    if candidate.isalpha() and (candidate[1:].islower() or candidate.isupper()):
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
