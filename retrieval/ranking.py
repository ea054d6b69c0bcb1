"""From a question to the ranked candidates of one table: by words, by meaning or both, within what the caller narrowed.

What is looked for, in which rows, and what is said of it is decided here; `retrieval.table` looks, and the modules of
`retrieval.search` know how each decision is made.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from retrieval.catalog import Catalog, Document
from retrieval.embedding import EmbeddingUnavailable, QueryEmbedder, QueryVector
from retrieval.errors import BedivereError, ErrorCode
from retrieval.layout import Layout, missing_parts
from retrieval.search import filters, lifecycle, versions
from retrieval.search.filters import Condition, Where
from retrieval.search.found import Found
from retrieval.search.fusion import Ranked, fuse
from retrieval.search.plan import TextPlan, plan_text
from retrieval.search.ranking import exact_first, order
from retrieval.search.relevance import Verdict, judge
from retrieval.search.text import MAX_TERMS, nfc
from retrieval.settings import Settings
from retrieval.table import Table
from retrieval.types import Narrowing, Ran, Rejected, Row, SearchType

CANDIDATES: Final = 100
"""Rows that each arm gives, at least: what is not among them cannot gain by being fused."""

# An outdated document is worth a word, and its successor its place, where the reader would have met it first.
_NOTICED_RANKS: Final = 3
_SUCCESSOR_ROWS: Final = 1


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a table. `text` is in composed form; `wanted` is the number of candidates the caller can use."""

    text: str
    wanted: int
    search_type: SearchType = "auto"
    narrowing: Narrowing = field(default_factory=Narrowing)
    vector_column: str | None = None
    min_score: float | None = None


