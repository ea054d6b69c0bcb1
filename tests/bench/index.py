"""`python -m tests.bench.index`: what indexing costs, whole and in parts, and what publishing and syncing a release do.

Each run of the indexer is a process of its own, so that its peak of memory is its own. Publishing and syncing are put
beside boto3's transfers of the same bytes, in turns, against a server on loopback that answers a little late.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from tests.bench import pages
from tests.bench.apart import PARTS, apart
from tests.bench.databases import BuiltDatabase
from tests.bench.memory import watched
from tests.bench.report import Machine
from tests.bench.timing import Cost, Spread
from tests.bench.transfers import Transfers, transfers

ROOT: Final = Path(__file__).parents[2]
DELAY: Final = 0.02
"""Seconds that are added to each request to the store."""

_WITHOUT: Final = ("BEDIVERE_", "LANCEDB_", "OPENAI_", "EMBEDDING_", "COVERAGE_", "COV_")


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured, in chunks, and how many transfers of a release of how many chunks."""

    sizes: tuple[int, ...]
    release: int
    rounds: int


FULL: Final = Extent((10_000, 100_000), release=43_000, rounds=7)
QUICK: Final = Extent((100,), release=100, rounds=1)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the indexer; CPU is that of its workers too, memory as `memory.held_bytes` counts it."""

    chunks: int
    files: int
    reused: int
    """Files that had not changed."""
    unchanged: bool
    code: str
    """The fingerprint of the indexer's own code, of which rows are made."""
    seconds: float
    cpu: float
    peak_mb: float
    stages: dict[str, float]


@dataclass(frozen=True, slots=True)
class Indexed:
    """The documents of one format: read for the first time, again, by one process alone, and its parts apart."""

    suffix: str
    first: Run
    again: Run
    alone: Run | None
    """Of the smallest folder only: it takes as long as all else together."""
    parts: dict[str, Cost]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.index", description="Indexing, publishing, syncing")
    parser.add_argument("--quick", action="store_true", help="tiny folders and one round: whether it runs at all")
    parser.add_argument("--sizes", type=int, nargs="+", metavar="N", help="chunks, 10000 and 100000 by default")
    parser.add_argument("--formats", nargs="+", choices=tuple(pages.SUFFIXES), default=tuple(pages.SUFFIXES))
    parser.add_argument("--only", choices=("indexing", "transfers"), help="both by default")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--cache", type=Path, default=ROOT / "build" / "bench", metavar="FOLDER", help="of databases")
    options = parser.parse_args(arguments)
    extent = QUICK if options.quick else FULL
    errors, output = Console(stderr=True), Console(highlight=False)
    output.width = max(output.width, 150)
    indexed: list[Indexed] = []
    if options.only != "transfers":
        sizes = options.sizes or extent.sizes
        for size in sizes:
            for suffix in options.formats:
                errors.print(f"Indexing {size:,} chunks of {suffix} …", markup=False)
                indexed.append(_indexed(size, suffix, alone=size == min(sizes)))
    moved: Transfers | None = None
    if options.only != "indexing":
        errors.print("Publishing and syncing …")
        database = BuiltDatabase.at(options.cache, extent.release)
        moved = transfers(database.folder, DELAY, extent.rounds)
    output.print(str(Machine.this()), markup=False, soft_wrap=True)
    if indexed:
        _show_runs(indexed, output)
        _show_parts(indexed, output)
    if moved:
        _show_transfers(moved, output)
    if options.json:
        report: dict[str, Any] = {
            "machine": asdict(Machine.this()),
            "indexed": [asdict(one) for one in indexed],
            "transfers": asdict(moved) if moved else None,
        }
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def _indexed(size: int, suffix: str, *, alone: bool) -> Indexed:
    with ExitStack() as stack:
        room = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bedivere-bench-")))
        pages.write(room / "source", size, suffix)
        first = _run(room / "source", room / "database")
        again = _run(room / "source", room / "database")
        check_again(first, again)
        by_one = _run(room / "source", room / "alone", workers=1) if alone else None
        (room / "apart").mkdir()
        return Indexed(suffix, first, again, by_one, apart(room / "source", room / "apart"))


