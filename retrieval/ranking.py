"""From a question to the ranked candidates of one table: by words, by meaning or both, within what the caller narrowed.

What is looked for, in which rows, and what is said of it is decided here; `retrieval.table` looks, and the modules of
`retrieval.search` know how each decision is made.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from weakref import WeakKeyDictionary

from retrieval.called import called_first, called_in
from retrieval.catalog import Catalog, Document
from retrieval.embedding import EmbeddingUnavailable, QueryEmbedder, QueryVector
from retrieval.errors import BedivereError, ErrorCode
from retrieval.layout import Layout, missing_parts
from retrieval.notes import Advice, Nothing
from retrieval.scope import Scope, catalog_for, meant, scope_of, why_nothing
from retrieval.search import filters, lifecycle
from retrieval.search.filters import Condition, Where
from retrieval.search.found import Found
from retrieval.search.fusion import Ranked, fuse
from retrieval.search.mentions import Mentions
from retrieval.search.plan import TextPlan, plan_text
from retrieval.search.ranking import exact_first, needles, order
from retrieval.search.relevance import Verdict, judge, nearest
from retrieval.search.seen import Seen
from retrieval.search.text import MAX_TERMS, first_terms
from retrieval.settings import Settings
from retrieval.successors import NOTICED_RANKS, Placed, RowKey, Successors, bringing, key_of
from retrieval.table import Table
from retrieval.types import Narrowing, Ran, Rejected, Relevance, Row, SearchType

CANDIDATES: Final = 100
"""Rows that each arm gives, at least: what is not among them cannot gain by being fused."""

_SETTLED: Final = 40
"""Those of words alone, at least, or twice as many as are wanted, where no fusion, no name and no setting brings up
what is far below: only stubs make room."""

_STUBS_IN: Final = 4
"""Where more than one candidate of so many is a stub, there may be better ones further down."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a table. `text` is in composed form; `wanted` is the number of candidates the caller can use."""

    text: str
    wanted: int
    search_type: SearchType = "auto"
    narrowing: Narrowing = field(default_factory=Narrowing)
    vector_column: str | None = None
    min_score: float | None = None
    gathered: bool = False
    """Whether the candidates of a document are counted: then no fewer are looked at than there may be."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """The column of vectors that questions can be compared with, or None and, as a clause, why there is none."""

    column: str | None
    why_not: str | None = None
    amiss: bool = False
    """Whether table and provider are there and do not fit: what nobody wants, and who asks should be told."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a question is answered, and by which words."""

    table: Table
    layout: Layout
    scope: Scope
    plan: TextPlan
    read: str


