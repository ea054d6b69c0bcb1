"""The circuit breaker: when a failing service is spared, and when it is asked again."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from retrieval.circuit import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    LONGEST_REFUSED_PAUSE,
    REFUSED_PAUSE,
    THRESHOLD,
    Circuit,
)


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def circuit(clock: Clock) -> Circuit:
    return Circuit(clock)


def fail(circuit: Circuit, times: int = 1) -> None:
    for _ in range(times):
        assert circuit.admits()
        circuit.failed()


def test_fewer_failures_than_the_threshold_leave_it_closed(circuit: Circuit) -> None:
    fail(circuit, THRESHOLD - 1)
    assert circuit.admits()


def test_a_success_begins_the_count_anew(circuit: Circuit) -> None:
    fail(circuit, THRESHOLD - 1)
    circuit.succeeded()
    fail(circuit, THRESHOLD - 1)
    assert circuit.admits()


def test_failures_in_a_row_open_it_for_the_first_pause(circuit: Circuit, clock: Clock) -> None:
    fail(circuit, THRESHOLD)
    assert not circuit.admits()
    assert circuit.seconds_left == FIRST_PAUSE
    clock.now += FIRST_PAUSE
    assert circuit.seconds_left == 0
    assert circuit.admits()


def test_after_a_pause_one_call_alone_is_let_through(circuit: Circuit, clock: Clock) -> None:
    fail(circuit, THRESHOLD)
    clock.now += FIRST_PAUSE
    assert [circuit.admits() for _ in range(3)] == [True, False, False]


def test_a_probe_that_is_given_up_lets_another_through(circuit: Circuit, clock: Clock) -> None:
    fail(circuit, THRESHOLD)
    clock.now += FIRST_PAUSE
    circuit.admits()
    circuit.given_up()
    assert circuit.admits()


def test_each_probe_that_fails_doubles_the_pause_up_to_the_longest(circuit: Circuit, clock: Clock) -> None:
    fail(circuit, THRESHOLD)
    pauses = [circuit.seconds_left]
    for _ in range(8):
        clock.now += circuit.seconds_left
        fail(circuit)
        pauses.append(circuit.seconds_left)
    assert pauses[:3] == [FIRST_PAUSE, FIRST_PAUSE * 2, FIRST_PAUSE * 4]
    assert pauses[-1] == LONGEST_PAUSE


def test_a_refusal_opens_it_at_once_and_for_longer(circuit: Circuit, clock: Clock) -> None:
    circuit.failed(refused=True)
    assert circuit.seconds_left == REFUSED_PAUSE
    for _ in range(6):
        clock.now += circuit.seconds_left
        assert circuit.admits()
        circuit.failed(refused=True)
    assert circuit.seconds_left == LONGEST_REFUSED_PAUSE


def test_a_wait_that_is_asked_for_is_kept_at_once_and_within_bounds(circuit: Circuit, clock: Clock) -> None:
    circuit.failed(wait=42.0)
    assert circuit.seconds_left == 42.0
    clock.now += 42
    circuit.failed(wait=86_400.0)
    assert circuit.seconds_left == LONGEST_PAUSE


def test_a_success_after_a_pause_closes_it_and_forgets_the_pauses(circuit: Circuit, clock: Clock) -> None:
    fail(circuit, THRESHOLD)
    clock.now += FIRST_PAUSE
    fail(circuit)
    clock.now += FIRST_PAUSE * 2
    circuit.admits()
    circuit.succeeded()
    fail(circuit, THRESHOLD)
    assert circuit.seconds_left == FIRST_PAUSE
