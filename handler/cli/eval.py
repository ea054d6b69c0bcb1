"""`bedivere eval`: judged queries against a database, as figures with their confidence, and against an earlier run."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, cast

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from handler.cli.terminal import DB_HELP, ExitCode, fail, print_whole
from handler.cli.waiting import ready
from retrieval.errors import BedivereError, ErrorCode
from retrieval.notes import counted
from retrieval.settings import Settings, load_settings
from retrieval.types import SearchType

if TYPE_CHECKING:
    from retrieval.evaluation.comparison import Comparison
    from retrieval.evaluation.measuring import Asking
    from retrieval.evaluation.report import Figure, Mode, Report

_MODES: Final = ("auto", "text", "vector", "hybrid")
_UNDER_RANKING: Final = ("current_first", "false_positive", "refused")


def evaluate(
    queries: Annotated[
        Path, typer.Option(help="The judged queries: .jsonl, TREC topics, or an id, a tab and a text a line.")
    ],
    db: Annotated[
        str | None,
        typer.Option("--db", "--database", help=DB_HELP, show_default=False),
    ] = None,
    qrels: Annotated[
        Path | None,
        typer.Option(help="The judgements of queries without labels. Default: qrels.tsv beside.", show_default=False),
    ] = None,
    mode: Annotated[
        str, typer.Option(help="Search types to measure, joined by commas: auto, text, vector, hybrid.")
    ] = "auto",
    table: Annotated[str | None, typer.Option(help="The table. Default: LANCEDB_TABLE.", show_default=False)] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=200, help="Passages to ask for; documents are ranked by their best one.")
    ] = 200,
    min_score: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="In place of the calibrated threshold; 0 refuses nothing.", show_default=False),
    ] = None,
    compare: Annotated[
        Path | None,
        typer.Option(help="A report of an earlier run with --json, to compare with.", show_default=False),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the report as one JSON object, every query's figures included.")
    ] = False,
) -> None:
    """Measure what searches find of what judged queries say they should.

    Exit codes: 0 measured, 1 failed, 2 wrong usage, 4 a figure lost more than noise against --compare,
    130 interrupted.
    """
    # Imported here, because the readers of documents take a moment and `--help` should not.
    from retrieval.evaluation import judgements
    from retrieval.evaluation.comparison import compare as compared
    from retrieval.evaluation.measuring import Asking
    from retrieval.evaluation.report import Report

    try:
        modes = _modes(mode)
        settings = load_settings(database=db)
        baseline = Report.load(_text_of(compare)) if compare else None
        asking = Asking(judgements.read(queries, qrels), modes, table, limit, min_score)
        report = asyncio.run(_measure(settings, asking, quiet=as_json))
        comparison = compared(baseline, report) if baseline else None
    except BedivereError as error:
        fail(error, as_json=as_json)
    if as_json:
        record = report.model_dump(mode="json")
        if comparison:
            record["comparison"] = comparison.model_dump(mode="json")
        typer.echo(json.dumps(record, ensure_ascii=False, separators=(",", ":")))
    else:
        _print(report, comparison)
    if comparison and comparison.losses:
        raise typer.Exit(ExitCode.WORSE)


def _modes(given: str) -> list[SearchType]:
    names = [name.strip() for name in given.split(",")]
    if unknown := [name for name in names if name not in _MODES]:
        raise BedivereError(
            ErrorCode.INVALID_ARGUMENT,
            f"--mode has {unknown[0][:40]!r}; it takes {', '.join(_MODES)}, joined by commas.",
        )
    return cast("list[SearchType]", names)


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise BedivereError(ErrorCode.JUDGEMENTS_INVALID, f"The baseline {file.name} cannot be read.") from None


async def _measure(settings: Settings, asking: Asking, *, quiet: bool) -> Report:
    from dataclasses import replace

    from retrieval.evaluation.measuring import measure
    from retrieval.retriever import Retriever

    dataset = (await ready(Retriever(settings))).dataset
    errors = Console(stderr=True, highlight=False)
    if quiet or not errors.is_terminal:
        return await measure(settings, dataset, asking)
    with errors.status("") as status:

        def show(mode: SearchType, done: int, of: int) -> None:
            status.update(f"{mode}: {done:,} of {of:,} {'query' if of == 1 else 'queries'}")

        return await measure(settings, dataset, replace(asking, on_query=show))


def _print(report: Report, comparison: Comparison | None) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for name, value in _facts(report):
        console.print(Text.assemble((f"{name:<10}", "dim"), value))
    for search_type, mode in report.modes.items():
        console.print()
        print_whole(console, _ranking(search_type, mode))
        for line in _lines(mode):
            console.print(Text(line))
    if comparison:
        console.print()
        _print_comparison(console, comparison)


def _facts(report: Report) -> list[tuple[str, str]]:
    corpus = report.corpus
    queries = max((len(mode.queries) for mode in report.modes.values()), default=0)
    left_out = f", {report.left_out:,} without judgements left out" if report.left_out else ""
    empty = f", {counted(report.empty, 'judged one')} without text" if report.empty else ""
    return [
        ("Table", f"{corpus.table}, {counted(corpus.rows, 'chunk')} of {counted(corpus.documents, 'document')}{empty}"),
        ("Corpus", (corpus.corpus_version or "of another tool")[:16]),
        ("Model", corpus.embedding_model or "text only"),
        ("Queries", f"{queries:,}{left_out}"),
    ]


def _ranking(search_type: str, mode: Mode) -> Table:
    """The figures of a ranking, a row a kind; those over all queries with their confidence below."""
    from retrieval.evaluation.report import ALL, METRICS

    names = [name for name in METRICS if name not in _UNDER_RANKING and name in mode.figures[ALL]]
    shown = Table(box=None, pad_edge=False, header_style="dim")
    for column in (search_type, "queries", *names):
        shown.add_column(column, justify="left" if column == search_type else "right")
    for kind, figures in mode.figures.items():
        if "ndcg@10" not in figures:
            continue
        cells = [f"{figures[name].mean:.3f}" if name in figures else "" for name in names]
        shown.add_row(Text(kind), f"{figures['ndcg@10'].queries:,}", *cells, style="bold" if kind == ALL else "")
        if kind == ALL and figures["ndcg@10"].low is not None:
            # Of a figure that only one query has, nothing says how sure it is.
            shown.add_row("", "95% from", *(_bound(figures[name].low) for name in names), style="dim")
            shown.add_row("", "to", *(_bound(figures[name].high) for name in names), style="dim")
    return shown


def _lines(mode: Mode) -> list[str]:
    from retrieval.evaluation.report import ALL, METRICS

    figures = mode.figures[ALL]
    lines = [
        f"{METRICS[name]}: {figures[name].mean:.3f} of {figures[name].queries:,}{_interval(figures[name])}"
        for name in _UNDER_RANKING
        if name in figures
    ]
    if mode.latency:
        parts = {"search": mode.latency.search, "embedding": mode.latency.embedding}
        told = [
            f"{name} {part.p50:.1f}, {part.p95:.1f}, {part.p99:.1f}" for name, part in parts.items() if part is not None
        ]
        lines.append(f"Milliseconds at p50, p95, p99: {'; '.join(told)}")
    return lines


def _bound(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _interval(figure: Figure) -> str:
    return "" if figure.low is None or figure.high is None else f" ({figure.low:.3f}–{figure.high:.3f})"


def _print_comparison(console: Console, comparison: Comparison) -> None:
    from retrieval.evaluation.report import ALL

    for note in comparison.notes:
        console.print(Text(note, style="yellow"))
    shown = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("change", "kind", "metric", "before", "after", "difference", "95%", ""):
        shown.add_column(column, justify="right" if column in {"before", "after", "difference", "95%"} else "left")
    for change in comparison.changes:
        # Of a single kind only what moved is worth a line.
        if change.kind != ALL and change.before == change.after:
            continue
        shown.add_row(
            change.mode,
            Text(change.kind),
            change.metric,
            f"{change.before:.3f}",
            f"{change.after:.3f}",
            f"{change.after - change.before:+.3f}",
            f"{change.low:+.3f} to {change.high:+.3f}",
            "" if change.verdict == "same" else change.verdict,
            style={"worse": "red", "better": "green", "same": ""}[change.verdict],
        )
    print_whole(console, shown)
    losses = [f"{change.mode} {change.metric}" for change in comparison.losses]
    console.print(f"Lost more than noise: {', '.join(losses)}" if losses else "No figure lost more than noise.")
