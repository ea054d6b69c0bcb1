"""The vectors of a table in one run of the indexer: whether it has any, which must be paid for, and their column."""

# pyarrow ships no types: what comes out of it is checked where it enters our own types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
from __future__ import annotations

import asyncio
from array import array
from collections.abc import Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from retrieval.errors import BedivereError, ErrorCode
from retrieval.indexing.calibration import FOREIGN_QUESTIONS, Questions, own_questions
from retrieval.indexing.embedder import DocumentEmbedder, Spent
from retrieval.indexing.job import Embedded, Options, Progress
from retrieval.indexing.lance import OldTable
from retrieval.indexing.rows import searched_text
from retrieval.indexing.spool import Spool
from retrieval.indexing.vector_index import kind_for
from retrieval.indexing.vectors import VectorCache, Way
from retrieval.models import estimated_tokens
from retrieval.provider import NOT_CONFIGURED, EmbeddingUnavailable, Endpoint
from retrieval.schema import VECTOR_COLUMN

CACHE_SUFFIX: Final = ".vectors"

_UNTOUCHED: Final = "the old table, if any, is untouched."
_WAYS_OUT: Final = "pass --no-embed to go on without vectors."


def planned(options: Options, folder: Path, recorded: Mapping[str, Any] | None) -> TableVectors | None:
    """What gives the table its vectors; None where it is to have none.

    `recorded` is the old table's record of its vectors, and `folder` where vectors are kept. A table that has vectors
    keeps them unless told otherwise. Raises EMBEDDING_NOT_SET and EMBEDDING_MISMATCH.
    """
    wanted = recorded is not None if options.embed is None else options.embed
    if not wanted:
        return None
    endpoint = options.endpoint
    if endpoint is None or (options.embed and not endpoint.configured):
        raise _not_set(f"{'Embedding was asked for' if options.embed else 'The table has vectors'}. {NOT_CONFIGURED}")
    if recorded is not None and not (options.embed and options.rebuild):
        _refuse_mixture(endpoint, recorded)
        return TableVectors(endpoint, folder, recorded)
    return TableVectors(endpoint, folder, None)


def _refuse_mixture(endpoint: Endpoint, recorded: Mapping[str, Any]) -> None:
    model, dimensions = recorded.get("model"), recorded.get("dimensions")
    ours = endpoint.dimensions
    if model == endpoint.model and (ours is None or ours == dimensions):
        return
    if not endpoint.configured:
        needed = f"EMBEDDING_MODEL={model}"
        if endpoint.asked_dimensions not in {None, dimensions}:
            needed += f" and EMBEDDING_DIMENSIONS={dimensions}"
        raise _not_set(
            f"The table has vectors of model {model!r} with {dimensions:,} dimensions. "
            f"{NOT_CONFIGURED.rstrip('.')}, with {needed}"
        )
    configured = f"{endpoint.model!r}" + (f" with {ours:,} dimensions" if ours is not None else "")
    raise BedivereError(
        ErrorCode.EMBEDDING_MISMATCH,
        f"The table's vectors are of model {model!r} with {dimensions:,} dimensions, and {configured} is configured: "
        "set EMBEDDING_MODEL and EMBEDDING_DIMENSIONS to the table's, embed all of it anew with --embed --rebuild, or "
        f"{_WAYS_OUT}",
    )


def _not_set(sentence: str) -> BedivereError:
    return BedivereError(ErrorCode.EMBEDDING_NOT_SET, f"{sentence.rstrip('.')}; or {_WAYS_OUT}")


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


