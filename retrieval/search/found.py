"""What a search of one table found, before it becomes a reply."""

from __future__ import annotations

from dataclasses import dataclass, field

from retrieval.search.fusion import Ranked
from retrieval.search.vocabulary import Correction
from retrieval.types import LeftOut, Ran, Rejected, Relevance


@dataclass(frozen=True, slots=True)
class Found:
    """Candidates, best first, and what has to be said of them. Labels are by the id of the row."""

    ran: Ran
    read: str
    """The question as it was searched."""
    ranked: list[Ranked]
    full: bool = False
    """Whether an arm gave as many rows as it was asked for, so that there may be more."""
    degraded: bool = False
    """Whether words alone answered what was to be searched by meaning."""
    corrections: tuple[Correction, ...] = ()
    rejected: Rejected | None = None
    relevance: Relevance | None = None
    left_out: list[LeftOut] = field(default_factory=list[LeftOut])
    """Outdated chunks that would have been among the best."""
    versions: dict[str, str] = field(default_factory=dict[str, str])
    outdated: dict[str, str] = field(default_factory=dict[str, str])
    stands_for: dict[str, str] = field(default_factory=dict[str, str])
    timings: dict[str, float] = field(default_factory=dict[str, float])
    notes: list[str] = field(default_factory=list[str])
