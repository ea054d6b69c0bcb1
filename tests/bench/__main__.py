"""`python -m tests.bench [--quick] [--json FILE] [--cache FOLDER]`: measures everything once and shows it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Final

from rich.console import Console

from tests.bench import corpus
from tests.bench.asking import LIMIT, Asked
from tests.bench.corpus import Questions
from tests.bench.databases import BuiltDatabase
from tests.bench.indexing import indexed_folder
from tests.bench.report import Comparison, Machine, Report, show
from tests.bench.starting import PACKAGES, FreshProcess, compile_bytecode
from tests.bench.timing import Cost, Spread, interleave

_CACHE: Final = Path(__file__).parents[2] / "build" / "bench"
_NARROWEST: Final = 150


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured: sizes in chunks, and rounds of each kind."""

    sizes: tuple[int, ...]
    indexed_size: int
    calls: int
    scans: int
    runs: int
    starts: int


FULL: Final = Extent((1_000, 10_000, 80_000), indexed_size=10_000, calls=60, scans=30, runs=3, starts=7)
QUICK: Final = Extent((100, 400), indexed_size=100, calls=5, scans=3, runs=1, starts=1)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Figures, as ratios, without thresholds")
    parser.add_argument("--quick", action="store_true", help="tiny tables and few rounds: whether it runs at all")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--cache", type=Path, default=_CACHE, metavar="FOLDER", help="where built databases are kept")
    options = parser.parse_args(arguments)
    errors, output = Console(stderr=True), Console(highlight=False)
    output.width = max(output.width, _NARROWEST)
    report = measure(QUICK if options.quick else FULL, options.cache, errors, quick=options.quick)
    show(report, output)
    if options.json:
        options.json.write_text(json.dumps(asdict(report), indent=2) + "\n", encoding="utf-8")


def measure(extent: Extent, cache: Path, errors: Console, *, quick: bool) -> Report:
    """All comparisons, in the order in which they are shown."""
    asked = corpus.questions(extent.calls, min(extent.sizes))
    comparisons: list[Comparison] = []
    notes: list[str] = []
    built: list[BuiltDatabase] = []
    for size in extent.sizes:
        with _told(errors, f"A table of {size:,} chunks, built unless it was kept"):
            built.append(BuiltDatabase.at(cache, size))
    for database in built:
        with _told(errors, f"Asking {database.chunks:,} chunks"), Asked(database.folder) as table:
            comparisons += _calls(table, database.chunks, asked, extent)
            comparisons += _scans(table, database.chunks, asked, extent, notes)
    with _told(errors, f"Indexing {extent.indexed_size:,} chunks"), indexed_folder(extent.indexed_size) as folder:
        first, second, bare = interleave(extent.runs, [folder.index, folder.index_again, folder.bare_write])
        comparisons += [
            Comparison.of("index a folder", first, "LanceDB's write of its rows", bare, chunks=folder.chunks),
            Comparison.of("index it again, unchanged", second, "index a folder", first, chunks=folder.chunks),
        ]
        rate = Spread.of(folder.chunks / cost.wall for cost in first)
    with _told(errors, "Starting fresh processes"):
        compile_bytecode()
        comparisons += _starts(FreshProcess(built[0].folder), asked.prose[0], extent, notes)
    return Report(Machine.this(), quick, comparisons, rate, notes)


def _calls(table: Asked, chunks: int, asked: Questions, extent: Extent) -> Iterator[Comparison]:
    # These warm the caches of all three as well.
    for question in (*asked.prose[-4:], *asked.identifiers[:2]):
        table.check(question)
    depths = [_each(depth, asked.prose) for depth in (table.handler_call, table.search, table.bare_query)]
    handler, search, bare = interleave(extent.calls, depths)
    yield Comparison.of("handler call", handler, "bare LanceDB query", bare, chunks=chunks)
    yield Comparison.of("retriever's text search", search, "bare LanceDB query", bare, chunks=chunks)


def _scans(table: Asked, chunks: int, asked: Questions, extent: Extent, notes: list[str]) -> Iterator[Comparison]:
    for kind, every in (("three words", asked.prose), ("an identifier", asked.identifiers)):
        questions = every[: extent.scans]
        matches = median(map(table.like_matches, questions))
        notes.append(f"LIKE, {kind}: matches {matches:,.0f} of {chunks:,} chunks; it stops at the first {LIMIT}.")
        ways = [_each(way, questions) for way in (table.search, table.like_scan, table.like_scan_of_all)]
        search, first, every_row = interleave(extent.scans, ways)
        yield Comparison.of(f"text search, {kind}", search, "LIKE scan", first, chunks=chunks)
        yield Comparison.of(f"text search, {kind}", search, "LIKE scan of all rows", every_row, chunks=chunks)


def _starts(process: FreshProcess, question: str, extent: Extent, notes: list[str]) -> Iterator[Comparison]:
    loaded = process.loaded(question)
    starts: list[Callable[[int], Cost]] = [
        lambda _: process.first_answer(question),
        lambda _: process.imports(PACKAGES),
        lambda _: process.imports(loaded),
    ]
    answer, every, own = interleave(extent.starts, starts)
    yield Comparison.of("start to first answer", answer, "plain imports, all", every, chunks=None)
    yield Comparison.of("start to first answer", answer, "plain imports, as loaded", own, chunks=None)
    notes.append(f"All: {', '.join(PACKAGES)}. Loaded by the first answer: {', '.join(loaded)}.")


def _each(measure_one: Callable[[str], Cost], questions: Sequence[str]) -> Callable[[int], Cost]:
    return lambda number: measure_one(questions[number % len(questions)])


@contextmanager
def _told(errors: Console, what: str) -> Generator[None]:
    if not errors.is_terminal:
        errors.print(f"{what} …", markup=False)
        yield
        return
    with errors.status(f"{what} …"):
        yield


if __name__ == "__main__":
    main()
