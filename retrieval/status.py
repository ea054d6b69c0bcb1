"""The state of a dataset, for an agent or an operator: its release, its tables and what limits a search of them."""

from __future__ import annotations

from typing import Final

from retrieval.database import Database
from retrieval.dataset import Dataset
from retrieval.errors import BedivereError, ErrorCode
from retrieval.layout import missing_parts
from retrieval.ranking import Ranker
from retrieval.settings import Settings
from retrieval.table import Table
from retrieval.types import (
    ColumnStatus,
    EmbeddingsStatus,
    IndexStatus,
    ProvenanceStatus,
    ReleaseStatus,
    StatusReply,
    TableStatus,
)

_MAX_LISTED_COLUMNS: Final = 600
_MAX_LISTED_TABLES: Final = 100


async def report(dataset: Dataset, settings: Settings, ranker: Ranker, *, verbose: bool) -> StatusReply:
    """The database, its tables and what limits them. A problem is part of the answer, never an exception.

    Waits for no sync: before the first, the problem is DATASET_LOADING or DATASET_UNAVAILABLE.
    """
    try:
        database = dataset.served()
        names = database.names()
    except BedivereError as error:
        return StatusReply(
            connected=False,
            problem=str(error),
            default_table=settings.table,
            release=_release(dataset),
            tables=[],
            embeddings=EmbeddingsStatus(
                available=False, reason="There is no table to search yet.", model=settings.embedding_model
            ),
        )
    release = _release(dataset)
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
        tables=await _table_statuses(database, names, settings, verbose=verbose),
        embeddings=await _embeddings(database, settings, ranker),
        left_out=max(0, len(names) - _MAX_LISTED_TABLES),
    )


async def _embeddings(database: Database, settings: Settings, ranker: Ranker) -> EmbeddingsStatus:
    """Whether the default table can be searched by meaning."""

    async def ask(table: Table) -> str | None:
        return ranker.vectors(table, None)[1]

    try:
        why_not = await database.read(settings.table, ask)
    except BedivereError:
        why_not = "The default table cannot be read"
    return EmbeddingsStatus(
        available=why_not is None, reason=f"{why_not}." if why_not else None, model=settings.embedding_model
    )


def _release(dataset: Dataset) -> ReleaseStatus | None:
    """What `dataset` says of its release; None where a plain folder serves."""
    state = dataset.state()
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


async def _table_statuses(
    database: Database, names: list[str], settings: Settings, *, verbose: bool
) -> list[TableStatus]:
    """The first tables, and the columns of as many as keep the reply readable."""
    statuses: list[TableStatus] = []
    room = _MAX_LISTED_COLUMNS
    for name in names[:_MAX_LISTED_TABLES]:
        status = await _table_status(database, name, settings, verbose=verbose)
        columns = status.columns or []
        if len(columns) > room:
            note = f"Its {len(columns)} columns are left out to keep the reply small."
            status = status.model_copy(update={"columns": None, "notes": [*status.notes, note]})
            columns = []
        room -= len(columns)
        statuses.append(status)
    return statuses


async def _table_status(database: Database, name: str, settings: Settings, *, verbose: bool) -> TableStatus:
    async def ask(table: Table) -> TableStatus:
        rows = await table.count()
        problem, notes = None, list[str]()
        try:
            notes = missing_parts(table.layout(settings.text_column), table.indexes)
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
