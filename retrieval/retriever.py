"""What every tool asks: search, context and status, over whatever table there is."""

from __future__ import annotations

from typing import Final, TypeVar, cast

from retrieval.dataset import Dataset, open_dataset
from retrieval.errors import BedivereError, ErrorCode
from retrieval.layout import Layout, missing_parts
from retrieval.search import context, snippet
from retrieval.search.plan import MAX_QUERY_CHARS, TextPlan, plan_text
from retrieval.search.text import MAX_TERMS, nfc
from retrieval.settings import Settings
from retrieval.table import Database, Table
from retrieval.types import (
    ColumnStatus,
    ContextReply,
    ContextRequest,
    EmbeddingsStatus,
    Hit,
    IndexStatus,
    ProvenanceStatus,
    ReleaseStatus,
    Row,
    SearchReply,
    SearchRequest,
    SearchType,
    StatusReply,
    TableStatus,
)

MAX_REPLY_CHARS: Final = 60_000
"""Characters of hits in one reply: more would not fit the model that asked."""

_MAX_METADATA_CHARS: Final = 300
_MAX_METADATA: Final = 64
_MAX_LABEL_CHARS: Final = 600
_MAX_LISTED_COLUMNS: Final = 600
_MAX_LISTED_TABLES: Final = 100
_WARM_START_ROWS: Final = 200_000

T = TypeVar("T")

_NO_VECTORS: Final = "Vector and hybrid search are not available in this version"


class Retriever:
    """Answers from the tables of one dataset. Cheap to make: nothing is opened until it is asked.

    Each question is answered from one database from beginning to end, whatever release takes over meanwhile.
    """

    def __init__(self, settings: Settings, dataset: Dataset | None = None) -> None:
        self.dataset = dataset or open_dataset(settings)
        self._settings = settings

    def start(self) -> None:
        """Begins to fetch a released dataset, in a thread. Cheap, may be called often, never raises."""
        self.dataset.start()

    async def search(self, request: SearchRequest) -> SearchReply:
        """Ranked hits for a question.

        Raises `BedivereError`: INVALID_QUERY, TABLE_NOT_FOUND, COLUMN_NOT_FOUND, TEXT_COLUMN_MISSING, TOO_MANY_COLUMNS,
        DATABASE_NOT_SET, DATABASE_NOT_FOUND, TABLE_UNREADABLE, DATASET_LOADING or DATASET_UNAVAILABLE.
        """
        question = _checked(request.query)
        name = request.table or self._settings.table
        database = await self.dataset.current()

        async def ask(table: Table) -> SearchReply:
            if request.text_column and request.text_column not in {column.name for column in table.columns}:
                raise BedivereError(
                    ErrorCode.COLUMN_NOT_FOUND,
                    f"The table has no column {request.text_column[:100]!r}: leave textColumn out, "
                    "or name one that lancedb_status with verbose lists.",
                )
            layout = self._layout(table, request.text_column)
            notes = _notes(table, layout, request.search_type)
            if request.vector_column and request.vector_column not in {column.name for column in table.columns}:
                notes.append(f"The table has no column {request.vector_column[:100]!r}; text search does not need it.")
            if request.path_prefix and layout.path is None:
                raise BedivereError(ErrorCode.COLUMN_NOT_FOUND, "The table has no column of paths to filter by.")
            plan = _plan(question, layout, notes)
            prefix = nfc(request.path_prefix) if request.path_prefix else None
            rows = await table.search_text(plan, layout, request.limit, path_prefix=prefix)
            hits, truncated = _within_reply(rows, question)
            if truncated:
                notes.append(
                    f"{len(rows) - len(hits)} further hits were left out to keep the reply under "
                    f"{MAX_REPLY_CHARS:,} characters; ask for a smaller limit or a narrower question."
                )
            if not rows:
                notes.append("Nothing in the table matches any word of the query.")
            return SearchReply(search_type="text", table=name, hits=hits, truncated=truncated, notes=notes)

        return await database.read(name, ask)

    async def context(self, request: ContextRequest) -> ContextReply:
        """One Markdown block for a question, or an overview of the corpus. Raises what `search` raises."""
        if not request.warm_start:
            _checked(request.question, "question")
        name = request.table or self._settings.table
        database = await self.dataset.current()

        async def ask(table: Table) -> ContextReply:
            layout = self._layout(table, None)
            notes = _notes(table, layout, "auto")
            if request.warm_start:
                pages = [page async for page in table.pages(layout, _WARM_START_ROWS)]
                sizes = await _sizes(database, name, table)
                return context.overview(request, pages, sizes, table=name, notes=notes)
            plan = _plan(nfc(request.question), layout, notes)
            hits = await table.search_text(plan, layout, request.limit)
            near = await table.chunks(context.spans_around(hits), layout)
            return context.block(request, hits, near, table=name, notes=notes)

        return await database.read(name, ask)

    async def status(self, *, verbose: bool) -> StatusReply:
        """The database, its tables and what limits them. A problem is part of the answer, never an exception.

        Waits for no sync: before the first, the problem is DATASET_LOADING or DATASET_UNAVAILABLE.
        """
        settings = self._settings
        embeddings = EmbeddingsStatus(available=False, reason=f"{_NO_VECTORS}.", model=settings.embedding_model)
        try:
            database = self.dataset.served()
            names = database.names()
        except BedivereError as error:
            return StatusReply(
                connected=False,
                problem=str(error),
                default_table=settings.table,
                release=self._release(),
                tables=[],
                embeddings=embeddings,
            )
        release = self._release()
        problem = None
        if settings.table not in names:
            problem = (
                f"{ErrorCode.TABLE_NOT_FOUND}: There is no table {settings.table!r}, the default; "
                "set LANCEDB_TABLE, or pass table in each call."
            )
        return StatusReply(
            connected=True,
            problem=problem,
            default_table=settings.table,
            release=release,
            tables=await self._table_statuses(database, names, verbose=verbose),
            embeddings=embeddings,
            left_out=max(0, len(names) - _MAX_LISTED_TABLES),
        )

    def _release(self) -> ReleaseStatus | None:
        """What `dataset` says of its release; None where a plain folder serves."""
        state = self.dataset.state()
        if not state.from_releases:
            return None
        return ReleaseStatus(
            id=state.release,
            created_at=state.created_at,
            age_seconds=state.age_seconds,
            synced_at=state.synced_at,
            sync_ms=state.sync_milliseconds,
            sync_bytes=state.sync_bytes,
            last_failure=str(state.failure.code) if state.failure else None,
        )

    async def _table_statuses(self, database: Database, names: list[str], *, verbose: bool) -> list[TableStatus]:
        """The first tables, and the columns of as many as keep the reply readable."""
        statuses: list[TableStatus] = []
        room = _MAX_LISTED_COLUMNS
        for name in names[:_MAX_LISTED_TABLES]:
            status = await self._table_status(database, name, verbose=verbose)
            columns = status.columns or []
            if len(columns) > room:
                note = f"Its {len(columns)} columns are left out to keep the reply small."
                status = status.model_copy(update={"columns": None, "notes": [*status.notes, note]})
                columns = []
            room -= len(columns)
            statuses.append(status)
        return statuses

    async def _table_status(self, database: Database, name: str, *, verbose: bool) -> TableStatus:
        async def ask(table: Table) -> TableStatus:
            rows = await table.count()
            problem, notes = None, list[str]()
            try:
                notes = missing_parts(self._layout(table, None), table.indexes)
            except BedivereError as error:
                problem = str(error)
            columns = [ColumnStatus(name=column.name, type=column.type) for column in table.columns]
            return TableStatus(
                name=name,
                rows=rows,
                indexes=[
                    IndexStatus(column=i.column, type=i.type, indexed=i.indexed, unindexed=i.unindexed)
                    for i in table.indexes
                ],
                provenance=_provenance(table),
                columns=columns if verbose and problem is None else None,
                problem=problem,
                notes=notes,
            )

        try:
            return await database.read(name, ask)
        except BedivereError as error:
            return TableStatus(name=name, problem=str(error))

    def _layout(self, table: Table, text_column: str | None) -> Layout:
        return table.layout(text_column or self._settings.text_column)


