"""What was measured of warm calls: percentiles, aims and whether they are reached, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from rich.console import Console
from rich.table import Table

from tests.bench.crowd import Throughput
from tests.bench.endurance import Memory
from tests.bench.report import Machine
from tests.bench.timing import Cost


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls of one kind to a table of `chunks`; milliseconds."""

    name: str
    chunks: int
    count: int
    p50: float
    p95: float
    p99: float
    cpu_p50: float
    cpu_p99: float
    cpu: list[float]
    """Of each call, in the order in which they were made."""

    @classmethod
    def of(cls, name: str, chunks: int, costs: Sequence[Cost]) -> Calls:
        wall, cpu = ([getattr(cost, clock) * 1000 for cost in costs] for clock in ("wall", "cpu"))
        return cls(
            name,
            chunks,
            len(costs),
            median(wall),
            _percentile(wall, 95),
            _percentile(wall, 99),
            median(cpu),
            _percentile(cpu, 99),
            cpu,
        )

    def over(self, other: Calls) -> float:
        """The median of how much more CPU a call took than that of `other` for the same question."""
        return median(mine - its for mine, its in zip(self.cpu, other.cpu, strict=True))


@dataclass(frozen=True, slots=True)
class Aim:
    """A figure and what it is to stay under, or over where `at_least`."""

    what: str
    found: float
    wanted: float
    at_least: bool = False

    @property
    def reached(self) -> bool:
        return self.found >= self.wanted if self.at_least else self.found <= self.wanted


@dataclass(frozen=True, slots=True)
class Report:
    """A whole run."""

    machine: Machine
    calls: list[Calls]
    throughput: list[Throughput]
    memory: Memory | None
    aims: list[Aim]


def show(report: Report, console: Console) -> None:
    """The report as tables, the machine above them and the aims below."""
    console.print(str(report.machine), markup=False, soft_wrap=True)
    table = _table("chunks", "call", "calls", "p50, ms", "p95", "p99", "CPU p50", "CPU p99")
    for one in report.calls:
        figures = (one.p50, one.p95, one.p99, one.cpu_p50, one.cpu_p99)
        table.add_row(f"{one.chunks:,}", one.name, str(one.count), *map(_figure, figures))
    console.print(table)
    if report.throughput:
        figures = ("a second", "p50, ms", "p99", "CPU", "Python", "busy")
        crowds = _table("clients over HTTP", "kind", "calls", *figures, "errors")
        for crowd in report.throughput:
            figures = (crowd.calls_a_second, crowd.p50_ms, crowd.p99_ms)
            figures += (crowd.server_ms, crowd.python_ms, crowd.busy)
            crowds.add_row(str(crowd.clients), crowd.kind, str(crowd.calls), *map(_figure, figures), str(crowd.errors))
        console.print(crowds)
    if report.memory:
        memory = report.memory
        console.print(
            f"Memory {memory.early_mb:.0f} MB after {memory.early:,} calls, {memory.late_mb:.0f} MB after "
            f"{memory.late:,}, {memory.peak_mb:.0f} MB at most",
            markup=False,
        )
    aims = _table("aim", "found", "wanted", "")
    for aim in report.aims:
        wanted = f"{'≥' if aim.at_least else '≤'} {_figure(aim.wanted)}"
        aims.add_row(aim.what, _figure(aim.found), wanted, "reached" if aim.reached else "missed")
    console.print(aims)


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, justify="left" if heading in {"call", "kind", "aim", ""} else "right", no_wrap=True)
    return table


def _figure(value: float) -> str:
    """Three digits that mean something."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.3f}" if abs(value) < 0.1 else f"{value:.2f}"


def _percentile(values: Sequence[float], percent: int) -> float:
    return quantiles(values, n=100, method="inclusive")[percent - 1] if len(values) > 1 else values[0]
