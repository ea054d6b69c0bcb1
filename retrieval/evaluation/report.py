"""The figures of a run by kind of query, with their confidence, as JSON that a later run can be compared with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Final, Protocol

from pydantic import BaseModel, ConfigDict, Field

from retrieval.errors import BedivereError, ErrorCode
from retrieval.evaluation.bootstrap import interval
from retrieval.types import Ran

FORMAT: Final = 1

ALL: Final = "all"
"""The group of all queries, beside those of each kind."""

METRICS: Final[Mapping[str, str]] = {
    "ndcg@10": "nDCG of the first 10 documents, by grade",
    "recall@5": "Share of the relevant documents in the first 5",
    "recall@10": "Share of the relevant documents in the first 10",
    "recall@100": "Share of the relevant documents in the first 100",
    "mrr@10": "One by the place of the first relevant document, 0 beyond 10",
    "hit@1": "Share of queries whose first document is relevant",
    "section_hit@5": "Share of queries with a passage of a labelled section in the first 5 passages",
    "current_first": "Share of queries whose current document stands above every outdated one",
    "false_positive": "Share of unanswerable queries that were answered",
    "refused": "Share of answerable queries that were not",
}
"""Each figure of an answer, 0 to 1, and what its mean over queries says."""

LESS_IS_BETTER: Final = frozenset({"false_positive", "refused"})

_DIGITS: Final = 6
_PERCENTILES: Final = (50, 95, 99)


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Figure(_Model):
    """A mean over `queries` and its 95% confidence interval, null for a single query."""

    mean: float
    low: float | None
    high: float | None
    queries: int


class Percentiles(_Model):
    """Milliseconds."""

    p50: float
    p95: float
    p99: float


class Latency(_Model):
    """Milliseconds of a query for the usual number of passages: in all, of embedding, and of the search."""

    total: Percentiles
    embedding: Percentiles | None
    search: Percentiles


class Judged(_Model):
    """One query's figures."""

    id: str
    kind: str
    values: dict[str, float]


class Mode(_Model):
    """What one search type reached: figures by kind and metric, and those of each query."""

    figures: dict[str, dict[str, Figure]]
    queries: list[Judged]
    latency: Latency | None = None


class Corpus(_Model):
    """What was searched."""

    table: str
    rows: int
    documents: int
    corpus_version: str | None
    embedding_model: str | None


class Report(_Model):
    """A run: `judgements` is the fingerprint of what was asked and `left_out` counts queries without judgements.

    `empty` counts judged documents that have no text, which are never found.
    """

    format: int = FORMAT
    corpus: Corpus
    judgements: str
    depth: int
    min_score: float | None = None
    left_out: int = 0
    empty: int = 0
    modes: dict[Ran, Mode] = Field(default_factory=dict[Ran, Mode])

    @classmethod
    def load(cls, text: str) -> Report:
        """The report in `text`, JSON. Raises `BedivereError` JUDGEMENTS_INVALID where it is none of this format."""
        try:
            report = cls.model_validate_json(text)
        except ValueError:
            report = None
        if report is None or report.format != FORMAT:
            raise BedivereError(
                ErrorCode.JUDGEMENTS_INVALID,
                "The baseline is no report of this version: make one with bedivere eval --json.",
            )
        return report


class Answered(Protocol):
    """One query and what came of it."""

    @property
    def id(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def values(self) -> Mapping[str, float]: ...
    @property
    def milliseconds(self) -> float: ...
    @property
    def embedding(self) -> float | None: ...


def measured(answers: Sequence[Answered]) -> Mode:
    """The figures of `answers`. Each value is rounded once, here, so that a baseline read back compares as equal."""
    queries = [
        Judged(
            id=answer.id,
            kind=answer.kind,
            values={name: round(value, _DIGITS) for name, value in answer.values.items()},
        )
        for answer in answers
    ]
    kinds = dict.fromkeys(query.kind for query in queries)
    return Mode(
        figures={
            ALL: figures(queries),
            **{kind: figures(query for query in queries if query.kind == kind) for kind in kinds if len(kinds) > 1},
        },
        queries=queries,
        latency=_latency(answers),
    )


def figures(queries: Iterable[Judged]) -> dict[str, Figure]:
    """The means of all metrics that apply to any of `queries`, in the order of `METRICS`."""
    asked = list(queries)
    found: dict[str, Figure] = {}
    for name in METRICS:
        values = [query.values[name] for query in asked if name in query.values]
        if values:
            low, high = interval(values) or (None, None)
            found[name] = Figure(
                mean=round(fmean(values), _DIGITS),
                low=None if low is None else round(low, _DIGITS),
                high=None if high is None else round(high, _DIGITS),
                queries=len(values),
            )
    return found


def _latency(answers: Sequence[Answered]) -> Latency:
    embedding = [answer.embedding for answer in answers if answer.embedding is not None]
    return Latency(
        total=_percentiles([answer.milliseconds for answer in answers]),
        embedding=_percentiles(embedding) if embedding else None,
        search=_percentiles([answer.milliseconds - (answer.embedding or 0.0) for answer in answers]),
    )


def _percentiles(values: Sequence[float]) -> Percentiles:
    """By nearest rank: of few queries the slowest is the 99th percentile."""
    ordered = sorted(values)
    p50, p95, p99 = (round(ordered[-(-len(ordered) * percent // 100) - 1], 3) for percent in _PERCENTILES)
    return Percentiles(p50=p50, p95=p95, p99=p99)