async def _sizes(database: Database, name: str, table: Table) -> dict[str, int | None]:
    """Rows of every table of the database; None for one that cannot be read. `table` is the one called `name`."""
    sizes: dict[str, int | None] = {}
    for other in database.names():
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


def _plan(question: str, layout: Layout, notes: list[str]) -> TextPlan:
    plan = plan_text(question, layout.searchable)
    if plan is None:
        raise BedivereError(
            ErrorCode.INVALID_QUERY, "The query holds no word, only punctuation: pass the words to search for."
        )
    if plan.cut:
        notes.append(f"Only the first {MAX_TERMS} words of the query were searched.")
    return plan


def _notes(table: Table, layout: Layout, asked: SearchType) -> list[str]:
    notes = missing_parts(layout, table.indexes)
    if asked in {"vector", "hybrid"}:
        notes.insert(0, f"{_NO_VECTORS}; text search answered instead.")
    return notes


def _within_reply(rows: list[Row], question: str) -> tuple[list[Hit], bool]:
    """Hits for `rows` as far as they fit one reply, and whether any was left out."""
    hits: list[Hit] = []
    spent = 0
    for row in rows:
        hit = _hit(row, question)
        spent += len(hit.model_dump_json())
        if spent > MAX_REPLY_CHARS:
            return hits, True
        hits.append(hit)
    return hits, False


def _hit(row: Row, question: str) -> Hit:
    return Hit(
        id=row.id,
        title=_cut(row.title, _MAX_LABEL_CHARS),
        heading=_cut(row.heading, _MAX_LABEL_CHARS),
        path=row.path,
        url=row.url,
        snippet=snippet.snippet(row.text, question),
        score=round(row.score, 4),
        metadata={name: _cut(row.metadata[name], _MAX_METADATA_CHARS) for name in list(row.metadata)[:_MAX_METADATA]},
    )


def _cut(value: T, chars: int) -> T:
    """`value`, if it is text, in at most `chars` characters."""
    if isinstance(value, str) and len(value) > chars:
        return cast("T", value[: chars - 1] + "…")
    return value


def _provenance(table: Table) -> ProvenanceStatus | None:
    record = table.provenance
    if record is None:
        return None
    return ProvenanceStatus(
        built_at=record.built_at,
        tool_version=record.tool_version,
        lancedb_version=record.lancedb_version,
        corpus_version=record.corpus_version,
        files=record.source.get("files"),
        revision=record.source.get("revision"),
        embedding_model=(record.embedding or {}).get("model"),
    )
