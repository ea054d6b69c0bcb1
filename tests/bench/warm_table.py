"""One table behind the real Lambda handler, open and warm, and the same questions put to LanceDB's core alone."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar

from handler.main import AppHandler, make_handler
from retrieval.core import Ask, Nearest, Opened, open_table
from retrieval.database import Database
from retrieval.layout import Layout
from retrieval.ranking import depth_for
from retrieval.schema import DEFAULT_TABLE, VECTOR_COLUMN
from retrieval.search.filters import Condition
from retrieval.search.plan import TextPlan, plan_text
from retrieval.settings import Settings
from retrieval.table import Table
from tests.bench.asking import LIMIT, call_event
from tests.bench.timing import Cost, cost_of

FETCHED: Final = depth_for(LIMIT, settled=True) + 32
"""Rows that our searches by words ask the core for: the candidates, and some for ties."""

FETCHED_OF_VECTORS: Final = depth_for(LIMIT, settled=False) + 32
"""Those of our searches by meaning."""

_TRIES: Final = 20
_PAUSE: Final = 1.0
"""Seconds between two tries: a provider that did not answer in time is left alone for a while."""

T = TypeVar("T")


class WarmTable:
    """A context manager. Every call raises RuntimeError where it is not answered as it should be."""

    def __init__(self, database: Path, provider: str | None = None, model: str | None = None) -> None:
        given: dict[str, Any] = {"database": str(database)}
        if provider and model:
            given |= {"openai_base_url": provider, "embedding_model": model}
        self._stack = ExitStack()
        self._handler: AppHandler = make_handler(Settings(**given))
        self._stack.callback(self._handler.close)
        self._loop = asyncio.new_event_loop()
        self._stack.callback(self._loop.close)
        self._core: Opened = self._run(open_table(database.absolute(), DEFAULT_TABLE))
        self._table: Table = self._run(_table(database))
        self._layout: Layout = self._table.layout("text")
        self._vocabulary = self._run(self._table.vocabulary())
        # As on Lambda, where what is there once the server is made is never looked at again.
        gc.collect()
        gc.freeze()

    def __enter__(self) -> WarmTable:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        gc.unfreeze()

    def text(self, question: str) -> Cost:
        """A whole invocation of `lancedb_search`, by words, from the event to the answer."""
        return self._call("lancedb_search", self._search(question, "text"))[0]

    def by_meaning(self, question: str, kind: str) -> Cost:
        """The same by `kind`, `vector` or `hybrid`."""
        cost, found = self._call("lancedb_search", self._search(question, kind))
        if found["searchType"] != kind:
            raise RuntimeError(f"Not {kind} search answered but {found['searchType']}: {found['notes']}")
        return cost

    def know(self, question: str) -> None:
        """Has the vector of `question` embedded, so that it is remembered; on a busy machine not by the first try."""
        for left in reversed(range(_TRIES)):
            try:
                self.by_meaning(question, "vector")
                return
            except RuntimeError:
                if not left:
                    raise
                time.sleep(_PAUSE)

    def fetch(self, path: str) -> Cost:
        """A document by its path."""
        return self._call("lancedb_fetch", {"path": path})[0]

    def catalog(self, _: str) -> Cost:
        """The first documents."""
        return self._call("lancedb_catalog", {"limit": LIMIT})[0]

    def bare_text(self, question: str) -> Cost:
        """The same plan, columns and rows put to the core, and its rows fetched as Arrow."""
        ask = self._ask_text(question)
        return cost_of(lambda: self._run(self._core.rows(ask)))

    def bare_vector(self, vector: Sequence[float]) -> Cost:
        """The same for a vector."""
        nearest = Nearest(vector, VECTOR_COLUMN)
        ask = self._table.asking(self._layout, "_distance", FETCHED_OF_VECTORS, None, nearest, self._table.known)
        return cost_of(lambda: self._run(self._core.rows(ask)))

    def bare_fetch(self, path: str) -> Cost:
        """The rows of a document."""
        ask = self._table.asking(self._layout, None, None, Condition("path", "eq", path), None, self._table.known)
        return cost_of(lambda: self._run(self._core.rows(ask)))

    def recall(self, vectors: Sequence[Sequence[float]]) -> float:
        """The share of the ten nearest rows that are found, over `vectors`."""
        found = wanted = 0
        for vector in vectors:
            near, exact = (
                set(self._run(self._core.rows(Ask(["id", "_distance"], 10, like=like))).column("id").to_pylist())
                for like in (Nearest(vector, VECTOR_COLUMN), Nearest(vector, VECTOR_COLUMN, exhaustive=True))
            )
            found, wanted = found + len(near & exact), wanted + len(exact)
        return found / wanted

    def check(self, question: str) -> None:
        """Raises RuntimeError where the handler and the bare query do not find the same: nothing to compare."""
        _, found = self._call("lancedb_search", self._search(question, "text"))
        rows = self._run(self._core.rows(self._ask_text(question))).column("_score").to_pylist()
        bare = sorted((round(score, 4) for score in rows), reverse=True)
        scores = sorted((hit["score"] for hit in found["hits"]), reverse=True)
        if not scores or scores != bare[: len(scores)]:
            raise RuntimeError(f"The handler and the bare query find other rows for {question!r}")

    def _search(self, question: str, kind: str) -> dict[str, object]:
        return {"query": question, "limit": LIMIT, "searchType": kind}

    def _ask_text(self, question: str) -> Ask:
        return self._table.asking(self._layout, "_score", FETCHED, None, self._plan(question), self._table.known)

    def _plan(self, question: str) -> TextPlan:
        known = self._vocabulary
        plan = plan_text(question, self._layout.searchable, *((known.frequency, known.names_with) if known else ()))
        if plan is None:
            raise RuntimeError(f"There is no plan for {question!r}")
        return plan

    def _call(self, tool: str, arguments: Mapping[str, object]) -> tuple[Cost, Mapping[str, Any]]:
        event = call_event(tool, arguments)
        answers: list[Mapping[str, Any]] = []
        cost = cost_of(lambda: answers.append(self._handler(event, None)))
        result = json.loads(answers[0]["body"]).get("result", {})
        if "structuredContent" not in result:
            raise RuntimeError(f"{tool} was not answered as it should be: {answers[0]}")
        return cost, result["structuredContent"]

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)


async def _table(database: Path) -> Table:
    table = await Database(str(database)).table(DEFAULT_TABLE)
    # From now on it asks for no columns that the catalog knows, as the handler's does.
    await table.catalog(table.layout("text"))
    return table
