"""What a process and those that it started hold in memory together, watched from outside."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_EVERY_SECONDS: Final = 0.05
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def watched(command: Sequence[str], *, cwd: Path, environment: Mapping[str, str]) -> tuple[str, float]:
    """The output of `command` and the most megabytes that it held, those of its children that are theirs alone
    included. Raises RuntimeError where it fails."""
    process = subprocess.Popen(command, cwd=cwd, env=environment, stdout=subprocess.PIPE, text=True)
    peak = 0
    while process.poll() is None:
        peak = max(peak, held_bytes(process.pid))
        time.sleep(_EVERY_SECONDS)
    output, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"The process ended with {process.returncode}")
    return output, peak / 1e6


def held_bytes(pid: int) -> int:
    """The resident bytes of the process, shared ones included, and the private ones of all that it started; 0 where it
    has ended."""
    try:
        resident = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0
    return resident + sum(map(_private_bytes, children(pid)))


def children(pid: int) -> list[int]:
    """The processes that `pid` started and that have not ended, and theirs."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, task.read_text(encoding="ascii").split())
        except OSError:
            continue
    return found + [grandchild for child in found for grandchild in children(child)]


def _private_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))
