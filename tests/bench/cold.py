"""`python -m tests.bench.cold`: what a cold start costs until the first answer, beside what it could cost.

Everything runs in fresh processes, in turns, and is shown as ratios: of the machine's speed they tell nothing, of ours
they do. CPU is that of all threads of a process from its start to its answer, as the system counted it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from retrieval.release.publish import publish
from retrieval.release.store import S3Store
from retrieval.schema import DEFAULT_TABLE
from tests.bench import corpus
from tests.bench.asking import list_event, search_event
from tests.bench.databases import BuiltDatabase
from tests.bench.environment import environment_of
from tests.bench.report import Machine
from tests.bench.starting import FreshProcess, Started, compile_bytecode, run
from tests.bench.timing import Cost, Spread, interleave
from tests.bench.waterfall import Waterfall
from tests.e2e.conformance import npm
from tests.fault_proxy import running_fault_proxy
from tests.s3_server import running_s3_server

ROOT: Final = Path(__file__).parents[2]
NODE: Final = Path(__file__).with_name("node")
FLOOR: Final = Path(__file__).with_name("floor.py")

PLAIN: Final = ("lancedb", "mcp", "starlette", "mangum", "boto3", "openai", "aws_lambda_powertools")
"""What a handler would import that gives its start no thought."""

ON_LAMBDA: Final = {"AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9", "AWS_LAMBDA_FUNCTION_NAME": "bedivere"}
DELAY: Final = 0.02
"""Seconds that are added to each request to the store."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured: chunks of the local table and of each release, and rounds."""

    local: int
    releases: tuple[int, ...]
    rounds: int


FULL: Final = Extent(local=1_000, releases=(7_000, 43_000), rounds=11)
QUICK: Final = Extent(local=100, releases=(100,), rounds=1)


@dataclass(frozen=True, slots=True)
class Aim:
    """What a median is to stay under: a share of another kind of start, or megabytes of memory."""

    share: float
    of: str


@dataclass(slots=True)
class Kind:
    """One way to start."""

    name: str
    what: str
    start: Callable[[], Started]
    watched: Callable[[Sequence[str], bool], Started] | None = None
    """The same under more options of Python, or traced."""
    aims: list[Aim] = field(default_factory=list[Aim])
    most_mb: float | None = None
    starts: list[Started] = field(default_factory=list[Started])

    def measure(self, _number: int) -> Cost:
        started = self.start()
        self.starts.append(started)
        return started.cost

    def figures(self, others: Mapping[str, Kind]) -> dict[str, Any]:
        """Milliseconds, megabytes, and the ratios to (a) and (b), taken round by round."""
        costs = [started.cost for started in self.starts]
        ratios = {}
        for name in ("a", "b"):
            pairs = list(zip(costs, (started.cost for started in others[name].starts), strict=True))
            ratios[name] = {
                "cpu": asdict(Spread.of(cost.cpu / other.cpu for cost, other in pairs)),
                "wall": asdict(Spread.of(cost.wall / other.wall for cost, other in pairs)),
            }
        return {
            "name": self.name,
            "what": self.what,
            "cpu_ms": asdict(Spread.of(cost.cpu * 1000 for cost in costs)),
            "wall_ms": asdict(Spread.of(cost.wall * 1000 for cost in costs)),
            "peak_mb": asdict(Spread.of(started.peak_mb for started in self.starts)),
            "ratios": ratios,
            "aims": [asdict(aim) for aim in self.aims],
            "most_mb": self.most_mb,
        }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.cold", description="The cost of a cold start")
    parser.add_argument("--quick", action="store_true", help="tiny tables and one round: whether it runs at all")
    parser.add_argument("--rounds", type=int, metavar="N", help=f"rounds of each kind, {FULL.rounds} by default")
    parser.add_argument("--local", action="store_true", help="neither S3 nor Node: (a), (b), (d) and (e) alone")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write the waterfall of (b) there too")
    parser.add_argument("--cache", type=Path, default=ROOT / "build" / "bench", metavar="FOLDER", help="of databases")
    options = parser.parse_args(arguments)
    extent = QUICK if options.quick else FULL
    errors, output = Console(stderr=True), Console(highlight=False)
    output.width = max(output.width, 130)
    compile_bytecode()
    question = corpus.questions(1, extent.local).prose[0]
    with ExitStack() as stack:
        local = BuiltDatabase.at(options.cache, extent.local)
        kinds = _local(local, question)
        if not options.local:
            kinds += [stack.enter_context(_synced(options.cache, size, question)) for size in extent.releases]
            try:
                kinds.append(_node(local))
            except npm.NodeUnavailable as reason:
                errors.print(f"(f) is left out: {reason}")
        kinds.sort(key=lambda kind: kind.name)
        # Once each, uncounted: what is read from disk is in memory then, as for everybody after.
        for kind in kinds:
            errors.print(f"({kind.name}) {kind.what}")
            kind.start()
        interleave(options.rounds or extent.rounds, [kind.measure for kind in kinds])
        waterfalls = [_waterfall(kind) for kind in kinds if kind.watched]
    by_name = {kind.name: kind for kind in kinds}
    figures = [kind.figures(by_name) for kind in kinds]
    _show(figures, output)
    for waterfall in waterfalls:
        output.print(waterfall.text(), markup=False)
    if options.svg:
        options.svg.write_text(waterfalls[0].svg(), encoding="utf-8")
    if options.json:
        report = {"machine": asdict(Machine.this()), "kinds": figures, "waterfalls": [asdict(w) for w in waterfalls]}
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def _local(database: BuiltDatabase, question: str) -> list[Kind]:
    process = FreshProcess(database.folder, ON_LAMBDA)
    floor = [str(FLOOR), str(database.folder.absolute()), DEFAULT_TABLE, question]
    return [
        Kind("a", f"plain imports of {', '.join(PLAIN)}", lambda: process.imported(PLAIN)),
        Kind(
            "b",
            f"the handler, to the first answered tools/call, {database.chunks:,} chunks in a folder",
            lambda: process.answer(search_event(question)),
            lambda options, trace: process.answer(search_event(question), options=options, trace=trace),
            aims=[Aim(0.30, "a")],
            most_mb=180,
        ),
        Kind("d", "the handler, to answered tools/list", lambda: process.answer(list_event()), aims=[Aim(0.25, "a")]),
        Kind("e", "the floor: Python, LanceDB's compiled core, one query", lambda: process.run(floor)),
    ]


