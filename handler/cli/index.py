"""`bedivere index`: a folder of documents becomes a LanceDB table. Draws the progress and says what was done."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from handler.cli.clock import elapsed
from handler.cli.progress import dollars_text, size_text, watcher
from handler.cli.terminal import ExitCode, fail
from handler.lean import wait_with_remote_catalogs
from retrieval.errors import BedivereError
from retrieval.notes import counted
from retrieval.settings import load_settings

if TYPE_CHECKING:
    from retrieval.indexing.job import Embedded, Summary

_SCOPE = "What the rows say of themselves"
_FILES = "Which files"


def index(
    source: Annotated[
        Path,
        typer.Argument(metavar="SOURCE", help="The folder of documents, or a .jsonl file of them.", show_default=False),
    ],
    database: Annotated[
        Path,
        typer.Argument(metavar="DATABASE", help="The LanceDB folder; made where it is missing.", show_default=False),
    ],
    table: Annotated[
        str | None, typer.Option(help="The table to write. Default: LANCEDB_TABLE, documents.", show_default=False)
    ] = None,
    collection: Annotated[
        str | None,
        typer.Option(
            help="Name of this set of documents. Each collection and version of a table is replaced on its own.",
            rich_help_panel=_SCOPE,
        ),
    ] = None,
    doc_version: Annotated[
        str | None, typer.Option(help="Version of this set of documents, such as 2.1.", rich_help_panel=_SCOPE)
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(help="Where the folder is published; every hit links below it.", rich_help_panel=_SCOPE),
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(help="Only files that match this gitignore pattern; repeatable.", rich_help_panel=_FILES),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(help="No files that match this gitignore pattern; repeatable.", rich_help_panel=_FILES),
    ] = None,
    rebuild: Annotated[
        bool,
        typer.Option(
            "--rebuild",
            help="Read every file again, and replace a table that Bedivere did not build.",
            rich_help_panel=_FILES,
        ),
    ] = False,
    embed: Annotated[
        bool | None,
        typer.Option(
            "--embed/--no-embed",
            help="Give every chunk a vector, by the model of EMBEDDING_MODEL; of both the last counts. "
            "Default: as the table is.",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Processes that read documents side by side, at most. Default: the cores that this one may use.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="End with one JSON object on standard output, for scripts.")
    ] = False,
) -> None:
    """Index a folder of documents into a LanceDB table.

    Reads Markdown, reStructuredText, HTML and plain text.
    Files that have not changed since the last run are not read again.
    The table is replaced in one step: whatever happens on the way, the old one stays whole.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 nothing could be indexed, 130 interrupted.
    """
    # Imported here, because LanceDB takes a second and `--help` should not.
    wait_with_remote_catalogs()
    from retrieval.indexing.build import build_table
    from retrieval.indexing.job import Options
    from retrieval.provider import Endpoint

    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    before = signal.signal(signal.SIGTERM, _terminated)
    try:
        settings = load_settings()
        options = Options(
            source=source,
            database=database,
            table=table or settings.table,
            collection=collection,
            doc_version=doc_version,
            base_url=base_url,
            include=tuple(include or ()),
            exclude=tuple(exclude or ()),
            rebuild=rebuild,
            embed=embed,
            endpoint=Endpoint(settings),
            workers=workers,
        )
        with ExitStack() as stack:
            summary = build_table(options, watcher(errors, stack, quiet=as_json, noun=options.noun))
        summary = replace(summary, seconds=elapsed())
    except BedivereError as error:
        if error.__cause__ is not None:
            # Of LanceDB or the system: the sentence leaves their words out, which the person at the terminal may need.
            cause = str(error.__cause__).partition("\n")[0]
            errors.print(f"{type(error.__cause__).__name__}: {cause}", markup=False)
        fail(error, as_json=as_json)
    except KeyboardInterrupt:
        errors.print("Interrupted: the old table, if any, is untouched.", markup=False)
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    finally:
        signal.signal(signal.SIGTERM, before)
    if as_json:
        sys.stdout.write(json.dumps(asdict(summary), ensure_ascii=False) + "\n")
    else:
        _show(Console(highlight=False, soft_wrap=True), summary, options.noun)


def _terminated(_signal: int, _frame: FrameType | None) -> None:
    # As an exception, so that the half-built table is removed on the way out.
    sys.exit(ExitCode.TERMINATED)


def _show(console: Console, summary: Summary, noun: str) -> None:
    headline = "is up to date: nothing has changed" if summary.unchanged else "is ready"
    console.print(f"Table [bold]{escape(summary.table)}[/bold] {headline}")
    for label, text in _lines(summary, noun):
        console.print(f"[dim]{label:<9}[/dim] {escape(text)}")


def _lines(summary: Summary, noun: str) -> Iterator[tuple[str, str]]:
    from retrieval.indexing.calibration import calibration_line

    yield f"{noun}s", f"{summary.files:,} ({size_text(summary.bytes)})"
    yield "chunks", f"{summary.chunks:,}"
    if summary.reused:
        yield "reused", f"{counted(summary.reused, noun)} had not changed"
    if summary.removed:
        yield "removed", f"{counted(summary.removed, noun)} no longer there"
    if summary.other_rows:
        yield "kept", f"{counted(summary.other_rows, 'chunk')} of other collections or versions"
    if summary.vectors:
        yield "vectors", _vectors_text(summary.vectors)
        if summary.vectors.texts:
            yield "embedded", _paid_text(summary.vectors, calibrated=summary.calibration is not None)
    if summary.calibration:
        yield "relevance", calibration_line(summary.calibration, embedded=summary.vectors is not None)
    for group in summary.skipped:
        more = ", …" if group.files > len(group.examples) else ""
        yield "skipped", f"{counted(group.files, noun)}, {group.reason}: {', '.join(group.examples)}{more}"
    if hidden := summary.hidden:
        more = ", …" if hidden.files > len(hidden.examples) else ""
        taken = f"{counted(hidden.characters, 'invisible character')} taken out of {counted(hidden.files, noun)}"
        yield "hidden", f"{taken}: {', '.join(hidden.examples)}{more}"
    for note in summary.notes:
        yield "note", note
    yield "seconds", f"{summary.seconds:,.1f}"


def _vectors_text(vectors: Embedded) -> str:
    recall = "" if vectors.recall_at_10 is None else f", recall@10 {vectors.recall_at_10:.3f} of an exact search"
    return f"{vectors.model}, {vectors.dimensions:,} dimensions, {vectors.index}{recall}"


def _paid_text(vectors: Embedded, *, calibrated: bool) -> str:
    cost = "" if vectors.dollars is None else f", {dollars_text(vectors.dollars)}"
    cut = f"; {counted(vectors.truncated, 'chunk')} shortened for the model" if vectors.truncated else ""
    # More than the progress counted, which knows of the chunks alone.
    tokens = counted(vectors.tokens, "token") + (" with those of the calibration" if calibrated else "")
    return f"{counted(vectors.texts, 'chunk')}, {tokens}{cost}{cut}"
