"""The pieces of one object, fetched side by side and handed on in order, while memory holds a few of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from queue import SimpleQueue
from typing import Final

LANES: Final = 2
"""Pieces of one object that are fetched at once."""


class Pieces:
    """`fetch` gives the chunks of the piece that begins at a place; `starts` are the places, in order.

    As many as `ahead` chunks wait in each lane. Iterating raises what `fetch` raised, in its turn.
    """

    def __init__(self, fetch: Callable[[int], Generator[bytes]], starts: Sequence[int], ahead: int) -> None:
        self._count = len(starts)
        self._lanes = [_Lane(fetch, starts[number::LANES], ahead) for number in range(min(LANES, self._count))]

    def __iter__(self) -> Iterator[bytes]:
        for turn in range(self._count):
            yield from self._lanes[turn % LANES].piece()

    def close(self) -> None:
        """Nobody takes any more: each lane ends at its next chunk."""
        for lane in self._lanes:
            lane.stop()


class _Lane:
    """Fetches every so manieth piece in a thread of its own."""

    def __init__(self, fetch: Callable[[int], Generator[bytes]], starts: Sequence[int], ahead: int) -> None:
        self._fetch = fetch
        self._starts = starts
        self._chunks: SimpleQueue[bytes | Exception | None] = SimpleQueue()
        """None ends a piece."""
        self._free = threading.Semaphore(ahead)
        self._stopped = False
        # A daemon: a process that ends does not wait for a store that drips.
        threading.Thread(target=self._run, name="bedivere-pieces", daemon=True).start()

    def piece(self) -> Iterator[bytes]:
        while (chunk := self._chunks.get()) is not None:
            if isinstance(chunk, Exception):
                raise chunk
            self._free.release()
            yield chunk

    def stop(self) -> None:
        self._stopped = True
        self._free.release()

    def _run(self) -> None:
        try:
            for start in self._starts:
                with closing(self._fetch(start)) as chunks:
                    for chunk in chunks:
                        self._free.acquire()
                        if self._stopped:
                            return
                        self._chunks.put(chunk)
                self._chunks.put(None)
        except Exception as error:  # noqa: BLE001, RUF100 - raised where the piece is taken
            self._chunks.put(error)
