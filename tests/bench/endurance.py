"""Whether memory stays flat while a process answers ten thousand calls."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.bench.asking import call_event, search_event
from tests.bench.drawn import asking
from tests.bench.starting import FreshProcess

_SCRIPT: Final = Path(__file__).with_name("enduring.py")
_DIFFERENT: Final = 1_000
"""Calls that differ: all were made once by the first measurement, since what LanceDB keeps grows with new ones."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Megabytes that a process held after its `early`-th call and after its `late`-th, and at most."""

    early: int
    late: int
    early_mb: float
    late_mb: float
    peak_mb: float

    @property
    def growth(self) -> float:
        return self.late_mb / self.early_mb


def endured(database: Path, chunks: int, early: int, late: int) -> Memory:
    """Searches, documents and contexts in turns, a thousand different ones again and again."""
    work = {"events": _events(min(late, _DIFFERENT), chunks), "at": [early, late]}
    started = FreshProcess(database).run([str(_SCRIPT)], json.dumps(work))
    before, after = started.said["held_kb"]
    return Memory(early, late, before / 1e3, after / 1e3, started.peak_mb)


def _events(count: int, chunks: int) -> list[dict[str, Any]]:
    asked = asking(-(-count // 4), chunks)
    return [
        event
        for question, identifier, path in zip(asked.prose, asked.identifiers, asked.paths, strict=True)
        for event in (
            search_event(question),
            search_event(identifier),
            call_event("lancedb_fetch", {"path": path}),
            call_event("lancedb_query", {"question": question}),
        )
    ]
