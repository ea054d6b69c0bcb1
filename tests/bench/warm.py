"""`python -m tests.bench.warm`: what a call costs once the server is warm, beside the bare query and other engines.

Everything is asked in turns, of one process for one table, and shown as ratios with the aims beside. A figure of CPU is
that of all threads of the process; time on a machine that others use says less.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import sleep
from typing import Final

from rich.console import Console

from tests.bench.crowd import Crowd, Throughput
from tests.bench.drawn import MODEL, DrawnTable, asking, vector_of
from tests.bench.endurance import Memory, endured
from tests.bench.report import Machine
from tests.bench.rivals import Search, rivals
from tests.bench.timing import Cost, cost_of, interleave
from tests.bench.warm_report import Aim, Calls, Report, show
from tests.bench.warm_table import WarmTable
from tests.bench.worst import worst_questions
from tests.embedding_server import EmbeddingServer, running_embedding_server

ROOT: Final = Path(__file__).parents[2]
TEXT: Final = "text"
BARE: Final = "the bare query"
MOST_WITH_LONG_VECTORS: Final = 100_000
"""Chunks: a million vectors of 1,536 dimensions are 6 GB, and their index takes an hour of two cores."""

_PROVIDER_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured: sizes in chunks, calls of each kind, and what is done at one size only."""

    sizes: tuple[int, ...]
    dimensions: tuple[int, ...]
    calls: int
    scans: int
    worst: int
    crowds: tuple[int, ...]
    crowd_seconds: float
    crowded_size: int
    endured_calls: tuple[int, int]
    middle: int
    """The size whose median the largest is compared with."""
    ranked: int
    """The size at which the other engines and the worst questions are judged."""


