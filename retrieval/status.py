"""The state of a dataset, for an agent or an operator: its release, its tables and what limits a search of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Final

from retrieval.database import Database
from retrieval.dataset import Dataset
from retrieval.errors import BedivereError, ErrorCode
from retrieval.layout import Layout, missing_parts
from retrieval.ranking import Ranker
from retrieval.schema import VECTOR_COLUMN
from retrieval.search import versions
from retrieval.settings import Settings
from retrieval.status_reply import (
    CollectionStatus,
    ColumnStatus,
    EmbeddingsStatus,
    IndexStatus,
    ProvenanceStatus,
    ReleaseStatus,
    StatusReply,
    TableStatus,
    VectorsStatus,
)
from retrieval.table import Table

_MAX_LISTED_COLUMNS: Final = 600
_MAX_LISTED_TABLES: Final = 100
_MAX_LISTED_COLLECTIONS: Final = 50
_MAX_LISTED_VERSIONS: Final = 20


async def report(dataset: Dataset, settings: Settings, ranker: Ranker, *, verbose: bool) -> StatusReply:
    """The database, its tables and what limits them. A problem is part of the answer, never an exception.

    Waits for no sync: before the first, the problem is DATASET_LOADING or DATASET_UNAVAILABLE.
    """
    try:
        database = dataset.served()
        names = await database.listed()
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
        tables=await _table_statuses(database, names, settings, ranker, verbose=verbose),
        embeddings=await _embeddings(database, settings, ranker),
        left_out=max(0, len(names) - _MAX_LISTED_TABLES),
    )


async def _embeddings(database: Database, settings: Settings, ranker: Ranker) -> EmbeddingsStatus:
    """Whether the default table can be searched by meaning."""

    async def ask(table: Table) -> str | None:
        return ranker.vectors(table).why_not

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
    database: Database, names: list[str], settings: Settings, ranker: Ranker, *, verbose: bool
) -> list[TableStatus]:
    """The first tables, and the columns of as many as keep the reply readable."""
    statuses: list[TableStatus] = []
    room = _MAX_LISTED_COLUMNS
    for name in names[:_MAX_LISTED_TABLES]:
        status = await _table_status(database, name, settings, ranker, verbose=verbose)
        columns = status.columns or []
        if len(columns) > room:
            note = f"Its {len(columns)} columns are left out to keep the reply small."
            status = status.model_copy(update={"columns": None, "notes": [*status.notes, note]})
            columns = []
        room -= len(columns)
        statuses.append(status)
    return statuses


async def _table_status(
    database: Database, name: str, settings: Settings, ranker: Ranker, *, verbose: bool
) -> TableStatus:
    async def ask(table: Table) -> TableStatus:
        rows = await table.count()
        problem, notes, collections = None, list[str](), list[CollectionStatus]()
        try:
            layout = table.layout(settings.text_column)
            notes = missing_parts(layout, table.indexes)
            notes += [note for note in (ranker.on_trust(table), ranker.unused(table)) if note]
            collections = await _collections(table, layout)
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
            vectors=_vectors(table),
            collections=collections,
            provenance=_provenance(table),
            columns=columns if verbose and problem is None else None,
            problem=problem,
            notes=notes,
        )

    try:
        return await database.read(name, ask)
    except BedivereError as error:
        return TableStatus(name=name, problem=str(error))


def _vectors(table: Table) -> list[VectorsStatus]:
    record = (table.provenance.embedding if table.provenance else None) or {}
    found: list[VectorsStatus] = []
    for column, dimensions in table.vectors.items():
        index, told = table.index_of(column), table.measured[column]
        kind = index.type if index else "flat"
        found.append(
            VectorsStatus(
                column=column,
                dimensions=dimensions,
                # As the indexer calls it; LanceDB has a name of its own.
                index=str(record.get("index", kind)) if column == VECTOR_COLUMN else kind,
                recall_at_10=told.get("recall_at_10"),
                calibrated="calibration" in told,
            )
        )
    return found


async def _collections(table: Table, layout: Layout) -> list[CollectionStatus]:
    """What was indexed into the table; nothing of a table of others, whose rows would all have to be read for it."""
    if table.provenance is None:
        return []
    catalog = await table.catalog(layout)
    # By the column: a document is an object, and a large table has many.
    counts = Counter(zip(catalog.columns["collection"], catalog.columns["prefix"], strict=True))
    documents: Counter[str | None] = Counter()
    its_versions: defaultdict[str | None, set[str]] = defaultdict(set)
    for (name, prefix), count in counts.items():
        documents[name] += count
        _, at, version = prefix.removesuffix(":").partition("@")
        if at:
            its_versions[name].add(version)
    return [
        CollectionStatus(
            name=name,
            documents=documents[name],
            versions=sorted(its_versions[name], key=versions.order, reverse=True)[:_MAX_LISTED_VERSIONS],
        )
        for name in sorted(documents, key=lambda name: name or "")[:_MAX_LISTED_COLLECTIONS]
    ]


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
