"""What the tests of the search share: tables built of a few small documents, and questions put to them."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false
from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options
from retrieval.provider import Endpoint
from retrieval.retriever import Retriever
from retrieval.settings import Settings, load_settings
from retrieval.status_reply import StatusReply
from retrieval.types import ContextReply, ContextRequest, SearchReply, SearchRequest
from tests.embedding_server import DIMENSIONS, MODEL, EmbeddingServer, vector_of

DATABASE = "database"


def index(folder: Path, documents: Mapping[str, str], server: EmbeddingServer | None = None, **options: Any) -> Path:
    """Indexes `documents`, texts by path, into the database below `folder`, with vectors where there is a server.

    Another collection or version of the same folder stands beside those before.
    """
    source = folder / "-".join(["docs", *(str(value) for value in options.values())])
    for path, text in documents.items():
        file = source / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    endpoint = Endpoint(settings(folder / DATABASE, server)) if server else None
    build_table(Options(source, folder / DATABASE, embed=server is not None, endpoint=endpoint, **options))
    return folder / DATABASE


def settings(database: Path, server: EmbeddingServer | None = None, **given: Any) -> Settings:
    provider = {"openai_base_url": server.url, "embedding_model": MODEL} if server else {}
    return load_settings(**({"database": str(database)} | provider | given))


def retriever(database: Path, server: EmbeddingServer | None = None, **given: Any) -> Retriever:
    return Retriever(settings(database, server, **given))


def ask(asked: Retriever, query: str, *, limit: int = 10, **request: Any) -> SearchReply:
    return asyncio.run(asked.search(SearchRequest(query=query, limit=limit, **request)))


def ask_context(
    asked: Retriever, question: str, *, budget: int = 8_000, limit: int = 20, **request: Any
) -> ContextReply:
    return asyncio.run(asked.context(ContextRequest(question=question, budget=budget, limit=limit, **request)))


def paths(reply: SearchReply) -> list[str | None]:
    return [hit.path for hit in reply.hits]


def status(database: Path | str | None, *, verbose: bool = False) -> StatusReply:
    return asyncio.run(Retriever(load_settings(database=str(database) if database else None)).status(verbose=verbose))


def vectors_of(texts: list[str]) -> Any:
    """A column of the vectors that the server of embeddings gives `texts`."""
    return pa.array([vector_of(text) for text in texts], pa.list_(pa.float32(), DIMENSIONS))
