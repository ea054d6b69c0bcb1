"""The documents that a question calls by name and that the call may show: their rows come first, as they are asked for.

What an outdated document is called is looked at by `retrieval.search.mentions`: its successor stands for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from retrieval.catalog import Catalog, Document
from retrieval.layout import Layout
from retrieval.search import filters
from retrieval.search.english import is_english
from retrieval.search.filters import Condition, Where
from retrieval.search.fusion import Ranked
from retrieval.search.plan import TextPlan
from retrieval.search.vocabulary import Vocabulary, tokens
from retrieval.successors import RowKey, key_of
from retrieval.table import Table
from retrieval.types import Row

_MOST_MENTIONS: Final = 3
"""Chunks that hold a word which, in a sentence, is still the name of a file rather than of a subject."""

_READ: Final = 200
"""Rows of the called documents that are looked at for the first of each, where words find none."""


@dataclass(frozen=True, slots=True)
class Called:
    """Names in a question, in lower case, and the documents that they call, whether or not the call may show them."""

    catalog: Catalog | None = None
    names: Mapping[str, Sequence[Document]] = field(default_factory=dict[str, Sequence[Document]])


async def called_in(question: str, table: Table, layout: Layout, vocabulary: Vocabulary | None) -> Called:
    """Whom `question` calls; nobody in tables of others, whose documents would have to be read from all their rows."""
    if layout.path is None or table.provenance is None:
        return Called()
    catalog = await table.catalog(layout)

    def is_odd(word: str) -> bool:
        return vocabulary is not None and vocabulary.frequency(word) <= _MOST_MENTIONS and not is_english(word)

    if not catalog.has_gathered_names:
        # The first question of a catalog waits for its names: a fifth of a second for 10,000 documents.
        return Called(catalog, await asyncio.to_thread(catalog.called, question, is_odd))
    return Called(catalog, catalog.called(question, is_odd))


@dataclass(frozen=True, slots=True)
class CalledFirst:
    """`ranked` with the rows of the called documents first, and the names, and their words, that they are called by."""

    ranked: list[Ranked]
    held: frozenset[str] = frozenset()


async def called_first(
    called: Called,
    ranked: list[Ranked],
    hidden: Collection[RowKey],
    *,
    table: Table,
    layout: Layout,
    plan: TextPlan,
    shown: Where | None,
) -> CalledFirst:
    """The best row of each called document in front, then their others; one that has none in `ranked` gets its best.

    Only documents with a row that `shown` lets through come first. Rows of `hidden`, for which successors will stand,
    stay where they are; what they are called by is held as well.
    """
    if called.catalog is None or not called.names or layout.path is None:
        return CalledFirst(ranked)
    catalog = called.catalog
    documents = list(dict.fromkeys(document for few in called.names.values() for document in few))
    paths = {document.path for document in documents}

    def document_of(row: Row) -> Document | None:
        return catalog.of(row) if row.path in paths else None

    rows: dict[Document, list[Ranked]] = {document: [] for document in documents}
    others: list[Ranked] = []
    outdated: set[Document] = set()
    for one in ranked:
        document = document_of(one.row)
        if document not in rows:
            others.append(one)
        elif key_of(one.row) in hidden:
            outdated.add(document)
            others.append(one)
        else:
            rows[document].append(replace(one, why="exact"))
    lacking = sorted({document.path for document in documents if not rows[document]})
    if lacking:
        within = filters.all_of([Condition(layout.path, "in", tuple(lacking)), shown])
        found = await table.search_text(plan, layout, _READ, where=within)
        found += sorted(await table.select(within, layout, limit=_READ), key=lambda row: (row.ordinal or 0, row.id))
        for row in found:
            document = document_of(row)
            if document in rows and not rows[document]:
                score = ranked[0].score if ranked else row.score
                rows[document].append(Ranked(row, score, "exact", text_score=row.score or None))
    held = {name for name, few in called.names.items() if any(rows[one] or one in outdated for one in few)}
    firsts = [its[0] for its in rows.values() if its]
    kept = {key_of(one.row) for one in firsts}
    rest = [one for its in rows.values() for one in its if key_of(one.row) not in kept]
    rest.sort(key=lambda one: -one.score)
    words = {match.group().casefold() for name in held for match in tokens(name)}
    return CalledFirst([*firsts, *rest, *others], frozenset(held | words))