def check_again(first: Run, again: Run) -> None:
    """Raises RuntimeError where the second run over a folder did more than to look at it, and says what it did."""
    if again.code != first.code:
        # Rows of other code are not reused: rightly so, and nothing that can be compared.
        raise RuntimeError("The indexer's code was changed between two runs: leave it alone, and start the bench again")
    if again.chunks != first.chunks or not again.unchanged:
        raise RuntimeError(
            f"The second run found a changed folder: {again.reused:,} of {first.files:,} files as they were, "
            f"{again.chunks:,} chunks after {first.chunks:,}"
        )


def _run(source: Path, database: Path, workers: int | None = None) -> Run:
    command = [sys.executable, "-P", "-m", "tests.bench.indexed", str(source), str(database)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_WITHOUT)}
    output, peak = watched(
        [*command, *([str(workers)] if workers else [])],
        cwd=ROOT,
        environment={**environment, "PYTHONPATH": str(ROOT)},
    )
    return Run(**json.loads(output.splitlines()[-1]), peak_mb=peak)


def _show_runs(indexed: Sequence[Indexed], output: Console) -> None:
    headings = (
        "chunks a second",
        "alone",
        "seconds",
        "CPU",
        "reading",
        "writing",
        "indexing",
        "again",
        "its CPU",
        "of the first",
        "peak, MB",
    )
    table = _table("documents", "chunks", *headings)
    for one in indexed:
        run = one.first
        table.add_row(
            f"{run.files:,} {one.suffix}",
            f"{run.chunks:,}",
            f"{run.chunks / run.seconds:,.0f}",
            f"{one.alone.chunks / one.alone.seconds:,.0f}" if one.alone else "",
            f"{run.seconds:.1f}",
            f"{run.cpu:.1f}",
            *(f"{run.stages[name]:.1f}" for name in ("Reading documents", "Writing the table", "Indexing")),
            f"{one.again.seconds:.2f}",
            f"{one.again.cpu:.2f}",
            f"{one.again.cpu / run.cpu:.3f}",
            f"{run.peak_mb:.0f}",
        )
    output.print(table)


def _show_parts(indexed: Sequence[Indexed], output: Console) -> None:
    table = _table("chunks a second of CPU, by part", "chunks", *PARTS)
    for one in indexed:
        rates = (one.first.chunks / max(cost.cpu, 1e-6) for cost in one.parts.values())
        table.add_row(one.suffix, f"{one.first.chunks:,}", *(f"{rate:,.0f}" for rate in rates))
    output.print(table)
    output.print("; ".join(f"{name}: {what}" for name, what in PARTS.items()), markup=False, soft_wrap=True)


def _show_transfers(moved: Transfers, output: Console) -> None:
    sizes = f"{moved.packed_bytes / 1e6:.1f} MB in {moved.parts} parts, {moved.unpacked_bytes / 1e6:.1f} MB unpacked"
    table = _table(
        f"a release of {sizes}", "seconds", "MB a second", "boto3, seconds", "MB a second", "ratio (p25-p75)"
    )
    megabytes = moved.packed_bytes / 1e6
    for name, ours, plain in (("publish", moved.publish, moved.upload), ("sync", moved.sync, moved.download)):
        ratio = Spread.of(one.wall / other.wall for one, other in zip(ours, plain, strict=True))
        one, other = (Spread.of(cost.wall for cost in costs).median for costs in (ours, plain))
        figures = (f"{one:.2f}", f"{megabytes / one:.1f}", f"{other:.2f}", f"{megabytes / other:.1f}")
        table.add_row(name, *figures, f"{ratio.median:.2f} ({ratio.p25:.2f}-{ratio.p75:.2f})")
    output.print(table)


def _table(first: str, *others: str) -> Table:
    table = Table(first, box=None, pad_edge=False, header_style="bold")
    for heading in others:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


if __name__ == "__main__":
    main()
