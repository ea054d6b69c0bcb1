"""Two runs against each other: noise is let through, losses are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from retrieval.errors import BedivereError, ErrorCode
from retrieval.evaluation.comparison import Change, Comparison, compare
from retrieval.evaluation.report import ALL, Corpus, Mode, Report, measured
from retrieval.types import Ran


@dataclass(frozen=True)
class Answer:
    id: str
    kind: str
    values: dict[str, float]
    milliseconds: float = 1.0
    embedding: float | None = None


def report(
    values: Sequence[float],
    metric: str = "mrr@10",
    *,
    kind: str = "keyword",
    corpus_version: str = "c0ffee",
    judgements: str = "same",
) -> Report:
    answers = [Answer(str(number), kind, {metric: value}) for number, value in enumerate(values)]
    corpus = Corpus(table="documents", rows=9, documents=3, corpus_version=corpus_version, embedding_model=None)
    modes: dict[Ran, Mode] = {"text": measured(answers)} if answers else {}
    return Report(corpus=corpus, judgements=judgements, depth=200, modes=modes)


def overall(comparison: Comparison) -> Change:
    (change,) = [change for change in comparison.changes if change.kind == ALL]
    return change


def test_the_same_run_twice_changes_nothing() -> None:
    change = overall(compare(report([0.5, 1.0, 1 / 3]), report([0.5, 1.0, 1 / 3])))

    assert (change.before, change.low, change.high, change.verdict) == (change.after, 0.0, 0.0, "same")


def test_a_loss_on_many_queries_is_a_loss() -> None:
    comparison = compare(report([1.0] * 60), report([1.0] * 50 + [0.0] * 10))

    assert [loss.metric for loss in comparison.losses] == ["mrr@10"]
    assert overall(comparison).high < 0


def test_a_loss_on_two_queries_is_noise() -> None:
    assert compare(report([1.0] * 60), report([1.0] * 58 + [0.0] * 2)).losses == []


def test_losses_that_gains_balance_are_noise() -> None:
    before, after = [1.0, 0.0] * 30, [0.0, 1.0] * 30

    assert overall(compare(report(before), report(after))).verdict == "same"


def test_queries_are_compared_with_themselves_so_that_a_small_loss_everywhere_shows() -> None:
    before = [number / 60 for number in range(60)]
    after = [max(0.0, value - 0.02) for value in before]

    assert overall(compare(report(before), report(after))).verdict == "worse"


@pytest.mark.parametrize("metric", ["false_positive", "refused"])
def test_of_some_figures_more_is_worse(metric: str) -> None:
    few, many = report([0.0] * 60, metric), report([1.0] * 20 + [0.0] * 40, metric)

    assert overall(compare(few, many)).verdict == "worse"
    assert overall(compare(many, few)).verdict == "better"


def test_a_single_kind_is_told_and_never_a_loss_by_itself() -> None:
    def of_two_kinds(lost: int) -> Report:
        typos = [Answer(f"t{n}", "typo", {"hit@1": float(n >= lost)}) for n in range(6)]
        keywords = [Answer(f"k{n}", "keyword", {"hit@1": 1.0}) for n in range(60)]
        return report([]).model_copy(update={"modes": {"text": measured([*typos, *keywords])}})

    comparison = compare(of_two_kinds(0), of_two_kinds(3))

    assert [change.verdict for change in comparison.changes if change.kind == "typo"] == ["worse"]
    assert comparison.losses == []


def test_other_documents_and_other_labels_are_noted() -> None:
    notes = compare(report([1.0] * 3), report([1.0] * 2, corpus_version="beef", judgements="other")).notes

    assert len(notes) == 2
    assert "other queries or labels" in notes[0]
    assert "other documents" in notes[1]


def test_runs_with_no_query_in_common_cannot_be_compared() -> None:
    with pytest.raises(BedivereError) as refused:
        compare(report([]), report([1.0]))

    assert refused.value.code is ErrorCode.JUDGEMENTS_INVALID
