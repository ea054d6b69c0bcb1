"""An open table, and the questions that can be put to it."""

# pyarrow and LanceDB are untyped or typed in part; `retrieval.arrow` checks what comes out of them.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import asyncio
import logging
import os
import re
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import pyarrow as pa

from retrieval.arrow import Cell, Fill, Scored, best_of, kind_of, rows_of, values_of
from retrieval.catalog import Catalog
from retrieval.core import Api, Ask, Nearest, Opened, open_table
from retrieval.errors import BedivereError, ErrorCode
from retrieval.known import Known, UnknownRowError
from retrieval.layout import Column, Index, Layout, lay_out
from retrieval.schema import CATALOG_FILE, COMPANIONS, VOCABULARY_FILE, Provenance, measured
from retrieval.search.filters import AllOf, AnyOf, Condition, Where, all_of, to_sql, undated
from retrieval.search.plan import TextPlan
from retrieval.search.vocabulary import Vocabulary
from retrieval.types import Row, Span

try:
    import fcntl
except ImportError:  # pragma: no cover - no flock, and no replaced tables to keep, where there is no POSIX
    fcntl = None  # type: ignore[assignment]

logger: Final = logging.getLogger("bedivere")

SUFFIX: Final = ".lance"
_LANCE_KIND: Final = re.compile(r"LanceError\(\w+\)")
_IN_USE_LOCK: Final = "in-use.lock"

_SCORE: Final = "_score"
_DISTANCE: Final = "_distance"

_MAX_CATALOGUED: Final = 2_000_000
"""Rows of a table of others that are looked at for its documents."""

Fingerprint = tuple[str, int, int]


