"""Releases that are pruned while others need them, in every order of steps: what is current has all of its parts."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

import pytest

from retrieval.errors import BedivereError, ErrorCode
from retrieval.release import history, pruning
from retrieval.release.history import current, heal, rollback, survey
from retrieval.release.manifest import POINTER_KEY, manifest_key
from retrieval.release.pruning import prune
from retrieval.release.publish import publish
from retrieval.release.store import Store
from tests.retrieval.release.crafted import MemoryStore
from tests.retrieval.release.releasing import (
    MAX_BYTES,
    NOW,
    Clock,
    assert_whole,
    keys,
    pointer_of,
    publish_editions,
    write,
)

ROLLBACK, PRUNE = "rollback", "prune"
TO_THE_END = 1000
# What a rollback that came too late may say.
TOO_LATE = {ErrorCode.RELEASE_NOT_FOUND, ErrorCode.RELEASE_DAMAGED}


class Turns:
    """Lets those who share a store take one step each time that they are named in `order`."""

    def __init__(self, order: Iterable[str] = ()) -> None:
        self.steps: dict[str, int] = {}
        self._order = deque(order)
        self._ended: set[str] = set()
        self._changed = threading.Condition()

    def of(self, who: str, store: Store) -> Store:
        """The store, as `who` sees it."""
        return cast("Store", _Turn(self, who, store))

    def take(self, who: str, call: Callable[[], object]) -> object:
        with self._changed:
            self._changed.wait_for(lambda: self._is_next(who))
            if self._order:
                self._order.popleft()
            self.steps[who] = self.steps.get(who, 0) + 1
            try:
                return call()
            finally:
                self._changed.notify_all()

    def end(self, who: str) -> None:
        with self._changed:
            self._ended.add(who)
            self._changed.notify_all()

    def _is_next(self, who: str) -> bool:
        while self._order and self._order[0] in self._ended:
            self._order.popleft()
        return not self._order or self._order[0] == who


class _Turn:
    def __init__(self, turns: Turns, who: str, store: Store) -> None:
        self._turns = turns
        self._who = who
        self._store = store

    def __getattr__(self, name: str) -> Any:
        ask = getattr(self._store, name)

        def take(*arguments: Any, **options: Any) -> object:
            return self._turns.take(self._who, lambda: ask(*arguments, **options))

        return take


class Actor:
    """Somebody who shares a store, and goes on only as far as is said."""

    def __init__(self, store: Store, act: Callable[[Store], object]) -> None:
        self.outcome: object = None
        self._store = store
        self._stops: Callable[[str, str], bool] = lambda _name, _key: False
        self._ended = False
        self._going, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        threading.Thread(target=self._run, args=(act,), daemon=True).start()

    def go(self, before: Callable[[str, str], bool] = lambda _name, _key: False) -> None:
        """Returns when it is about to do what `before` says, of a method's name and its key, or has ended."""
        if not self._ended:
            self._stops = before
            self._going.release()
            self._stopped.acquire()

    def _run(self, act: Callable[[Store], object]) -> None:
        self._going.acquire()
        try:
            self.outcome = act(cast("Store", self))
        except BedivereError as error:
            self.outcome = error
        finally:
            self._ended = True
            self._stopped.release()

    def __getattr__(self, name: str) -> Any:
        ask = getattr(self._store, name)

        def stop_or_ask(*arguments: Any, **options: Any) -> object:
            if self._stops(name, str(arguments[0]) if arguments else ""):
                self._stopped.release()
                self._going.acquire()
            return ask(*arguments, **options)

        return stop_or_ask


def deleting(name: str, _key: str) -> bool:
    return name == "delete"


def looking(name: str, key: str) -> bool:
    return (name, key) == ("get", POINTER_KEY)


def reading_a_claim(name: str, key: str) -> bool:
    return name == "get" and key.endswith("/pending.json")


def flipping(name: str, key: str) -> bool:
    return (name, key) == ("put", POINTER_KEY)


def after_steps(count: int) -> Callable[[str, str], bool]:
    left = [count]

    def is_next(_name: str, _key: str) -> bool:
        left[0] -= 1
        return left[0] < 0

    return is_next


def copy_of(store: Store) -> dict[str, bytes]:
    return {key: b"".join(store.stream(key)) for key in keys(store)}


def put_back(store: Store, objects: dict[str, bytes]) -> None:
    store.delete(keys(store))
    for key, data in objects.items():
        store.put(key, data)


