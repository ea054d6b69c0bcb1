"""The figures of a run: means by kind, confidence, latency, and JSON that comes back as it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from retrieval.errors import BedivereError, ErrorCode
from retrieval.evaluation.report import ALL, Corpus, Mode, Report, measured


@dataclass(frozen=True)
class Answer:
    id: str
    kind: str
    values: Mapping[str, float]
    milliseconds: float = 5.0
    embedding: float | None = None


CORPUS = Corpus(table="documents", rows=9, documents=3, corpus_version="c0ffee", embedding_model=None)


def report(mode: Mode) -> Report:
    return Report(corpus=CORPUS, judgements="abc", depth=200, modes={"text": mode})


def test_means_are_told_by_kind_and_over_all_queries() -> None:
    mode = measured(
        [
            Answer("1", "keyword", {"hit@1": 1.0}),
            Answer("2", "keyword", {"hit@1": 0.0}),
            Answer("3", "typo", {"hit@1": 1.0}),
        ]
    )

    means = {kind: figures["hit@1"].mean for kind, figures in mode.figures.items()}
    assert means == {ALL: pytest.approx(2 / 3, abs=1e-6), "keyword": 0.5, "typo": 1.0}


def test_a_figure_is_over_the_queries_to_which_it_applies() -> None:
    mode = measured([Answer("1", "keyword", {"hit@1": 1.0}), Answer("2", "noanswer", {"false_positive": 1.0})])

    assert mode.figures[ALL]["hit@1"].queries == 1
    assert "hit@1" not in mode.figures["noanswer"]


def test_queries_of_one_kind_are_told_once() -> None:
    assert list(measured([Answer("1", "judged", {"hit@1": 1.0})]).figures) == [ALL]


def test_a_single_query_has_no_confidence() -> None:
    figure = measured([Answer("1", "judged", {"hit@1": 1.0})]).figures[ALL]["hit@1"]

    assert (figure.low, figure.high) == (None, None)


def test_latency_is_told_with_embedding_apart() -> None:
    answers = [Answer(str(n), "judged", {"hit@1": 1.0}, milliseconds=n + 10.0, embedding=10.0) for n in range(1, 101)]
    latency = measured(answers).latency

    assert latency is not None
    assert latency.embedding is not None
    assert (latency.search.p50, latency.search.p95, latency.search.p99) == (50.0, 95.0, 99.0)
    assert (latency.total.p50, latency.embedding.p50) == (60.0, 10.0)


def test_where_nothing_was_embedded_no_time_of_it_is_told() -> None:
    latency = measured([Answer("1", "judged", {"hit@1": 1.0})]).latency

    assert latency is not None
    assert latency.embedding is None


def test_a_report_comes_back_from_json_as_it_was() -> None:
    written = report(measured([Answer("1", "a", {"ndcg@10": 1 / 3}), Answer("2", "b", {"ndcg@10": 0.7})]))

    assert Report.load(written.model_dump_json()) == written


@pytest.mark.parametrize("text", ["", "{}", '{"code": "TABLE_NOT_FOUND"}'])
def test_what_is_no_report_is_refused(text: str) -> None:
    with pytest.raises(BedivereError) as refused:
        Report.load(text)

    assert refused.value.code is ErrorCode.JUDGEMENTS_INVALID


def test_a_report_of_another_format_is_refused() -> None:
    other = Report(format=99, corpus=CORPUS, judgements="abc", depth=200)

    with pytest.raises(BedivereError):
        Report.load(other.model_dump_json())
