"""`bedivere publish`: a database becomes the current release of a store. Draws the progress and says what was done."""

from __future__ import annotations

import json
import signal
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TextColumn, TransferSpeedColumn
from rich.table import Table

from handler.cli.progress import counted, size_text
from handler.cli.terminal import ExitCode, fail
from retrieval.errors import BedivereError

if TYPE_CHECKING:
    from retrieval.release.publish import Published, Watcher

STORE_HELP: Final = "The store of releases: s3://BUCKET/PREFIX or file:///FOLDER."

_LINE_EVERY_SECONDS: Final = 5.0


def publish(
    database: Annotated[
        Path, typer.Argument(help="The database folder that bedivere index wrote.", show_default=False)
    ],
    store: Annotated[str, typer.Argument(help=STORE_HELP, show_default=False)],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check and pack everything, and write nothing to the store.")
    ] = False,
    keep: Annotated[
        int | None,
        typer.Option(
            min=1, help="Afterwards remove all but the newest KEEP releases, as prune does.", show_default=False
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="End with one JSON object on standard output, for scripts.")
    ] = False,
) -> None:
    """Publish a database to S3 or to a folder, as the release that servers fetch.

    Every table must be whole: readable, and all of its rows indexed.
    What an earlier release already has is not uploaded again; where nothing has changed, nothing is uploaded.
    The new release becomes current in one step: whatever happens on the way, the old one goes on serving.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
    """
    # Imported here, because LanceDB takes seconds and `--help` should not.
    from retrieval.release.publish import publish as publish_database
    from retrieval.release.store import open_store

    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    before = signal.signal(signal.SIGTERM, _terminated)
    try:
        opened = open_store(store)
        with _watcher(errors, quiet=as_json) as watch:
            published = publish_database(database, opened, dry_run=dry_run, keep=keep, watch=watch)
    except BedivereError as error:
        fail(error, as_json=as_json)
    except KeyboardInterrupt:
        errors.print("Interrupted: the current release, if any, is untouched.", markup=False)
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    finally:
        signal.signal(signal.SIGTERM, before)
    if as_json:
        sys.stdout.write(json.dumps({**asdict(published), "dry_run": dry_run}) + "\n")
    else:
        _show(Console(highlight=False, soft_wrap=True), published, dry_run=dry_run)


def _terminated(_signal: int, _frame: FrameType | None) -> None:
    # As an exception, so that what was uploaded is removed on the way out.
    sys.exit(ExitCode.TERMINATED)


def _watcher(errors: Console, *, quiet: bool) -> AbstractContextManager[Watcher | None]:
    """A bar on a terminal, else lines, or nothing where it should be quiet."""
    if errors.is_terminal:
        return _Bar(errors)
    return nullcontext(None if quiet else _Lines(errors))


class _Bar:
    """A progress bar, for a terminal."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task("", total=None)
        self._total = 0

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._progress.stop()

    def stage(self, name: str) -> None:
        self._progress.update(self._task, description=name)

    def planned(self, count: int) -> None:
        self._total += count
        self._progress.update(self._task, total=self._total)

    def sent(self, count: int) -> None:
        self._progress.advance(self._task, count)


class _Lines:
    """A line now and then, for a log."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._said = time.monotonic()
        self._total = 0
        self._sent = 0

    def stage(self, name: str) -> None:
        self._console.print(name, markup=False)

    def planned(self, count: int) -> None:
        self._total += count

    def sent(self, count: int) -> None:
        self._sent += count
        if time.monotonic() - self._said >= _LINE_EVERY_SECONDS:
            self._said = time.monotonic()
            self._console.print(f"{size_text(self._sent)} of about {size_text(self._total)} sent", markup=False)


def _show(console: Console, published: Published, *, dry_run: bool) -> None:
    if published.unchanged:
        headline = "is up to date: nothing has changed"
    elif dry_run:
        headline = "would be published"
    else:
        headline = "is published and current"
    console.print(f"Release [bold]{published.release}[/bold] {headline}")
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column(overflow="fold")
    for name, rows in published.tables.items():
        grid.add_row("table", escape(f"{name}, {counted(rows, 'row')}"))
    grid.add_row("files", f"{published.files:,} ({size_text(published.unpacked_bytes)})")
    grid.add_row("parts", f"{published.parts:,} ({size_text(published.packed_bytes)})")
    if not published.unchanged:
        grid.add_row("to upload" if dry_run else "uploaded", size_text(published.uploaded_bytes))
        if published.reused_parts:
            grid.add_row("reused", f"{counted(published.reused_parts, 'part')} of earlier releases")
    for release in published.pruned:
        grid.add_row("removed", release)
    for note in published.notes:
        grid.add_row("note", escape(note))
    grid.add_row("seconds", f"{published.seconds:,.1f}")
    console.print(grid)
