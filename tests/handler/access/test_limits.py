"""A caller's own limit: a bucket of tokens."""

from __future__ import annotations

import pytest

from handler.access import limits
from handler.access.limits import Buckets, Limit, parse_limit
from handler.access.rereading import Moment
from retrieval.errors import BedivereError, ErrorCode


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0
        self.frozen = 0.0

    def __call__(self) -> Moment:
        return Moment(self.now, self.now + self.frozen)


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("60/min", Limit(60, 60)),
        ("5/s", Limit(5, 1)),
        ("1000/h", Limit(1000, 3600)),
        ("1/day", Limit(1, 86_400)),
    ],
)
def test_a_limit_is_a_number_in_a_time(text: str, limit: Limit) -> None:
    assert parse_limit(text) == limit


@pytest.mark.parametrize("text", ["", "60", "0/min", "-1/min", "1.5/s", "60/m", "60 / min", "99999999/s", "60/min\n"])
def test_what_is_no_limit_is_refused(text: str) -> None:
    with pytest.raises(BedivereError) as caught:
        parse_limit(text)
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT


def test_so_many_may_come_at_once_and_then_as_time_goes_by() -> None:
    clock = Clock()
    buckets = Buckets(clock)
    limit = Limit(3, 60)
    assert [buckets.take("ci", limit) for _ in range(4)] == [0, 0, 0, 20]
    clock.now += 19
    assert buckets.take("ci", limit) == 1
    clock.now += 1
    assert buckets.take("ci", limit) == 0
    assert buckets.take("ci", limit) == 20


def test_who_waits_as_long_as_told_may_ask_again() -> None:
    clock = Clock()
    buckets = Buckets(clock)
    limit = Limit(7, 60)
    while not (wait := buckets.take("ci", limit)):
        pass
    clock.now += wait
    assert buckets.take("ci", limit) == 0


def test_who_waits_while_the_instance_is_frozen_may_ask_again_too() -> None:
    clock = Clock()
    buckets = Buckets(clock)
    limit = Limit(1, 60)
    assert [buckets.take("ci", limit) for _ in range(2)] == [0, 60]
    clock.frozen += 60
    assert buckets.take("ci", limit) == 0


def test_a_clock_that_is_set_back_takes_nothing_away() -> None:
    clock = Clock()
    buckets = Buckets(clock)
    limit = Limit(1, 60)
    assert buckets.take("ci", limit) == 0
    clock.frozen -= 86_400
    clock.now += 60
    assert buckets.take("ci", limit) == 0


def test_a_bucket_never_holds_more_than_the_limit() -> None:
    clock = Clock()
    buckets = Buckets(clock)
    buckets.take("ci", Limit(2, 60))
    clock.now += 86_400
    assert [bool(buckets.take("ci", Limit(2, 60))) for _ in range(3)] == [False, False, True]


def test_one_callers_haste_is_not_anothers() -> None:
    buckets = Buckets(Clock())
    limit = Limit(1, 60)
    assert buckets.take("one", limit) == 0
    assert buckets.take("one", limit) > 0
    assert buckets.take("two", limit) == 0


def test_however_many_callers_there_are_few_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_MAX_BUCKETS", 2)
    buckets = Buckets(Clock())
    limit = Limit(1, 60)
    for name in ("one", "two", "three"):
        assert buckets.take(name, limit) == 0
    # The one that has not asked for longest was forgotten, the others were not.
    assert buckets.take("three", limit) > 0
    assert buckets.take("two", limit) > 0
    assert buckets.take("one", limit) == 0