@dataclass(frozen=True, slots=True)
class _Scope:
    """The rows that are searched, and those that would be, were they not outdated."""

    shown: Where | None
    hidden: Where | None
    narrowed: bool
    versions: dict[str, str]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a question is answered, and by which words."""

    table: Table
    layout: Layout
    scope: _Scope
    plan: TextPlan
    catalog: Catalog | None


@dataclass(slots=True)
class _Arms:
    """What each arm gave, outdated rows among the others, best first."""

    text: list[Row] = field(default_factory=list[Row])
    vector: list[Row] = field(default_factory=list[Row])
    hidden: set[str] = field(default_factory=set[str])
    trouble: str | None = None


class Laps:
    """Milliseconds by stage; stages that run at once overlap."""

    def __init__(self) -> None:
        self.stages: dict[str, float] = {}
        self._started = time.perf_counter()

    def took(self, stage: str, since: float) -> None:
        self.stages[stage] = round((time.perf_counter() - since) * 1000, 2)

    def finish(self) -> dict[str, float]:
        self.took("total", self._started)
        return self.stages


class Ranker:
    """Ranks the rows of tables; holds what outlives a question: the settings and the way to the model."""

    def __init__(self, settings: Settings, embedder: QueryEmbedder) -> None:
        self._settings = settings
        self._embedder = embedder
        self._prepared = False

    async def rank(self, table: Table, layout: Layout, question: Question) -> Found:
        """The candidates for `question`. Raises `BedivereError` INVALID_QUERY, INVALID_FILTER and what reading does."""
        laps = Laps()
        catalog = await self._catalog(table, layout)
        scope = self._scope(table, layout, catalog, question.narrowing)
        vocabulary = await table.vocabulary()
        read, corrections = vocabulary.correct(question.text) if vocabulary else (question.text, ())
        plan = plan_text(read, layout.searchable)
        if plan is None:
            raise BedivereError(
                ErrorCode.INVALID_QUERY, "The query holds no word, only punctuation: pass the words to search for."
            )
        place = _Place(table, layout, scope, plan, catalog)
        column, why_not = self.vectors(table, question.vector_column)
        arms, ran = await self._search(place, read, question, column, laps)
        notes = [*missing_parts(layout, table.indexes), *scope.notes]
        if plan.cut:
            notes.append(f"Only the first {MAX_TERMS} words of the query were searched.")
        by_meaning = question.search_type in {"vector", "hybrid"} or question.vector_column is not None
        trouble = arms.trouble or (why_not if by_meaning and question.search_type != "text" else None)
        if trouble:
            notes.insert(0, f"{trouble}; text search answered instead.")

        since = time.perf_counter()
        ranked = exact_first(order(fuse(arms.text, arms.vector), self._settings.path_boosts), read)
        calibration = table.calibrations.get(column) if column else None
        verdict = judge(read, ranked, vocabulary, calibration, ran, question.min_score)
        laps.took("rank", since)
        rejected = None
        stands_for: dict[str, str] = {}
        if not ranked:
            notes.append(await _nothing(table, scope))
        elif not verdict.answers:
            rejected = _rejected(verdict, ranked[0].row)
            notes.append(_refusal(verdict))
            ranked = []
        elif arms.hidden:
            ranked, stands_for, told = await self._in_their_stead(place, ranked, arms.hidden)
            notes += told
        return Found(
            ran=ran,
            read=read,
            ranked=ranked,
            full=max(len(arms.text), len(arms.vector)) >= max(CANDIDATES, question.wanted),
            degraded=trouble is not None,
            corrections=corrections,
            rejected=rejected,
            versions=scope.versions,
            outdated=self._labels(catalog, [one.row for one in ranked]),
            stands_for=stands_for,
            timings=laps.finish(),
            notes=notes,
        )

    def vectors(self, table: Table, column: str | None) -> tuple[str | None, str | None]:
        """The column of vectors that questions can be compared with; else None and why there is none, as a clause."""
        name = column or self._settings.vector_column
        if name not in table.vectors:
            return None, f"The table has no vectors in column {name[:100]!r}"
        if not self._embedder.configured:
            return None, "No embeddings provider is configured (OPENAI_API_KEY)"
        mismatch = self._embedder.mismatch(table.provenance.embedding if table.provenance else None)
        return (None, mismatch.rstrip(".")) if mismatch else (name, None)

    async def _catalog(self, table: Table, layout: Layout) -> Catalog | None:
        """The documents, where anything hangs on what they say of themselves."""
        names = {column.name for column in table.columns if column.kind == "text"}
        told = layout.path is not None and bool(names & {"status", "superseded_by", "collection", "version"})
        return await table.catalog(layout) if told else None

    def _scope(self, table: Table, layout: Layout, catalog: Catalog | None, narrowing: Narrowing) -> _Scope:
        asked = [
            part
            for part in (
                filters.parse(narrowing.filters, table.columns, layout) if narrowing.filters else None,
                filters.under(nfc(narrowing.path_prefix), layout) if narrowing.path_prefix else None,
                filters.excluding([nfc(one) for one in narrowing.exclude], layout) if narrowing.exclude else None,
            )
            if part is not None
        ]
        notes: list[str] = []
        chosen: dict[str, str] = {}
        if catalog is not None:
            choice = versions.chosen(catalog, narrowing.collection, narrowing.version)
            asked += [choice.where] if choice.where is not None else []
            notes += [choice.note] if choice.note else []
            chosen = dict(choice.versions)
        words = self._settings.outdated_statuses
        hiding = lifecycle.hiding(catalog, words, layout) if catalog and not narrowing.include_outdated else None
        hidden = filters.all_of([*asked, filters.Not(hiding)]) if hiding is not None else None
        shown = filters.all_of([*asked, hiding] if hiding is not None else asked)
        return _Scope(shown, hidden, bool(asked), chosen, tuple(notes))

    async def _search(
        self, place: _Place, read: str, question: Question, column: str | None, laps: Laps
    ) -> tuple[_Arms, Ran]:
        """Both arms at once where both are wanted; the arm by words alone where the other fails."""
        table, layout, scope = place.table, place.layout, place.scope
        arms = _Arms()
        depth = max(CANDIDATES, question.wanted)
        wanted: Ran = "text"
        if column is not None and question.search_type != "text":
            wanted = "vector" if question.search_type == "vector" else "hybrid"

        async def by_words() -> None:
            since = time.perf_counter()
            shown, hidden = await asyncio.gather(
                table.search_text(place.plan, layout, depth, where=scope.shown),
                table.search_text(place.plan, layout, _NOTICED_RANKS, where=scope.hidden) if scope.hidden else _none(),
            )
            arms.text = _merged(shown, hidden)
            arms.hidden |= {row.id for row in hidden}
            laps.took("text", since)

        async def by_meaning(name: str) -> None:
            since = time.perf_counter()
            if not self._prepared:
                # What only the first question waits for is not the provider's time.
                self._prepared = True
                await self._embedder.prepare()
                laps.took("prepare", since)
                since = time.perf_counter()
            try:
                vector: QueryVector = await self._embedder.embed(read, dimensions=table.vectors[name])
            except EmbeddingUnavailable as error:
                arms.trouble = error.sentence.rstrip(".")
                return
            finally:
                laps.took("embed", since)
            since = time.perf_counter()
            shown, hidden = await asyncio.gather(
                table.search_vector(vector.values, name, layout, depth, where=scope.shown),
                table.search_vector(vector.values, name, layout, _NOTICED_RANKS, where=scope.hidden)
                if scope.hidden
                else _none(),
            )
            arms.vector = _merged(shown, hidden)
            arms.hidden |= {row.id for row in hidden}
            laps.took("vector", since)

        if wanted == "text" or column is None:
            await by_words()
            return arms, "text"
        if wanted == "vector":
            await by_meaning(column)
            if arms.trouble is not None:
                await by_words()
                return arms, "text"
            return arms, "vector"
        await asyncio.gather(by_words(), by_meaning(column))
        return arms, "text" if arms.trouble is not None else "hybrid"

    async def _in_their_stead(
        self, place: _Place, ranked: Sequence[Ranked], hidden: set[str]
    ) -> tuple[list[Ranked], dict[str, str], list[str]]:
        """`ranked` without what is outdated: the successor of what would have come first stands in its place.

        Beside it, which document each of them stands for, by the id of its row, and what to say of it.
        """
        order: list[Ranked] = []
        stands_for: dict[str, str] = {}
        notes: dict[str, str] = {}
        placed: set[str] = set()
        for rank, one in enumerate(ranked):
            if one.row.id in placed:
                continue
            if one.row.id not in hidden:
                order.append(one)
                continue
            document = place.catalog.of(one.row) if place.catalog else None
            if place.catalog is None or document is None or rank >= _NOTICED_RANKS or document.path in notes:
                continue
            current = lifecycle.successor(document, place.catalog, self._settings.outdated_statuses)
            heir = await self._heir(place, current, one, ranked) if current else None
            if heir is not None and heir not in order:
                order.append(heir)
                placed.add(heir.row.id)
                stands_for[heir.row.id] = document.path
            notes[document.path] = _outdated_note(document, current)
        return order, stands_for, list(notes.values())

    async def _heir(self, place: _Place, current: Document, before: Ranked, ranked: Sequence[Ranked]) -> Ranked | None:
        """The chunk of `current` that answers best: a candidate if there is one, else with the rank of `before`."""
        for one in ranked:
            if one.row.path == current.path and one.row.id.startswith(current.prefix):
                return one
        if place.layout.path is None:
            return None
        its = Condition(place.layout.path, "eq", current.path)
        within = filters.all_of([its, place.scope.shown])
        rows = await place.table.search_text(place.plan, place.layout, _SUCCESSOR_ROWS, where=within)
        rows = rows or await place.table.select(within, place.layout, limit=_SUCCESSOR_ROWS)
        return Ranked(row=rows[0], score=before.score, why="text") if rows else None

    def _labels(self, catalog: Catalog | None, rows: Sequence[Row]) -> dict[str, str]:
        if catalog is None:
            return {}
        words = self._settings.outdated_statuses
        labels: dict[str, str] = {}
        for row in rows:
            document = catalog.of(row)
            if document is not None and lifecycle.outdated(document, words):
                labels[row.id] = lifecycle.label(document, catalog, words)
        return labels


async def _none() -> list[Row]:
    return []


def _merged(shown: list[Row], hidden: list[Row]) -> list[Row]:
    return sorted([*shown, *hidden], key=lambda row: (-row.score, row.id)) if hidden else shown


def _rejected(verdict: Verdict, best: Row) -> Rejected:
    return Rejected(score=round(verdict.score, 4), threshold=round(verdict.threshold, 4), id=best.id, title=best.title)


def _refusal(verdict: Verdict) -> str:
    why = f": {'; '.join(verdict.reasons)}" if verdict.reasons else ""
    least = math.floor(verdict.score * 100) / 100
    return (
        f"Nothing relevant was found{why}. Say so, ask in other words, or pass minScore {least:.2f} or less to see the "
        "nearest passages."
    )


async def _nothing(table: Table, scope: _Scope) -> str:
    if scope.shown is not None and not await table.matching(scope.shown):
        return "No document passes the filters: lancedb_catalog lists the documents and what they say of themselves."
    within = " among the documents that pass the filters" if scope.narrowed else ""
    return f"Nothing in the table matches any word of the query{within}."


def _outdated_note(document: Document, current: Document | None) -> str:
    standing = document.status or "superseded"
    if current is not None:
        return f"{_named(document)} matches and is outdated ({standing}): {_named(current)} has taken its place."
    return f"{_named(document)} matches and is left out ({standing}): pass includeOutdated true to see it."


def _named(document: Document) -> str:
    return f"{document.title} ({document.path})" if document.title else document.path
