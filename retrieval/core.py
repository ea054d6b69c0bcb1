"""LanceDB as the reader needs it: one table opened, described, counted and asked.

There are two ways in, and both end in the same compiled code. The public one is `import lancedb`, whose package loads
clients of remote services, functions, embeddings and pandas helpers: more than everything else that a first answer
needs, taken together. The other loads the compiled core alone, as the package itself does in its first lines, and calls
the methods that its `AsyncTable` and its queries call. The core promises nothing to anybody, so

- it is used only where it is exactly the version that this was written for, which `pyproject.toml` pins as well;
- where it is another, or cannot be loaded, or lacks one of the names that are used, the public way is taken;
- the setting `lancedb_api` takes the public way whatever there is, but for the Lambda image, which leaves it out: its
  build fails where the core is not the one that is known;
- `tests/retrieval/test_core.py` puts every kind of question to both and compares.
"""

# pyarrow and lancedb are untyped or typed in part, and the compiled core not at all.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
from __future__ import annotations

import importlib.util
import logging
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.machinery import PathFinder
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Literal, Protocol

import pyarrow as pa

from retrieval.errors import BedivereError, ErrorCode
from retrieval.search.plan import Match, Phrase, TextPlan

logger: Final = logging.getLogger("bedivere")

Api = Literal["auto", "public"]

CORE_VERSION: Final = "0.40.0"
"""The one version of the compiled core that is called without LanceDB's own Python."""

_CORE: Final = "lancedb._lancedb"
_USED: Final = (
    "connect",
    "expr_lit",
    "Connection.open_table",
    *(f"Table.{name}" for name in ("count_rows", "list_indices", "query", "schema", "version")),
    *(f"Query.{name}" for name in ("nearest_to", "nearest_to_text")),
    *(
        f"{query}.{name}"
        for query in ("Query", "FTSQuery", "VectorQuery")
        for name in ("execute", "limit", "select_columns", "where", "with_row_id")
    ),
    *(f"VectorQuery.{name}" for name in ("bypass_vector_index", "column", "distance_type")),
    "RecordBatchStream.schema",
)
"""What is used of it."""

_METRIC: Final = "cosine"
_loading: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class Nearest:
    """The vector that rows are to be near to, and the column of theirs that it is compared with."""

    vector: Sequence[float]
    column: str
    exhaustive: bool = False
    """Past the index, at every row."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One question to a table: of all its rows, or of those that match a plan or are nearest to a vector."""

    columns: list[str]
    limit: int | None = None
    where: str | None = None
    """A condition in LanceDB's SQL."""
    row_id: bool = True
    """Whether the rows carry `_rowid`."""
    like: TextPlan | Nearest | None = None


class Opened(Protocol):
    """A table that is open. What LanceDB raises passes through."""

    async def schema(self) -> pa.Schema: ...

    async def indexes(self) -> list[Any]:
        """LanceDB's descriptions of the table's indexes."""
        ...

    async def version(self) -> int:
        """LanceDB's number of the state that is read: whatever changes anything in the table makes another."""
        ...

    async def count(self, where: str | None) -> int:
        """Rows that the condition `where` lets through; all without."""
        ...

    async def rows(self, ask: Ask) -> pa.Table:
        """Every row that answers `ask`."""
        ...

    def batches(self, ask: Ask) -> AsyncIterator[pa.RecordBatch]:
        """The same, a batch at a time, of a question without `like`."""
        ...

    def literal(self, value: object) -> str:
        """`value` as a literal of LanceDB's SQL."""
        ...


async def open_table(folder: Path, name: str, api: Api = "auto") -> Opened:
    """The table called `name` of the database in `folder`, which is absolute."""
    core = None if api == "public" else compiled_core()
    if core is None:
        connection = await _package().connect_async(folder)
        return _PublicTable(await connection.open_table(name))
    # The arguments of `lancedb.connect_async` and of its `open_table`, at their defaults.
    connection = await core.connect(str(folder), None, "us-east-1", None, None, None, None, None, None, False)
    return _CoreTable(core, await connection.open_table(name, namespace_path=[]))


def lancedb_version() -> str:
    """The version of the LanceDB that is installed."""
    core = compiled_core()
    return CORE_VERSION if core is not None else _package().__version__


def _package() -> Any:  # noqa: ANN401 - typed in part
    """LanceDB's own Python. Raises `BedivereError` SETTING_INVALID where it was left out of what is installed."""
    try:
        import lancedb
    except ImportError:
        raise BedivereError(
            ErrorCode.SETTING_INVALID,
            "This server was built without the Python API of LanceDB: unset BEDIVERE_LANCEDB_API, or build the image "
            "with KEEP='public API of LanceDB'.",
        ) from None
    return lancedb


_found: list[ModuleType | None] = []


def compiled_core() -> Any:  # noqa: ANN401 - a module without types
    """LanceDB's compiled core; None where it is not the one that is known here, which is logged once."""
    with _loading:
        if not _found:
            _found.append(_checked(_load()))
        return _found[0]


def _load() -> ModuleType | None:
    if _CORE in sys.modules:
        return sys.modules[_CORE]
    try:
        package = importlib.util.find_spec("lancedb")
        spec = PathFinder.find_spec(_CORE, package.submodule_search_locations) if package else None
        if spec is None or spec.loader is None:
            return None
        core = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(core)
    except Exception as error:
        logger.warning("LanceDB's compiled core cannot be loaded by itself (%s)", type(error).__name__)
        return None
    # Under its own name, so that the package, should anything import it later, takes this one.
    return sys.modules.setdefault(_CORE, core)


