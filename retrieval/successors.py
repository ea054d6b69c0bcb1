"""Puts current documents where outdated ones would have stood among the hits, and says which stand for which."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from retrieval.catalog import Catalog, Document
from retrieval.layout import Layout
from retrieval.search import filters, lifecycle
from retrieval.search.filters import Condition, Where
from retrieval.search.fusion import Ranked
from retrieval.search.plan import TextPlan
from retrieval.table import Table
from retrieval.types import Row

NOTICED_RANKS: Final = 3
"""An outdated document is worth a word, and its successor its place, where the reader would have met it so early."""

_LOOKED_AT: Final = 50
_READ: Final = 1_000
"""Matching chunks, and chunks of any kind, at a successor's path: in tables of others, not all of them are its own."""

RowKey = tuple[str, str]


def key_of(row: Row) -> RowKey:
    """What tells a row from others: in tables of others ids may repeat."""
    return (row.id, row.text)


@dataclass(frozen=True, slots=True)
class Placed:
    """Hits without outdated ones. `stands_for` has the path that a hit stands for, by the id of its row."""

    ranked: list[Ranked]
    stands_for: dict[str, str]
    notes: list[str]


@dataclass(frozen=True, slots=True)
class Successors:
    """Finds the chunks of successors for one question; `shown` are the rows that the call is about."""

    table: Table
    layout: Layout
    plan: TextPlan
    shown: Where | None
    catalog: Catalog
    words: Collection[str]
    """The statuses of outdated documents."""

    async def place(self, ranked: Sequence[Ranked], hidden: Collection[RowKey]) -> Placed:
        """`ranked`, best first, without the rows of `hidden`: a successor takes the place of what came among the first.

        A successor that stands higher already stays there.
        """
        order: list[Ranked] = []
        taken: set[RowKey] = set()
        stands_for: dict[str, str] = {}
        notes: dict[tuple[str, str], str] = {}
        for rank, one in enumerate(ranked):
            if key_of(one.row) in taken:
                continue
            if key_of(one.row) not in hidden:
                order.append(one)
                taken.add(key_of(one.row))
                continue
            document = self.catalog.of(one.row)
            if document is None or rank >= NOTICED_RANKS or (document.prefix, document.path) in notes:
                continue
            following = lifecycle.succession(document, self.catalog, self.words)
            heir = await self._heir(following.document, one, ranked) if following.document else None
            if heir is not None and key_of(heir.row) not in taken:
                order.append(heir)
                taken.add(key_of(heir.row))
                stands_for[heir.row.id] = document.path
            told = lifecycle.note(document, self.catalog, self.words, passes=heir is not None)
            notes[document.prefix, document.path] = told
        return Placed(order, stands_for, list(notes.values()))

    async def _heir(self, current: Document, before: Ranked, ranked: Sequence[Ranked]) -> Ranked | None:
        """The chunk of `current` that answers best, with the score of `before` where its own is less."""
        for one in ranked:
            if self._is_of(one.row, current):
                return replace(one, score=max(one.score, before.score))
        if self.layout.path is None:
            return None
        its: list[Where | None] = [Condition(self.layout.path, "eq", current.path), self.shown]
        if self.layout.id is not None and current.prefix:
            its.append(Condition(self.layout.id, "prefix", current.prefix))
        within = filters.all_of(its)
        matching = await self.table.search_text(self.plan, self.layout, _LOOKED_AT, where=within)
        for row in matching:
            if self._is_of(row, current):
                return Ranked(row, score=before.score, why="text", text_score=row.score)
        rows = await self.table.select(within, self.layout, limit=_READ)
        first = min(
            (row for row in rows if self._is_of(row, current)), key=lambda row: (row.ordinal or 0, row.id), default=None
        )
        # None of its words is in the question: it is there for what its predecessor was found by.
        return Ranked(first, score=before.score, why=before.why) if first else None

    def _is_of(self, row: Row, document: Document) -> bool:
        return row.path == document.path and self.catalog.of(row) == document
