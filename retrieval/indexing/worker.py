"""`python -m retrieval.indexing.worker FD`: a process that calls what `retrieval.indexing.workers` sends it.

It ends when nobody can send any more: an indexer that was killed leaves no worker behind.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, Final

_GRACE_SECONDS: Final = 2.0
"""How long the call that is being made may still take after the indexer is gone."""

# Parsing makes many small objects that do not point at each other in circles: looking for those is worth it seldom.
_COLLECTED_EVERY: Final = 50_000

Call = tuple[Callable[[Any], Any], Any]


def main() -> None:
    gc.set_threshold(_COLLECTED_EVERY, 20, 20)
    serve(Connection(int(sys.argv[1])))


def serve(connection: Connection) -> None:
    """Answers each call with what it returned or raised, in order, until the other end is closed."""
    calls: SimpleQueue[Call | None] = SimpleQueue()
    done = threading.Event()
    threading.Thread(target=_listen, args=(connection, calls, done), daemon=True).start()
    try:
        while (call := calls.get()) is not None:
            function, task = call
            try:
                answer: tuple[Any, Exception | None] = (function(task), None)
            except Exception as error:
                answer = (None, error)
            connection.send(answer)
    except OSError:
        # Nobody is there to take the answer.
        pass
    finally:
        done.set()


def _listen(connection: Connection, calls: SimpleQueue[Call | None], done: threading.Event) -> None:
    with suppress(EOFError, OSError):
        while True:
            calls.put(connection.recv())
    calls.put(None)
    if not done.wait(_GRACE_SECONDS):
        # The main thread is deep in a document that nobody waits for.
        os._exit(1)


if __name__ == "__main__":
    main()