@dataclass(slots=True)
class _Arms:
    """What each arm gave, outdated rows among the others, best first; `depth` is how many rows were asked for."""

    depth: int
    text: list[Row] = field(default_factory=list[Row])
    vector: list[Row] = field(default_factory=list[Row])
    hidden: set[RowKey] = field(default_factory=set[RowKey])
    full: bool = False
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
        self._mentions = WeakKeyDictionary[Catalog, Mentions]()

    def warm(self) -> None:
        """Begins to prepare for questions by meaning, in the background."""
        self._embedder.begin()

    async def rank(self, table: Table, layout: Layout, question: Question) -> Found:
        """The candidates for `question`. Raises `BedivereError` INVALID_QUERY, INVALID_FILTER and what reading does."""
        laps, words = Laps(), self._settings.outdated_statuses
        question = replace(question, narrowing=meant(question.narrowing, words))
        catalog = await catalog_for(table, layout, question.narrowing)
        scope = scope_of(table, layout, catalog, question.narrowing, words)
        vocabulary = await table.vocabulary()
        # What is not searched need not be corrected: a page of unknown words would take a tenth of a second.
        head = first_terms(question.text)[0]
        called = await called_in(head, table, layout, vocabulary)
        read, corrections = vocabulary.correct(head, called.names) if vocabulary else (head, ())
        # Nor need it be judged: of a longer question nobody can say what the table holds.
        searched = read
        read += question.text[len(head) :]
        plan = (
            plan_text(read, layout.searchable, vocabulary.frequency, vocabulary.names_with)
            if vocabulary
            else plan_text(read, layout.searchable)
        )
        if plan is None:
            raise BedivereError(
                ErrorCode.INVALID_QUERY, "The query holds no word, only punctuation: pass the words to search for."
            )
        vectors = self.vectors(table, question.vector_column)
        place = _Place(table, layout, scope, plan, read)
        settled = not (question.gathered or called.names or self._settings.path_boosts or needles(read))
        arms, ran, ordered = await self._found(place, question, vectors.column, laps, settled=settled)
        by_meaning = question.search_type in {"vector", "hybrid"} or question.vector_column is not None or vectors.amiss
        trouble = arms.trouble or (vectors.why_not if by_meaning and question.search_type != "text" else None)
        notes = [f"{trouble}; text search answered instead."] if trouble else []
        if ran != "text" and (trust := self._embedder.on_trust(_record(table))):
            notes.append(trust)
        notes += missing_parts(layout, table.indexes)
        notes += [scope.note] if scope.note else []
        notes += await table.undated(filters.dated(scope.asked))
        if plan.cut:
            notes.append(f"Only the first {MAX_TERMS} words of the query were searched.")

        since = time.perf_counter()
        ranked = exact_first(ordered, read)
        first = await called_first(
            called, ranked, arms.hidden, table=table, layout=layout, plan=plan, shown=scope.shown
        )
        ranked = first.ranked
        calibration = table.measured[vectors.column].get("calibration") if vectors.column else None
        verdict = judge(
            searched, ranked, vocabulary, calibration, ran, question.min_score, corrections, called=first.held
        )
        laps.took("rank", since)
        rejected = None
        if ranked and not verdict.answers:
            rejected = _rejected(verdict, ranked, arms.hidden)
            placed = Placed([], {}, [_refusal(verdict), *await self._told_of(place, catalog)])
        else:
            bringers = bringing(ranked, arms.hidden, calibration)
            placed = await self._placed(place, catalog, ranked, arms.hidden, bringers, laps)
            if scope.shown is not None and placed.ranked:
                # The table answers; whether the part of it does that the caller can have is another question.
                stood_for = placed.stands_for.values()
                judged = [one for one in ranked if key_of(one.row) in bringers and one.row.path in stood_for]
                judged += placed.ranked
                within = _within(arms, judged, ran, arms.depth)
                verdict = judge(
                    searched,
                    judged,
                    vocabulary,
                    calibration,
                    ran,
                    question.min_score,
                    corrections,
                    within,
                    called=first.held,
                )
                if not verdict.answers:
                    rejected = _rejected(verdict, placed.ranked, arms.hidden)
                    placed = Placed([], {}, [_refusal(verdict), *placed.notes])
            notes += [verdict.note] if verdict.note else []
        if not placed.ranked and not placed.notes:
            placed = Placed([], {}, await why_nothing(table, scope, question.narrowing))
        # Of what is left out, nothing needs a label.
        labelled = catalog if question.narrowing.include_outdated else None
        return Found(
            ran=ran,
            read=read,
            ranked=placed.ranked,
            full=arms.full,
            degraded=trouble is not None,
            corrections=corrections,
            rejected=rejected,
            relevance=Relevance(score=verdict.score, threshold=round(verdict.threshold, 4)) if placed.ranked else None,
            left_out=[one for one in placed.left_out if one.place <= question.wanted],
            versions=scope.versions,
            outdated=await self._labels(labelled, [one.row for one in placed.ranked]),
            stands_for=placed.stands_for,
            timings=laps.finish(),
            notes=[*notes, *placed.notes],
        )

    async def shown(self, table: Table, layout: Layout, narrowing: Narrowing) -> tuple[Where | None, list[str]]:
        """The rows that a question so narrowed is answered from, and what to say of them. Raises INVALID_FILTER."""
        words = self._settings.outdated_statuses
        narrowing = meant(narrowing, words)
        scope = scope_of(table, layout, await catalog_for(table, layout, narrowing), narrowing, words)
        notes = await table.undated(filters.dated(scope.asked))
        return scope.shown, [scope.note, *notes] if scope.note else notes

    def vectors(self, table: Table, column: str | None = None) -> Vectors:
        """Whether questions can be compared with the vectors in `column`, or else in that of the settings."""
        name = column or self._settings.vector_column
        if name not in table.vectors:
            return Vectors(None, f"The table has no vectors in column {name[:100]!r}")
        if not self._embedder.configured:
            return Vectors(None, "No embeddings provider is configured (for the server's owner: set OPENAI_API_KEY)")
        mismatch = self._embedder.mismatch(_record(table), table.vectors[name])
        return Vectors(None, mismatch.rstrip("."), amiss=True) if mismatch else Vectors(name)

    def unused(self, table: Table) -> str | None:
        """What to say of vectors that are there and that no question is compared with; None where there are none."""
        found = self.vectors(table)
        if not table.vectors or found.column is not None:
            return None
        if self._embedder.configured:
            return f"The table's vectors are not used. {found.why_not}."
        model = (_record(table) or {}).get("model", self._embedder.model)
        same = f", and EMBEDDING_MODEL to {str(model)[:100]!r}" if model != self._embedder.model else ""
        return (
            "The table's vectors are not used, so that words alone are searched: no embeddings provider is configured "
            f"(for the server's owner: set OPENAI_API_KEY, or OPENAI_BASE_URL for a server that needs no key{same})."
        )

    def on_trust(self, table: Table) -> str | None:
        """What to say of vectors whose model the table does not name."""
        return self._embedder.on_trust(_record(table)) if self.vectors(table).column else None

    async def _found(
        self, place: _Place, question: Question, column: str | None, laps: Laps, *, settled: bool
    ) -> tuple[_Arms, Ran, list[Ranked]]:
        """What the arms gave, and that in one order; from further down too where many stubs take places."""
        settled = settled and (column is None or question.search_type == "text")
        depth = depth_for(question.wanted, settled=settled)
        while True:
            arms, ran = await self._search(place, question, column, depth, laps)
            ordered = order(fuse(arms.text, arms.vector), self._settings.path_boosts, place.read)
            stubs = sum(one.stub for one in ordered)
            if not arms.full or depth >= CANDIDATES or stubs * _STUBS_IN <= depth:
                return arms, ran, ordered
            depth = CANDIDATES

    async def _search(
        self, place: _Place, question: Question, column: str | None, depth: int, laps: Laps
    ) -> tuple[_Arms, Ran]:
        """Both arms at once where both are wanted; the arm by words alone where the other fails."""
        table, layout, scope = place.table, place.layout, place.scope
        arms = _Arms(depth)

        async def ask(search: Callable[[int, Where | None], Awaitable[list[Row]]]) -> list[Row]:
            if scope.unknown:
                return []
            if scope.hidden is None:
                shown, hidden = await search(depth, scope.shown), list[Row]()
            else:
                shown, hidden = await asyncio.gather(search(depth, scope.shown), search(NOTICED_RANKS, scope.hidden))
            arms.full = arms.full or len(shown) >= depth
            arms.hidden |= {key_of(row) for row in hidden}
            return sorted([*shown, *hidden], key=lambda row: (-row.score, row.id)) if hidden else shown

        async def by_words() -> None:
            since = time.perf_counter()
            arms.text = await ask(lambda limit, where: table.search_text(place.plan, layout, limit, where=where))
            laps.took("text", since)

        async def by_meaning(name: str) -> None:
            try:
                vector = await self._vector(place.read, table.vectors[name], laps)
            except EmbeddingUnavailable as error:
                arms.trouble = error.sentence.rstrip(".")
                return
            since = time.perf_counter()
            arms.vector = await ask(
                lambda limit, where: table.search_vector(vector.values, name, layout, limit, where=where)
            )
            laps.took("vector", since)

        if column is None or question.search_type == "text":
            await by_words()
            return arms, "text"
        if question.search_type != "vector":
            await asyncio.gather(by_words(), by_meaning(column))
            return arms, "text" if arms.trouble is not None else "hybrid"
        await by_meaning(column)
        if arms.trouble is None:
            return arms, "vector"
        await by_words()
        return arms, "text"

    async def _vector(self, read: str, dimensions: int, laps: Laps) -> QueryVector:
        """The vector of the question. Raises `EmbeddingUnavailable`."""
        since = time.perf_counter()
        if not self._prepared:
            # What only the first question waits for is not the provider's time.
            self._prepared = True
            await self._embedder.prepare()
            laps.took("prepare", since)
            since = time.perf_counter()
        try:
            return await self._embedder.embed(read, dimensions=dimensions)
        finally:
            laps.took("embed", since)

    async def _placed(
        self,
        place: _Place,
        catalog: Catalog | None,
        ranked: list[Ranked],
        hidden: set[RowKey],
        bringers: set[RowKey],
        laps: Laps,
    ) -> Placed:
        """`ranked` without the rows of `hidden`, and the successors of those of `bringers` in their place."""
        if catalog is None or place.scope.hidden is None:
            return Placed(ranked, {}, [])
        since = time.perf_counter()
        called = await self._called(place, catalog)
        placed = Placed(ranked, {}, [])
        if hidden or called:
            placed = await self._successors(place, catalog).place(ranked, hidden, called, bringers)
            laps.took("successors", since)
        return placed

    async def _told_of(self, place: _Place, catalog: Catalog | None) -> list[str]:
        """What to say of outdated documents that the question calls by name, where nothing answers it."""
        if catalog is None or place.scope.hidden is None:
            return []
        return await self._successors(place, catalog).notes_on(await self._called(place, catalog))

    def _successors(self, place: _Place, catalog: Catalog) -> Successors:
        words = self._settings.outdated_statuses
        return Successors(place.table, place.layout, place.plan, place.scope.shown, catalog, words)

    async def _called(self, place: _Place, catalog: Catalog) -> list[Document]:
        """The outdated documents that the question calls by name and that the call would find, were they current."""
        mentions = self._mentions.get(catalog)
        if mentions is None:
            mentions = await asyncio.to_thread(Mentions, catalog, self._settings.outdated_statuses)
            self._mentions[catalog] = mentions
        found: list[Document] = []
        for document in mentions.called(place.read):
            its: list[Where | None] = [Condition(str(place.layout.path), "eq", document.path), place.scope.hidden]
            if place.layout.id is not None and document.prefix:
                its.append(Condition(place.layout.id, "prefix", document.prefix))
            if await place.table.matching(filters.AllOf(tuple(one for one in its if one is not None))):
                found.append(document)
        return found

    async def _labels(self, catalog: Catalog | None, rows: Sequence[Row]) -> dict[str, str]:
        """What to say of outdated rows, found in a thread: the first successor of a large catalog takes its time."""
        if catalog is None:
            return {}
        words = self._settings.outdated_statuses

        def labelled() -> dict[str, str]:
            return {
                row.id: lifecycle.label(document, catalog, words)
                for row in rows
                if (document := catalog.of(row)) is not None and lifecycle.outdated(document, words)
            }

        return await asyncio.to_thread(labelled)


