"""The committed baselines: a change after which the judged handbook is found worse, by more than noise, fails here.

`make baselines` renews them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from retrieval.dataset import open_dataset
from retrieval.evaluation import judgements
from retrieval.evaluation.comparison import compare
from retrieval.evaluation.measuring import Asking, measure
from retrieval.evaluation.report import ALL, Report
from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options
from retrieval.settings import load_settings
from retrieval.types import Ran
from tests.corpus import baselines

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Mapping[Ran, Report]:
    return baselines.measured(tmp_path_factory.mktemp("baselines") / "database")


@pytest.mark.parametrize("mode", baselines.MODES)
def test_nothing_is_found_worse_than_when_the_baseline_was_made(mode: Ran, reports: Mapping[Ran, Report]) -> None:
    comparison = compare(baselines.committed(mode), reports[mode])

    assert [f"{loss.metric}: {loss.before:.3f} -> {loss.after:.3f}" for loss in comparison.losses] == []


@pytest.mark.parametrize("mode", baselines.MODES)
def test_the_baseline_was_made_with_the_queries_and_documents_that_there_are(
    mode: Ran, reports: Mapping[Ran, Report]
) -> None:
    made, now = baselines.committed(mode), reports[mode]

    assert (made.judgements, made.corpus.documents) == (now.judgements, now.corpus.documents), "run `make baselines`"


def test_queries_of_every_kind_are_asked() -> None:
    kinds = Counter(query.kind for query in judgements.read(baselines.QUERIES).queries)

    assert kinds.keys() == {
        *("keyword", "identifier", "question", "paraphrase", "typo", "german"),
        *(judgements.LIFECYCLE, judgements.UNANSWERABLE),
    }
    assert min(kinds.values()) >= 8


def test_no_two_queries_ask_the_same() -> None:
    texts = [query.text.casefold() for query in judgements.read(baselines.QUERIES).queries]

    assert len(set(texts)) == len(texts)


def test_the_projects_own_documentation_is_found(tmp_path: Path) -> None:
    build_table(Options(ROOT, tmp_path, include=("/README.md", "/PRIVACY.md", "/docs/")))
    settings = load_settings(database=str(tmp_path))
    asked = judgements.read(baselines.FOLDER / "own_docs.jsonl")
    report = asyncio.run(measure(settings, open_dataset(settings), Asking(asked, ["text"])))

    assert report.modes["text"].figures[ALL]["recall@5"].mean >= 0.8
