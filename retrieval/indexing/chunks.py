"""From a document's blocks to the chunks that are indexed: by section, then by paragraph, item, row or line.

Nothing is lost and nothing is doubled: but for white space, the chunks' texts in order are the blocks' texts in order.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from retrieval.indexing.document import Block, BlockKind, ParsedDocument

TARGET_CHARS: Final = 1200
MAX_CHARS: Final = 2000

PARAMETERS: Final[dict[str, int]] = {"version": 1, "target_chars": TARGET_CHARS, "max_chars": MAX_CHARS}
"""Goes into the provenance of a table; `version` grows whenever the same blocks would be cut differently."""

_SMALL_CHARS: Final = 200
"""A chunk below this says too little to be found by; it joins its neighbour where the cap allows."""

_SENTENCE_END: Final = re.compile(r"[.!?…][\"'”’»)\]*_`]*(?=\s)|[。！？｡]")
_SPACE: Final = re.compile(r"\s+")
_LINE_BREAKS: Final = re.compile(r"(?:[^\S\n]*\n)+")
_FENCE: Final = re.compile(r"[\s>]*+(?:(?:[-*+]|\d+[.)])[\s>]*+)?(`{3,}|~{3,})")

_JOINER: Final = "\N{ZERO WIDTH JOINER}"
_LONGEST_GRAPHEME: Final = 64
"""Longer runs of marks exist only in attacks; they are cut."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage of at most `MAX_CHARS` characters, its section's headings, outermost first, and fragment."""

    text: str
    heading_path: tuple[str, ...]
    anchor: str | None


@dataclass(frozen=True, slots=True)
class _Piece:
    """What is not cut again: a block, or a line, a sentence or some words of one that was too long."""

    text: str
    joint: str
    """What parts it from the piece before, should both land in one chunk."""


def split(document: ParsedDocument) -> list[Chunk]:
    """The chunks of `document`, in order; none holds text of two sections.

    A heading that has subsections and no text of its own opens the first subsection's chunk.
    """
    chunks: list[Chunk] = []
    for headings, body in _sections(document.blocks):
        section = body[0] if body else headings[-1]
        chunks.extend(Chunk(text, section.heading_path, section.anchor) for text in _texts(headings, body))
    return chunks


def _sections(blocks: tuple[Block, ...]) -> Iterator[tuple[list[Block], list[Block]]]:
    headings: list[Block] = []
    body: list[Block] = []
    for block in blocks:
        if not block.text.strip():
            continue
        if block.kind == "heading":
            ends = bool(body) or (bool(headings) and not _is_under(block, headings[-1]))
        else:
            ends = bool(body) and block.heading_path != body[-1].heading_path
        if ends:
            yield headings, body
            headings, body = [], []
        (headings if block.kind == "heading" else body).append(block)
    if headings or body:
        yield headings, body


def _is_under(inner: Block, outer: Block) -> bool:
    depth = len(outer.heading_path)
    return len(inner.heading_path) > depth and inner.heading_path[:depth] == outer.heading_path


def _texts(headings: list[Block], body: list[Block]) -> list[str]:
    opening = [piece for heading in headings for piece in _pieces(heading, None, MAX_CHARS)]
    opening_chars = sum(len(piece.joint) + len(piece.text) for piece in opening)
    pieces = list(opening)
    before: BlockKind | None = "heading" if headings else None
    for block in body:
        # Room is left for the headings, lest they stand alone because the first paragraph just fits the cap.
        room = MAX_CHARS if block is not body[0] else max(MAX_CHARS - opening_chars - 2, TARGET_CHARS)
        pieces.extend(_pieces(block, before, MAX_CHARS if block.kind == "code" else room))
        before = block.kind
    return _pack(pieces, len(opening))


def _pack(pieces: list[_Piece], opening: int) -> list[str]:
    """Pieces joined to texts of about equal length near the target; the first `opening` pieces never stay alone."""
    texts: list[str] = []
    joints: list[str] = []
    parts: list[str] = []
    size = 0
    left = sum(len(piece.joint) + len(piece.text) for piece in pieces)
    goal = _share(left)
    for place, piece in enumerate(pieces):
        grown = size + len(piece.joint) + len(piece.text)
        if parts and (grown > MAX_CHARS or (place > opening and grown - goal > goal - size and size >= _SMALL_CHARS)):
            texts.append("".join(parts))
            left -= size
            goal = _share(left)
            parts, size = [], 0
        if parts:
            parts += piece.joint, piece.text
            size = grown
        else:
            joints.append(piece.joint)
            parts.append(piece.text)
            size = len(piece.text)
    texts.append("".join(parts))
    return _without_scraps(texts, joints)


