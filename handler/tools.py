"""The tools: the contract that an agent reads, and the retriever's answer. No MCP types here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcp_types.version import KNOWN_PROTOCOL_VERSIONS

from handler import __version__
from handler.arguments import (
    CatalogArguments,
    FetchArguments,
    QueryArguments,
    SearchArguments,
    StatusArguments,
    VersionArguments,
    narrowing,
)
from handler.contract import Service, Tool
from retrieval.core import lancedb_version
from retrieval.status_reply import StatusReply
from retrieval.types import (
    CatalogReply,
    CatalogRequest,
    ContextReply,
    ContextRequest,
    FetchRequest,
    Page,
    SearchReply,
    SearchRequest,
    VersionReply,
)

FEATURES: Final = (
    "text search",
    "vector search",
    "hybrid search",
    "identifiers",
    "phrases",
    "spelling correction",
    "filters",
    "versions",
    "outdated documents",
    "relevance threshold",
    "context blocks",
    "warm start",
    "fetch",
    "catalog",
    "any Lance table",
)


async def _search(service: Service, arguments: SearchArguments) -> SearchReply:
    return await service.retriever.search(
        SearchRequest(
            query=arguments.query,
            limit=arguments.limit,
            search_type=arguments.search_type,
            table=arguments.table,
            text_column=arguments.text_column,
            vector_column=arguments.vector_column,
            narrowing=narrowing(arguments),
            collapse=arguments.collapse == "document",
            expand=arguments.expand.as_asked(),
            min_score=arguments.min_score,
        )
    )


async def _query(service: Service, arguments: QueryArguments) -> ContextReply:
    return await service.retriever.context(
        ContextRequest(
            question=arguments.question,
            budget=arguments.context_budget,
            limit=arguments.limit,
            warm_start=arguments.warm_start,
            table=arguments.table,
            search_type=arguments.search_type,
            narrowing=narrowing(arguments),
            min_score=arguments.min_score,
        )
    )


async def _fetch(service: Service, arguments: FetchArguments) -> Page:
    return await service.retriever.fetch(
        FetchRequest(
            id=arguments.id,
            path=arguments.path,
            before=arguments.before,
            after=arguments.after,
            headings=tuple(arguments.headings),
            cursor=arguments.cursor,
            max_chars=arguments.max_chars,
            table=arguments.table,
            collection=arguments.collection,
            version=arguments.version,
        )
    )


async def _catalog(service: Service, arguments: CatalogArguments) -> CatalogReply:
    return await service.retriever.catalog(
        CatalogRequest(
            narrowing=narrowing(arguments),
            status=arguments.status,
            fields=tuple(arguments.fields),
            limit=arguments.limit,
            cursor=arguments.cursor,
            if_corpus_version=arguments.if_corpus_version,
            table=arguments.table,
        )
    )


async def _status(service: Service, arguments: StatusArguments) -> StatusReply:
    return await service.retriever.status(verbose=arguments.verbose)


async def _version(service: Service, arguments: VersionArguments) -> VersionReply:
    del service, arguments
    return VersionReply(
        product="Bedivere",
        version=__version__,
        protocol_versions=list(reversed(KNOWN_PROTOCOL_VERSIONS)),
        lancedb=lancedb_version(),
        features=list(FEATURES),
    )


TOOLS: Final[Mapping[str, Tool[Any]]] = {
    tool.name: tool
    for tool in (
        Tool(
            name="lancedb_search",
            title="Search documents",
            description=(
                "Search the indexed documents and return ranked hits, each with a short snippet, its title, heading, "
                "path and URL to cite, its metadata, and why it matched. Use it to find which passages or documents "
                "speak of something and to compare candidates; use lancedb_query instead to get full text to answer a "
                "question from, lancedb_fetch to read a hit in its document, lancedb_catalog to list documents. "
                "Read-only.\n\n"
                "Best first. No hits means that the documents do not hold an answer (rejected is the nearest "
                "passage): say so, or try other words; do not invent. corrections says which words were read as "
                "others, outdated which hits no longer hold, notes what limits the answer.\n\n"
                "Errors are CODE: sentence and say what to change; with DATABASE_… and TABLE_UNREADABLE only the "
                "server's owner can help."
            ),
            arguments=SearchArguments,
            reply=SearchReply,
            run=_search,
        ),
        Tool(
            name="lancedb_query",
            title="Get context for a question",
            description=(
                "Retrieve the passages that answer a question as one Markdown block within a budget of characters: a "
                "passage a section, each with title, headings, status and source to cite; whole chunks only, "
                "neighbours joined in document order. Use it when you are about to answer from the documents; use "
                "lancedb_search instead to scan many candidates by snippet, lancedb_fetch to read one document on. "
                "With warmStart true it returns an overview of the corpus: use that once, first, when you do not know "
                "what is in it. Read-only.\n\n"
                "leftOut counts matching chunks that did not fit; the block says how to get them. No passages and none "
                "left out means that the documents do not hold an answer: say so, do not invent.\n\n"
                "Errors are CODE: sentence and say what to change; with DATABASE_… and TABLE_UNREADABLE only the "
                "server's owner can help."
            ),
            arguments=QueryArguments,
            reply=ContextReply,
            run=_query,
        ),
        Tool(
            name="lancedb_fetch",
            title="Read a document",
            description=(
                "Read text by its place rather than by its words: a chunk by id with its neighbours, or a whole "
                "document by path, page by page (pass cursor alone to read on). Use it after lancedb_search or "
                "lancedb_catalog named what to read; use lancedb_query instead when you have a question and no "
                "document. Read-only.\n\n"
                "Pass exactly one of id, path and cursor. Whole chunks only, in order; a document that no longer holds "
                "comes with outdated. DOCUMENT_NOT_FOUND names the nearest paths; after CURSOR_STALE begin again "
                "without cursor."
            ),
            arguments=FetchArguments,
            reply=Page,
            run=_fetch,
        ),
        Tool(
            name="lancedb_catalog",
            title="List documents",
            description=(
                "List the documents themselves, by path: title, url, collection, version, status, date, successor, "
                "count of chunks. Use it to see what there is, which versions and statuses, or whether anything "
                "changed (ifCorpusVersion); use lancedb_search instead to find documents by what they say. "
                "Read-only.\n\n"
                "Outdated documents and all versions are listed unless you narrow them. Pass cursor with the same "
                "arguments for the next page."
            ),
            arguments=CatalogArguments,
            reply=CatalogReply,
            run=_catalog,
        ),
        Tool(
            name="lancedb_status",
            title="Report the database's state",
            description=(
                "Report the state of the database: whether it can be read, its tables with their rows, indexes and "
                "provenance (when and from what they were built), and whether vector search is available or why not. "
                "Use it to choose a table, or to find out why a search failed or found nothing; use lancedb_version "
                "for what software is running. Read-only, takes no query and returns no document text.\n\n"
                "A table with a problem is listed with its CODE: sentence instead of failing the call. An empty list "
                "of tables means that nothing has been indexed yet."
            ),
            arguments=StatusArguments,
            reply=StatusReply,
            run=_status,
        ),
        Tool(
            name="lancedb_version",
            title="Report the version",
            description=(
                "Report which Bedivere is running: its version, the MCP protocol versions it serves, the LanceDB that "
                "reads the tables, and what it can do. Use it when you file a bug or check compatibility; "
                "use lancedb_status for the data instead. Read-only, takes no arguments, and answers even where no "
                "database is configured."
            ),
            arguments=VersionArguments,
            reply=VersionReply,
            run=_version,
        ),
    )
}
