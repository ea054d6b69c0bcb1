"""`bedivere publish`: a database becomes the current release of a store. Draws the progress and says what was done."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NoReturn, cast

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TextColumn, TransferSpeedColumn
from rich.table import Table

from handler.cli.clock import elapsed
from handler.cli.progress import size_text
from handler.cli.terminal import ExitCode, fail
from handler.lean import wait_with_remote_catalogs
from retrieval.errors import BedivereError
from retrieval.notes import counted

if TYPE_CHECKING:
    from retrieval.release.publish import Published, Watcher

STORE_HELP: Final = "The store of releases: s3://BUCKET/PREFIX or file:///FOLDER."

_LINE_EVERY_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.1
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def naming(store: str, sentence: str) -> str:
    """`sentence` with `store` in the command that it tells to run, which can then be pasted."""
    return sentence.replace("bedivere rollback STORE", f"bedivere rollback {shlex.quote(store)}")


def publish(
    database: Annotated[
        Path,
        typer.Argument(metavar="DATABASE", help="The database folder that bedivere index wrote.", show_default=False),
    ],
    store: Annotated[str, typer.Argument(metavar="STORE", help=STORE_HELP, show_default=False)],
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

    def work(watch: Watcher) -> Published:
        # Imported here, because LanceDB takes a second and `--help` should not.
        wait_with_remote_catalogs()
        from retrieval.release.publish import publish as publish_database
        from retrieval.release.store import open_store

        published = publish_database(database, open_store(store), dry_run=dry_run, keep=keep, watch=watch)
        return replace(published, seconds=elapsed())

    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    with _watcher(errors, quiet=as_json) as watch:
        run = _Run(work, watch)
        run.attend()
    if run.signals:
        run.interrupted(errors, as_json=as_json)
    published = run.result(as_json=as_json)
    if as_json:
        sys.stdout.write(json.dumps({**asdict(published), "dry_run": dry_run}) + "\n")
    else:
        _show(Console(highlight=False, soft_wrap=True), published, dry_run=dry_run)


class _Run:
    """A publication in a thread of its own, so that Ctrl-C and SIGTERM raise nothing in the midst of a library.

    As long as nothing is uploaded, the first of them ends the process at once. Later it ends the run at its next
    step, which removes what it uploaded, and only a second one ends the process at once. It is the run's watcher.
    """

    def __init__(self, work: Callable[[Watcher], Published], watch: Watcher | None) -> None:
        self.signals: list[int] = []
        self._publish = work
        self._watch = watch
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._outcome: Published | BaseException | None = None
        self._uploading = False
        self._making_current = False
        self._stopping = False

    def attend(self) -> None:
        """Returns when the run has ended, or is not to be waited for."""
        # A shell has what it starts in the background ignore Ctrl-C.
        heeded = [each for each in _SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
        before = {each: signal.signal(each, lambda number, _: self.signals.append(number)) for each in heeded}
        try:
            threading.Thread(target=self._work, name="bedivere-publish", daemon=True).start()
            while not self._done.wait(_POLL_SECONDS):
                if self.signals:
                    with self._lock:
                        self._stopping = True
                    if len(self.signals) > 1 or not self._uploading:
                        break
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def _work(self) -> None:
        try:
            self._outcome = self._publish(self)
        except BaseException as error:  # noqa: BLE001, RUF100 - raised where the result is asked for
            self._outcome = error
        self._done.set()

    def result(self, *, as_json: bool) -> Published:
        """What was published; a failure ends the command."""
        if isinstance(self._outcome, BedivereError):
            fail(self._outcome, as_json=as_json)
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return cast("Published", self._outcome)

    def interrupted(self, errors: Console, *, as_json: bool) -> NoReturn:
        """Says in one line which release is current, and ends the command, or the process where the run goes on."""
        over = self._done.is_set()
        if over and self._making_current and isinstance(self._outcome, BedivereError):
            fail(self._outcome, as_json=as_json)
        if not self._making_current:
            state = "the current release, if any, is untouched"
        elif over:
            state = "the new release is current"
        else:
            state = "bedivere releases says whether the new release is current"
        errors.print(f"Interrupted: {state}.", markup=False)
        code = ExitCode.INTERRUPTED if self.signals[0] == signal.SIGINT else ExitCode.TERMINATED
        if not over:
            # Its thread would hold up an orderly end.
            os._exit(code)
        raise typer.Exit(code)

    def stage(self, name: str) -> None:
        from retrieval.release.publish import MAKING_CURRENT

        # Whoever has told the run to stop knows from then on whether it comes to this.
        with self._lock:
            self._stop_if_asked()
            self._making_current = self._making_current or name == MAKING_CURRENT
        if self._watch:
            self._watch.stage(name)

    def planned(self, count: int) -> None:
        self._stop_if_asked()
        self._uploading = True
        if self._watch:
            self._watch.planned(count)

    def sent(self, count: int) -> None:
        self._stop_if_asked()
        if self._watch:
            self._watch.sent(count)

    def _stop_if_asked(self) -> None:
        if self._stopping:
            raise KeyboardInterrupt


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
