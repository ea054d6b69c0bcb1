"""What is known of embedding models: their length, what they want in front of a text, how much they read, the price.

A model that is not listed works as well: its vectors have the length it gives, and nothing is put in front of a text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

NO_PREFIX: Final = "none"
"""The value of a prefix setting that means no prefix, whatever is known of the model."""


@dataclass(frozen=True, slots=True)
class EmbeddingModel:
    """Facts about a model; None is unknown. `max_tokens` is what it reads of one text."""

    dimensions: int | None = None
    max_tokens: int | None = None
    query_prefix: str = ""
    document_prefix: str = ""
    dollars_per_million_tokens: float | None = None
    """The list price, where the model's owner publishes one for the endpoint that everybody uses."""


_SEARCH_PASSAGES: Final = "Represent this sentence for searching relevant passages: "
_WEB_SEARCH: Final = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: "

# The first pattern that matches the whole name counts. Prefixes are those of the models' own cards.
_MODELS: Final[tuple[tuple[str, EmbeddingModel], ...]] = (
    ("text-embedding-3-small", EmbeddingModel(1536, 8191, dollars_per_million_tokens=0.02)),
    ("text-embedding-3-large", EmbeddingModel(3072, 8191, dollars_per_million_tokens=0.13)),
    ("text-embedding-ada-002", EmbeddingModel(1536, 8191, dollars_per_million_tokens=0.10)),
    ("all-minilm-l(6|12)-v2", EmbeddingModel(384, 256)),
    ("multilingual-e5-large-instruct", EmbeddingModel(1024, 512, query_prefix=_WEB_SEARCH)),
    ("e5-mistral-7b-instruct", EmbeddingModel(4096, 4096, query_prefix=_WEB_SEARCH)),
    (".*\\be5-small.*", EmbeddingModel(384, 512, "query: ", "passage: ")),
    (".*\\be5-base.*", EmbeddingModel(768, 512, "query: ", "passage: ")),
    (".*\\be5-large.*", EmbeddingModel(1024, 512, "query: ", "passage: ")),
    ("bge-small-en.*", EmbeddingModel(384, 512, query_prefix=_SEARCH_PASSAGES)),
    ("bge-base-en.*", EmbeddingModel(768, 512, query_prefix=_SEARCH_PASSAGES)),
    ("bge-large-en.*", EmbeddingModel(1024, 512, query_prefix=_SEARCH_PASSAGES)),
    ("bge-(small|base|large)-zh.*", EmbeddingModel(None, 512, query_prefix="为这个句子生成表示以用于检索相关文章：")),
    ("bge-m3", EmbeddingModel(1024, 8192)),
    ("nomic-embed-text.*", EmbeddingModel(768, None, "search_query: ", "search_document: ")),
    ("mxbai-embed-large.*", EmbeddingModel(1024, 512, query_prefix=_SEARCH_PASSAGES)),
    ("(snowflake-)?arctic-embed(2|-.*v2).*", EmbeddingModel(None, 8192, query_prefix="query: ")),
    ("(snowflake-)?arctic-embed.*", EmbeddingModel(None, 512, query_prefix=_SEARCH_PASSAGES)),
    ("gte-qwen2.*", EmbeddingModel(None, None, query_prefix=_WEB_SEARCH)),
    ("gte-(small|base|large).*", EmbeddingModel()),
    ("qwen3-embedding.*", EmbeddingModel(None, None, query_prefix=_WEB_SEARCH)),
    ("embeddinggemma.*", EmbeddingModel(768, 2048, "task: search result | query: ", "title: none | text: ")),
    ("gemini-embedding-001", EmbeddingModel(3072, 2048)),
)
_PATTERNS: Final = tuple((re.compile(pattern), model) for pattern, model in _MODELS)


def known_model(name: str) -> EmbeddingModel:
    """The facts about the model called `name`, found by the last segment of its path, without a tag, in any case."""
    short = name.rstrip("/").rpartition("/")[2].partition(":")[0].lower()
    return next((model for pattern, model in _PATTERNS if pattern.fullmatch(short)), EmbeddingModel())


def estimated_tokens(text: str) -> int:
    """About how many tokens `text` is, from above: four ASCII characters a token, one of any other script."""
    plain = len(text.encode("ascii", "ignore"))
    return -(-plain // 4) + len(text) - plain
