"""Checks of an endpoint from outside, as its clients and its enemies see it; how they are shown is the command's."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from handler import __version__
from retrieval.errors import ErrorCode
from retrieval.notes import counted

Mode = Literal["auto", "legacy"]

ERAS: Final[dict[str, Mode]] = {"stateless": "auto", "handshake": "legacy"}

FOREIGN_HOST: Final = "bedivere-smoke.invalid"
FOREIGN_ORIGIN: Final = f"https://{FOREIGN_HOST}"

_TOOLS: Final = frozenset({"lancedb_search", "lancedb_query", "lancedb_fetch", "lancedb_catalog"})

# The default limit and the largest that can be set, each passed by one byte.
_OVERSIZE: Final = (65_537, 4_194_305)

# A function's longest time behind an API Gateway, and a little for the network.
_TIMEOUT_SECONDS: Final = 40.0
_LOADING_SECONDS: Final = 90.0
_BEARER: Final = "authorization"
_JSON: Final = {"content-type": "application/json"}


class Miss(Exception):
    """A check found something else than it should; the text says what, on one line."""


class Unreachable(Exception):
    """Nothing answers at the URL; the text says why, on one line."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was tried."""

    name: str
    passed: bool
    milliseconds: float
    detail: str
    """What was found."""


async def smoke(
    url: str,
    query: str | None = None,
    *,
    dataset: bool = True,
    transport: httpx2.AsyncBaseTransport | None = None,
    pause: float = 2.0,
    bearer: str | None = None,
) -> list[Check]:
    """Tries the endpoint at `url` as a client in both eras, and then with what it must refuse.

    Where there is no `dataset` yet, nothing is searched and read. Without a `query`, a title from the corpus' own
    overview is searched. An endpoint that not everyone may call is asked with `bearer`, and once without. A dataset
    that is still loading is asked again every `pause` seconds, for a minute and a half in all. Raises `Unreachable`
    where nothing answers.
    """
    async with httpx2.AsyncClient(
        transport=transport,
        timeout=_TIMEOUT_SECONDS,
        follow_redirects=False,
        headers={"user-agent": f"bedivere-smoke/{__version__}"} | ({_BEARER: f"Bearer {bearer}"} if bearer else {}),
    ) as http:
        await _reach(http, url)
        checks: list[Check] = []
        patience = _Patience(pause, time.monotonic() + _LOADING_SECONDS)
        for era, mode in ERAS.items():
            checks += await _Visit(http, url, query, patience).checks(era, mode, dataset=dataset)
        refusals = REFUSALS | ({"no credential": _no_credential} if bearer else {})
        return checks + [await _checked(name, refusal(http, url)) for name, refusal in refusals.items()]


async def _reach(http: httpx2.AsyncClient, url: str) -> None:
    try:
        await http.post(url, content=b"", headers=_JSON)
    except httpx2.TimeoutException:
        raise Unreachable(f"nothing answered within {_TIMEOUT_SECONDS:g} seconds") from None
    except httpx2.TransportError as error:
        raise Unreachable(_one_line(error)) from None


async def _checked(name: str, finding: Awaitable[str]) -> Check:
    """`finding` as a check: what it says, or why it failed."""
    started = time.perf_counter()
    try:
        passed, detail = True, await finding
    except Exception as error:
        passed, detail = False, _one_line(error)
    return Check(name, passed, round((time.perf_counter() - started) * 1000, 1), detail)


def _one_line(error: BaseException) -> str:
    cause = _innermost(error)
    text = " ".join(str(cause).split())[:300]
    if text and isinstance(cause, Miss | httpx2.TransportError):
        return text
    return f"{type(cause).__name__}: {text}" if text else type(cause).__name__