def _share(chars: int) -> float:
    return chars / max(1, round(chars / TARGET_CHARS))


def _without_scraps(texts: list[str], joints: list[str]) -> list[str]:
    kept: list[str] = []
    for text, joint in zip(texts, joints, strict=True):
        if (
            kept
            and min(len(kept[-1]), len(text)) < _SMALL_CHARS
            and len(kept[-1]) + len(joint) + len(text) <= MAX_CHARS
        ):
            kept[-1] += joint + text
        else:
            kept.append(text)
    return kept


def _pieces(block: Block, before: BlockKind | None, room: int) -> Iterator[_Piece]:
    text = block.text.strip("\n").rstrip()
    joint = "\n" if block.kind == before and block.kind in ("list_item", "table_row") else "\n\n"
    if len(text) <= room:
        yield _Piece(text, joint)
        return
    at = 0
    for stop in _stops(text, 0, len(text), room, _FINDERS[block.kind]):
        # White space goes with the joint, but for the indentation of a line.
        gap = _GAPS[block.kind].match(text, at, stop)
        content = gap.end() if gap else at
        if text[content:stop].strip():
            yield _Piece(text[content:stop], joint if at == 0 else text[at:content])
            at = stop


_Finder = Callable[[str, int, int, int], Iterable[int]]
"""Where `text[start:end]` may be cut, `end` included: (text, start, end, room) -> places, ascending."""


def _stops(text: str, start: int, end: int, room: int, finders: tuple[_Finder, ...]) -> Iterator[int]:
    """The first finder's places; what is longer than `room` between two of them is cut by the next finder."""
    for stop in finders[0](text, start, end, room):
        if stop - start > room and len(finders) > 1:
            yield from _stops(text, start, stop, room, finders[1:])
        else:
            yield stop
        start = stop


def _at_lines(text: str, start: int, end: int, _room: int) -> Iterator[int]:
    while (start := text.find("\n", start + 1, end)) != -1:
        yield start
    yield end


def _at_lines_outside_fences(text: str, start: int, end: int, room: int) -> Iterator[int]:
    """Ends of lines; the lines of a code fence that fits into `room` stay together."""
    fence = ""
    held: list[int] = []
    opened = at = start
    for stop in _at_lines(text, start, end, room):
        mark = _FENCE.match(text, at, stop)
        if not fence and mark:
            fence, opened = mark[1], at
        elif fence and mark and mark[1].startswith(fence):
            fence = ""
        held.append(stop)
        at = stop
        if not fence:
            yield from held if stop - opened > room else held[-1:]
            held, opened = [], stop
    yield from held


def _at_sentences(text: str, start: int, end: int, _room: int) -> Iterator[int]:
    for match in _SENTENCE_END.finditer(text, start, end):
        yield match.end()
    yield end


def _at_words(text: str, start: int, end: int, room: int) -> Iterator[int]:
    """Parts of about equal length, cut at white space where there is some within `room`."""
    count = max(-(-(end - start) // room), round((end - start) / TARGET_CHARS))
    step = -(-(end - start) // count)
    while end - start > room:
        stop = _last_space(text, start + step // 2, start + step)
        if stop is None:
            late = _SPACE.search(text, start + step, start + room)
            early = None if late else _last_space(text, start + 1, start + step // 2)
            stop = late.start() if late else early or _between_graphemes(text, start, start + room)
        yield stop
        start = stop
    yield end


def _last_space(text: str, start: int, end: int) -> int | None:
    return next((place for place in range(end - 1, start - 1, -1) if text[place].isspace()), None)


def _between_graphemes(text: str, start: int, stop: int) -> int:
    """The last place at or before `stop` that parts no letter from its combining marks."""
    for place in range(stop, max(start, stop - _LONGEST_GRAPHEME), -1):
        if not _extends(text[place]) and text[place - 1] != _JOINER:
            return place
    return stop


def _extends(char: str) -> bool:
    return (
        char == _JOINER
        or unicodedata.category(char) in {"Mn", "Mc", "Me", "Cs"}
        or "\U0001f3fb" <= char <= "\U0001f3ff"
    )


_FINDERS: Final[dict[BlockKind, tuple[_Finder, ...]]] = {
    "heading": (_at_sentences, _at_words),
    "paragraph": (_at_sentences, _at_lines, _at_words),
    "list_item": (_at_lines_outside_fences, _at_sentences, _at_words),
    "table_row": (_at_lines, _at_sentences, _at_words),
    "code": (_at_lines, _at_words),
}
_GAPS: Final[dict[BlockKind, re.Pattern[str]]] = {
    kind: _SPACE if kind in ("heading", "paragraph") else _LINE_BREAKS for kind in _FINDERS
}
