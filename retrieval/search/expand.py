"""What stands around a hit in its document: its neighbours or its section, whole chunks within a bound.

Reading the chunks is the table's part; here it is said which are needed, and what is made of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from retrieval.layout import Layout
from retrieval.types import Expansion, Row, Span

MAX_CONTEXT_CHARS: Final = 8_000
"""Characters of a hit and what stands around it: as much as a whole context block by default."""

SECTION_REACH: Final = 10
"""Chunks before and after a hit that are looked at for its section: about 12,000 characters each way."""

SEPARATOR: Final = "\n\n"


def limits(layout: Layout) -> str | None:
    """What keeps hits of a table of this layout from being expanded, as a sentence; None where nothing does."""
    missing = [
        what
        for what, column in (
            ("no column that names the document of a chunk", layout.path),
            ("no whole numbers in a column 'chunk'", layout.ordinal),
        )
        if column is None
    ]
    return f"The table has {' and '.join(missing)}, so hits are not expanded." if missing else None


def spans(rows: Sequence[Row], expansion: Expansion) -> list[Span]:
    """The chunks to read for `contexts`, as few spans as cover them; none for chunks that are not numbered.

    A span names no version of its document: others at the same path come with it.
    """
    before, after = _reach(expansion)
    if not before and not after:
        return []
    wanted: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in rows:
        if row.path is not None and row.ordinal is not None:
            wanted[row.path].append((max(0, row.ordinal - before), row.ordinal + after))
    return [Span(path, first, last) for path, ranges in wanted.items() for first, last in _joined(ranges)]


def contexts(rows: Sequence[Row], near: Iterable[Row], expansion: Expansion) -> dict[str, str]:
    """For each hit of `rows`, by its id, its text and what of `near` stands around it, in document order.

    Only chunks of the same document that touch, whole, nearest first as long as they fit `MAX_CONTEXT_CHARS`. A hit
    that is longer by itself has no entry, nor has one whose id is another hit's too.
    """
    if expansion.type == "none":
        return {}
    before, after = _reach(expansion)
    documents: defaultdict[object, dict[int, Row]] = defaultdict(dict)
    for row in near:
        if row.document is not None and row.ordinal is not None:
            documents[row.document][row.ordinal] = row
    times = Counter(row.id for row in rows)
    return {
        row.id: SEPARATOR.join(
            text_of(one)
            for one in touching(
                row,
                documents.get(row.document, {}),
                before=before,
                after=after,
                chars=MAX_CONTEXT_CHARS,
                section=expansion.type == "section",
            )
        )
        for row in rows
        if times[row.id] == 1 and len(text_of(row)) <= MAX_CONTEXT_CHARS
    }


def _reach(expansion: Expansion) -> tuple[int, int]:
    match expansion.type:
        case "none":
            return 0, 0
        case "neighbors":
            return expansion.before, expansion.after
        case "section":
            return SECTION_REACH, SECTION_REACH


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return joined


def touching(
    hit: Row, document: Mapping[int, Row], *, before: int, after: int, chars: int, section: bool = False
) -> list[Row]:
    """`hit` and the chunks of its `document`, by ordinal, that touch it: at most `before` and `after` of them.

    In document order, whole, nearest first as long as their texts, joined, stay within `chars`; with `section` only
    those under the hit's own heading. The hit is there whatever its length.
    """
    if hit.ordinal is None:
        return [hit]
    rows = [hit]
    room = chars - len(text_of(hit))
    reach = {1: after, -1: before}
    # One step to each side in turn, so that the bound cuts neither side off for the other's sake.
    open_sides = [1, -1]
    distance = 1
    while open_sides:
        for side in tuple(open_sides):
            row = document.get(hit.ordinal + side * distance) if distance <= reach[side] else None
            needed = len(SEPARATOR) + len(text_of(row)) if row else 0
            if row is None or needed > room or (section and row.heading != hit.heading):
                open_sides.remove(side)
                continue
            room -= needed
            rows.insert(len(rows) if side == 1 else 0, row)
        distance += 1
    return rows


def text_of(row: Row) -> str:
    """What is read of a chunk: line breaks at its ends part it from its neighbours only."""
    return row.text.strip("\r\n")
