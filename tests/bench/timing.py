"""Clocks: what an act costs in wall time and in CPU of the whole process, and how such costs are spread."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import quantiles


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds. `cpu` is that of all threads, so it may exceed `wall`."""

    wall: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle of some measurements and the quarters around it."""

    p25: float
    median: float
    p75: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        measured = list(values)
        if len(measured) == 1:
            return cls(measured[0], measured[0], measured[0])
        return cls(*quantiles(measured, n=4, method="inclusive"))


def cost_of(act: Callable[[], object]) -> Cost:
    """What one run of `act` costs."""
    wall, cpu = time.perf_counter(), time.process_time()
    act()
    return Cost(time.perf_counter() - wall, time.process_time() - cpu)


def interleave(rounds: int, measures: Sequence[Callable[[int], Cost]]) -> list[list[Cost]]:
    """The costs of each measure, `rounds` of them, taken in turns: a busy moment of the machine strikes all alike.

    A measure is told which round it is. Whoever comes first in one round comes last in the next.
    """
    costs = [[Cost(0, 0)] * rounds for _ in measures]
    order = list(range(len(measures)))
    for number in range(rounds):
        for index in order:
            costs[index][number] = measures[index](number)
        order = [*order[1:], order[0]]
    return costs
