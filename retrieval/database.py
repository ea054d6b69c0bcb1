"""A folder of tables: which there are, and the state of one that a question is answered from."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from retrieval.core import Api
from retrieval.errors import BedivereError, ErrorCode
from retrieval.notes import Advice
from retrieval.table import SUFFIX, Fingerprint, Table

# A table that is replaced more often than this while it is opened is not worth waiting for.
_ATTEMPTS: Final = 3
_NAMED_TABLES: Final = 20

T = TypeVar("T")


class Database:
    """A folder of tables. Costs nothing until it is asked, so that a server starts without one."""

    def __init__(self, folder: str | None, api: Api = "auto") -> None:
        # A relative path that starts with "db" is taken for LanceDB Cloud, and connecting creates a missing folder.
        self._folder = Path(os.path.expanduser(folder)).absolute() if folder else None  # noqa: PTH111 - never raises
        self._api: Api = api
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
        return sorted(entry.name.removesuffix(SUFFIX) for entry in entries if _is_table(entry))

    async def listed(self) -> list[str]:
        """The tables there are for whoever asks. Raises what `names` raises."""
        return self.names()

    async def table(self, name: str) -> Table:
        """The table called `name`, opened again if its files were replaced since.

        Raises `BedivereError`: what `names` raises, TABLE_NOT_FOUND or TABLE_UNREADABLE.
        """
        table = self._open.get(name)
        if table is not None and self._stands(table):
            return table
        for attempt in range(1, _ATTEMPTS + 1):
            place, fingerprint = self._find(name)
            table = self._open.get(name)
            if table is not None and table.fingerprint == fingerprint:
                return table
            try:
                table = await Table.open(name, place, fingerprint, self._api)
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

    def _stands(self, table: Table) -> bool:
        """Whether `table`, found before, is still what stands at its name: one look, on the way of each call."""
        try:
            versions = os.stat(f"{self._folder}/{table.name}{SUFFIX}/_versions")  # noqa: PTH116 - a fifth of Path's time
        except OSError:
            return False
        return (versions.st_ino, versions.st_mtime_ns) == table.fingerprint[1:]

    def _find(self, name: str) -> tuple[Path, Fingerprint]:
        """Where the table called `name` stands now, and what tells that state of it from any other."""
        # The name is a caller's: it reaches the file system only as one of the names that are there.
        names = self.names()
        if name not in names:
            raise absent(name, names)
        # A table of ours is a link to the folder of one build; opened there, it outlives the link's next target.
        place = (self._place() / f"{name}{SUFFIX}").resolve()
        return place, _fingerprint(place)

    def _place(self) -> Path:
        if self._folder is None:
            raise BedivereError(
                ErrorCode.DATABASE_NOT_SET,
                f"No database is configured: {Advice.SET_DATABASE} to the folder that bedivere index wrote.",
            )
        return self._folder


def absent(name: str, names: Sequence[str]) -> BedivereError:
    """TABLE_NOT_FOUND for `name`, where there are `names`."""
    known = ", ".join(map(repr, names[:_NAMED_TABLES])) or "none, bedivere index makes one"
    return BedivereError(ErrorCode.TABLE_NOT_FOUND, f"There is no table {name[:100]!r}; the database has: {known}.")


def _is_table(entry: Path) -> bool:
    # A name that is not text cannot be asked for, nor be written into an answer.
    named = entry.name.endswith(SUFFIX) and not entry.name.startswith(".") and entry.name.isprintable()
    return named and entry.is_dir()


def _fingerprint(place: Path) -> Fingerprint:
    """Changes when another table stands at `place`, or another version of the same one."""
    try:
        versions = (place / "_versions").stat()
    except OSError:
        return (str(place), 0, 0)
    return (str(place), versions.st_ino, versions.st_mtime_ns)