@contextmanager
def _synced(cache: Path, size: int, question: str) -> Generator[Kind]:
    """(b) with a release of about `size` chunks that comes from a slow S3 to an empty disk."""
    database = BuiltDatabase.at(cache, size)
    with ExitStack() as stack:
        server = stack.enter_context(running_s3_server())
        proxy = stack.enter_context(running_fault_proxy(server.endpoint))
        proxy.before = lambda _: time.sleep(DELAY)
        room = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bedivere-bench-")))
        bucket = server.create_bucket()
        with environment_of(server.environment):
            publish(database.folder, S3Store(bucket))
        environment = {
            **server.environment,
            **ON_LAMBDA,
            "AWS_ENDPOINT_URL_S3": proxy.endpoint,
            "BEDIVERE_DATASET": f"s3://{bucket}",
            "BEDIVERE_SYNC_FOLDER": str(room / "synced"),
        }
        process = FreshProcess(database.folder, environment)

        def start(options: Sequence[str] = (), trace: bool = False) -> Started:
            shutil.rmtree(room / "synced", ignore_errors=True)
            return process.answer(search_event(question), options=options, trace=trace)

        megabytes = sum(file.stat().st_size for file in database.folder.rglob("*") if file.is_file()) / 1e6
        yield Kind(
            f"c{megabytes:.0f}",
            f"(b) with a release of {megabytes:.0f} MB from S3, {DELAY * 1000:.0f} ms a request",
            start,
            start,
            aims=[Aim(1.25, "b")] if megabytes < 20 else [],
        )


def _node(database: BuiltDatabase) -> Kind:
    """A server in TypeScript up to its first scan. Raises `NodeUnavailable`."""
    place = ROOT / "build" / "bench" / "npm"
    node = npm.find_node()
    place.mkdir(parents=True, exist_ok=True)
    wanted = (NODE / "package.json").read_text(encoding="utf-8")
    if not (place / "package.json").exists() or (place / "package.json").read_text(encoding="utf-8") != wanted:
        # Exact versions, but no lock: the registries that mirror npm do not all have LanceDB for every platform.
        shutil.copy(NODE / "package.json", room := Path(tempfile.mkdtemp(dir=place.parent)))
        npm.run_npm(node.npm, "install", "--no-package-lock", "--fetch-retries=1", cwd=room)
        shutil.rmtree(place)
        room.rename(place)
    # Packages are looked for beside the script.
    script = Path(shutil.copy(NODE / "first_scan.mjs", place))
    command = [*node.node, str(script), str(database.folder.absolute()), DEFAULT_TABLE, "text LIKE '%the%'"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "NODE_"))}
    return Kind(
        "f", "Node: @lancedb/lancedb, the MCP SDK, the S3 client, one scan", lambda: run(command, "", environment)
    )


def _waterfall(kind: Kind) -> Waterfall:
    """Of two more starts, which are watched, and slower for it."""
    assert kind.watched is not None
    return Waterfall.of(f"({kind.name}) {kind.what}", kind.watched((), True), kind.watched(("-X", "importtime"), False))


def _show(figures: Sequence[Mapping[str, Any]], output: Console) -> None:
    output.print(str(Machine.this()), markup=False, soft_wrap=True)
    table = Table("", "from the start of a process", box=None, pad_edge=False, header_style="bold")
    for heading in ("CPU, ms", "of (a)", "of (b)", "wall, ms", "of (a)", "of (b)", "peak, MB", "aim"):
        table.add_column(heading, justify="right", no_wrap=True)
    for kind in figures:
        ratios = kind["ratios"]
        aims = [f"≤ {aim['share']} of ({aim['of']})" for aim in kind["aims"]]
        aims += [f"≤ {kind['most_mb']} MB"] if kind["most_mb"] else []
        table.add_row(
            f"({kind['name']})",
            kind["what"],
            f"{kind['cpu_ms']['median']:,.0f}",
            *(f"{ratios[name]['cpu']['median']:.3f}" for name in ("a", "b")),
            f"{kind['wall_ms']['median']:,.0f}",
            *(f"{ratios[name]['wall']['median']:.3f}" for name in ("a", "b")),
            f"{kind['peak_mb']['median']:.0f}",
            ", ".join(aims),
        )
    output.print(table)


if __name__ == "__main__":
    main()
