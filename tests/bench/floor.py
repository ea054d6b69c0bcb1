"""Run in a fresh process: LanceDB's compiled core and pyarrow, nothing else, and one text query of one table.

What `retrieval.core` does, without any of our code: the least that an answer in Python can cost.
"""

import asyncio
import gc
import importlib.util
import sys
import time
from importlib.machinery import PathFinder
from typing import Any, cast

gc.disable()
cast("dict[str, object]", sys.modules)["numpy"] = None
import pyarrow  # noqa: E402, F401  # pyright: ignore[reportUnusedImport] - in which the core hands rows over


def compiled_core() -> Any:
    package = importlib.util.find_spec("lancedb")
    assert package is not None
    spec = PathFinder.find_spec("lancedb._lancedb", package.submodule_search_locations)
    assert spec is not None
    assert spec.loader is not None
    core = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(core)
    return core


async def main(database: str, table: str, question: str) -> int:
    connection = await compiled_core().connect(database)
    opened = await connection.open_table(table, namespace_path=[])
    query = opened.query().nearest_to_text({"query": question, "columns": ["text"]})
    query.limit(20)
    query.select_columns(["text", "_score"])
    return sum([len(batch.to_pylist()) async for batch in await query.execute()])


rows = asyncio.run(main(*sys.argv[1:]))
at = time.monotonic()

from tests.bench.saying import say  # noqa: E402

say(at=at, rows=rows)
