"""The only module that reads LanceDB: finds tables, opens them again when they were replaced, and runs plans."""

# pyarrow and lancedb are untyped or typed in part; what comes out of them is checked where `_row` makes a `Row` of it.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import logging
import os
import re
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any, Final, TypeVar

import lancedb
import pyarrow as pa
from lancedb.expr import Expr, col, lit
from lancedb.query import BooleanQuery, FullTextQuery, MatchQuery, Occur, PhraseQuery
from lancedb.table import AsyncTable

from retrieval.errors import BedivereError, ErrorCode
from retrieval.layout import Column, Index, Kind, Layout, lay_out
from retrieval.schema import Provenance
from retrieval.search.plan import Match, Phrase, TextPlan
from retrieval.types import Row, Span

try:
    import fcntl
except ImportError:  # pragma: no cover - no flock, and no replaced tables to keep, where there is no POSIX
    fcntl = None  # type: ignore[assignment]

logger: Final = logging.getLogger("bedivere")

LANCEDB_VERSION: Final = lancedb.__version__

_SUFFIX: Final = ".lance"
_LANCE_KIND: Final = re.compile(r"LanceError\(\w+\)")
_IN_USE_LOCK: Final = "in-use.lock"

# More rows than asked for are fetched so that equal scores are ordered by id before the list is cut.
_TIE_MARGIN: Final = 32
_MAX_FETCHED: Final = 2_048

_LAST_CHARACTER: Final = "\U0010ffff"

# A table that is replaced more often than this while it is opened is not worth waiting for.
_ATTEMPTS: Final = 3
_NAMED_TABLES: Final = 20

T = TypeVar("T")
Fingerprint = tuple[str, int, int]
Cell = str | int | float | bool | None


