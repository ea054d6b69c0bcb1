"""What the function's process holds while it runs: memory, files, threads, and releases on its disk."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from tests.e2e.emulator import Emulated

DEPLOYED_MB: Final = 1769
"""What the template gives a function where nothing else is set."""
_EVERY_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Sample:
    """One moment of a process."""

    resident_mb: float
    peak_mb: float
    files: int
    threads: int


@dataclass
class Held:
    """A thread that samples the function's process until `over`."""

    function: Emulated
    samples: list[Sample] = field(default_factory=list[Sample])
    processes: set[int] = field(default_factory=set[int])
    over: threading.Event = field(default_factory=threading.Event)

    def start(self) -> threading.Thread:
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        while not self.over.wait(_EVERY_SECONDS):
            for number in self.function.process_ids():
                try:
                    sample = _sample(Path("/proc", str(number)))
                except (OSError, AttributeError):
                    # It ended just now.
                    continue
                self.processes.add(number)
                self.samples.append(sample)

    def quarter(self, number: int) -> Sample:
        """The medians of a quarter of the time, from 0."""
        size = max(1, len(self.samples) // 4)
        part = self.samples[number * size : (number + 1) * size] or self.samples
        return Sample(
            median(sample.resident_mb for sample in part),
            max(sample.peak_mb for sample in part),
            round(median(sample.files for sample in part)),
            round(median(sample.threads for sample in part)),
        )


def _sample(process: Path) -> Sample:
    status = (process / "status").read_text()
    return Sample(
        _megabytes("VmRSS", status),
        _megabytes("VmHWM", status),
        sum(1 for _ in (process / "fd").iterdir()),
        sum(1 for _ in (process / "task").iterdir()),
    )


def _megabytes(name: str, status: str) -> float:
    found = re.search(rf"{name}:\s+(\d+) kB", status)
    assert found is not None
    return int(found.group(1)) / 1000
