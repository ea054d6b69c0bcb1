"""Ranked chunks as ranked documents: the best chunk of each, and what else of it matched."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from retrieval.layout import Layout
from retrieval.search.fusion import Ranked

MAX_MATCHED_HEADINGS: Final = 8
"""Headings of one document that are named: enough to see what of it matched."""

_MAX_HEADING_CHARS: Final = 600


@dataclass(frozen=True, slots=True)
class Group:
    """One document among the ranked chunks."""

    best: Ranked
    matching_chunk_count: int
    matched_headings: tuple[str, ...]
    """Headings of the chunks that matched, best first, each once, at most `MAX_MATCHED_HEADINGS`."""


@dataclass(slots=True)
class _Gathered:
    best: Ranked
    count: int = 0
    headings: dict[str, None] = field(default_factory=dict[str, None])


def limits(layout: Layout) -> str | None:
    """What keeps hits from being collapsed in a table of this layout, as a sentence; None where nothing does."""
    if layout.path is not None:
        return None
    return "The table has no column that names the document of a chunk, so hits are not collapsed."


def by_document(ranked: Iterable[Ranked]) -> list[Group]:
    """The documents of `ranked`, in the order of their best chunks; `ranked` is best first.

    A chunk of which nothing says what document it is from stands for itself.
    """
    found: dict[object, _Gathered] = {}
    for place, one in enumerate(ranked):
        document = one.row.document
        gathered = found.setdefault(place if document is None else document, _Gathered(one))
        gathered.count += 1
        heading = one.row.heading
        if heading and len(heading) <= _MAX_HEADING_CHARS and len(gathered.headings) < MAX_MATCHED_HEADINGS:
            gathered.headings[heading] = None
    return [Group(one.best, one.count, tuple(one.headings)) for one in found.values()]
