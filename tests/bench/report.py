"""What was measured: comparisons as a table for people and as JSON for machines."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.bench.timing import Cost, Spread


@dataclass(frozen=True, slots=True)
class Machine:
    """What the figures were measured on."""

    cpu: str
    cores: int
    python: str
    lancedb: str

    @classmethod
    def this(cls) -> Machine:
        return cls(_cpu(), len(_usable_cores()), platform.python_version(), version("lancedb"))

    def __str__(self) -> str:
        return f"{self.cpu}, {self.cores} cores, Python {self.python}, lancedb {self.lancedb}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One thing beside another. Times are in milliseconds; ratios are taken round by round, then spread."""

    what: str
    against: str
    chunks: int | None
    """Chunks in the table, None where there is none."""
    rounds: int
    wall: Spread
    cpu: Spread
    against_wall: Spread
    against_cpu: Spread
    wall_ratio: Spread
    cpu_ratio: Spread

    @classmethod
    def of(
        cls, what: str, costs: Sequence[Cost], against: str, others: Sequence[Cost], *, chunks: int | None
    ) -> Comparison:
        pairs = list(zip(costs, others, strict=True))
        return cls(
            what=what,
            against=against,
            chunks=chunks,
            rounds=len(pairs),
            wall=Spread.of(cost.wall * 1000 for cost in costs),
            cpu=Spread.of(cost.cpu * 1000 for cost in costs),
            against_wall=Spread.of(cost.wall * 1000 for cost in others),
            against_cpu=Spread.of(cost.cpu * 1000 for cost in others),
            wall_ratio=Spread.of(cost.wall / other.wall for cost, other in pairs),
            cpu_ratio=Spread.of(cost.cpu / other.cpu for cost, other in pairs),
        )


@dataclass(frozen=True, slots=True)
class Report:
    """A whole run."""

    machine: Machine
    quick: bool
    comparisons: list[Comparison]
    chunks_per_second: Spread
    """Of `bedivere index` on a folder that it sees for the first time."""
    notes: list[str]


def show(report: Report, console: Console) -> None:
    """The report as a table, the machine above it and the notes below."""
    console.print(str(report.machine), markup=False, soft_wrap=True)
    table = Table("what", "against", "chunks", "rounds", box=None, pad_edge=False, header_style="bold")
    for heading in ("ms", "against, ms", "ratio (p25-p75)", "in CPU (p25-p75)"):
        table.add_column(heading, justify="right", no_wrap=True)
    for comparison in report.comparisons:
        table.add_row(
            comparison.what,
            comparison.against,
            "" if comparison.chunks is None else f"{comparison.chunks:,}",
            str(comparison.rounds),
            _figure(comparison.wall.median),
            _figure(comparison.against_wall.median),
            _spread(comparison.wall_ratio),
            _spread(comparison.cpu_ratio),
        )
    console.print(table)
    rate = report.chunks_per_second
    console.print(f"{rate.median:,.0f} chunks indexed a second ({rate.p25:,.0f}-{rate.p75:,.0f})")
    for note in report.notes:
        console.print(note, markup=False, soft_wrap=True)


def _spread(spread: Spread) -> str:
    return f"{_figure(spread.median)} ({_figure(spread.p25)}-{_figure(spread.p75)})"


def _figure(value: float) -> str:
    """Three digits that mean something."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return named or platform.processor() or platform.machine()


def _usable_cores() -> Sequence[int]:
    if hasattr(os, "sched_getaffinity"):
        return list(os.sched_getaffinity(0))
    return range(os.cpu_count() or 1)
