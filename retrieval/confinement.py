"""A dataset as a caller sees it who may not see all collections: as if the others had never been indexed.

What is private is left out where rows are read, below everything that asks for them: what is built on a confined table,
be it a hit, a note, a cursor or the text of an error, cannot tell of rows that it is never given. What was counted over
the whole table when it was built, such as the vocabulary, is left out as a whole.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from retrieval.catalog import Catalog
from retrieval.database import Database, absent
from retrieval.dataset import Dataset
from retrieval.errors import BedivereError
from retrieval.look import DatasetState, SyncOutcome
from retrieval.schema import COLUMNS, Provenance
from retrieval.search.filters import AllOf, Condition, Not, Where
from retrieval.search.text import nfc
from retrieval.search.visible import on_one_line
from retrieval.settings import Settings
from retrieval.table import Confined, Table

MAX_KEPT: Final = 8
"""Of a table, the parts of it that are kept for the next call: there may be one for each set of scopes."""

COLUMN: Final = "collection"
"""The column that says which collection a row is of."""


@dataclass(frozen=True, slots=True)
class ConfinedDataset:
    """`dataset` without the rows of the collections in `hidden`."""

    dataset: Dataset
    settings: Settings
    hidden: frozenset[str]

    def start(self) -> None:
        self.dataset.start()

    async def current(self, *, wait_seconds: float | None = None) -> Database:
        return self._confined(await self.dataset.current(wait_seconds=wait_seconds))

    def served(self) -> Database:
        return self._confined(self.dataset.served())

    def state(self) -> DatasetState:
        # How much was fetched, and for how long, is of what is private too.
        return replace(self.dataset.state(), sync_bytes=None, sync_milliseconds=None)

    def for_call(self, wait_seconds: float | None) -> Dataset:
        return replace(self, dataset=self.dataset.for_call(wait_seconds))

    def listen(self, listener: Callable[[SyncOutcome], None]) -> None:
        self.dataset.listen(listener)

    def _confined(self, database: Database) -> Database:
        return ConfinedDatabase(database, self.hidden, self.settings.text_column)


class ConfinedDatabase(Database):
    """The tables of `whole` that hold anything that may be seen, each without what may not."""

    def __init__(self, whole: Database, hidden: frozenset[str], text_column: str) -> None:
        super().__init__(None)
        self._whole = whole
        self._hidden = hidden
        self._text_column = text_column

    def names(self) -> list[str]:
        raise AssertionError("which tables may be seen is known once they are open: ask for `listed`")

    async def listed(self) -> list[str]:
        return [name for name in self._whole.names() if await self._is_seen(name)]

    async def table(self, name: str) -> Table:
        table = await self._seen(name) if name in self._whole.names() else None
        if table is None:
            raise absent(name, await self.listed())
        return table

    async def _is_seen(self, name: str) -> bool:
        try:
            return await self._seen(name) is not None
        except BedivereError:
            # What cannot be read may be private.
            return False

    async def _seen(self, name: str) -> Table | None:
        table = await self._whole.table(name)
        seen = table.confined.get(self._hidden)
        if seen is None:
            seen = await confine(table, self._hidden, self._text_column)
            while len(table.confined) >= MAX_KEPT:
                table.confined.pop(next(iter(table.confined)))
            table.confined[self._hidden] = seen
        match seen:
            case "all":
                return table
            case "none":
                return None
            case confined:
                return confined


async def confine(table: Table, hidden: frozenset[str], text_column: str) -> Confined:
    """`table` without the rows of the collections in `hidden`, however their names are written.

    "all" where nothing has to be left out of it, "none" where nothing is left or where it cannot be told.
    """
    column = next((column for column in table.columns if column.name == COLUMN), None)
    if column is None:
        # Whether a column of another spelling was meant cannot be told.
        return "none" if any(its.name.casefold() == COLUMN for its in table.columns) else "all"
    if column.kind != "text":
        return "none"
    meant = {_folded(name) for name in hidden}
    private = tuple(sorted(name for name in await table.distinct(COLUMN) if _folded(name) in meant))
    if not private:
        return "all"
    seen = Not(Condition(COLUMN, "in", private))
    rows = await table.matching(seen)
    if not rows:
        return "none"
    confined = table.limited_to(seen)
    told = await asyncio.gather(*(_is_told(table, column.name, seen) for column in table.columns))
    confined.columns = [column for column, its in zip(table.columns, told, strict=True) if its]
    confined.indexes = [replace(index, indexed=rows, unindexed=0) for index in table.indexes]
    confined.provenance = _provenance(table.provenance, private) if table.provenance else None
    # Recall, and what is near in meaning, were measured over all rows.
    confined.measured = {name: {} for name in table.measured}
    await _leave_out_companions(confined, table, frozenset(private), text_column)
    return confined


def _folded(name: str) -> str:
    """The same for every way to write `name` that looks the same, or differs in capitals or in spaces only."""
    return " ".join(nfc(nfc(on_one_line(name)).casefold()).split())


async def _is_told(table: Table, name: str, seen: Where) -> bool:
    """Whether a row that is seen says anything in the column `name`: of one that only others fill, the name tells."""
    if name in COLUMNS or name in table.vectors:
        return True
    # What no condition can name is shown nowhere.
    return "`" not in name and await table.matching(AllOf((seen, Condition(name, "exists", True)))) > 0


def _provenance(record: Provenance, private: tuple[str, ...]) -> Provenance:
    """`record` without counts, and with a corpus version of what is seen, so that cursors are of that alone."""
    source = {name: value for name, value in record.source.items() if name == "revision"}
    told = "\0".join((record.corpus_version, *private)).encode()
    return replace(record, source=source, corpus_version=hashlib.sha256(told).hexdigest())


async def _leave_out_companions(confined: Table, table: Table, private: frozenset[str], text_column: str) -> None:
    """The catalog without the documents of `private`, and no vocabulary: its frequencies are of all rows."""
    catalog = None
    if table.provenance is not None:
        catalog = _without(await table.catalog(table.layout(text_column)), private)
    # The catalog of a table of others is made anew, of the rows that are seen.
    confined.companions(catalog, None)


def _without(catalog: Catalog, private: frozenset[str]) -> Catalog:
    kept = [place for place, name in enumerate(catalog.columns[COLUMN]) if name not in private]
    columns = {name: [values[place] for place in kept] for name, values in catalog.columns.items()}
    rows = catalog.rows and replace(catalog.rows, seen=frozenset(kept))
    return replace(catalog, columns=columns, rows=rows)
