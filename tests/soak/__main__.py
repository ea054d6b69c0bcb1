"""`python -m tests.soak`: runs the soak, prints its figures, and exits with 1 where anything was wrong."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.soak.load import Answer
from tests.soak.run import Outcome, Plan, soak

_SHOWN = 20
QUICK = Plan(seconds=15.0, flip_seconds=2.0, fault_seconds=1.0, judges_memory=False)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=4.0, help="how long it runs (default: 4)")
    parser.add_argument("--seed", type=int, default=1, help="what the order of calls and faults comes from")
    parser.add_argument("--quick", action="store_true", help="15 seconds, as the tests run it")
    asked = parser.parse_args()
    plan = QUICK if asked.quick else Plan(seconds=asked.minutes * 60, seed=asked.seed)
    with tempfile.TemporaryDirectory(prefix="bedivere-soak-", ignore_cleanup_errors=True) as folder:
        outcome = soak(plan, Path(folder))
    show(outcome, Console())
    return 1 if outcome.problems else 0


def show(outcome: Outcome, console: Console) -> None:
    """Prints the figures of a run, and what was wrong."""
    calls = Table("call", "answers", "stale", "degraded", "p50 ms", "p95 ms", "most ms", title="Calls")
    for kind in sorted({answer.kind for answer in outcome.answers}):
        calls.add_row(kind, *_figures([answer for answer in outcome.answers if answer.kind == kind]))
    calls.add_section()
    calls.add_row("all", *_figures(outcome.answers))
    console.print(calls)

    happened = Table("what happened meanwhile", "times", title="Weather")
    for what, count in sorted(outcome.happened.items()):
        happened.add_row(what, str(count))
    syncs = Counter(str(line["status"]) for line in outcome.lines if line.get("message") == "sync")
    for status, count in sorted(syncs.items()):
        happened.add_row(f"sync: {status}", str(count))
    console.print(happened)

    early, late = outcome.held.quarter(1), outcome.held.quarter(3)
    process = Table("of the function", "2nd quarter", "last quarter", title="Process")
    process.add_row("resident MB", f"{early.resident_mb:.0f}", f"{late.resident_mb:.0f}")
    process.add_row("most MB", f"{early.peak_mb:.0f}", f"{late.peak_mb:.0f}")
    process.add_row("open files", str(early.files), str(late.files))
    process.add_row("threads", str(early.threads), str(late.threads))
    console.print(process)

    refused = sum(1 for answer in outcome.answers if answer.status >= 500)
    console.print(
        f"{outcome.seconds:.0f} s, {len(outcome.answers)} answers, {outcome.checked} checked against their release, "
        f"{len(outcome.problems)} wrong, {refused} with a status of 5xx, "
        f"{outcome.releases_on_disk} releases on the disk"
    )
    for problem, count in Counter(outcome.problems).most_common(_SHOWN):
        console.print(f"WRONG ({count}x): {problem}", markup=False, soft_wrap=True)


def _figures(answers: Sequence[Answer]) -> list[str]:
    times = sorted(answer.milliseconds for answer in answers)
    return [
        str(len(answers)),
        str(sum(1 for answer in answers if answer.code is not None)),
        str(sum(1 for answer in answers if answer.degraded)),
        *(f"{times[min(len(times) - 1, int(len(times) * share))]:.0f}" for share in (0.5, 0.95, 1.0)),
    ]


if __name__ == "__main__":
    sys.exit(main())
