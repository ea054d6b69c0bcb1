"""Figures of answers, and a whole run over a small database."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from retrieval.dataset import open_dataset
from retrieval.errors import BedivereError, ErrorCode
from retrieval.evaluation.judgements import Judgements, Query, Section
from retrieval.evaluation.measuring import Asking, measure, values
from retrieval.evaluation.report import ALL, Report
from retrieval.settings import load_settings
from retrieval.types import Hit, SearchType

ROTATION = Query(
    "1",
    "how often is the signing key rotated",
    kind="question",
    relevant={"keys.md": 1},
    sections=(Section("keys.md", "Rotation"),),
)
RESTORE = Query("2", "restore from a snapshot", kind="keyword", relevant={"backup.md": 1})
ZEPPELIN = Query("3", "zeppelin", kind="noanswer", answerable=False)


def hit(path: str, heading: str | None = None, number: int = 0) -> Hit:
    return Hit(id=f"{path}#{number}", path=path, title=path, heading=heading, snippet="", score=1.0)


def run(
    database: Path, queries: Sequence[Query], modes: Sequence[SearchType] = ("text",), min_score: float | None = None
) -> Report:
    settings = load_settings(database=str(database))
    asking = Asking(Judgements(tuple(queries), left_out=4), modes, min_score=min_score)
    return asyncio.run(measure(settings, open_dataset(settings), asking))


def test_documents_are_ranked_by_their_best_chunk() -> None:
    hits = [hit("a", number=0), hit("a", number=1), hit("b"), hit("a", number=2)]

    assert values(Query("1", "q", relevant={"b": 1}), hits)["mrr@10"] == 0.5


def test_sections_are_counted_by_chunks() -> None:
    query = Query("1", "q", relevant={"a": 1}, sections=(Section("a", "Rotation"),))
    elsewhere = [hit("a", "Storage", number) for number in range(5)]

    assert values(query, [*elsewhere[:4], hit("a", "Rotation")])["section_hit@5"] == 1.0
    assert values(query, [*elsewhere, hit("a", "Rotation")])["section_hit@5"] == 0.0


def test_the_section_of_another_document_is_no_hit() -> None:
    query = Query("1", "q", relevant={"a": 1}, sections=(Section("a", "Rotation"),))

    assert values(query, [hit("b", "Rotation")])["section_hit@5"] == 0.0


def test_an_unanswerable_query_is_judged_by_whether_anything_is_answered() -> None:
    assert values(ZEPPELIN, []) == {"false_positive": 0.0}
    assert values(ZEPPELIN, [hit("a")]) == {"false_positive": 1.0}


def test_a_refused_query_has_found_nothing() -> None:
    figures = values(RESTORE, [])

    assert figures["refused"] == 1.0
    assert {figures[name] for name in ("ndcg@10", "recall@100", "mrr@10", "hit@1")} == {0.0}


def test_what_was_not_judged_is_not_figured() -> None:
    assert {"section_hit@5", "current_first", "false_positive"}.isdisjoint(values(RESTORE, [hit("a")]))


def test_the_current_document_must_stand_first() -> None:
    query = Query("1", "q", relevant={"new": 1}, outdated=("old",))

    assert values(query, [hit("new"), hit("old")])["current_first"] == 1.0
    assert values(query, [hit("old"), hit("new")])["current_first"] == 0.0


def test_a_run_has_the_figures_of_every_query_and_says_what_was_searched(handbook: Path) -> None:
    report = run(handbook, [ROTATION, RESTORE, ZEPPELIN])
    mode = report.modes["text"]

    assert (report.corpus.table, report.corpus.documents, report.left_out) == ("documents", 4, 4)
    assert report.corpus.corpus_version is not None
    assert [query.id for query in mode.queries] == ["1", "2", "3"]
    assert mode.figures[ALL]["mrr@10"].mean == 1.0
    assert mode.figures[ALL]["section_hit@5"].mean == 1.0
    assert mode.figures[ALL]["false_positive"].mean == 0.0
    assert mode.latency is not None
    assert mode.latency.search.p50 > 0


def test_auto_is_told_under_the_search_that_ran(handbook: Path) -> None:
    assert list(run(handbook, [ROTATION], ["auto", "text"]).modes) == ["text"]


@pytest.mark.parametrize("mode", ["vector", "hybrid"])
def test_a_search_that_did_not_run_has_no_figures(handbook: Path, mode: SearchType) -> None:
    with pytest.raises(BedivereError) as refused:
        run(handbook, [ROTATION], [mode])

    assert refused.value.code is ErrorCode.EMBEDDING_FAILED
    assert refused.value.sentence.startswith(f"{mode.capitalize()} search is to be measured, and text search answered")


def test_a_judged_document_that_is_not_there_ends_the_run(handbook: Path) -> None:
    with pytest.raises(BedivereError) as refused:
        run(handbook, [replace(RESTORE, relevant={"backups.md": 1})])

    assert refused.value.code is ErrorCode.JUDGEMENTS_INVALID


def test_a_query_that_cannot_be_asked_is_named_and_not_quoted(handbook: Path) -> None:
    with pytest.raises(BedivereError) as refused:
        run(handbook, [replace(RESTORE, text="word " * 2_000)])

    assert refused.value.code is ErrorCode.JUDGEMENTS_INVALID
    assert refused.value.sentence.startswith("Query 2: ")
    assert "word word" not in refused.value.sentence


def test_another_threshold_may_be_tried(handbook: Path) -> None:
    doubtful = replace(RESTORE, text="restore a quartz zeppelin")
    strict, lax = (run(handbook, [doubtful], min_score=score).modes["text"].figures[ALL] for score in (1.0, 0.0))

    assert (strict["refused"].mean, lax["refused"].mean) == (1.0, 0.0)
