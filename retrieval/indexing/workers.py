"""Spreads calls over processes of their own, for as many cores as there are, and gives the results in order.

Not by multiprocessing's pools: LanceDB's threads do not survive a fork, what spawns imports the program's main module
again, and neither ends when the indexer is killed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar, cast

T = TypeVar("T")
R = TypeVar("R")

WORTH_BYTES: Final = 2_000_000
"""So much text to work on takes longer than a process takes to start."""

_AHEAD: Final = 2
"""Calls that a worker is given at once: the next one waits there while the indexer takes the result of the last."""

_BYTES_AHEAD: Final = 64_000_000
"""Of what all workers are at together, and of what waits to be taken: memory does not grow with the corpus."""

_JOIN_SECONDS: Final = 5.0


class WorkerLostError(Exception):
    """A worker process ended, or was ended, before it had answered."""


def usable_cores() -> int:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A task, and the bytes of text that it is about."""

    task: T
    bytes: int


@dataclass(slots=True)
class _Worker:
    process: subprocess.Popen[bytes]
    connection: Connection
    pending: deque[int] = field(default_factory=deque[int])
    """Places of the calls that it was sent and has not answered."""


class Workers:
    """At most `most` processes, started when there is work enough for them and ended with the block."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._workers: list[_Worker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the processes, whatever they are at."""
        for worker in self._workers:
            # Whoever is idle ends when nobody can send it any more; nobody waits for what the others are at.
            worker.connection.close()
            if worker.pending:
                worker.process.kill()
        for worker in self._workers:
            try:
                worker.process.wait(_JOIN_SECONDS)
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()
        self._workers = []

    @property
    def processes(self) -> tuple[subprocess.Popen[bytes], ...]:
        """Those that run; none until there is work enough."""
        return tuple(worker.process for worker in self._workers)

    def useful(self, total: int) -> int:
        """How many processes are worth it for `total` bytes of text; 0 where this one does it sooner alone."""
        count = min(self.most, total // WORTH_BYTES)
        return count if count > 1 else 0

    def map(self, function: Callable[[T], R], calls: Iterable[Call[T]], total: int) -> Iterator[R]:
        """What `function`, of a module, returns for each task, in order; `total` is the bytes of all of them.

        Raises what a call raised, in its turn, and `WorkerLostError`.
        """
        count = self.useful(total)
        if not count:
            yield from (function(call.task) for call in calls)
            return
        while len(self._workers) < count:
            self._workers.append(_start())
        yield from _spread(self._workers[:count], function, calls)


def _spread(workers: list[_Worker], function: Callable[[T], R], calls: Iterable[Call[T]]) -> Iterator[R]:
    waiting = enumerate(calls)
    upcoming = next(waiting, None)
    sizes: dict[int, int] = {}
    done: dict[int, tuple[R, Exception | None]] = {}
    turn = 0
    while True:
        while upcoming and (worker := min(workers, key=lambda one: len(one.pending))):
            place, call = upcoming
            full = len(worker.pending) == _AHEAD or place - turn >= len(workers) * _AHEAD * 2
            if full or (sizes and sum(sizes.values()) + call.bytes > _BYTES_AHEAD):
                break
            _send(worker, (function, call.task))
            worker.pending.append(place)
            sizes[place] = call.bytes
            upcoming = next(waiting, None)
        if not sizes:
            return
        while turn not in done:
            busy = {worker.connection: worker for worker in workers if worker.pending}
            for ready in wait(list(busy)):
                worker = busy[cast("Connection", ready)]
                done[worker.pending[0]] = _receive(worker)
                worker.pending.popleft()
        result, error = done.pop(turn)
        del sizes[turn]
        turn += 1
        if error is not None:
            raise error
        yield result


def _send(worker: _Worker, message: object) -> None:
    try:
        worker.connection.send(message)
    except OSError:
        raise _lost(worker) from None


def _receive(worker: _Worker) -> tuple[Any, Exception | None]:
    try:
        return worker.connection.recv()
    except (EOFError, OSError):
        raise _lost(worker) from None


def _lost(worker: _Worker) -> WorkerLostError:
    worker.process.kill()
    return WorkerLostError(f"a worker ended with {worker.process.wait()}")


def _start() -> _Worker:
    ours, theirs = Pipe()
    descriptor = theirs.fileno()
    # It imports from where this process does, and not from the folder that happens to be the current one.
    import_path = os.pathsep.join(place or os.getcwd() for place in sys.path)  # noqa: PTH109
    try:
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-P", "-m", "retrieval.indexing.worker", str(descriptor)],
            env={**os.environ, "PYTHONPATH": import_path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[descriptor],
            # Ctrl-C is for the indexer, which ends its workers.
            process_group=0,
        )
    except BaseException:
        with suppress(OSError):
            ours.close()
        raise
    finally:
        theirs.close()
    return _Worker(process, ours)
