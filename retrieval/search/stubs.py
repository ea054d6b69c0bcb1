"""Which chunks explain nothing: headings alone, lists of links and references, notices of who owns the text.

Titles stand in every chunk's searched text, so that these match as well as what they stand beside.
"""

from __future__ import annotations

import re
from typing import Final

STUB_CHARS: Final = 60
"""A chunk with less text of its own than this, headings and links aside, and no whole sentence explains nothing. In a
list, entries with less than this for each of their links are links."""

_NOTICE_CHARS: Final = 300
_LONG_CHARS: Final = 300
_LOOKED_AT_CHARS: Final = 4_000

_HEADING: Final = re.compile(r"^\s{0,3}#{1,6}[^\n]*$|^[^\n]+\n[=~^\"'`#*+-]{3,}$|^[=~^\"'`#*+-]{3,}$", re.MULTILINE)
_CODE: Final = re.compile(r"^([`~]{3,})[^\n]*\n.*?(?:^\1|\Z)", re.MULTILINE | re.DOTALL)
_PICTURE: Final = re.compile(
    r"!\[[^\[\]\n]{0,300}\]\([^)\n]{0,500}\)"
    # Nor do those lines hold words that say where the links of the text lead: `[name]: address`, `.. _name: address`.
    r"|^[ \t]*+\[[^\]\n]+\]:[ \t]+[^\s]+[./][^\s]+(?:[ \t]+[\"'(][^\n]*)?$|^[ \t]*+\.\. _[^:\n]+:[^\n]*$",
    re.MULTILINE,
)
_LINK: Final = re.compile(r"\[[^\[\]\n]{0,300}\]\([^)\n]{0,500}\)|<?https?://[^\s>]+>?|`[^`]+\s<[^>\n]+>`_+")
_MARK: Final = r"[ \t]*(?:[-*+•]|\d+[.)]|\.\. \[[^\]\n]+\]|\[[^\]\n]+\]:?)[ \t]"
_ENTRY: Final = re.compile(rf"\s*+{_MARK}")
_BLOCKS: Final = re.compile(rf"\n[ \t]*\n|\n(?={_MARK})")
_NOTICE: Final = re.compile(
    r"©|\bcopyright|\blicen[sc]e[ds]?\b|\bpublic domain\b|\ball rights reserved\b"
    r"|\burheberrecht|\blizen[zs]|\bgemeinfrei|\bdroits? d.auteur|\bdomaine public|\bderechos de autor|\blicencia\b",
    re.IGNORECASE,
)
_NOTICE_MARKS: Final = "© copyright licen public rights urheber lizen gemeinfrei droit derechos".split()
_MARKS: Final = re.compile(r"[\W_]+")
_PROSE: Final = re.compile(r"(?:\A|\n[ \t]*+\n)(?=[^\W\d_])[^\n]{80,}(?=\n[ \t]*+\n|\n[^\W\d_]|\Z)")
"""A line that begins a paragraph, and neither a list nor a heading: one that goes on, or ends, as text does."""

_SENTENCE: Final = re.compile(r"(?<![\w'’-])(?:[\w'’-]++[,;:]? ){4,30}[^\W\d]{2,}[.!?](?=\s|$)")
"""Five words or more and the point at their end: as short as it is, it says something."""


def is_stub(text: str) -> bool:
    """Whether `text` is a heading alone, a few words that make no sentence, or little but links."""
    # Most chunks are long and without links, and this is asked of each candidate.
    if len(text) > _LONG_CHARS and not _may_hold_links(text):
        return False
    if any(not _may_hold_links(match[0]) and len(_words(match[0])) >= STUB_CHARS for match in _PROSE.finditer(text)):
        return False
    own = _own(text)
    return len(_words(own)) < STUB_CHARS and _SENTENCE.search(own) is None


def _may_hold_links(text: str) -> bool:
    # A single character is looked for many times faster than two.
    return (
        ("]" in text and ("](" in text or "]: " in text))
        or ("/" in text and "://" in text)
        or ("_" in text and (">`_" in text or ".. _" in text))
    )


def is_notice(text: str) -> bool:
    """Whether `text` is short and says who owns the document or on which terms it may be used."""
    return len(text) <= 2 * _NOTICE_CHARS and asks_for_notice(text) and len(_words(_own(text))) < _NOTICE_CHARS


def asks_for_notice(question: str) -> bool:
    """Whether `question` asks for what a notice says."""
    plain = question.lower()
    # Letters alone are found many times faster than a choice of words.
    return any(mark in plain for mark in _NOTICE_MARKS) and _NOTICE.search(question) is not None


def _own(text: str) -> str:
    """What of `text` is neither in headings nor links, nor in entries of a list that are little else."""
    read = text[:_LOOKED_AT_CHARS]
    own = [match[0] for match in _CODE.finditer(read)]
    for block in _BLOCKS.split(_PICTURE.sub(" ", _HEADING.sub(" ", _CODE.sub(" ", read)))):
        bare, links = _LINK.subn(" ", block)
        if not links or len(_words(bare)) >= STUB_CHARS * links or _ENTRY.match(block) is None:
            own.append(bare)
    return "\n".join(own)


def _words(text: str) -> str:
    return _MARKS.sub(" ", text).strip()
