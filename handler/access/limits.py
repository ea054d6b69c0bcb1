"""How often a caller may ask: a bucket of tokens for each, in this process alone.

Instances do not tell one another, so a caller that is spread over several gets as much from each: the limit keeps a
runaway client from starving the others, and is no bill to settle by.
"""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from handler.access.rereading import Moment
from retrieval.errors import BedivereError, ErrorCode

_LIMIT: Final = re.compile(r"([1-9][0-9]{0,6})/(s|min|h|day)")
_SECONDS: Final = {"s": 1, "min": 60, "h": 3600, "day": 86_400}
_HAIR: Final = 1e-6
_MAX_BUCKETS: Final = 10_000
"""Callers that are remembered; who has not asked for longest is forgotten first, and by then has a full bucket."""


@dataclass(frozen=True, slots=True)
class Limit:
    """`count` requests in `seconds`: so many at once, and then as they come in again."""

    count: int
    seconds: int


def parse_limit(text: str) -> Limit:
    """`60/min`, `5/s`, `1000/h` or `10000/day`. Raises `BedivereError` INVALID_ARGUMENT."""
    match = _LIMIT.fullmatch(text)
    if match is None:
        raise BedivereError(
            ErrorCode.INVALID_ARGUMENT, "A limit is a whole number and /s, /min, /h or /day, such as 60/min."
        )
    return Limit(int(match[1]), _SECONDS[match[2]])


class Buckets:
    """A bucket of tokens a caller. For one event loop: no step of it waits.

    Of two clocks the one that says more fills it: whoever waited while the instance was frozen has waited.
    """

    def __init__(self, clock: Callable[[], Moment] = Moment.now) -> None:
        self._clock = clock
        self._levels: OrderedDict[str, tuple[float, Moment]] = OrderedDict()

    def take(self, name: str, limit: Limit) -> int:
        """0 where `name` may ask now; else the whole seconds, at least one, until it may."""
        now = self._clock()
        level, since = self._levels.pop(name, (float(limit.count), now))
        level = min(float(limit.count), level + since.seconds_to(now) * limit.count / limit.seconds)
        # Sums of fractions end a hair below what they make up.
        allowed = level >= 1 - _HAIR
        self._levels[name] = (level - allowed, now)
        if len(self._levels) > _MAX_BUCKETS:
            self._levels.popitem(last=False)
        return 0 if allowed else max(1, math.ceil((1 - level) * limit.seconds / limit.count - _HAIR))
