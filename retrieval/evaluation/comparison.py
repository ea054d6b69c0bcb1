"""Two runs over the same queries: by how much each figure moved, and whether that is more than the queries' luck."""

from __future__ import annotations

from statistics import fmean
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

from retrieval.errors import BedivereError, ErrorCode
from retrieval.evaluation.bootstrap import interval
from retrieval.evaluation.report import ALL, LESS_IS_BETTER, METRICS, Judged, Mode, Report
from retrieval.types import Ran

Verdict = Literal["better", "same", "worse"]

_DIGITS: Final = 6


class Change(BaseModel):
    """How a figure moved: `low` and `high` bound the difference of the means, by the paired bootstrap over queries.

    It is worse, or better, where that interval lies wholly on the losing, or the winning, side of 0.
    """

    model_config = ConfigDict(frozen=True)

    mode: Ran
    kind: str
    metric: str
    before: float
    after: float
    low: float
    high: float
    queries: int
    verdict: Verdict


class Comparison(BaseModel):
    """All changes, and what of the two runs could not be compared, in words."""

    model_config = ConfigDict(frozen=True)

    changes: list[Change]
    notes: list[str]

    @property
    def losses(self) -> list[Change]:
        """The figures over all queries that lost more than noise; of a single kind there are too few to tell."""
        return [change for change in self.changes if change.kind == ALL and change.verdict == "worse"]


def compare(baseline: Report, now: Report) -> Comparison:
    """Raises `BedivereError` JUDGEMENTS_INVALID where the runs have no query in common."""
    notes: list[str] = []
    if baseline.judgements != now.judgements:
        notes.append("The baseline was made with other queries or labels: only queries of both are compared.")
    if baseline.corpus.corpus_version != now.corpus.corpus_version:
        notes.append("The baseline was made with other documents, or with chunks cut otherwise.")
    if baseline.corpus.embedding_model != now.corpus.embedding_model:
        notes.append(
            f"The baseline was made with the model {baseline.corpus.embedding_model}, "
            f"this run with {now.corpus.embedding_model}."
        )
    if baseline.depth != now.depth:
        notes.append(f"The baseline asked for {baseline.depth} passages a query, this run for {now.depth}.")
    if baseline.min_score != now.min_score:
        notes.append("One of the runs took another threshold than the calibrated one, or both took different ones.")
    if apart := sorted(set(baseline.modes) ^ set(now.modes)):
        notes.append(f"Only one of the runs has {', '.join(apart)}.")
    changes = [
        change
        for mode, after in now.modes.items()
        if (before := baseline.modes.get(mode)) is not None
        for change in _changes(mode, before, after)
    ]
    if not changes:
        raise BedivereError(ErrorCode.JUDGEMENTS_INVALID, "The baseline has no search type and query of this run.")
    return Comparison(changes=changes, notes=notes)


def _changes(name: Ran, before: Mode, after: Mode) -> list[Change]:
    earlier = {query.id: query for query in before.queries}
    pairs = [(earlier[query.id], query) for query in after.queries if query.id in earlier]
    kinds = [ALL, *(kind for kind in after.figures if kind != ALL)]
    found = (
        _change(name, kind, metric, [pair for pair in pairs if kind in {ALL, pair[1].kind}])
        for kind in kinds
        for metric in METRICS
    )
    return [change for change in found if change]


def _change(mode: Ran, kind: str, metric: str, pairs: list[tuple[Judged, Judged]]) -> Change | None:
    values = [
        (old.values[metric], new.values[metric]) for old, new in pairs if metric in old.values and metric in new.values
    ]
    if not values:
        return None
    before, after = fmean(old for old, _ in values), fmean(new for _, new in values)
    low, high = interval([new - old for old, new in values]) or (after - before, after - before)
    gains, loses = (high < 0, low > 0) if metric in LESS_IS_BETTER else (low > 0, high < 0)
    return Change(
        mode=mode,
        kind=kind,
        metric=metric,
        before=round(before, _DIGITS),
        after=round(after, _DIGITS),
        low=round(low, _DIGITS),
        high=round(high, _DIGITS),
        queries=len(values),
        verdict="better" if gains else "worse" if loses else "same",
    )
