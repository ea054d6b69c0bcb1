"""What the steps of a run share: how they fail, where they log, and how long each took."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "build" / ".image"


class Failed(Exception):
    """A step did not do what it should; the message says what, with the end of the output."""


class Steps:
    """Runs steps one after the other and prints a line for each."""

    def __init__(self) -> None:
        self.failed: list[str] = []

    @contextmanager
    def step(self, name: str) -> Generator[list[str]]:
        """Around one step; what is put into the list is printed with its line."""
        facts: list[str] = []
        started = time.perf_counter()
        try:
            yield facts
        except BaseException:
            self._print(name, started, ["failed"])
            raise
        self._print(name, started, facts)

    def _print(self, name: str, started: float, facts: list[str]) -> None:
        sys.stdout.write(f"{time.perf_counter() - started:7.1f} s  {name}{': ' if facts else ''}{', '.join(facts)}\n")
        sys.stdout.flush()


@contextmanager
def log_file(name: str) -> Generator[IO[bytes]]:
    """The log of a program that runs beside the steps."""
    BUILT.mkdir(parents=True, exist_ok=True)
    with (BUILT / f"{name}.log").open("wb") as log:
        yield log


def run(
    *command: str,
    environment: Mapping[str, str] | None = None,
    cwd: Path = ROOT,
    timeout: float = 900,
    typed: str = "",
) -> str:
    """Run a program to its end, with what a person would have `typed`, and return what it printed.

    Raises `Failed` with the end of that.
    """
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        input=typed,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )
    if done.returncode:
        raise Failed(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-6000:]}")
    return done.stdout
