"""The same question at three depths, the handler, the retriever and bare LanceDB, and as the scan that a peer runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar, cast

import lancedb
from lancedb.query import BooleanQuery, FullTextQuery, MatchQuery, Occur, PhraseQuery
from mcp_types.version import LATEST_MODERN_VERSION

from handler.main import AppHandler, make_handler
from retrieval.database import Database
from retrieval.layout import Layout
from retrieval.retriever import Retriever
from retrieval.schema import DEFAULT_TABLE
from retrieval.search.plan import Match, Phrase, plan_text
from retrieval.search.text import telling, words
from retrieval.settings import Settings
from retrieval.types import SearchReply, SearchRequest
from tests.bench.timing import Cost, cost_of

LIMIT: Final = 20

_EVENT: Final = Path(__file__).parents[1] / "events" / "v2_default_stage.json"
_TOOL: Final = "lancedb_search"

T = TypeVar("T")
Record = dict[str, Any]


def search_event(question: str) -> dict[str, Any]:
    """What API Gateway hands the handler when an agent calls `lancedb_search`."""
    return call_event(_TOOL, {"query": question, "limit": LIMIT})


def call_event(tool: str, arguments: Mapping[str, object]) -> dict[str, Any]:
    """The same for any tool."""
    return _event("tools/call", {"name": tool, "arguments": arguments}, {"mcp-name": tool})


def list_event() -> dict[str, Any]:
    """The same when an agent asks for the tools there are."""
    return _event("tools/list", {}, {})


def _event(method: str, params: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
    event = json.loads(_EVENT.read_text(encoding="utf-8"))
    meta = {
        "io.modelcontextprotocol/protocolVersion": LATEST_MODERN_VERSION,
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}})
    event["headers"] |= {
        "content-length": str(len(body.encode())),
        "mcp-protocol-version": LATEST_MODERN_VERSION,
        "mcp-method": method,
        **headers,
    }
    return event | {"body": body}


class Asked:
    """One database, open and warm, and the ways to put a question to it. A context manager."""

    def __init__(self, database: Path) -> None:
        settings = Settings(database=str(database))
        self._stack = ExitStack()
        self._handler: AppHandler = make_handler(settings)
        self._stack.callback(self._handler.close)
        self._retriever = Retriever(settings)
        self._loop = asyncio.new_event_loop()
        self._stack.callback(self._loop.close)
        self._table = self._run(_open(database.absolute()))
        self._layout = self._run(_layout(database))

    def __enter__(self) -> Asked:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def handler_call(self, question: str) -> Cost:
        """A whole invocation, from the event to the answer."""
        event = search_event(question)
        return cost_of(lambda: self._handler(event, None))

    def search(self, question: str) -> Cost:
        """The retriever's text search: the plan, the query, the hits with their snippets."""
        request = SearchRequest(question, LIMIT, search_type="text")
        return self._cost(lambda: self._retriever.search(request))

    def bare_query(self, question: str) -> Cost:
        """The same plan, columns and limit put to LanceDB, and its rows taken as they come."""
        query = self._full_text(question)
        return self._cost(lambda: self._bare(query))

    def like_scan(self, question: str) -> Cost:
        """What a server without an index asks: rows that hold any of the words, unranked, until there are enough."""
        condition = _like(question)
        return self._cost(lambda: self._scan(condition))

    def like_scan_of_all(self, question: str) -> Cost:
        """The same condition put to every row, which whoever wants to rank the rows has to do; none is fetched."""
        condition = _like(question)
        return self._cost(lambda: self._table.count_rows(condition))

    def check(self, question: str) -> None:
        """Raises RuntimeError where handler, retriever and bare LanceDB do not find the same: nothing to compare."""
        answer = self._handler(search_event(question), None)
        reply = self._run(self._retriever.search(SearchRequest(question, LIMIT, search_type="text")))
        bare = sorted(round(record["_score"], 4) for record in self._run(self._bare(self._full_text(question))))
        # Scores, not ids: which of the equal ones makes the cut is the retriever's choice.
        for name, scores in (("handler", _answered(answer)), ("retriever", _scores(reply))):
            if not scores or sorted(scores) != bare:
                raise RuntimeError(f"The {name} and the bare query find other rows for {question!r}: {answer}")

    def like_matches(self, question: str) -> int:
        """How many rows hold any of the words."""
        return self._run(self._table.count_rows(_like(question)))

    def _cost(self, ask: Callable[[], Coroutine[Any, Any, object]]) -> Cost:
        return cost_of(lambda: self._run(ask()))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        # Timed from outside, as the handler is: both enter and leave a running loop.
        return self._loop.run_until_complete(work)

    async def _bare(self, query: FullTextQuery) -> list[Record]:
        found = self._table.query().nearest_to_text(query).limit(LIMIT)
        return cast("list[Record]", await found.select([*self._layout.selected, "_score"]).to_list())

    async def _scan(self, condition: str) -> list[Record]:
        found = self._table.query().where(condition).limit(LIMIT)
        return cast("list[Record]", await found.select(self._layout.selected).to_list())

    def _full_text(self, question: str) -> FullTextQuery:
        plan = plan_text(question, self._layout.searchable)
        if plan is None:
            raise RuntimeError(f"There is no plan for {question!r}")
        return BooleanQuery([(Occur.SHOULD, _part(part)) for part in plan.parts])


async def _open(database: Path) -> lancedb.AsyncTable:
    connection = await lancedb.connect_async(database)
    return await connection.open_table(DEFAULT_TABLE)


async def _layout(database: Path) -> Layout:
    return (await Database(str(database)).table(DEFAULT_TABLE)).layout("text")


def _part(part: Match | Phrase) -> FullTextQuery:
    if isinstance(part, Phrase):
        return PhraseQuery(part.terms, part.column)  # pyright: ignore[reportCallIssue] - its defaults are pydantic's
    return MatchQuery(part.terms, part.column, boost=part.boost)  # pyright: ignore[reportCallIssue]


def _like(question: str) -> str:
    return " OR ".join(f"text LIKE '%{word}%'" for word in words(telling(question)))


def _answered(answer: dict[str, Any]) -> list[float]:
    result = json.loads(answer["body"]).get("result", {})
    return [hit["score"] for hit in result.get("structuredContent", {}).get("hits", [])]


def _scores(reply: SearchReply) -> list[float]:
    return [hit.score for hit in reply.hits]
