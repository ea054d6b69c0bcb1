"""What a command that ends with its answer does about a dataset that must be fetched first: it waits."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

from retrieval.errors import BedivereError

if TYPE_CHECKING:
    from retrieval.retriever import Retriever


async def ready(retriever: Retriever) -> Retriever:
    """`retriever` once it has something to ask, however long its first sync takes.

    Raises the `BedivereError` that the sync failed with: a command does not try again.
    """
    dataset = retriever.dataset
    if dataset.state().from_releases:
        # The failure is told once, by the command.
        logging.getLogger("bedivere").addHandler(logging.NullHandler())
    try:
        await dataset.current(wait_seconds=math.inf)
    except BedivereError as error:
        raise (dataset.state().failure or error) from None
    return retriever
