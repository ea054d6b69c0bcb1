"""Puts current documents where outdated ones would have stood among the hits, and says which stand for which."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from retrieval.catalog import Catalog, Document
from retrieval.layout import Layout
from retrieval.search import filters, lifecycle
from retrieval.search.filters import Condition, Where
from retrieval.search.fusion import Ranked
from retrieval.search.plan import TextPlan
from retrieval.search.relevance import FAR, NEAR, nearness
from retrieval.table import Table
from retrieval.types import LeftOut, Row

NOTICED_RANKS: Final = 3
"""An outdated document is worth a word, and its successor its place, where the reader would have met it so early."""

_LOOKED_AT: Final = 50
_READ: Final = 1_000
"""Matching chunks, and chunks of any kind, at a successor's path: in tables of others, not all of them are its own."""

RowKey = tuple[str, str]


def key_of(row: Row) -> RowKey:
    """What tells a row from others: in tables of others ids may repeat."""
    return (row.id, row.text)


def bringing(ranked: Sequence[Ranked], hidden: set[RowKey], calibration: Mapping[str, object] | None) -> set[RowKey]:
    """The rows of `hidden` that are evidence for their successors.

    One that words did not find must be near, or nearer than all that is shown and not far: in a small table, something
    is always nearest.
    """
    to_beat = max((one.vector_score or -1.0 for one in ranked if key_of(one.row) not in hidden), default=-1.0)

    def brings(one: Ranked) -> bool:
        near = nearness([one], calibration)
        if one.text_rank is not None or near is None:
            return True
        return near >= NEAR or (near >= FAR and (one.vector_score or -1.0) > to_beat)

    return {key_of(one.row) for one in ranked if key_of(one.row) in hidden and brings(one)}


@dataclass(frozen=True, slots=True)
class Placed:
    """Hits without outdated ones. `stands_for` has the path that a hit stands for, by the id of its row."""

    ranked: list[Ranked]
    stands_for: dict[str, str]
    notes: list[str]
    left_out: list[LeftOut] = field(default_factory=list[LeftOut])


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

    async def place(
        self,
        ranked: Sequence[Ranked],
        hidden: Collection[RowKey],
        called: Sequence[Document],
        bringers: Collection[RowKey],
    ) -> Placed:
        """`ranked`, best first, without the rows of `hidden`: a successor takes the place of what came among the first.

        Only those of `bringers` bring their successors, and a note. A successor that stands higher already stays there.
        Those of `called`, the outdated documents that the question calls by name, come first of all.
        """
        order: list[Ranked] = []
        taken: set[RowKey] = set()
        stands_for: dict[str, str] = {}
        notes: dict[tuple[str, str], str] = {}
        left_out: list[LeftOut] = []

        async def replace_by_successor(document: Document, one: Ranked) -> None:
            following, note = await asyncio.to_thread(self._following, document)
            heir = await self._heir(following, one, ranked) if following else None
            if heir is not None and key_of(heir.row) not in taken:
                order.append(heir)
                taken.add(key_of(heir.row))
                stands_for[heir.row.id] = document.path
            notes[document.prefix, document.path] = note(heir is not None)

        for document in called[:NOTICED_RANKS] if ranked else ():
            await replace_by_successor(document, ranked[0])
        for rank, one in enumerate(ranked):
            if key_of(one.row) in hidden:
                left_out.append(LeftOut(id=one.row.id, path=one.row.path, place=rank + 1))
            if key_of(one.row) in taken:
                continue
            if key_of(one.row) not in hidden:
                order.append(one)
                taken.add(key_of(one.row))
                continue
            document = self.catalog.of(one.row)
            noticed = rank < NOTICED_RANKS and key_of(one.row) in bringers
            if document is not None and noticed and (document.prefix, document.path) not in notes:
                await replace_by_successor(document, one)
        return Placed(_renumbered(order, ranked, hidden), stands_for, list(notes.values()), left_out)

    async def notes_on(self, called: Sequence[Document]) -> list[str]:
        """What to say of outdated documents that the question calls by name, where nothing is placed."""
        found = [await asyncio.to_thread(self._following, document) for document in called[:NOTICED_RANKS]]
        return [note(True) for _, note in found]

    def _following(self, document: Document) -> tuple[Document | None, Callable[[bool], str]]:
        """The successor of `document`, and what to say of it. The first of a large catalog takes a second or two."""
        following = lifecycle.succession(document, self.catalog, self.words)
        return following.document, lambda passes: lifecycle.note(document, self.catalog, self.words, passes=passes)

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


def _renumbered(order: Sequence[Ranked], ranked: Sequence[Ranked], hidden: Collection[RowKey]) -> list[Ranked]:
    """`order` with the places in each arm that its rows have where those of `hidden` are not counted."""
    out = [one for one in ranked if key_of(one.row) in hidden]
    by_text = sorted(one.text_rank for one in out if one.text_rank is not None)
    by_vector = sorted(one.vector_rank for one in out if one.vector_rank is not None)

    def counted(rank: int | None, before: Sequence[int]) -> int | None:
        return None if rank is None else rank - bisect_left(before, rank)

    return [
        replace(one, text_rank=counted(one.text_rank, by_text), vector_rank=counted(one.vector_rank, by_vector))
        for one in order
    ]