def run(store: Store, target: str, order: Iterable[str]) -> tuple[Turns, dict[str, object]]:
    """Rolls back to `target` and prunes all but the newest release; what came of either."""
    turns = Turns(order)
    asks: dict[str, Callable[[Store], object]] = {
        ROLLBACK: lambda seen: rollback(seen, target),
        PRUNE: lambda seen: prune(seen, 1, grace=NOW),
    }
    outcomes: dict[str, object] = {}

    def act(who: str) -> None:
        try:
            outcomes[who] = asks[who](turns.of(who, store))
        except BedivereError as error:
            outcomes[who] = error
        finally:
            turns.end(who)

    threads = [threading.Thread(target=act, args=(who,)) for who in asks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return turns, outcomes


@pytest.fixture
def two(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two releases, the older first; the clock has moved on since."""
    ids = publish_editions(store, tmp_path, 2)
    for module in (history, pruning):
        monkeypatch.setattr(module, "datetime", Clock)
    return ids


@pytest.mark.parametrize(("first", "second"), [(ROLLBACK, PRUNE), (PRUNE, ROLLBACK)])
def test_wherever_the_one_comes_between_the_steps_of_the_other_what_is_current_is_whole(
    store: Store, two: list[str], first: str, second: str
) -> None:
    before = copy_of(store)
    rolled_back: set[bool] = set()
    step, steps = 0, 1
    while step < steps:
        put_back(store, before)
        turns, outcomes = run(store, two[0], [first] * step + [second] * TO_THE_END)
        rolled_back.add(check(store, two, outcomes))
        step, steps = step + 1, max(steps, turns.steps[first])

    # Neither of them wins always: the orders were different ones.
    assert rolled_back == {True, False}


@pytest.mark.parametrize(("first", "second"), [(ROLLBACK, PRUNE), (PRUNE, ROLLBACK)])
def test_wherever_the_two_take_turns_twice_what_is_current_is_whole(
    folder: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, second: str
) -> None:
    two = publish_editions(folder, tmp_path, 2)
    for module in (history, pruning):
        monkeypatch.setattr(module, "datetime", Clock)
    before = copy_of(folder)
    # There are hundreds of orders: a disk would take its time.
    store = MemoryStore()
    put_back(store, before)
    turns, _ = run(store, two[0], [first] * TO_THE_END)
    for some in range(1, turns.steps[first] + 1):
        for others in range(1, 16):
            put_back(store, before)
            _, outcomes = run(store, two[0], [first] * some + [second] * others + [first] * TO_THE_END)
            check(store, two, outcomes)


@pytest.mark.parametrize("pauses", [(deleting,), (reading_a_claim, deleting)])
def test_a_manifest_that_is_written_anew_too_late_takes_no_part_from_what_is_current(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pauses: tuple[Callable[[str, str], bool], ...]
) -> None:
    store = MemoryStore()
    old, new = publish_editions(store, tmp_path, 2)
    for module in (history, pruning):
        monkeypatch.setattr(module, "datetime", Clock)
    before = copy_of(store)
    for steps in range(8):
        for more in range(5):
            put_back(store, before)
            pruner = Actor(store, lambda shared: prune(shared, 1, grace=NOW))
            pruner.go(before=deleting)
            rollback(store, old)
            seen = current(store)
            healer = Actor(store, lambda shared, seen=seen: heal(shared, seen))
            back = Actor(store, lambda shared: rollback(shared, new))
            again = Actor(store, lambda shared: rollback(shared, old))

            # Its manifest is withdrawn while it is current, and it ceases to be current amid its healing.
            back.go(before=flipping)
            pruner.go(before=looking)
            healer.go(before=after_steps(steps))
            back.go()
            for pause in pauses:
                pruner.go(before=pause)
                healer.go(before=after_steps(more))
            again.go(before=flipping)
            healer.go()
            pruner.go()
            again.go()

            rolled_back = again.outcome == (new, old)
            assert_whole(store, old if rolled_back else new)
            assert isinstance(pruner.outcome, pruning.Pruned)
            assert not (rolled_back and pruner.outcome.releases)
            # Of a claim that stayed nothing is left once it is old.
            pruning.clean(store, survey(store), after=NOW)
            assert not [key for key in keys(store) if key.endswith("pending.json")]


def test_a_release_whose_publisher_stalls_before_its_manifest_is_not_pruned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    publish_editions(store, tmp_path, 1)
    write(tmp_path, 2)
    publisher = Actor(store, lambda shared: publish(tmp_path / "db", shared))
    publisher.go(before=lambda name, key: name == "put" and key.endswith("/manifest.json"))
    stalled = pointer_of(store).release
    (tmp_path / "elsewhere").mkdir()
    write(tmp_path / "elsewhere", 3)
    publish(tmp_path / "elsewhere/db", store)
    for module in (history, pruning):
        monkeypatch.setattr(module, "datetime", Clock)

    assert manifest_key(stalled) in keys(store)
    assert stalled not in prune(store, 1, grace=NOW).releases
    publisher.go()
    rollback(store, stalled)
    assert_whole(store, stalled)
    assert not [key for key in keys(store) if key.endswith("pending.json")]


def check(store: Store, two: list[str], outcomes: dict[str, object]) -> bool:
    """Whether it was rolled back; whatever came of either, what is current is whole and nothing else is claimed."""
    current = pointer_of(store).release
    assert_whole(store, current)
    kept = store.get(f"releases/{current}/manifest.json", max_bytes=MAX_BYTES)
    assert kept is not None
    assert not [key for key in keys(store) if key.endswith("pending.json")]
    rolled_back = outcomes[ROLLBACK]
    failed = rolled_back if isinstance(rolled_back, BedivereError) else None
    assert current == (two[1] if failed else two[0])
    assert failed is None or failed.code in TOO_LATE
    assert not isinstance(outcomes[PRUNE], BedivereError)
    return failed is None
