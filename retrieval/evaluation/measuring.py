"""Asks every judged query of a retriever and keeps what came of it: the ranking's figures and the time it took."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from retrieval.dataset import Dataset
from retrieval.errors import BedivereError, ErrorCode
from retrieval.evaluation import metrics
from retrieval.evaluation.judgements import Judgements, Query
from retrieval.evaluation.places import resolve, stands_under
from retrieval.evaluation.report import Corpus, Mode, Report, measured
from retrieval.retriever import Retriever
from retrieval.settings import Settings
from retrieval.types import Hit, Ran, SearchReply, SearchRequest, SearchType

DEPTH: Final = 200
"""Chunks that are asked for: a ranking of documents needs more chunks than documents."""

_SECTION_CUT: Final = 5
_OPENING: Final = Query(id="(the opening question)", text="opening question")


@dataclass(frozen=True, slots=True)
class Answer:
    """What one query brought: its figures by metric, milliseconds in all and of embedding, None where none was done."""

    id: str
    kind: str
    values: Mapping[str, float]
    milliseconds: float
    embedding: float | None


@dataclass(frozen=True, slots=True)
class Asking:
    """What to measure: `modes` are asked one after the other, each query `depth` chunks deep.

    `min_score` takes the place of the calibrated threshold: at 0 nothing is refused.
    """

    judgements: Judgements
    modes: Sequence[SearchType]
    table: str | None = None
    depth: int = DEPTH
    min_score: float | None = None
    on_query: Callable[[SearchType, int, int], None] = field(default=lambda _mode, _done, _of: None)


async def measure(settings: Settings, dataset: Dataset, asking: Asking) -> Report:
    """The figures of every mode, each asked of a retriever of its own: no vector of a question is left over.

    Raises `BedivereError`: JUDGEMENTS_INVALID where a judged document or section is not in the table or a query cannot
    be asked; EMBEDDING_FAILED where another search answered than the one to be measured; and what a search raises.
    """
    name = asking.table or settings.table
    database = await dataset.current()
    table = await database.table(name)
    resolved = await resolve(
        asking.judgements.queries,
        table,
        table.layout(settings.text_column),
        _generation(settings, name),
    )
    origin = table.provenance
    corpus = Corpus(
        table=name,
        rows=await table.count(),
        documents=resolved.documents,
        corpus_version=origin.corpus_version if origin else None,
        embedding_model=(origin.embedding or {}).get("model") if origin else None,
    )
    modes: dict[Ran, Mode] = {}
    for asked in dict.fromkeys(asking.modes):
        ran, answers = await _answers(Retriever(settings, dataset), asking, asked, settings.default_limit)
        modes[ran] = measured(answers)
    return Report(
        corpus=corpus,
        judgements=asking.judgements.fingerprint(),
        depth=asking.depth,
        min_score=asking.min_score,
        left_out=asking.judgements.left_out,
        empty=resolved.empty,
        modes=modes,
    )


def _generation(settings: Settings, table: str) -> Path | None:
    """The folder that the table lies in, where the indexer kept its record; None for a store of releases."""
    if settings.database is None:
        return None
    place = Path(settings.database).expanduser() / f"{table}.lance"
    return place.resolve().parent if place.is_dir() else None


async def _answers(retriever: Retriever, asking: Asking, asked: SearchType, usual: int) -> tuple[Ran, list[Answer]]:
    """Every query's answer, and which search answered all of them.

    Each query is asked twice: for the `usual` number of passages, which is timed because it is what agents wait for,
    and for as many as its figures need.
    """
    queries = asking.judgements.queries
    # The first question of all pays for opening the table and for imports, which are no part of what a search takes.
    opening = await _ask(retriever, _OPENING, asked, asking, usual)
    expected = opening.search_type if asked == "auto" else asked
    answers: list[Answer] = []
    for done, query in enumerate(queries, start=1):
        started = time.perf_counter()
        timed = await _ask(retriever, query, asked, asking, usual)
        milliseconds = (time.perf_counter() - started) * 1000
        deep = await _ask(retriever, query, asked, asking, asking.depth)
        for reply in (timed, deep):
            if reply.search_type != expected:
                raise _other_search(expected, reply, query)
        answers.append(
            Answer(
                id=query.id,
                kind=query.kind,
                values=values(query, deep.hits),
                milliseconds=milliseconds,
                embedding=(timed.timings or {}).get("embed"),
            )
        )
        asking.on_query(asked, done, len(queries))
    return expected, answers


async def _ask(retriever: Retriever, query: Query, mode: SearchType, asking: Asking, limit: int) -> SearchReply:
    request = SearchRequest(
        query.text,
        limit,
        search_type=mode,
        table=asking.table,
        min_score=asking.min_score,
        explain=True,
        whole=True,
    )
    try:
        return await retriever.search(request)
    except BedivereError as error:
        if error.code is not ErrorCode.INVALID_QUERY:
            raise
        raise BedivereError(ErrorCode.JUDGEMENTS_INVALID, f"Query {query.id}: {error.sentence}") from None


def _other_search(expected: Ran, reply: SearchReply, query: Query) -> BedivereError:
    """A figure under the name of a search that did not run would be worse than none."""
    why = f": {reply.notes[0]}" if reply.notes else "."
    return BedivereError(
        ErrorCode.EMBEDDING_FAILED,
        f"{expected.capitalize()} search is to be measured, and {reply.search_type} search answered query "
        f"{query.id}{why}",
    )


def values(query: Query, hits: Sequence[Hit]) -> dict[str, float]:
    """The figures of one answer, by the names of `retrieval.evaluation.report.METRICS`; only those that apply.

    Documents are ranked by their best chunk, sections by chunks.
    """
    if not query.answerable:
        return {"false_positive": float(bool(hits))}
    ranking = list(dict.fromkeys(hit.path or hit.id for hit in hits))
    figures = {
        "ndcg@10": metrics.ndcg(ranking, query.relevant, 10),
        "recall@5": metrics.recall(ranking, query.relevant, 5),
        "recall@10": metrics.recall(ranking, query.relevant, 10),
        "recall@100": metrics.recall(ranking, query.relevant, 100),
        "mrr@10": metrics.reciprocal_rank(ranking, query.relevant, 10),
        "hit@1": float(bool(ranking) and ranking[0] in query.relevant),
    }
    if query.sections:
        figures["section_hit@5"] = float(any(_is_of(hit, query) for hit in hits[:_SECTION_CUT]))
    if query.outdated:
        figures["current_first"] = metrics.stands_above(ranking, query.relevant, query.outdated)
    figures["refused"] = float(not hits)
    return figures


def _is_of(hit: Hit, query: Query) -> bool:
    """Whether a hit is part of one of the sections that answer."""
    return any(
        hit.path == section.path and stands_under(hit.title or "", hit.heading or "", section.heading)
        for section in query.sections
    )
