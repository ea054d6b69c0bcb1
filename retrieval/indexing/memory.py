"""Keeps this process's allocators from holding on to what the indexer has freed: peaks of its stages would add up."""

# pyarrow ships no types.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import ctypes
from typing import Final

import pyarrow as pa

_ARENA_MAX: Final = -8
"""M_ARENA_MAX of glibc's `mallopt`."""


def limit_arenas(most: int) -> None:
    """Bounds the heaps among which glibc spreads threads: eight a core by default, each of which keeps its own rest.

    Nothing where the C library has no such setting.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_ARENA_MAX, most)


def give_back() -> None:
    """Returns to the system what Arrow and the C library keep of freed memory."""
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