def _innermost(error: BaseException) -> BaseException:
    """The client's task groups wrap what failed once or more."""
    if isinstance(error, BaseExceptionGroup):
        return _innermost(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    return error


@dataclass(slots=True)
class _Patience:
    """With a dataset that is being fetched for the first time."""

    pause: float
    give_up: float
    answered: bool = False
    """A call had its answer: the first sync is over, and one that is cut short from now on is slow."""

    def lasts(self, code: object) -> bool:
        """Whether a call that failed with `code` is worth another."""
        excused = code == ErrorCode.DATASET_LOADING or (code == ErrorCode.DEADLINE_EXCEEDED and not self.answered)
        return excused and time.monotonic() <= self.give_up


class _Visit:
    """One client of one era: it connects, looks around, searches and reads."""

    def __init__(self, http: httpx2.AsyncClient, url: str, query: str | None, patience: _Patience) -> None:
        self._http = http
        self._url = url
        self._query = query
        self._patience = patience

    async def checks(self, era: str, mode: Mode, *, dataset: bool) -> list[Check]:
        """The checks of this visit, as far as it came: who cannot connect is not asked to search."""
        async with AsyncExitStack() as stack:
            client: Client | None = None

            async def connect() -> str:
                nonlocal client
                client = await stack.enter_async_context(_connected(self._http, self._url, mode))
                version = str(client.protocol_version)
                if (version in MODERN_PROTOCOL_VERSIONS) is not (mode == "auto"):
                    raise Miss(f"speaks {version}, a revision of the other era")
                return f"{client.server_info.name if client.server_info else 'no name'}, {version}"

            found = [await _checked(f"{era}: connect", connect())]
            if client is not None:
                found.append(await _checked(f"{era}: list tools", self._list(client)))
                if dataset:
                    found.append(await _checked(f"{era}: search", self._search(client)))
                    found.append(await _checked(f"{era}: context", self._context(client)))
            return found

    async def _list(self, client: Client) -> str:
        names = [tool.name for tool in (await client.list_tools()).tools]
        if missing := _TOOLS - {*names}:
            raise Miss(f"{', '.join(sorted(missing))} not among {len(names)} tools")
        return f"{len(names)} tools"

    async def _search(self, client: Client) -> str:
        query = await self._words(client)
        reply = await self._call(client, "lancedb_search", {"query": query, "limit": 3})
        hits = cast("list[dict[str, Any]]", reply["hits"])
        if not hits:
            raise Miss(f"no hit for {query!r}")
        return f"{counted(len(hits), 'hit')} for {query!r}, {reply['searchType']} search"

    async def _context(self, client: Client) -> str:
        reply = await self._call(client, "lancedb_query", {"question": await self._words(client)})
        if not reply["sources"]:
            raise Miss("no passage")
        return f"{counted(len(reply['sources']), 'passage')}, {counted(len(reply['context']), 'character')}"

    async def _words(self, client: Client) -> str:
        """What to look for: the query that was given, else the title of a main document."""
        if self._query is None:
            overview = await self._call(client, "lancedb_query", {"warmStart": True})
            named = [source.get("title") or source.get("path") or "" for source in overview["sources"]]
            titles = [title for title in named if any(char.isalnum() for char in title)]
            if not titles:
                raise Miss("the overview of the corpus names no document: pass --query")
            self._query = titles[0][:200]
        return self._query

    async def _call(self, client: Client, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The structured result of a call, waiting while the dataset is loading."""
        while True:
            result = await client.call_tool(tool, arguments)
            if not result.is_error and result.structured_content is not None:
                self._patience.answered = True
                return result.structured_content
            if not self._patience.lasts((result.meta or {}).get("code")):
                raise Miss(_text(result) or f"{tool} has no structured result")
            await asyncio.sleep(self._patience.pause)


@asynccontextmanager
async def _connected(http: httpx2.AsyncClient, url: str, mode: Mode) -> AsyncGenerator[Client]:
    async with Client(
        streamable_http_client(url, http_client=http), mode=mode, read_timeout_seconds=_TIMEOUT_SECONDS
    ) as client:
        yield client


def _text(result: CallToolResult) -> str:
    return " ".join(part.text for part in result.content if isinstance(part, TextContent))


async def _foreign_origin(http: httpx2.AsyncClient, url: str) -> str:
    answer = await http.post(url, content=_ping(), headers={**_JSON, "origin": FOREIGN_ORIGIN})
    return _refusal(answer, 403, ErrorCode.ORIGIN_REFUSED)


async def _foreign_host(http: httpx2.AsyncClient, url: str) -> str:
    """A gateway or a network in front may refuse the host before Bedivere sees it, in words of its own."""
    answer = await http.post(url, content=_ping(), headers={**_JSON, "host": FOREIGN_HOST})
    if answer.status_code != 403:
        raise Miss(f"answered {answer.status_code}, not 403")
    return "403"


async def _get(http: httpx2.AsyncClient, url: str) -> str:
    # A server that opened a stream would never end the body: only the head is waited for.
    async with http.stream("GET", url, headers={"accept": "text/event-stream"}) as answer:
        if answer.status_code == 405:
            await answer.aread()
    return _refusal(answer, 405, ErrorCode.METHOD_NOT_ALLOWED)


async def _oversize(http: httpx2.AsyncClient, url: str) -> str:
    answer = None
    for size in _OVERSIZE:
        answer = await http.post(url, content=b" " * size, headers=_JSON)
        if answer.status_code == 413:
            break
    return _refusal(cast("httpx2.Response", answer), 413, ErrorCode.BODY_TOO_LARGE)


async def _no_credential(http: httpx2.AsyncClient, url: str) -> str:
    # API Gateway's own refusal is as good, and not in our shape.
    request = http.build_request("POST", url, content=_ping(), headers=_JSON)
    del request.headers[_BEARER]
    answer = await http.send(request)
    if answer.status_code != 401 or "www-authenticate" not in answer.headers:
        raise Miss(f"status {answer.status_code} instead of 401 with WWW-Authenticate")
    return "401"


async def _unknown_path(http: httpx2.AsyncClient, url: str) -> str:
    answer = await http.post(url.rstrip("/") + "/bedivere-smoke", content=_ping(), headers=_JSON)
    return _refusal(answer, 404, ErrorCode.PATH_NOT_FOUND)


REFUSALS: Final[dict[str, Callable[[httpx2.AsyncClient, str], Awaitable[str]]]] = {
    "refuses a foreign Origin": _foreign_origin,
    "refuses a foreign Host": _foreign_host,
    "refuses GET": _get,
    "refuses an oversize body": _oversize,
    "refuses an unknown path": _unknown_path,
}


def _ping() -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()


def _refusal(answer: httpx2.Response, status: int, code: ErrorCode) -> str:
    """What was answered. Raises `Miss` unless it is `status` and JSON with `code`."""
    if answer.status_code != status:
        raise Miss(f"answered {answer.status_code}, not {status}")
    try:
        found = answer.json()["error"]["data"]["code"]
    except (ValueError, KeyError, TypeError):
        raise Miss(f"answered {status} without JSON that says {code}") from None
    if found != code:
        raise Miss(f"answered {status} with {str(found)[:60]}, not {code}")
    return f"{status} {code}"
