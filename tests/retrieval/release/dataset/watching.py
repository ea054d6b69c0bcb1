"""A dataset that is watched while it syncs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from retrieval.dataset import (
    ReleasedDataset,
)
from retrieval.errors import BedivereError
from retrieval.release.sync import Patience
from retrieval.retriever import Retriever
from retrieval.types import SearchRequest

QUICK = Patience(stall=0.5, pointer=0.3, lock=0.2, attempts=2, pause=0.01)
URI = "s3://bucket/prefix"

MakeDataset = Callable[..., ReleasedDataset]


def finds(retriever: Retriever, query: str) -> bool:
    """Whether a search finds anything."""
    return bool(asyncio.run(retriever.search(SearchRequest(query=query, limit=1))).hits)


def current(dataset: ReleasedDataset) -> BedivereError | None:
    """What asking for the database raises, if it does."""
    try:
        asyncio.run(dataset.current())
    except BedivereError as error:
        return error
    return None


def wait_until(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < give_up, "it never came"
        time.sleep(0.01)


def wait_for(dataset: ReleasedDataset, release: str) -> None:
    """Until `release` serves, under calls that do not end."""

    def serves() -> bool:
        dataset.start()
        return dataset.state().release == release

    wait_until(serves)


def idle(dataset: ReleasedDataset) -> Callable[[], bool]:
    return lambda: not dataset.state().syncing
