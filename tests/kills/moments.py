"""Kills and power cuts at moments that come from a seed, and what each of them left."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from tests.kills.power import LOSSES, Disk, write_image
from tests.kills.victims import State, Victim

ROOT: Final = Path(__file__).parents[2]
_WITHIN_SECONDS: Final = 120


@dataclass(frozen=True, slots=True)
class Left:
    """What was found after a run was ended: one of the two states, or what is wrong."""

    victim: str
    how: str
    """What ended it, in general: a kill, or a power cut and what it loses."""
    moment: str
    state: State | None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Length:
    """How long a run is that nobody ends."""

    steps: int
    seconds: float


def length(victim: Victim, base: Path, folder: Path) -> Length:
    """Runs the victim once to its end, in a process of its own."""
    shutil.copytree(base, folder, symlinks=True)
    done = _run(victim, folder, "count", 0)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(folder)
    return Length(**json.loads(done.stdout))


def killed(victim: Victim, base: Path, folder: Path, of: Length, random: Random) -> Left:
    """One run that is killed, at a step or after some time; then what it left, and the next run."""
    if random.random() < 0.5:
        how, when = "step", float(random.randint(1, of.steps))
    else:
        how, when = "seconds", random.uniform(0, of.seconds)
    moment = f"{how} {when:.0f} of {of.steps}" if how == "step" else f"{how} {when:.3f} of {of.seconds:.3f}"
    shutil.copytree(base, folder, symlinks=True)
    try:
        done = _run(victim, folder, how, when)
        ended = {-signal.SIGKILL, -signal.SIGALRM, 0}
        if done.returncode not in ended:
            return Left(
                victim.name, f"kill, by {how}", moment, None, f"it ended with {done.returncode}: {done.stderr[-500:]}"
            )
        return _judged(victim, folder, f"kill, by {how}", moment)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def cut(victim: Victim, base: Path, folder: Path, random: Random, most: int | None = None) -> Iterator[Left]:
    """A run during which the power fails, after each of its steps or after `most` of them in each way of losing."""
    live = folder / "live"
    folder.mkdir()
    shutil.copytree(base, live, symlinks=True)
    disk = Disk(live / victim.writes)
    with disk.watched():
        victim.run(live)
    for loss in LOSSES:
        images = list(enumerate(disk.images[loss]))
        for number, image in images if most is None else random.sample(images, min(most, len(images))):
            place = folder / f"{loss}-{number}"
            shutil.copytree(base, place, symlinks=True, ignore=_only_top(base, victim.writes))
            write_image(image, place / victim.writes)
            yield _judged(victim, place, f"power cut, {loss}", f"{loss} {number + 1} of {len(images)}")
            shutil.rmtree(place, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def _only_top(base: Path, name: str) -> Callable[[str, list[str]], set[str]]:
    def ignored(place: str, names: list[str]) -> set[str]:
        return {name} & {*names} if Path(place) == base else set()

    return ignored


def _judged(victim: Victim, folder: Path, how: str, moment: str) -> Left:
    try:
        state = victim.state(folder)
    except Exception as error:
        return Left(victim.name, how, moment, None, f"between the states: {type(error).__name__}: {error}")
    try:
        victim.repair(folder)
    except Exception as error:
        return Left(victim.name, how, moment, state, f"not repaired: {type(error).__name__}: {error}")
    return Left(victim.name, how, moment, state)


def _run(victim: Victim, folder: Path, how: str, when: float) -> subprocess.CompletedProcess[str]:
    argument = str(int(when)) if how != "seconds" else f"{when:.4f}"
    temporary = folder / "tmp"
    temporary.mkdir()
    return subprocess.run(
        [sys.executable, "-m", "tests.kills.dying", victim.name, str(folder), how, argument],
        cwd=ROOT,
        env={**_environment(), "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=_WITHIN_SECONDS,
        check=False,
    )


def _environment() -> Mapping[str, str]:
    # Coverage would write its data at the end, which does not come.
    return {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