NORMAL: Final = Extent(
    sizes=(1_000, 10_000, 100_000),
    dimensions=(384, 1_536),
    calls=100,
    scans=12,
    worst=40,
    crowds=(1, 8, 32),
    crowd_seconds=8,
    crowded_size=10_000,
    endured_calls=(1_000, 10_000),
    middle=10_000,
    ranked=100_000,
)
QUICK: Final = Extent(
    sizes=(200, 400),
    dimensions=(16,),
    calls=4,
    scans=2,
    worst=1,
    crowds=(1, 2),
    crowd_seconds=0.5,
    crowded_size=200,
    endured_calls=(10, 20),
    middle=200,
    ranked=400,
)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.warm", description="The cost of a warm call")
    parser.add_argument("--quick", action="store_true", help="tiny tables and few calls: whether it runs at all")
    parser.add_argument("--full", action="store_true", help="a million chunks too; FULL=1 says the same")
    parser.add_argument("--only", choices=PARTS, action="append", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--cache", type=Path, default=ROOT / "build" / "bench", metavar="FOLDER", help="of databases")
    options = parser.parse_args(arguments)
    extent = QUICK if options.quick else NORMAL
    sizes = extent.sizes
    if options.full or os.environ.get("FULL", "") not in {"", "0"}:
        sizes = (*sizes, 1_000_000)
    output = Console(highlight=False)
    output.width = max(output.width, 150)
    bench = Bench(extent, sizes, options.cache, Console(stderr=True))
    report = bench.run(options.only or PARTS)
    show(report, output)
    if options.json:
        options.json.write_text(json.dumps(asdict(report), indent=2) + "\n", encoding="utf-8")


SLOW: Final = ("SQLite FTS5, all words", "LIKE scan", "LIKE scan, first 20")
"""Of the other ways, those that are asked less often."""

PARTS: Final = ("text", "vectors", "worst", "http", "memory")


@dataclass(frozen=True, slots=True)
class Bench:
    """One run over one cache of tables."""

    extent: Extent
    sizes: tuple[int, ...]
    cache: Path
    errors: Console

    def run(self, parts: Sequence[str]) -> Report:
        calls: list[Calls] = []
        aims: list[Aim] = []
        throughput: list[Throughput] = []
        memory: Memory | None = None
        if "text" in parts:
            for size in self.sizes:
                calls += self._text(size)
            aims += _aims_of_text(calls, self.extent)
        if "vectors" in parts:
            for size in self.sizes:
                for dimensions in self.extent.dimensions:
                    if size <= MOST_WITH_LONG_VECTORS or dimensions <= min(self.extent.dimensions):
                        calls += self._vectors(size, dimensions)
        if "worst" in parts:
            worst = self._worst()
            calls += worst
            aims += _aims_of_worst(worst)
        if "http" in parts:
            throughput = self._throughput()
            aims += _aims_of_throughput(throughput)
        if "memory" in parts:
            self._say("Calling again and again")
            table = self._table(self.extent.crowded_size)
            memory = endured(table.folder, table.chunks, *self.extent.endured_calls)
            aims.append(Aim("memory grows between the first and the last of these calls", memory.growth, 1.05))
        return Report(Machine.this(), calls, throughput, memory, aims)

    def _table(self, size: int, dimensions: int | None = None) -> DrawnTable:
        self._say(f"A table of {size:,} chunks{f' with {dimensions} dimensions' if dimensions else ''}, unless kept")
        return DrawnTable.at(self.cache, size, dimensions)

    def _text(self, size: int) -> list[Calls]:
        drawn = self._table(size)
        asked = asking(self.extent.calls, min(self.sizes))
        with WarmTable(drawn.folder) as table, rivals(drawn.folder, drawn.folder, size) as others:
            self._say(f"Asking {size:,} chunks by words")
            ways: dict[str, Callable[[str], Cost]] = {TEXT: table.text, BARE: table.bare_text}
            slow = {name: _timed(others.pop(name)) for name in SLOW}
            ways |= {name: _timed(search) for name, search in others.items()}
            for question in asked.prose[-4:]:
                table.check(question)
            found = self._measured(size, ways, asked.prose)
            found += self._measured(size, slow, asked.prose[: self.extent.scans])
            found += self._measured(size, {"text, an identifier": table.text}, asked.identifiers)
            found += self._measured(size, {"fetch": table.fetch, "the bare rows": table.bare_fetch}, asked.paths)
            return found + self._measured(size, {"catalog": table.catalog}, asked.prose)

    def _vectors(self, size: int, dimensions: int) -> list[Calls]:
        drawn = self._table(size, dimensions)
        asked = asking(self.extent.calls, min(self.sizes)).prose
        with _provider(dimensions) as provider, WarmTable(drawn.folder, provider.url, MODEL) as table:
            self._say(f"Asking {size:,} chunks by {dimensions} dimensions")
            vectors = {question: vector_of(question, dimensions) for question in asked}
            for question in asked:
                # From now on the vector of the question is known: what the provider takes is not ours.
                table.know(question)
            ways: dict[str, Callable[[str], Cost]] = {
                f"vector, {dimensions}": lambda question: table.by_meaning(question, "vector"),
                f"{BARE}, {dimensions}": lambda question: table.bare_vector(vectors[question]),
                f"hybrid, {dimensions}": lambda question: table.by_meaning(question, "hybrid"),
            }
            recall = table.recall([*vectors.values()][: self.extent.scans])
            self._say(f"Of the ten nearest rows {recall:.2f} are found")
            return self._measured(size, ways, asked)

    def _worst(self) -> list[Calls]:
        size = self.extent.ranked
        drawn = self._table(size)
        count = self.extent.worst
        typical = asking(count, min(self.sizes)).prose
        with WarmTable(drawn.folder) as table:
            self._say(f"Asking {size:,} chunks the worst questions")
            kinds = {"typical questions": typical, **worst_questions(count)}
            ways = {name: _each(table.text, questions) for name, questions in kinds.items()}
            for questions in kinds.values():
                table.text(questions[0])
            return _named(size, ways, interleave(count, [*ways.values()]))

    def _throughput(self) -> list[Throughput]:
        size, dimensions = self.extent.crowded_size, min(self.extent.dimensions)
        text, embedded = self._table(size), self._table(size, dimensions)
        questions = asking(200, min(self.sizes)).prose
        crowd = Crowd(self.extent.crowds, self.extent.crowd_seconds, questions)
        self._say("Serving crowds over HTTP")
        found = crowd.ask(text.folder, "text", {})
        with _provider(dimensions, _PROVIDER_SECONDS) as provider:
            variables = {"OPENAI_BASE_URL": provider.url, "EMBEDDING_MODEL": MODEL, "OPENAI_API_KEY": "none"}
            return found + crowd.ask(embedded.folder, "hybrid", variables)

    def _measured(self, size: int, ways: Mapping[str, Callable[[str], Cost]], questions: Sequence[str]) -> list[Calls]:
        measures = {name: _each(ask, questions) for name, ask in ways.items()}
        # Uncounted: what is read from disk is in memory then, as for everybody after.
        for measure in measures.values():
            for number in range(min(3, len(questions))):
                measure(number)
        return _named(size, measures, interleave(len(questions), [*measures.values()]))

    def _say(self, what: str) -> None:
        self.errors.print(f"{what} …", markup=False)


@contextmanager
def _provider(dimensions: int, seconds: float = 0) -> Generator[EmbeddingServer]:
    """A provider of vectors of questions about drawn tables, that takes `seconds` over each."""
    # Made now, the vectors of all words keep no question waiting.
    vector_of("the", dimensions)
    with running_embedding_server() as server:

        def made(texts: Sequence[str]) -> list[list[float]]:
            sleep(seconds)
            return [vector_of(text, dimensions) for text in texts]

        server.model = made
        yield server


def _timed(search: Search) -> Callable[[str], Cost]:
    return lambda question: cost_of(lambda: search(question))


def _each(ask: Callable[[str], Cost], questions: Sequence[str]) -> Callable[[int], Cost]:
    return lambda number: ask(questions[number % len(questions)])


def _named(size: int, ways: Mapping[str, object], costs: Sequence[Sequence[Cost]]) -> list[Calls]:
    return [Calls.of(name, size, measured) for name, measured in zip(ways, costs, strict=True)]


def _aims_of_text(calls: Sequence[Calls], extent: Extent) -> list[Aim]:
    of = {(one.name, one.chunks): one for one in calls}
    sizes = sorted({one.chunks for one in calls})
    aims = [
        Aim(
            f"the handler's CPU over the bare query, ms, {size:,} chunks",
            of[TEXT, size].over(of[BARE, size]),
            1.5,
        )
        for size in sizes
    ]
    text = of[TEXT, extent.ranked]
    for name, most in (
        ("SQLite FTS5", 1 / 3),
        ("SQLite FTS5, all words", 1 / 3),
        ("LIKE scan", 1 / 50),
        ("LIKE scan, first 20", 1 / 50),
    ):
        other = of[name, extent.ranked]
        aims.append(Aim(f"median time of text to that of {name}", text.p50 / other.p50, most))
        aims.append(Aim(f"the same in CPU, {name}", text.cpu_p50 / other.cpu_p50, most))
    if sizes[-1] > extent.middle:
        grown, middle = of[TEXT, sizes[-1]], of[TEXT, extent.middle]
        what = f"from {extent.middle:,} to {sizes[-1]:,} chunks, text takes times"
        aims += [
            Aim(what, grown.p50 / middle.p50, 2),
            Aim(f"{what}, in CPU", grown.cpu_p50 / middle.cpu_p50, 2),
        ]
    return aims


def _aims_of_worst(calls: Sequence[Calls]) -> list[Aim]:
    typical, *kinds = calls
    return [
        aim
        for one in kinds
        for aim in (
            Aim(f"p99 of {one.name} to the typical median", one.p99 / typical.p50, 5),
            Aim(f"the same in CPU, {one.name}", one.cpu_p99 / typical.cpu_p50, 5),
        )
    ]


def _aims_of_throughput(found: Sequence[Throughput]) -> list[Aim]:
    aims: list[Aim] = []
    for kind in dict.fromkeys(one.kind for one in found):
        first, *_, last = (one for one in found if one.kind == kind)
        what = f"{kind}: calls a second of {last.clients} clients to those of one"
        aims.append(Aim(what, last.calls_a_second / first.calls_a_second, 5, at_least=True))
        aims.append(Aim(f"{kind}: the same, as far as these processors could", last.times(first), 5, at_least=True))
        aims.append(Aim(f"{kind}: calls that failed", sum(one.errors for one in found if one.kind == kind), 0))
    return aims


if __name__ == "__main__":
    main()