class Table:
    """An open table: its columns, its indexes and the questions that can be put to it."""

    def __init__(
        self,
        name: str,
        table: Opened,
        schema: pa.Schema,
        indexes: Sequence[Index],
        version: int,
        fingerprint: Fingerprint,
        in_use: int | None,
    ) -> None:
        self.name = name
        self.fingerprint = fingerprint
        self._version = version
        self.columns = [
            Column(field.name, str(field.type), kind_of(field.type), pa.types.is_dictionary(field.type))
            for field in schema
        ]
        self.indexes = indexes
        self.vectors: dict[str, int] = {
            field.name: field.type.list_size
            for field in schema
            if pa.types.is_fixed_size_list(field.type) and pa.types.is_floating(field.type.value_type)
        }
        """Columns that hold vectors, and their length."""
        self.provenance = Provenance.from_metadata(schema.metadata)
        # Its own for whoever sees a part of it alone, which has a corpus version that says so.
        self._corpus = self.provenance.corpus_version if self.provenance else ""
        self.measured: dict[str, dict[str, Any]] = {
            name: measured(schema.field(name).metadata) for name in self.vectors
        }
        """What the indexer measured of the vectors of a column: `calibration` and `recall_at_10`, as far as it did."""
        self._table = table
        self._place = Path(fingerprint[0])
        self._catalog: Catalog | None = None
        self._known: Known | None = None
        self._vocabulary: Vocabulary | None = None
        self._vocabulary_read = False
        self._undated: dict[str, int] = {}
        self.seen: Where | None = None
        """The rows there are for whoever asks this; None where all are: see `retrieval.confinement`."""
        self.confined: dict[frozenset[str], Confined] = {}
        """What `retrieval.confinement` made of this table, by the collections that it left out."""
        self._lock = _InUse()
        # As many as the table has columns of text at most: any other name raises.
        self._layouts: dict[str, Layout] = {}
        if in_use is not None:
            # The lock is held as long as anything still asks this table.
            weakref.finalize(self._lock, os.close, in_use)

    @classmethod
    async def open(cls, name: str, place: Path, fingerprint: Fingerprint, api: Api = "auto") -> Table:
        """Opens the table whose folder is `place`. Raises `BedivereError` TABLE_UNREADABLE."""
        in_use = _mark_in_use(place.parent)
        try:
            with _readable(name, opening=True):
                table = await open_table(place.parent, place.name.removesuffix(SUFFIX), api)
                schema = await table.schema()
                indexes = [_index(config) for config in await table.indexes()]
                version = await table.version()
        except BaseException:
            if in_use is not None:
                os.close(in_use)
            raise
        return cls(name, table, schema, indexes, version, fingerprint, in_use)

    def layout(self, text_column: str) -> Layout:
        """The parts its columns play; raises what `lay_out` raises."""
        if text_column not in self._layouts:
            self._layouts[text_column] = lay_out(self.columns, self.indexes, text_column)
        return self._layouts[text_column]

    def limited_to(self, seen: Where) -> Table:
        """The same table with the rows of `seen` alone; what was learnt of all its rows is learnt anew."""
        limited = copy(self)
        limited.seen = seen
        limited.confined = {}
        limited._known = None
        limited._undated = {}
        limited._layouts = {}
        return limited

    def companions(self, catalog: Catalog | None, vocabulary: Vocabulary | None) -> None:
        """Puts these in the place of what the indexer wrote; of the rows themselves where `catalog` is None."""
        self._catalog = catalog
        self._vocabulary, self._vocabulary_read = vocabulary, True

    async def count(self) -> int:
        """Rows in the table."""
        with _readable(self.name):
            return await self._table.count(self._sql(None))

    async def matching(self, where: Where) -> int:
        """Rows that `where` lets through."""
        with _readable(self.name):
            return await self._table.count(self._sql(where))

    async def undated(self, columns: Iterable[str]) -> list[str]:
        """What to say of `columns` of text that are compared with dates and hold something else."""
        notes: list[str] = []
        for column in sorted(columns):
            if column not in self._undated:
                self._undated[column] = await self.matching(undated(column))
            if count := self._undated[column]:
                notes.append(
                    f"Of {column[:100]!r}, {count:,} of the table's chunks hold no date in ISO 8601: these were "
                    "compared letter by letter, so that some may be missing and some too many."
                )
        return notes

    async def search_text(self, plan: TextPlan, layout: Layout, limit: int, *, where: Where | None = None) -> list[Row]:
        """At most `limit` rows that match `plan`, ordered by (-score, id): equal scores never change places."""

        async def best(known: Known | None) -> list[Row]:
            ask = self.asking(layout, _SCORE, limit, where, plan, known)

            async def fetch(wanted: int) -> Scored:
                fetched = await self._table.rows(replace(ask, limit=wanted))
                return fetched, [float(score or 0.0) for score in values_of(fetched.column(_SCORE))]

            return await best_of(fetch, limit, layout, _filling(known, layout))

        return await self._read(best)

    async def try_out(self, plan: TextPlan, layout: Layout) -> None:
        """Searches for `plan` and reads the best row, as any search does. Raises what a search raises."""
        with _readable(self.name):
            await self._table.rows(self.asking(layout, _SCORE, 1, None, plan, self.known))

    async def search_vector(
        self, vector: Sequence[float], column: str, layout: Layout, limit: int, *, where: Where | None = None
    ) -> list[Row]:
        """At most `limit` rows nearest to `vector`, ordered by (-score, id); the score is the cosine similarity.

        `vector` has as many numbers as `vectors` says of `column`.
        """
        nearest = Nearest(vector, column)

        async def best(known: Known | None) -> list[Row]:
            ask = self.asking(layout, _DISTANCE, limit, where, nearest, known)

            async def fetch(wanted: int) -> Scored:
                fetched = await self._table.rows(replace(ask, limit=wanted))
                narrowed = where is not None or self.seen is not None
                if narrowed and fetched.num_rows < wanted and self.index_of(column) is not None:
                    # An index is walked before it is filtered, and may end short of what the filter lets through. To
                    # whom only some rows are there, that would tell how many others lie near.
                    exact = replace(ask, limit=wanted, like=replace(nearest, exhaustive=True))
                    fetched = await self._table.rows(exact)
                return fetched, [1.0 - float(far) for far in values_of(fetched.column(_DISTANCE))]

            return await best_of(fetch, limit, layout, _filling(known, layout))

        return await self._read(best)

    async def select(self, where: Where | None, layout: Layout, *, limit: int | None = None) -> list[Row]:
        """The rows that `where` lets through, at most `limit`, in no particular order; their score is 0."""

        async def selected(known: Known | None) -> list[Row]:
            fetched = await self._table.rows(self.asking(layout, None, limit, where, None, known))
            return rows_of(fetched, layout, repeat(0.0, fetched.num_rows), _filling(known, layout))

        return await self._read(selected)

    async def _read(self, read: Callable[[Known | None], Awaitable[list[Row]]]) -> list[Row]:
        """What `read` gives of what is known of rows already; all of it anew where that is not so of all of them."""
        known = self.known
        with _readable(self.name):
            try:
                return await read(known)
            except UnknownRowError:
                logger.warning("table %r: its catalog lacks some of its rows, and they are read whole", self.name)
                self._known = Known()
                return await read(None)

    @property
    def known(self) -> Known | None:
        """What need not be read of rows; None where the catalog has not been read, or is not the indexer's."""
        if self._known is None and self._catalog is not None and self.provenance is not None:
            rows = max((index.indexed + index.unindexed for index in self.indexes), default=0)
            self._known = Known.of(self._catalog, rows, self._version, self._corpus)
        return self._known

    def asking(
        self,
        layout: Layout,
        score: str | None,
        limit: int | None,
        where: Where | None,
        like: TextPlan | Nearest | None,
        known: Known | None,
    ) -> Ask:
        """What is asked of LanceDB for rows of `layout` and their column `score`, but for what is `known`.

        Each column costs a read of its own, and the number of a row one more.
        """
        unread = known.unread(layout) if known else frozenset[str]()
        columns = [name for name in layout.selected if name not in unread]
        row_id = layout.id is None or known is None or known.tells(layout) or not known.every_row
        return Ask([*columns, score] if score else columns, limit, self._sql(where), row_id=row_id, like=like)

    def index_of(self, column: str) -> Index | None:
        """The index over `column`; of a column of text there may be others beside it."""
        return next((index for index in self.indexes if index.column == column), None)

    async def distinct(self, column: str) -> set[str]:
        """The texts in `column`, each once."""
        return {value async for row in self._parts({"value": column}, None) if isinstance(value := row["value"], str)}

    async def chunks(self, spans: Sequence[Span], layout: Layout) -> list[Row]:
        """The rows of `spans`, in no particular order; none where the table does not number its chunks."""
        if not spans or layout.path is None or layout.ordinal is None:
            return []
        path, ordinal = layout.path, layout.ordinal
        return await self.select(
            AnyOf(
                tuple(
                    AllOf(
                        (
                            Condition(path, "eq", span.path),
                            Condition(ordinal, "gte", span.first),
                            Condition(ordinal, "lte", span.last),
                        )
                    )
                    for span in spans
                )
            ),
            layout,
        )

    async def catalog(self, layout: Layout) -> Catalog:
        """The documents of the table: from the file that the indexer wrote beside it, else from its rows."""
        if self._catalog is None:
            data = await self._companion(CATALOG_FILE)
            try:
                self._catalog = Catalog.load(data) if data is not None else None
            except ValueError:
                logger.warning("table %r: its catalog is damaged, and is read from its rows", self.name)
            if self._catalog is None:
                self._catalog = Catalog.of_rows([row async for row in self._entries(layout)])
        return self._catalog

    async def vocabulary(self) -> Vocabulary | None:
        """The words of the table's index; None where the indexer of the table wrote none."""
        if not self._vocabulary_read:
            data = await self._companion(VOCABULARY_FILE)
            try:
                self._vocabulary = Vocabulary.load(data) if data is not None else None
            except ValueError:
                logger.warning(
                    "table %r: its words are damaged or of another format, and are not used until it is indexed",
                    self.name,
                )
            self._vocabulary_read = True
        return self._vocabulary

    def _sql(self, where: Where | None) -> str | None:
        """LanceDB's own form of `where`. Values are written by LanceDB, columns are those of the table."""
        where = all_of([self.seen, where])
        return None if where is None else to_sql(where, lambda column: f"`{column}`", self._table.literal)

    async def _companion(self, name: str) -> bytes | None:
        """The file that the indexer wrote beside the data; None where there is none."""
        if self.provenance is None:
            return None
        try:
            return await asyncio.to_thread((self._place / COMPANIONS / name).read_bytes)
        except OSError:
            logger.warning("table %r: its file %s is missing; the next bedivere index writes it", self.name, name)
            return None

    async def _entries(self, layout: Layout) -> AsyncIterator[dict[str, Cell]]:
        """What a catalog is made of, a row a chunk, as far as the table has such columns."""
        there = {column.name for column in self.columns}
        parts = {
            "id": layout.id,
            "path": layout.path,
            "title": layout.title,
            "url": layout.url,
            "chunk": layout.ordinal,
        }
        parts |= {name: name for name in ("collection", "version", "status", "date", "superseded_by") if name in there}
        async for row in self._parts(parts, _MAX_CATALOGUED):
            yield row

    async def pages(self, layout: Layout, limit: int, *, where: Where | None = None) -> AsyncIterator[dict[str, Cell]]:
        """`path`, `title`, `heading`, `url`, `collection` and `version` of `limit` rows, as far as there are such."""
        parts = {"path": layout.path, "title": layout.title, "heading": layout.heading, "url": layout.url}
        there = {column.name for column in self.columns}
        parts |= {name: name for name in ("collection", "version") if name in there}
        async for row in self._parts(parts, limit, where):
            yield row

    async def _parts(
        self, parts: Mapping[str, str | None], limit: int | None, where: Where | None = None
    ) -> AsyncIterator[dict[str, Cell]]:
        """Of the first `limit` rows, or of all, the columns that `parts` names, under its names."""
        columns = {part: column for part, column in parts.items() if column}
        if not columns:
            return
        with _readable(self.name):
            selected = list(dict.fromkeys(columns.values()))
            async for batch in self._table.batches(Ask(selected, limit, self._sql(where), row_id=False)):
                values = {part: values_of(batch.column(column)) for part, column in columns.items()}
                for row in range(batch.num_rows):
                    yield {part: column[row] for part, column in values.items()}


Confined: TypeAlias = Table | Literal["all", "none"]
"""A table without some rows, or that none had to be left out, or that none was left."""


class _InUse:
    """What goes when the last of a table and its confined copies does."""


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


def _index(config: Any) -> Index:  # noqa: ANN401 - a class of the compiled core, without types
    return Index(
        column=config.columns[0],
        type=config.index_type,
        positions=bool((config.index_details or {}).get("with_position", False)),
        indexed=config.num_indexed_rows or 0,
        unindexed=config.num_unindexed_rows or 0,
    )


def _filling(known: Known | None, layout: Layout) -> Fill | None:
    """What gives the columns that `asking` left out because they are known."""
    return known.columns if known is not None and known.tells(layout) else None
