"""Where a table's generations lie on disk: one writer at a time, an atomic swap, and what earlier runs left behind.

    DATABASE/documents.lance -> .bedivere/documents/<generation>/documents.lance
    DATABASE/.bedivere/documents/<generation>/in-use.lock     readers hold a shared lock on it
    DATABASE/.bedivere/documents.lock                         the writer's lock

A generation is never changed once the link points at it, so a reader sees one whole table or another.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Final

from retrieval.errors import BedivereError, ErrorCode

FOLDER: Final = ".bedivere"
IN_USE: Final = "in-use.lock"
STATE: Final = "state.json"

_ATTEMPTS: Final = 10
_ASIDE: Final = ".aside"
_TABLE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class TableFolder:
    """One table of a database folder, as its indexer sees it."""

    def __init__(self, database: Path, table: str) -> None:
        """Raises `INVALID_ARGUMENT` for a name that is no plain table name; touches nothing on disk."""
        if not _TABLE_NAME.fullmatch(table):
            raise BedivereError(
                ErrorCode.INVALID_ARGUMENT,
                "A table's name is 1 to 64 letters, digits, '-' and '_', and starts with a letter or digit.",
            )
        self.table = table
        self.database = database.absolute()
        self.link = self.database / f"{table}.lance"
        self.generations = self.database / FOLDER / table
        self.lock_file = self.database / FOLDER / f"{table}.lock"

    @contextmanager
    def locked(self) -> Generator[None]:
        """Holds the table against other indexers; creates the database folder where it is missing.

        Raises `INDEX_LOCKED` at once when another process holds it. The lock dies with its process. What was created
        for a run that fails before the first table goes again.
        """
        places = (self.database, *self.database.parents)
        missing = list(takewhile(lambda folder: not folder.exists(), places))
        if not places[len(missing)].is_dir():
            raise BedivereError(
                ErrorCode.BUILD_FAILED, "A file stands where the database folder should be: name another folder."
            )
        try:
            descriptor = self._acquired()
        except OSError as error:
            raise BedivereError(
                ErrorCode.BUILD_FAILED, f"The database folder cannot be written: {error.strerror}."
            ) from error
        try:
            self.generations.mkdir(exist_ok=True)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
            yield
        except BaseException:
            self._withdraw(missing)
            raise
        finally:
            os.close(descriptor)

    def _acquired(self) -> int:
        """The lock file, opened and locked."""
        for _attempt in range(_ATTEMPTS):
            try:
                self.generations.mkdir(parents=True, exist_ok=True)
                descriptor = os.open(self.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            except FileNotFoundError:
                # A run that failed took the folder away just now.
                continue
            if not _lock(descriptor):
                holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
                os.close(descriptor)
                raise BedivereError(
                    ErrorCode.INDEX_LOCKED,
                    f"Process {holder} is indexing into table '{self.table}': wait until it has ended.",
                )
            if self._is_lock_file(descriptor):
                return descriptor
            os.close(descriptor)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    def _is_lock_file(self, descriptor: int) -> bool:
        """Whether the open file still has its name: a run that failed may have removed it before it let go."""
        try:
            return os.path.samestat(os.fstat(descriptor), self.lock_file.stat())
        except FileNotFoundError:
            return False

    def _withdraw(self, missing: list[Path]) -> None:
        """Removes the table's empty folders, its lock, and those of `missing` that are empty. Needs the lock."""
        with suppress(OSError):
            self.generations.rmdir()
            self.lock_file.unlink()
            self.lock_file.parent.rmdir()
            for folder in missing:
                folder.rmdir()

    def current(self) -> Path | None:
        """The generation that the link points at; None where there is none, or another's table stands there."""
        generation = self._target()
        return generation if generation is not None and generation.is_dir() else None

    def is_foreign(self) -> bool:
        """Whether something stands at the table's place that no run of the indexer put there."""
        return os.path.lexists(self.link) and self._target() is None

    def create(self) -> Path:
        """A fresh generation, empty but for the file that its readers will lock."""
        name = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"
        generation = self.generations / name
        generation.mkdir()
        (generation / IN_USE).touch()
        return generation

    def place(self, generation: Path) -> None:
        """Makes `generation` the table, in one step that no crash can halve; flushes it to disk before.

        Another's table in the way is moved aside, to go with the next clearing.
        """
        fresh = generation / "link"
        fresh.symlink_to(Path(FOLDER, self.table, generation.name, self.link.name))
        flush(generation)
        flush_folder(self.generations)
        try:
            if self.link.exists() and not self.link.is_symlink():
                aside = self.generations / f"{generation.name}{_ASIDE}"
                aside.mkdir()
                self.link.rename(aside / self.link.name)
            fresh.replace(self.link)
        except BaseException:
            self._restore()
            raise
        flush_folder(self.database)

    def clear(self) -> None:
        """Removes what earlier runs left, but for generations that a reader still holds. Needs the lock."""
        self._restore()
        current = self._target()
        for leftover in sorted(self.generations.iterdir()):
            if leftover != current:
                remove(leftover)

    def _target(self) -> Path | None:
        """The generation named by the link, whether it exists or not; None where the link is not one of ours."""
        try:
            parts = self.link.readlink().parts
        except OSError:
            return None
        if len(parts) != 4 or parts[:2] != (FOLDER, self.table) or parts[3] != self.link.name or parts[2] == "..":
            return None
        return self.generations / parts[2]

    def _restore(self) -> None:
        """Puts another's table back, when a run ended after it was moved aside and before ours took its place."""
        for aside in sorted(self.generations.glob(f"*{_ASIDE}")):
            moved = aside / self.link.name
            if moved.exists() and not os.path.lexists(self.link):
                moved.rename(self.link)
                aside.rmdir()


def remove(generation: Path) -> None:
    """Removes a generation unless a reader holds it; what cannot be removed is left for the next run."""
    with suppress(OSError):
        if not generation.is_dir() or generation.is_symlink():
            generation.unlink()
            return
    descriptor = None
    try:
        with suppress(FileNotFoundError):
            descriptor = os.open(generation / IN_USE, os.O_RDWR | os.O_CLOEXEC)
            if not _lock(descriptor):
                return
        # Renamed first: whoever opens the table from now on finds nothing, rather than half of it.
        doomed = generation.with_name(f"{generation.name.removesuffix('.gone')}.gone")
        generation.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)
    except OSError:
        return
    finally:
        if descriptor is not None:
            os.close(descriptor)


def flush(folder: Path) -> None:
    """Writes every file and folder under `folder` through to the disk."""
    for place, _folders, files in os.walk(folder):
        for name in files:
            file = Path(place, name)
            if not file.is_symlink():
                with file.open("rb") as stream:
                    os.fsync(stream.fileno())
        flush_folder(Path(place))


def flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Takes the exclusive lock if nobody holds the file; never waits."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
