"""The documents of a table, by path: which there are, and what each says of itself."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final
from weakref import WeakKeyDictionary

from pydantic.alias_generators import to_camel

from retrieval.catalog import Catalog, Document
from retrieval.errors import BedivereError, ErrorCode
from retrieval.layout import Layout
from retrieval.nearest import shown
from retrieval.notes import Advice
from retrieval.reading import state
from retrieval.search import cursor, filters, lifecycle, versions
from retrieval.search.filters import NOTHING, AllOf, AnyOf, Condition, Not, Where
from retrieval.table import Table
from retrieval.types import CatalogEntry, CatalogReply, CatalogRequest

MAX_CATALOG_PAGE: Final = 1_000

_MAX_REPLY_CHARS: Final = 60_000
_MAX_LABEL_CHARS: Final = 600
_LISTED_STATUSES: Final = 20

FIELDS: Final = {to_camel(name): name for name in CatalogEntry.model_fields}


_ordered: Final[WeakKeyDictionary[Catalog, Sequence[Document]]] = WeakKeyDictionary()


async def list_documents(table: Table, layout: Layout, request: CatalogRequest, words: Collection[str]) -> CatalogReply:
    """The page of documents that `request` asks for; `words` are the statuses of outdated documents.

    Raises `BedivereError`: INVALID_ARGUMENT, INVALID_FILTER, COLUMN_NOT_FOUND where the table names no documents,
    INVALID_CURSOR or CURSOR_STALE.
    """
    fields = _fields(request.fields)
    if layout.path is None:
        raise BedivereError(
            ErrorCode.COLUMN_NOT_FOUND,
            "The table has no column that names the document of a chunk, so there are no documents to list: "
            "lancedb_search finds its chunks.",
        )
    corpus = table.provenance.corpus_version if table.provenance else None
    # Who reads on wants the next page, whatever it was that the first one compared.
    if corpus is not None and request.if_corpus_version == corpus and request.cursor is None:
        return CatalogReply(table=table.name, corpus_version=corpus, unchanged=True, documents=[])
    catalog = await table.catalog(layout)
    anchor = cursor.Anchor("catalog", table.name, state(table, catalog), _repeated(request))
    start = _start(anchor, request.cursor) if request.cursor is not None else 0
    where = _where(table, layout, request)
    found = await _narrowed(table, layout, catalog, request, words, where)
    if start and start >= len(found):
        raise cursor.invalid(anchor)
    entries: list[CatalogEntry] = []
    spent = 0
    for document in found[start : start + request.limit]:
        entry = _entry(document, fields)
        spent += len(entry.model_dump_json(exclude_none=True))
        if entries and spent > _MAX_REPLY_CHARS:
            break
        entries.append(entry)
    following = start + len(entries)
    return CatalogReply(
        table=table.name,
        corpus_version=corpus,
        total=len(found),
        documents=entries,
        cursor=cursor.encode(anchor, {"next": following}) if following < len(found) else None,
        notes=[*_notes(catalog, found, request, corpus, words), *await table.undated(filters.dated(where))],
    )


def _fields(asked: Sequence[str]) -> frozenset[str]:
    """The fields of an entry that are wanted. Raises `BedivereError` INVALID_ARGUMENT."""
    known = {filters.folded(field): field for field in FIELDS}
    asked = [known.get(filters.folded(name[:60]), name) for name in asked]
    for name in asked:
        if name not in FIELDS:
            nearest = max(FIELDS, key=lambda known: difflib.SequenceMatcher(None, name[:60], known).ratio())
            raise BedivereError(
                ErrorCode.INVALID_ARGUMENT,
                f"A document has no field {shown(name)}; did you mean {nearest!r}? Its fields are {', '.join(FIELDS)}.",
            )
    return frozenset(FIELDS[name] for name in asked) or frozenset(FIELDS.values())


def _repeated(request: CatalogRequest) -> object:
    """What decides which documents are listed and in which order: the same on every page."""
    narrowing = request.narrowing
    return [
        dict(narrowing.filters),
        narrowing.path_prefix,
        list(narrowing.exclude),
        narrowing.collection,
        narrowing.version,
        narrowing.include_outdated,
        request.status,
    ]


def _start(anchor: cursor.Anchor, given: str) -> int:
    match cursor.decode(anchor, given):
        case {"next": int(start)} if start > 0:
            return start
        case _:
            raise cursor.invalid(anchor)


def _in_order(catalog: Catalog) -> Sequence[Document]:
    """All documents as they are listed; sorted once, because many thousands take longer than all else of a call."""
    ordered = _ordered.get(catalog)
    if ordered is None:
        ordered = _ordered[catalog] = sorted(catalog.documents, key=_place)
    return ordered


def _place(document: Document) -> tuple[object, ...]:
    return (document.path, document.collection or "", versions.order(document.version or ""), document.prefix)


async def _narrowed(
    table: Table,
    layout: Layout,
    catalog: Catalog,
    request: CatalogRequest,
    words: Collection[str],
    where: Where | None,
) -> Sequence[Document]:
    """The documents that `request` is about and whose chunks `where` lets through, in their order."""
    narrowing = request.narrowing
    documents = _in_order(catalog)
    if where is not None:
        # Which documents pass is all that is asked: their text stays where it is.
        thin = replace(
            layout,
            text=str(layout.path),
            title=None,
            heading=None,
            url=None,
            metadata=tuple(name for name in layout.metadata if name in {"collection", "version"}),
        )
        passing = {document for row in await table.select(where, thin) if (document := catalog.of(row))}
        documents = sorted(passing, key=_place)
    if narrowing.collection is narrowing.version is request.status is None and narrowing.include_outdated:
        return documents
    there = catalog.versions(narrowing.collection)
    meant = {narrowing.version} & there or {one for one in there if versions.same(one, narrowing.version or "")}
    return [
        document
        for document in documents
        if (narrowing.collection is None or document.collection == narrowing.collection)
        and (narrowing.version is None or document.version in meant)
        and (request.status is None or lifecycle.hides(document.status, (request.status,)))
        and (narrowing.include_outdated or not lifecycle.outdated(document, words))
    ]


def _where(table: Table, layout: Layout, request: CatalogRequest) -> Where | None:
    narrowing = request.narrowing
    asked = filters.all_of(
        [
            filters.parse(narrowing.filters, table.columns, layout),
            filters.under(narrowing.path_prefix, layout) if narrowing.path_prefix else None,
            filters.excluding(narrowing.exclude, layout),
        ]
    )
    chunkwise = {layout.id, layout.text, layout.heading, layout.url, layout.ordinal}
    if asked is None or table.provenance is None or layout.ordinal is None or chunkwise & _columns(asked):
        return asked
    # What a document says of itself stands in each of its chunks: the first will do.
    return filters.all_of([asked, Condition(layout.ordinal, "eq", 0)])


def _columns(where: Where) -> set[str]:
    match where:
        case AllOf(parts) | AnyOf(parts):
            return {column for part in parts for column in _columns(part)}
        case Not(part):
            return _columns(part)
        case Condition(column):
            return {column}


def _entry(document: Document, fields: Collection[str]) -> CatalogEntry:
    entry = CatalogEntry(
        path=document.path,
        title=_cut(document.title),
        url=document.url,
        collection=document.collection,
        version=document.version,
        status=_cut(document.status),
        date=_cut(document.date),
        superseded_by=_cut(document.superseded_by),
        chunks=document.chunks,
        id=document.first_id or None,
    )
    return entry.model_copy(update={name: None for name in FIELDS.values() if name not in fields})


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= _MAX_LABEL_CHARS else text[: _MAX_LABEL_CHARS - 1] + "…"


def _notes(
    catalog: Catalog, found: Sequence[Document], request: CatalogRequest, corpus: str | None, words: Collection[str]
) -> list[str]:
    notes: list[str] = []
    if request.if_corpus_version is not None and corpus is None:
        notes.append("Another tool wrote the table, so it has no corpus version: whether it changed is not known.")
    if not found and catalog.documents:
        listed = ", ".join(shown(status) for status in sorted(catalog.statuses)[:_LISTED_STATUSES]) or "none"
        also = f" The statuses there are: {listed}." if request.status else ""
        narrowing = request.narrowing
        left_out = not narrowing.include_outdated and request.status is not None
        outdated = left_out and any(
            lifecycle.hides(status, words) and lifecycle.hides(status, (request.status or "",))
            for status in catalog.statuses
        )
        choice = versions.chosen(catalog, narrowing.collection, narrowing.version)
        unknown = choice.note if choice.where == NOTHING else None
        hidden = f" Outdated ones were left out: {Advice.OUTDATED_TOO} to list them." if outdated else ""
        notes.append(unknown or f"None of the {len(catalog.documents):,} documents passes the filters.{hidden or also}")
    return notes
