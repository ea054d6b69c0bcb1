"""How long a command has taken: what it imports is part of what a person waits for."""

from __future__ import annotations

import time
from typing import Final

_STARTED: Final = time.monotonic()
"""When the process began, but for the start of Python, which `handler.cli` sees to."""


def elapsed() -> float:
    """Seconds since the process began, to the millisecond."""
    return round(time.monotonic() - _STARTED, 3)
