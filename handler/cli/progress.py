"""Shows a run of the indexer as it goes: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import math
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn

from handler.cli.wording import in_own_words
from retrieval.notes import counted

if TYPE_CHECKING:
    from retrieval.indexing.job import Progress as Watcher

_LINE_EVERY_SECONDS: Final = 5.0
_LABEL_WIDTH: Final = 22


def watcher(errors: Console, stack: ExitStack, *, quiet: bool, noun: str = "file") -> Watcher | None:
    """What shows a run on `errors`: a bar on a terminal, else lines, or nothing where it should be `quiet`.

    `noun` is what one document is called.
    """
    if errors.is_terminal:
        return stack.enter_context(Bar(errors, noun))
    return None if quiet else Lines(errors, noun)


class Counts:
    """What is counted as a run goes, and how fast."""

    def __init__(self, noun: str) -> None:
        self.noun = noun
        self.started = time.monotonic()
        self.total = 0
        self.files = 0
        self.chunks = 0
        self.bytes = 0
        self.texts = 0
        self.texts_done = 0
        self.tokens = 0

    def found(self, files: int) -> None:
        self.total += files

    def read(self, path: str, size: int) -> None:
        self.files += 1
        self.bytes += size

    def wrote(self, chunks: int) -> None:
        self.chunks += chunks

    def embedding(self, texts: int, tokens: int, dollars: float | None) -> None:
        self.texts = texts

    def embedded(self, texts: int, tokens: int) -> None:
        self.texts_done += texts
        self.tokens += tokens

    @property
    def figures(self) -> str:
        seconds = max(time.monotonic() - self.started, 0.001)
        rate = f"{self.files / seconds:,.0f} {self.noun}s/s"
        return f"{counted(self.chunks, 'chunk')}, {size_text(self.bytes)}, {rate}"

    @property
    def how_many(self) -> str:
        return f"{self.files:,}/{counted(self.total, self.noun)}"

    @property
    def embedding_figures(self) -> str:
        return f"{self.texts_done:,}/{counted(self.texts, 'chunk')} embedded, {counted(self.tokens, 'token')}"


class Bar(Counts):
    """A progress bar, for a terminal."""

    def __init__(self, console: Console, noun: str) -> None:
        super().__init__(noun)
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn(f"{{task.description:<{_LABEL_WIDTH}}}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[files]}"),
            TextColumn("{task.fields[figures]}"),
            console=console,
            transient=True,
        )
        self._task: TaskID = self._progress.add_task("Starting", total=None, files="", figures="")

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._progress.stop()

    def stage(self, name: str) -> None:
        # A stage has no end in sight until its files are counted: the bar pulses.
        self._progress.update(self._task, description=name, total=None)

    def read(self, path: str, size: int) -> None:
        super().read(path, size)
        self._progress.update(
            self._task, total=self.total, completed=self.files, files=self.how_many, figures=self.figures
        )

    def wrote(self, chunks: int) -> None:
        super().wrote(chunks)
        self._progress.update(self._task, figures=self.figures)

    def embedding(self, texts: int, tokens: int, dollars: float | None) -> None:
        super().embedding(texts, tokens, dollars)
        self._progress.update(self._task, total=texts, completed=0, files="", figures=estimate(texts, tokens, dollars))

    def embedded(self, texts: int, tokens: int) -> None:
        super().embedded(texts, tokens)
        self._progress.update(self._task, completed=self.texts_done, figures=self.embedding_figures)

    def waiting(self, why: str, seconds: float) -> None:
        # Above the bar, where it stays: a bar that stands still says nothing.
        self._progress.console.print(wait_text(why, seconds), markup=False, highlight=False)


class Lines(Counts):
    """A line now and then, for a log."""

    def __init__(self, console: Console, noun: str) -> None:
        super().__init__(noun)
        self._console = console
        self._said = self.started

    def stage(self, name: str) -> None:
        self._console.print(name, markup=False)

    def found(self, files: int) -> None:
        super().found(files)
        self._console.print(f"{counted(files, self.noun)} found", markup=False)

    def read(self, path: str, size: int) -> None:
        super().read(path, size)
        if time.monotonic() - self._said >= _LINE_EVERY_SECONDS:
            self._said = time.monotonic()
            self._console.print(f"{self.how_many}, {self.figures}", markup=False)

    def embedding(self, texts: int, tokens: int, dollars: float | None) -> None:
        super().embedding(texts, tokens, dollars)
        self._console.print(estimate(texts, tokens, dollars), markup=False)

    def embedded(self, texts: int, tokens: int) -> None:
        super().embedded(texts, tokens)
        if time.monotonic() - self._said >= _LINE_EVERY_SECONDS:
            self._said = time.monotonic()
            self._console.print(self.embedding_figures, markup=False)

    def waiting(self, why: str, seconds: float) -> None:
        self._console.print(wait_text(why, seconds), markup=False)


def wait_text(why: str, seconds: float) -> str:
    """Why nothing comes, and when it is tried again."""
    return f"{in_own_words(why)} Trying again in {counted(math.ceil(seconds), 'second')}."


def estimate(texts: int, tokens: int, dollars: float | None) -> str:
    """What embedding will take, before it begins."""
    cost = "" if dollars is None else f", {dollars_text(dollars)}"
    return f"{counted(texts, 'chunk')} to embed, about {counted(tokens, 'token')}{cost}"


def dollars_text(dollars: float) -> str:
    return f"${dollars:,.2f}" if dollars >= 0.01 else "less than $0.01"


def size_text(count: int) -> str:
    for unit, scale in (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)):
        if count >= scale:
            return f"{count / scale:,.1f} {unit}"
    return counted(count, "byte")
