"""Calls that are spread over processes come back in order, and no process outlives the one that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Any

import pytest

from retrieval.indexing import workers as module
from retrieval.indexing.worker import serve
from retrieval.indexing.workers import WORTH_BYTES, Call, WorkerLostError, Workers

ENOUGH = 10 * WORTH_BYTES

# What a worker calls must be found there by its name: functions of the standard library are.


def calls(tasks: list[Any], size: int = 1) -> list[Call[Any]]:
    return [Call(task, size) for task in tasks]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ends(pid: int) -> bool:
    """Whether the process, which is nobody's child any more, ends soon."""
    over = threading.Event()
    return any(not is_running(pid) or over.wait(0.05) for _ in range(200)) and not is_running(pid)


def test_little_work_is_done_by_this_process_alone() -> None:
    with Workers(8) as workers:
        assert list(workers.map(lambda task: (task, os.getpid()), calls([1, 2]), 2 * WORTH_BYTES - 1)) == [
            (1, os.getpid()),
            (2, os.getpid()),
        ]
        assert workers.processes == ()


@pytest.mark.parametrize(
    ("most", "total", "useful"),
    [(1, ENOUGH, 0), (2, ENOUGH, 2), (64, ENOUGH, 10), (64, 2 * WORTH_BYTES, 2), (64, WORTH_BYTES, 0), (4, 0, 0)],
)
def test_there_are_as_many_processes_as_are_worth_their_start(most: int, total: int, useful: int) -> None:
    assert Workers(most).useful(total) == useful


def test_the_cores_counted_are_those_that_this_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    def three(_pid: int) -> set[int]:
        return {1, 5, 6}

    monkeypatch.setattr(os, "sched_getaffinity", three, raising=False)
    assert module.usable_cores() == 3


@pytest.mark.e2e
def test_results_come_in_the_order_of_the_tasks() -> None:
    with Workers(2) as workers:
        results = list(workers.map(os.path.basename, calls([f"/tmp/{number}" for number in range(50)]), ENOUGH))
        again = list(workers.map(len, calls(["one", "three"]), ENOUGH))
        assert len(workers.processes) == 2
    assert results == [str(number) for number in range(50)]
    assert again == [3, 5]


@pytest.mark.e2e
def test_a_large_task_is_done_even_where_it_is_more_than_may_be_under_way() -> None:
    with Workers(2) as workers:
        assert list(workers.map(len, calls(["one", "three", "four"], 10**9), ENOUGH)) == [3, 5, 4]


@pytest.mark.e2e
def test_what_a_call_raises_is_raised_in_its_turn() -> None:
    with Workers(2) as workers:
        results = workers.map(int, calls(["1", "2", "no", "4"]), ENOUGH)
        assert [next(results), next(results)] == [1, 2]
        with pytest.raises(ValueError, match="invalid literal"):
            next(results)


@pytest.mark.e2e
def test_a_worker_that_is_lost_ends_the_run_rather_than_its_documents() -> None:
    with Workers(2) as workers, pytest.raises(WorkerLostError, match="a worker ended with 7"):
        list(workers.map(os._exit, calls([7]), ENOUGH))


@pytest.mark.e2e
def test_no_process_is_left_when_the_block_is_over() -> None:
    with Workers(2) as workers:
        next(workers.map(len, calls(["one"]), ENOUGH))
        started = workers.processes
    assert [process.returncode for process in started] == [0, 0]
    assert workers.processes == ()


@pytest.mark.e2e
def test_a_call_that_takes_for_ever_is_not_waited_for_when_the_block_is_over() -> None:
    with Workers(2) as workers:
        results = workers.map(time.sleep, calls([0, 600]), ENOUGH)
        assert next(results) is None
        started = workers.processes
    assert sorted(process.returncode for process in started) == [-signal.SIGKILL, 0]


@pytest.mark.e2e
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="tells a process by /proc")
def test_an_indexer_that_is_killed_leaves_no_worker_behind() -> None:
    program = (
        "import os, time\n"
        "from retrieval.indexing.workers import Call, Workers, WORTH_BYTES\n"
        "with Workers(2) as workers:\n"
        "    list(workers.map(len, [Call('one', 1)], 10 * WORTH_BYTES))\n"
        "    print(*(process.pid for process in workers.processes), flush=True)\n"
        "    list(workers.map(time.sleep, [Call(600, 1)], 10 * WORTH_BYTES))\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as indexer:
        assert indexer.stdout is not None
        pids = [int(pid) for pid in indexer.stdout.readline().split()]
        assert [is_running(pid) for pid in pids] == [True, True]
        indexer.kill()
    assert [ends(pid) for pid in pids] == [True, True]


def test_a_worker_answers_with_what_was_returned_and_with_what_was_raised() -> None:
    ours, theirs = Pipe()
    thread = threading.Thread(target=serve, args=(theirs,))
    thread.start()
    ours.send((len, "four"))
    ours.send((int, "no"))
    answers = [ours.recv(), ours.recv()]
    ours.close()
    assert answers[0] == (4, None)
    assert isinstance(answers[1][1], ValueError)
    thread.join(10)
    assert not thread.is_alive()