def _checked(core: ModuleType | None) -> ModuleType | None:
    if core is None:
        return None
    version = getattr(core, "__version__", None)
    lacking = [name for name in _USED if not _has(core, name)]
    if version == CORE_VERSION and not lacking:
        return core
    logger.warning(
        "LanceDB is read by its public API, which takes longer to load: its core has version %s%s",
        version,
        f" and no {', '.join(lacking)}" if lacking else "",
    )
    return None


def _has(core: ModuleType, name: str) -> bool:
    try:
        attrgetter(name)(core)
    except AttributeError:
        return False
    return True


class _PublicTable:
    """A table by way of the API that LanceDB documents."""

    def __init__(self, table: Any) -> None:  # noqa: ANN401 - lancedb's, imported only where this way is taken
        self._table = table

    async def schema(self) -> pa.Schema:
        return await self._table.schema()

    async def indexes(self) -> list[Any]:
        return list(await self._table.list_indices())

    async def version(self) -> int:
        return await self._table.version()

    async def count(self, where: str | None) -> int:
        return await self._table.count_rows(where)

    async def rows(self, ask: Ask) -> pa.Table:
        return await self._query(ask).to_arrow()

    async def batches(self, ask: Ask) -> AsyncIterator[pa.RecordBatch]:
        async for batch in await self._query(ask).to_batches():
            yield batch

    def literal(self, value: object) -> str:
        from lancedb.expr import lit

        return lit(value).to_sql()  # pyright: ignore[reportArgumentType] - what it is not for, it refuses

    def _query(self, ask: Ask) -> Any:  # noqa: ANN401 - one of lancedb's query builders
        query = self._table.query()
        match ask.like:
            case TextPlan():
                query = query.nearest_to_text(_public_text(ask.like))
            case Nearest():
                query = query.nearest_to(list(ask.like.vector)).column(ask.like.column).distance_type(_METRIC)
                query = query.bypass_vector_index() if ask.like.exhaustive else query
            case None:
                pass
        query = query if ask.where is None else query.where(ask.where)
        query = query if ask.limit is None else query.limit(ask.limit)
        query = query.with_row_id() if ask.row_id else query
        return query.select(ask.columns)


def _public_text(plan: TextPlan) -> Any:  # noqa: ANN401 - see `_PublicTable`
    from lancedb.query import BooleanQuery, FullTextQuery, MatchQuery, Occur, PhraseQuery

    def part(one: Match | Phrase) -> FullTextQuery:
        if isinstance(one, Phrase):
            return PhraseQuery(one.terms, one.column)  # pyright: ignore[reportCallIssue] - its defaults are pydantic's
        return MatchQuery(one.terms, one.column, boost=one.boost)  # pyright: ignore[reportCallIssue]

    if len(plan.parts) == 1:
        return part(plan.parts[0])
    return BooleanQuery([(Occur.SHOULD, part(one)) for one in plan.parts])


class _CoreTable:
    """A table by way of the compiled core alone."""

    def __init__(self, core: Any, table: Any) -> None:  # noqa: ANN401 - the core has no types
        self._core = core
        self._table = table

    async def schema(self) -> pa.Schema:
        return await self._table.schema()

    async def indexes(self) -> list[Any]:
        return list(await self._table.list_indices())

    async def version(self) -> int:
        return await self._table.version()

    async def count(self, where: str | None) -> int:
        return await self._table.count_rows(where)

    async def rows(self, ask: Ask) -> pa.Table:
        stream = await self._query(ask).execute()
        return pa.Table.from_batches([batch async for batch in stream], schema=stream.schema)

    async def batches(self, ask: Ask) -> AsyncIterator[pa.RecordBatch]:
        async for batch in await self._query(ask).execute():
            yield batch

    def literal(self, value: object) -> str:
        return self._core.expr_lit(value).to_sql()

    def _query(self, ask: Ask) -> Any:  # noqa: ANN401 - one of the core's query builders
        query = self._table.query()
        match ask.like:
            case TextPlan():
                query = query.nearest_to_text({"query": _core_text(ask.like)})
            case Nearest():
                query = query.nearest_to(pa.array(list(ask.like.vector)))
                query.column(ask.like.column)
                query.distance_type(_METRIC)
                if ask.like.exhaustive:
                    query.bypass_vector_index()
            case None:
                pass
        if ask.where is not None:
            query.where(ask.where)
        if ask.limit is not None:
            query.limit(ask.limit)
        if ask.row_id:
            query.with_row_id()
        query.select_columns(ask.columns)
        return query


# The core tells the parts of a text query by the names of their classes and reads the attributes that LanceDB's own
# have, each of which is here with LanceDB's default where the plan says nothing.


class _Word(StrEnum):
    SHOULD = "SHOULD"
    OR = "OR"


@dataclass(frozen=True, slots=True)
class MatchQuery:
    query: str
    column: str
    boost: float
    fuzziness: int = 0
    max_expansions: int = 50
    operator: _Word = _Word.OR
    prefix_length: int = 0
    document_granularity: None = None


@dataclass(frozen=True, slots=True)
class PhraseQuery:
    query: str
    column: str
    slop: int = 0
    document_granularity: None = None


@dataclass(frozen=True, slots=True)
class BooleanQuery:
    queries: list[tuple[_Word, MatchQuery | PhraseQuery]]


def _core_text(plan: TextPlan) -> BooleanQuery | MatchQuery | PhraseQuery:
    if len(plan.parts) == 1:
        # As a part of a Boolean query it would be asked for every row that matches, not for the best alone.
        return _core_part(plan.parts[0])
    return BooleanQuery([(_Word.SHOULD, _core_part(part)) for part in plan.parts])


def _core_part(part: Match | Phrase) -> MatchQuery | PhraseQuery:
    if isinstance(part, Phrase):
        return PhraseQuery(part.terms, part.column)
    return MatchQuery(part.terms, part.column, part.boost)
