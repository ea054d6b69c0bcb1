"""What every tool asks: search, context, fetch, catalog and status, over whatever table there is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from typing import Final

from retrieval import listing, reading, status
from retrieval.database import Database
from retrieval.dataset import Dataset, open_dataset
from retrieval.embedding import QueryEmbedder
from retrieval.errors import BedivereError, ErrorCode
from retrieval.hits import MAX_REPLY_CHARS, by_rank_alone, hits_of
from retrieval.layout import Layout, missing_parts
from retrieval.notes import counted
from retrieval.ranking import Question, Ranker
from retrieval.search import collapse, context, expand
from retrieval.search.plan import MAX_QUERY_CHARS
from retrieval.search.text import nfc
from retrieval.settings import Settings
from retrieval.status_reply import StatusReply
from retrieval.table import Table
from retrieval.types import (
    CatalogReply,
    CatalogRequest,
    ContextReply,
    ContextRequest,
    Correction,
    FetchRequest,
    Page,
    SearchReply,
    SearchRequest,
)

MAX_CANDIDATES: Final = 1_000
"""Rows that are looked at for a reply of documents, where many rows belong to few of them."""

_WIDENED: Final = 4
"""Candidates for each document that is wanted."""

_WARM_START_ROWS: Final = 200_000


class Retriever:
    """Answers from the tables of one dataset. Cheap to make: nothing is opened until it is asked.

    Each question is answered from one database from beginning to end, whatever release takes over meanwhile.
    """

    def __init__(self, settings: Settings, dataset: Dataset | None = None) -> None:
        self.dataset = dataset or open_dataset(settings)
        self._settings = settings
        self._counter: Callable[[int], None] | None = None
        self._ranker = Ranker(settings, QueryEmbedder(settings, on_tokens=self._spent))

    def start(self) -> None:
        """Begins to fetch a released dataset, in a thread. Cheap, may be called often, never raises."""
        self.dataset.start()

    def warm(self) -> None:
        """Begins what the first question by meaning would wait for, in a thread, where a provider is configured.

        For a server that stays: it spends about a second of processor time beside whoever connects meanwhile.
        """
        self._ranker.warm()

    def for_call(self, wait_seconds: float | None, hidden: frozenset[str] = frozenset()) -> Retriever:
        """This retriever as one call sees it: answered from one release, waited for as `Dataset.for_call` says.

        For this call the collections in `hidden` are not there.
        """
        own = copy(self)
        own.dataset = self.dataset.for_call(wait_seconds)
        if hidden:
            # Imported here: most servers hide nothing.
            from retrieval.confinement import ConfinedDataset

            own.dataset = ConfinedDataset(own.dataset, self._settings, hidden)
        return own

    def count_tokens(self, counter: Callable[[int], None]) -> None:
        """Tells `counter` of the tokens that questions cost the embeddings provider."""
        self._counter = counter

    async def search(self, request: SearchRequest) -> SearchReply:
        """Ranked hits for a question.

        Raises `BedivereError`: INVALID_QUERY, INVALID_FILTER, TABLE_NOT_FOUND, COLUMN_NOT_FOUND, TEXT_COLUMN_MISSING,
        TOO_MANY_COLUMNS, DATABASE_NOT_SET, DATABASE_NOT_FOUND, TABLE_UNREADABLE, DATASET_LOADING or
        DATASET_UNAVAILABLE.
        """
        question = _checked(request.query)
        name = request.table or self._settings.table
        database = await self.dataset.current()

        async def ask(table: Table) -> SearchReply:
            layout = self._layout(table, request.text_column)
            asked = Question(
                question,
                wanted=min(request.limit * (_WIDENED if request.collapse else 1), MAX_CANDIDATES),
                search_type=request.search_type,
                narrowing=request.narrowing,
                vector_column=request.vector_column,
                min_score=request.min_score,
                gathered=request.collapse,
            )
            found = await self._ranker.rank(table, layout, asked)
            groups = collapse.by_document(found.ranked) if request.collapse else None
            if groups is not None and len(groups) < request.limit and asked.wanted < MAX_CANDIDATES and found.full:
                # Few documents hold many chunks of the best: wider, once, within the bound.
                found = await self._ranker.rank(table, layout, replace(asked, wanted=MAX_CANDIDATES))
                groups = collapse.by_document(found.ranked)
            best = [group.best for group in groups] if groups is not None else found.ranked
            best = best[: request.limit]
            contexts: Mapping[str, str] = {}
            if request.expand.type != "none" and best:
                rows = [one.row for one in best]
                near = await table.chunks(expand.spans(rows, request.expand), layout)
                contexts = expand.contexts(rows, near, request.expand)
            hits, left_out = hits_of(best, found, groups, contexts, whole=request.whole)
            if table.seen is not None:
                hits = by_rank_alone(hits)
            limits = (
                collapse.limits(layout) if request.collapse else None,
                expand.limits(layout) if request.expand.type != "none" else None,
            )
            notes = [*found.notes, *(limit for limit in limits if limit is not None)]
            if request.explain and request.search_type == "auto" and found.ran == "text" and not found.degraded:
                # Said on request alone: it is so for every question, and the status tells it.
                notes += [note for note in (self._ranker.unused(table),) if note]
            if left_out:
                notes = [
                    *notes,
                    f"{counted(left_out, 'further hit')} {'was' if left_out == 1 else 'were'} left out to keep the "
                    f"reply under {MAX_REPLY_CHARS:,} characters; ask for a smaller limit or a narrower question.",
                ]
            bare = sum(hit.id in contexts and hit.context is None for hit in hits)
            if bare:
                notes = [
                    *notes,
                    f"What stands around the last {'hit' if bare == 1 else f'{bare} hits'} was left out to keep the "
                    f"reply under {MAX_REPLY_CHARS:,} characters; read them with lancedb_fetch.",
                ]
            return SearchReply(
                search_type=found.ran,
                table=name,
                hits=hits,
                truncated=left_out > 0,
                degraded=found.degraded,
                corrections=[Correction(written=one.written, read=one.read) for one in found.corrections],
                rejected=found.rejected,
                relevance=found.relevance if hits else None,
                outdated_left_out=found.left_out or None,
                versions=found.versions or None,
                timings=found.timings if request.explain else None,
                notes=notes,
            )

        return await database.read(name, ask)

    async def context(self, request: ContextRequest) -> ContextReply:
        """One Markdown block for a question, or an overview of the corpus. Raises what `search` raises."""
        question = "" if request.warm_start else _checked(request.question, "question")
        name = request.table or self._settings.table
        database = await self.dataset.current()

        async def ask(table: Table) -> ContextReply:
            layout = self._layout(table, None)
            if request.warm_start:
                where, notes = await self._ranker.shown(table, layout, request.narrowing)
                notes = [*missing_parts(layout, table.indexes), *notes]
                pages = [page async for page in table.pages(layout, _WARM_START_ROWS, where=where)]
                sizes = await _sizes(database, name, table)
                return context.overview(request, pages, sizes, table=name, notes=notes)
            asked = Question(
                question,
                wanted=request.limit,
                search_type=request.search_type,
                narrowing=request.narrowing,
                min_score=request.min_score,
            )
            found = await self._ranker.rank(table, layout, asked)
            found = replace(found, ranked=found.ranked[: request.limit])
            near = await table.chunks(context.spans_around([one.row for one in found.ranked]), layout)
            return context.block(request, found, near, table=name)

        return await database.read(name, ask)

    async def fetch(self, request: FetchRequest) -> Page:
        """Whole chunks of one document. Raises what `reading.fetch` raises, and what opening a table does."""
        name = request.table or self._settings.table
        database = await self.dataset.current()

        async def ask(table: Table) -> Page:
            return await reading.fetch(table, self._layout(table, None), request, self._settings.outdated_statuses)

        return await database.read(name, ask)

    async def catalog(self, request: CatalogRequest) -> CatalogReply:
        """The documents of a table. Raises what `listing.list_documents` raises, and what opening a table does."""
        name = request.table or self._settings.table
        database = await self.dataset.current()

        async def ask(table: Table) -> CatalogReply:
            layout = self._layout(table, None)
            return await listing.list_documents(table, layout, request, self._settings.outdated_statuses)

        return await database.read(name, ask)

    async def status(self, *, verbose: bool) -> StatusReply:
        """The database, its tables and what limits them. A problem is part of the answer, never an exception.

        Waits for no sync: before the first, the problem is DATASET_LOADING or DATASET_UNAVAILABLE.
        """
        return await status.report(self.dataset, self._settings, self._ranker, verbose=verbose)

    def _spent(self, tokens: int) -> None:
        if self._counter is not None:
            self._counter(tokens)

    def _layout(self, table: Table, text_column: str | None) -> Layout:
        if text_column and text_column not in {column.name for column in table.columns}:
            raise BedivereError(
                ErrorCode.COLUMN_NOT_FOUND,
                f"The table has no column {text_column[:100]!r}: leave textColumn out, "
                "or name one that lancedb_status with verbose lists.",
            )
        return table.layout(text_column or self._settings.text_column)


async def _sizes(database: Database, name: str, table: Table) -> dict[str, int | None]:
    """Rows of every table of the database; None for one that cannot be read. `table` is the one called `name`."""
    sizes: dict[str, int | None] = {}
    for other in await database.listed():
        try:
            sizes[other] = await (table if other == name else await database.table(other)).count()
        except BedivereError:
            sizes[other] = None
    return sizes


def _checked(question: str, name: str = "query") -> str:
    """`question` in composed form. Raises `BedivereError` INVALID_QUERY, whose sentence calls it `name`."""
    if not question.strip():
        instead = ", or set warmStart to true" if name == "question" else ""
        raise BedivereError(ErrorCode.INVALID_QUERY, f"The {name} is empty: pass the words to search for{instead}.")
    if len(question) > MAX_QUERY_CHARS:
        raise BedivereError(
            ErrorCode.INVALID_QUERY,
            f"The {name} has {len(question):,} characters and at most {MAX_QUERY_CHARS:,} are taken: "
            "ask in fewer words.",
        )
    return nfc(question)
