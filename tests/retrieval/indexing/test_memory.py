"""What the indexer has freed is the system's again; seen in processes of their own, whose heaps are fresh."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, and is about glibc")

_RESIDENT = """
import threading
from pathlib import Path
from retrieval.indexing.memory import give_back, limit_arenas

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1])
"""


def ran(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", _RESIDENT + code], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_on_linux_what_was_freed_below_something_that_lives_goes_back_to_the_system() -> None:
    # Small blocks of the C library, the last of which keeps the heap from shrinking by itself.
    code = """
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
blocks = [libc.malloc(100_000) for _ in range(500)]
for block in blocks:
    ctypes.memset(block, 1, 100_000)
for block in blocks[:-1]:
    libc.free(block)
before = resident()
give_back()
print((before - resident()) * 4096 > 40_000_000)
"""
    assert ran(code) == "True"


def test_on_linux_threads_share_as_many_heaps_as_they_may() -> None:
    # The heap of a thread other than the main one begins at a multiple of 64 MB.
    code = """
import ctypes
limit_arenas(2)
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
heaps, met = set(), threading.Barrier(6)

def allocate():
    met.wait()
    heaps.add(libc.malloc(1_000) >> 26)
    met.wait()

threads = [threading.Thread(target=allocate) for _ in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(heaps))
"""
    assert int(ran(code)) <= 2