def depth_for(wanted: int, *, settled: bool) -> int:
    """How many rows an arm is asked for; `settled` where its own order is nearly that of the reply.

    A vector index that is asked for few finds fewer of the nearest, so it never is.
    """
    return max(wanted, min(CANDIDATES, max(_SETTLED, 2 * wanted)) if settled else CANDIDATES)


def _record(table: Table) -> dict[str, Any] | None:
    """What the table says of its vectors."""
    return table.provenance.embedding if table.provenance else None


def _rejected(verdict: Verdict, ranked: Sequence[Ranked], hidden: set[RowKey]) -> Rejected:
    """What the verdict speaks of among the rows of `ranked` that the caller could have had, and how it was judged."""
    best = nearest([one for one in ranked if key_of(one.row) not in hidden])
    return Rejected(
        score=round(verdict.score, 4),
        threshold=round(verdict.threshold, 4),
        id=best.row.id if best else None,
        title=best.row.title if best else None,
    )


def _within(arms: _Arms, judged: Sequence[Ranked], ran: Ran, depth: int) -> Seen | None:
    """What was found in the part of the table that was searched; None where that says nothing of what is in it."""
    shown = [row for row in (arms.vector if ran == "vector" else arms.text) if key_of(row) not in arms.hidden]
    whole = len(shown) < depth
    # Nearest are not those that hold the words.
    return Seen([*(one.row for one in judged), *shown], whole=whole) if whole or ran != "vector" else None


def _refusal(verdict: Verdict) -> str:
    why = f": {'; '.join(verdict.reasons)}" if verdict.reasons else ""
    score = f"{verdict.score:.2f}"
    least = "0" if score == "0.00" else f"{score} or less"
    return f"{Nothing.RELEVANT}{why}. {Advice.ASK_AGAIN} {least} to see the nearest passages."
