"""A circuit breaker: spares a service that fails, and the caller's seconds, until it is worth asking again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

THRESHOLD: Final = 3
"""Failures in a row after which the service is no longer asked."""

FIRST_PAUSE: Final = 5.0
"""Seconds of the first pause; each probe that fails doubles it, up to `LONGEST_PAUSE`."""

LONGEST_PAUSE: Final = 300.0

REFUSED_PAUSE: Final = 60.0
"""Seconds of the first pause after a refused key, which does not mend itself; up to `LONGEST_REFUSED_PAUSE`."""

LONGEST_REFUSED_PAUSE: Final = 900.0


class Circuit:
    """Closed while all is well; open for a pause after failures; then one call is let through to see.

    Belongs to one thread at a time. `clock` gives seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures = 0
        self._pause = 0.0
        self._opens_until: float | None = None
        self._probing = False

    @property
    def seconds_left(self) -> float:
        """Seconds until the service is asked again; 0 where it may be asked now."""
        return max(0.0, self._opens_until - self._clock()) if self._opens_until is not None else 0.0

    def admits(self) -> bool:
        """Whether a call may be made now. Who is let through says how it ended, by one of the next three."""
        if self._opens_until is None:
            return True
        if self._probing or self._clock() < self._opens_until:
            return False
        self._probing = True
        return True

    def succeeded(self) -> None:
        self._failures, self._pause, self._opens_until, self._probing = 0, 0.0, None, False

    def given_up(self) -> None:
        """The call ended without showing anything of the service."""
        self._probing = False

    def failed(self, *, wait: float | None = None, refused: bool = False) -> None:
        """`wait`: seconds that the service asked for. `refused`: it will not change its mind soon."""
        self._probing = False
        self._failures += 1
        if not refused and wait is None and self._opens_until is None and self._failures < THRESHOLD:
            return
        first, longest = (REFUSED_PAUSE, LONGEST_REFUSED_PAUSE) if refused else (FIRST_PAUSE, LONGEST_PAUSE)
        self._pause = min(longest, max(first, self._pause * 2, wait or 0.0))
        self._opens_until = self._clock() + self._pause