class Database:
    """A folder of tables. Costs nothing until it is asked, so that a server starts without one."""

    def __init__(self, folder: str | None) -> None:
        # A relative path that starts with "db" is taken for LanceDB Cloud, and connecting creates a missing folder.
        self._folder = Path(os.path.expanduser(folder)).absolute() if folder else None  # noqa: PTH111 - never raises
        self._open: dict[str, Table] = {}

    def names(self) -> list[str]:
        """The tables there are, in alphabetical order.

        Raises `BedivereError` DATABASE_NOT_SET or DATABASE_NOT_FOUND.
        """
        try:
            entries = list(self._place().iterdir())
        except (OSError, ValueError):
            raise BedivereError(
                ErrorCode.DATABASE_NOT_FOUND,
                "The database folder does not exist or cannot be read: check what LANCEDB_PATH or --db names, "
                "or build it with bedivere index.",
            ) from None
        return sorted(entry.name.removesuffix(_SUFFIX) for entry in entries if _is_table(entry))

    async def table(self, name: str) -> Table:
        """The table called `name`, opened again if its files were replaced since.

        Raises `BedivereError`: what `names` raises, TABLE_NOT_FOUND or TABLE_UNREADABLE.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            place, fingerprint = self._find(name)
            table = self._open.get(name)
            if table is not None and table.fingerprint == fingerprint:
                return table
            try:
                table = await Table.open(name, place, fingerprint)
            except BedivereError:
                # It may have been replaced, and its files removed, between the look and the opening.
                if attempt == _ATTEMPTS or self._find(name)[1] == fingerprint:
                    raise
                continue
            self._open[name] = table
            return table
        raise AssertionError("the last attempt returns or raises")

    async def read(self, name: str, ask: Callable[[Table], Awaitable[T]]) -> T:
        """What `ask` answers, all of it from one state of the table.

        A table of others that is replaced while it is being read makes LanceDB fail; the new one is asked then.
        """
        table = await self.table(name)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return await ask(table)
            except BedivereError as error:
                replaced = await self.table(name) if error.code is ErrorCode.TABLE_UNREADABLE else table
                if replaced is table or attempt == _ATTEMPTS:
                    raise
                table = replaced
        raise AssertionError("the last attempt returns or raises")

    def _find(self, name: str) -> tuple[Path, Fingerprint]:
        """Where the table called `name` stands now, and what tells that state of it from any other."""
        # The name is a caller's: it reaches the file system only as one of the names that are there.
        names = self.names()
        if name not in names:
            known = ", ".join(repr(table) for table in names[:_NAMED_TABLES]) if names else "none"
            raise BedivereError(
                ErrorCode.TABLE_NOT_FOUND, f"There is no table {name[:100]!r}; the database has: {known}."
            )
        # A table of ours is a link to the folder of one build; opened there, it outlives the link's next target.
        place = (self._place() / f"{name}{_SUFFIX}").resolve()
        return place, _fingerprint(place)

    def _place(self) -> Path:
        if self._folder is None:
            raise BedivereError(
                ErrorCode.DATABASE_NOT_SET,
                "No database is configured: set LANCEDB_PATH to the folder that bedivere index wrote.",
            )
        return self._folder


class Table:
    """An open table: its columns, its indexes and the questions that can be put to it."""

    def __init__(
        self,
        name: str,
        table: AsyncTable,
        schema: pa.Schema,
        indexes: Sequence[Index],
        fingerprint: Fingerprint,
        in_use: int | None,
    ) -> None:
        self.name = name
        self.fingerprint = fingerprint
        self.columns = [
            Column(field.name, str(field.type), _kind(field.type), pa.types.is_dictionary(field.type))
            for field in schema
        ]
        self.indexes = indexes
        self.provenance = Provenance.from_metadata(schema.metadata)
        self._table = table
        if in_use is not None:
            # The lock is held as long as anything still asks this table.
            weakref.finalize(self, os.close, in_use)

    @classmethod
    async def open(cls, name: str, place: Path, fingerprint: Fingerprint) -> Table:
        """Opens the table whose folder is `place`. Raises `BedivereError` TABLE_UNREADABLE."""
        in_use = _mark_in_use(place.parent)
        try:
            with _readable(name, opening=True):
                connection = await lancedb.connect_async(place.parent)
                table = await connection.open_table(place.name.removesuffix(_SUFFIX))
                schema = await table.schema()
                indexes = [_index(config) for config in await table.list_indices()]
        except BaseException:
            if in_use is not None:
                os.close(in_use)
            raise
        return cls(name, table, schema, indexes, fingerprint, in_use)

    def layout(self, text_column: str) -> Layout:
        """The parts its columns play; raises what `lay_out` raises."""
        return lay_out(self.columns, self.indexes, text_column)

    async def count(self) -> int:
        """Rows in the table."""
        with _readable(self.name):
            return await self._table.count_rows()

    async def search_text(
        self, plan: TextPlan, layout: Layout, limit: int, *, path_prefix: str | None = None
    ) -> list[Row]:
        """At most `limit` rows that match `plan`, ordered by (-score, id): equal scores never change places."""
        wanted = min(limit + _TIE_MARGIN, _MAX_FETCHED)
        with _readable(self.name):
            while True:
                query = self._table.query().nearest_to_text(_full_text(plan)).limit(wanted).with_row_id()
                if path_prefix and layout.path:
                    query = query.where(_starts_with(layout.path, path_prefix))
                fetched = await query.select([*layout.selected, "_score"]).to_arrow()
                rows = sorted(_rows(fetched, layout), key=lambda row: (-row.score, row.id))
                tied = len(rows) == wanted and rows[limit - 1].score == rows[-1].score
                if not tied or wanted == _MAX_FETCHED:
                    return rows[:limit]
                wanted = min(wanted * 4, _MAX_FETCHED)

    async def chunks(self, spans: Sequence[Span], layout: Layout) -> list[Row]:
        """The rows of `spans`, in no particular order; none where the table does not number its chunks."""
        if not spans or layout.path is None or layout.ordinal is None:
            return []
        path, ordinal = col(layout.path), col(layout.ordinal)
        condition = reduce(
            lambda either, other: either | other,
            ((path == lit(span.path)) & (ordinal >= lit(span.first)) & (ordinal <= lit(span.last)) for span in spans),
        )
        with _readable(self.name):
            query = self._table.query().where(condition).with_row_id().select(layout.selected)
            return _rows(await query.to_arrow(), layout)

    async def pages(self, layout: Layout, limit: int) -> AsyncIterator[dict[str, Cell]]:
        """`path`, `title`, `heading` and `url` of the first `limit` rows, as far as the table has them."""
        parts = {"path": layout.path, "title": layout.title, "heading": layout.heading, "url": layout.url}
        columns = {part: column for part, column in parts.items() if column}
        if not columns:
            return
        with _readable(self.name):
            reader = await self._table.query().select(list(columns.values())).limit(limit).to_batches()
            async for batch in reader:
                values = {part: _values(batch.column(column)) for part, column in columns.items()}
                for row in range(batch.num_rows):
                    yield {part: column[row] for part, column in values.items()}


class _readable:  # noqa: N801 - reads as a keyword: with _readable(name)
    """Turns whatever LanceDB raises, whose text shows paths and misleads, into TABLE_UNREADABLE."""

    def __init__(self, name: str, *, opening: bool = False) -> None:
        self._name = name
        self._opening = opening

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if error is None or isinstance(error, BedivereError) or not isinstance(error, Exception):
            return
        # Of a query that failed, LanceDB's text may quote the query; of a table that would not open, it says why.
        told = error if self._opening else f"{type(error).__name__} {' '.join(_LANCE_KIND.findall(str(error)))}"
        logger.warning("table %r: %s", self._name, told)
        raise BedivereError(
            ErrorCode.TABLE_UNREADABLE,
            f"Table {self._name!r} cannot be read: its files are damaged, incomplete or of another format. "
            "Build it again with bedivere index --rebuild.",
        ) from None


def _is_table(entry: Path) -> bool:
    # A name that is not text cannot be asked for, nor be written into an answer.
    named = entry.name.endswith(_SUFFIX) and not entry.name.startswith(".") and entry.name.isprintable()
    return named and entry.is_dir()


def _fingerprint(place: Path) -> Fingerprint:
    """Changes when another table stands at `place`, or another version of the same one."""
    try:
        versions = (place / "_versions").stat()
    except OSError:
        return (str(place), 0, 0)
    return (str(place), versions.st_ino, versions.st_mtime_ns)


def _mark_in_use(folder: Path) -> int | None:
    """A descriptor with a shared lock that keeps the indexer from clearing `folder`; None where there is none."""
    if fcntl is None:  # pragma: no cover
        return None
    try:
        descriptor = os.open(folder / _IN_USE_LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _kind(kind: pa.DataType) -> Kind:
    types = pa.types
    if types.is_dictionary(kind):
        return _kind(kind.value_type)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "text"
    if types.is_boolean(kind):
        return "boolean"
    if types.is_integer(kind):
        return "integer"
    if types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_timestamp(kind) or types.is_date(kind) or types.is_time(kind):
        return "time"
    return "other"


def _index(config: Any) -> Index:  # noqa: ANN401 - a class of the compiled core, without types
    return Index(
        column=config.columns[0],
        type=config.index_type,
        positions=bool((config.index_details or {}).get("with_position", False)),
        indexed=config.num_indexed_rows or 0,
        unindexed=config.num_unindexed_rows or 0,
    )


def _full_text(plan: TextPlan) -> FullTextQuery:
    return BooleanQuery([(Occur.SHOULD, _part(part)) for part in plan.parts])


def _part(part: Match | Phrase) -> FullTextQuery:
    if isinstance(part, Phrase):
        return PhraseQuery(part.terms, part.column)  # pyright: ignore[reportCallIssue] - its defaults are pydantic's
    return MatchQuery(part.terms, part.column, boost=part.boost)  # pyright: ignore[reportCallIssue]


def _starts_with(column: str, prefix: str) -> Expr:
    # LanceDB's expressions have no prefix function; strings compare by their UTF-8 bytes, which keeps this exact.
    return (col(column) >= lit(prefix)) & (col(column) < lit(prefix + _LAST_CHARACTER))


def _rows(table: pa.Table, layout: Layout) -> list[Row]:
    columns = {name: _values(table.column(name)) for name in table.column_names}
    return [_row({name: values[row] for name, values in columns.items()}, layout) for row in range(table.num_rows)]


def _values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The column's values as Python's: as text where Python has no such time, None where there is no text either."""
    try:
        return column.to_pylist()
    except (ValueError, OverflowError, pa.ArrowException):
        pass
    try:
        zoned = pa.types.is_timestamp(column.type) and column.type.tz is not None
        plain = column.cast(pa.timestamp(column.type.unit)) if zoned else column
        return plain.cast(pa.string()).to_pylist()
    except (ValueError, pa.ArrowException):
        return [None] * len(column)


def _row(record: dict[str, Any], layout: Layout) -> Row:
    def text(column: str | None) -> str | None:
        value = record.get(column) if column else None
        return value if isinstance(value, str) and value else None

    ordinal = record.get(layout.ordinal) if layout.ordinal else None
    metadata = {name: scalar for name in layout.metadata if (scalar := _scalar(record.get(name))) is not None}
    return Row(
        id=text(layout.id) or f"row:{record['_rowid']}",
        text=record.get(layout.text) or "",
        score=float(record.get("_score") or 0.0),
        title=text(layout.title),
        heading=text(layout.heading),
        path=text(layout.path),
        url=text(layout.url),
        ordinal=ordinal if isinstance(ordinal, int) else None,
        metadata=metadata,
    )


def _scalar(value: object) -> Cell:
    """`value` as JSON can carry it; None for nothing, an empty text or a number that JSON has no word for."""
    match value:
        case bool() | int():
            return value
        case str():
            return value or None
        case float():
            return value if value == value and abs(value) != float("inf") else None
        case Decimal():
            return str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case _:
            return None
