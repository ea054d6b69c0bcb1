"""A small thing that is read from elsewhere again and again: one read at a time, in a thread, however many wait."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from retrieval.errors import BedivereError

logger: Final = logging.getLogger("bedivere")

PAUSE_SECONDS: Final = 5.0
"""Between a failure and the next try."""

_WAIT_SECONDS: Final = 5.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment on both clocks: of a frozen instance the monotonic one may stand still, and the other may be set."""

    monotonic: float
    wall: float

    @classmethod
    def now(cls) -> Moment:
        return cls(time.monotonic(), time.time())

    def seconds_to(self, later: Moment) -> float:
        return max(later.monotonic - self.monotonic, later.wall - self.wall)


class Reread(Generic[T]):
    """What `read` gave last; it is told what it gave before. `what` names it in the log, where failures end."""

    def __init__(self, what: str, read: Callable[[T | None], T], *, now: Callable[[], Moment] = Moment.now) -> None:
        self._what = what
        self._read = read
        self._now = now
        self._lock = threading.Lock()
        self._value: tuple[T, Moment] | None = None
        self._reading: Future[None] | None = None
        self._failed_at: Moment | None = None

    @property
    def value(self) -> T | None:
        """What was read last; None before."""
        return self._value[0] if self._value else None

    @property
    def age(self) -> float:
        """Seconds since the read began that gave the value, on the clock that says more; infinite without one."""
        return self._value[1].seconds_to(self._now()) if self._value else math.inf

    def begin(self) -> Future[None] | None:
        """The read that runs, which begins now; None where one failed a moment ago. Never raises."""
        now = self._now()
        with self._lock:
            if self._reading is not None:
                return self._reading
            if self._failed_at is not None and self._failed_at.seconds_to(now) < PAUSE_SECONDS:
                return None
            reading = self._reading = Future[None]()
        # It must not be cancelled with the request that waits for it.
        reading.set_running_or_notify_cancel()
        threading.Thread(target=self._run, args=(reading, now), name="bedivere-reread", daemon=True).start()
        return reading

    async def again(self, too_old: float) -> None:
        """Waits some seconds for a value that is less than `too_old` seconds old now. Whether it came `age` says."""
        now = self._now()
        for _ in range(2):
            reading = self.begin()
            if reading is None:
                return
            waiter = asyncio.wrap_future(reading)
            try:
                await asyncio.wait({waiter}, timeout=_WAIT_SECONDS)
            finally:
                waiter.cancel()
            # A read that ran already may have begun before the instance was frozen: what it brings is of that time.
            if not reading.done() or (self._value and self._value[1].seconds_to(now) < too_old):
                return

    def _run(self, reading: Future[None], began: Moment) -> None:
        value: tuple[T, Moment] | None = None
        try:
            value = (self._read(self.value), began)
        except BedivereError as error:
            logger.warning("%s could not be read: %s", self._what, error)
        except Exception:
            logger.exception("%s could not be read", self._what)
        with self._lock:
            self._reading = None
            self._value = value or self._value
            self._failed_at = None if value else self._now()
        reading.set_result(None)