class TableVectors:
    """Fills the cache with the vectors of all rows, then hands them out with the rows."""

    def __init__(self, endpoint: Endpoint, folder: Path, recorded: Mapping[str, Any] | None) -> None:
        self._endpoint = endpoint
        self._recorded = recorded
        self._way = Way(endpoint.model, endpoint.asked_dimensions, endpoint.document_prefix)
        self._folder = folder
        self._cache: VectorCache | None = None
        self._used: set[bytes] = set()
        self._spent = Spent()

    def are_those_of(self, record: Mapping[str, Any] | None) -> bool:
        """Whether a table of this record has the vectors that would be made now."""
        if record is None:
            return False
        made = (record.get("model"), record.get("document_prefix", ""))
        lengths = {record.get("dimensions"), self._endpoint.dimensions or record.get("dimensions")}
        return made == (self._endpoint.model, self._endpoint.document_prefix) and len(lengths) == 1

    def fill(self, spool: Spool, old: OldTable | None, progress: Progress) -> dict[str, Any]:
        """Gets the vectors of all rows of `spool` and returns the record of them for the provenance.

        Raises EMBEDDING_NOT_SET, EMBEDDING_FAILED; what was paid for before is kept.
        """
        cache = self._cache = VectorCache(self._folder, self._way)
        self._used = set()
        missing, tokens = self._missing(spool, cache)
        if missing and old and self.are_those_of(old.provenance.embedding):
            # The table before holds them too, where the cache was lost.
            self._take_over(old, cache, missing)
            missing, tokens = self._missing(spool, cache)
        if missing:
            self._spent = self._embed(spool, cache, missing, tokens, progress)
        return {
            "model": self._endpoint.model,
            "dimensions": cache.dimensions,
            "document_prefix": self._endpoint.document_prefix,
            "index": kind_for(spool.rows),
        }

    def questions(self, spool: Spool, progress: Progress) -> Questions | None:
        """Vectors of questions to measure the table by; None where the provider gives none. After `fill`."""
        cache = self._filled()
        own = own_questions(
            chunk
            for batch in spool.read()
            for chunk in zip(*(batch.column(name).to_pylist() for name in ("title", "heading", "text")), strict=True)
        )
        asked = {self._question_key(text): text for text in (*FOREIGN_QUESTIONS, *own)}
        self._used |= asked.keys()
        missing = [(key, text) for key, text in asked.items() if key not in cache]
        if missing:
            progress.stage("Embedding questions to measure by")
            embedder = DocumentEmbedder(
                self._endpoint,
                cache.dimensions,
                cache.add,
                lambda _texts, _tokens: None,
                progress.waiting,
                prefix=self._endpoint.query_prefix,
            )
            try:
                spent = asyncio.run(embedder.run(missing))
            except EmbeddingUnavailable:
                # The table is whole without: search then does not ask how near its passages come.
                return None
            self._spent.tokens += spent.tokens
        foreign, of_its_own = (
            cache.column(self._question_key(text) for text in texts).to_pylist() for texts in (FOREIGN_QUESTIONS, own)
        )
        return Questions(foreign, of_its_own)

    def _question_key(self, text: str) -> bytes:
        # Beside the documents' vectors, and never one of them: no document holds this character.
        return self._way.key(f"\0{self._endpoint.query_prefix}{text}")

    def summary(self, record: Mapping[str, Any]) -> Embedded:
        """What the table's `record` of its vectors says, and what this run paid."""
        spent, price = self._spent, self._endpoint.dollars_per_million_tokens
        return Embedded(
            model=self._endpoint.model,
            dimensions=record["dimensions"],
            index=record.get("index", "flat"),
            recall_at_10=record.get("recall_at_10"),
            texts=spent.texts,
            tokens=spent.tokens,
            dollars=None if price is None else round(spent.tokens * price / 1_000_000, 4),
            truncated=spent.truncated,
        )

    def attached(
        self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
    ) -> tuple[pa.Schema, Generator[pa.RecordBatch]]:
        """The rows with their vectors as a last column, and the schema of that. After `fill`."""
        cache = self._filled()
        wider = schema.append(pa.field(VECTOR_COLUMN, pa.list_(pa.float32(), cache.dimensions or 0)))

        def rows() -> Generator[pa.RecordBatch]:
            for batch in batches:
                column = cache.column(self._way.key(text) for text in texts_of(batch))
                yield pa.RecordBatch.from_arrays([*batch.columns, column], schema=wider)

        return wider, rows()

    def sweep(self) -> None:
        """Lets go of vectors that no row of the table has any more. After the table is in its place."""
        self._filled().sweep(self._used)

    def close(self) -> None:
        if self._cache is not None:
            self._cache.close()

    def _filled(self) -> VectorCache:
        if self._cache is None:
            raise RuntimeError("the vectors are not there before they are asked for")
        return self._cache

    def _missing(self, spool: Spool, cache: VectorCache) -> tuple[set[bytes], int]:
        """The keys of what must be embedded, and about how many tokens that is."""
        missing: set[bytes] = set()
        tokens = 0
        for batch in spool.read():
            for text in texts_of(batch):
                key = self._way.key(text)
                self._used.add(key)
                if key not in cache and key not in missing:
                    missing.add(key)
                    tokens += estimated_tokens(self._endpoint.document_prefix + text)
        return missing, tokens

    def _take_over(self, old: OldTable, cache: VectorCache, missing: set[bytes]) -> None:
        for batch in old.embedded():
            keys = [self._way.key(text) for text in texts_of(batch)]
            vectors = batch.column(VECTOR_COLUMN)
            taken: dict[bytes, array[float]] = {}
            for row, key in enumerate(keys):
                if key in missing and key not in cache and vectors[row].is_valid:
                    taken[key] = array("f", vectors[row].as_py())
            cache.add(list(taken), list(taken.values()))

    def _embed(self, spool: Spool, cache: VectorCache, missing: set[bytes], tokens: int, progress: Progress) -> Spent:
        if not self._endpoint.configured:
            raise _not_set(f"{_counted(len(missing), 'chunk has', 'chunks have')} no vector yet. {NOT_CONFIGURED}")
        price = self._endpoint.dollars_per_million_tokens
        progress.stage("Embedding")
        progress.embedding(len(missing), tokens, None if price is None else tokens * price / 1_000_000)
        expected = self._endpoint.dimensions or cache.dimensions or (self._recorded or {}).get("dimensions")
        embedder = DocumentEmbedder(self._endpoint, expected, cache.add, progress.embedded, progress.waiting)
        try:
            return asyncio.run(embedder.run(self._wanted(spool, missing)))
        except EmbeddingUnavailable as failure:
            if failure.reason == "not_configured":
                raise _not_set(failure.sentence) from None
            vectors = sum(key in cache for key in self._used)
            named = f" The provider calls it {failure.code}." if failure.code else ""
            kept = (
                f"{_counted(vectors, 'vector is', 'vectors are')} kept for the next run"
                if vectors
                else "Nothing was embedded"
            )
            # Without its cause: the provider's own words may quote documents, or a part of a refused key.
            raise BedivereError(ErrorCode.EMBEDDING_FAILED, f"{failure.sentence}{named} {kept}; {_UNTOUCHED}") from None

    def _wanted(self, spool: Spool, missing: set[bytes]) -> Iterator[tuple[bytes, str]]:
        left = set(missing)
        for batch in spool.read():
            for text in texts_of(batch):
                key = self._way.key(text)
                if key in left:
                    left.discard(key)
                    yield key, text


def texts_of(batch: pa.RecordBatch) -> list[str]:
    """What is embedded of each row, without the model's prefix: what is searched as text, with its accents."""
    columns = [batch.column(name).to_pylist() for name in ("title", "heading", "text")]
    return [searched_text(title, heading, text) for title, heading, text in zip(*columns, strict=True)]
