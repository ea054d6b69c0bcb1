"""A plain folder as a store of releases, so that every step can be run on a laptop.

A tag is the SHA-256 of the content. What is written appears whole, by a rename, or not at all.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from retrieval.errors import BedivereError, ErrorCode
from retrieval.release.faults import Denied
from retrieval.release.store import Conflict, Fetched, OnSent, Stored, TooLarge

_UNFINISHED: Final = ".unfinished"
_LOCK: Final = ".lock"
_COPIED_AT_ONCE: Final = 1 << 20


class FolderStore:
    """Objects are files below `folder`, which must exist. Serving needs no right to write."""

    def __init__(self, folder: Path) -> None:
        self.uri = folder.as_uri()
        self._folder = folder

    def get(self, key: str, *, unless_tag: str | None = None, max_bytes: int) -> Fetched | None:
        with self._known(key), self._file(key).open("rb") as stream:
            data = stream.read(max_bytes + 1)
            if len(data) > max_bytes:
                stream.seek(0)
                raise TooLarge(key, hashlib.file_digest(stream, "sha256").hexdigest())
        tag = hashlib.sha256(data).hexdigest()
        return None if tag == unless_tag else Fetched(data, tag)

    def stream(self, key: str, *, chunk_bytes: int = 1 << 20) -> Iterator[bytes]:
        with self._known(key):
            stream = self._file(key).open("rb")
        return self._chunks(stream, chunk_bytes)

    def close(self) -> None:
        pass

    def _chunks(self, stream: BinaryIO, chunk_bytes: int) -> Iterator[bytes]:
        with self._known(), stream:
            left = os.fstat(stream.fileno()).st_size
            while data := stream.read(chunk_bytes):
                left -= len(data)
                yield data
            if left:
                raise OSError(0, "the file became shorter")

    def put(
        self, key: str, data: bytes, *, if_tag: str | None = None, if_absent: bool = False, private: bool = False
    ) -> str:
        with self._known(), self._locked():
            if if_tag or if_absent:
                file = self._file(key)
                if (_tag(file) if file.is_file() else None) != if_tag:
                    raise Conflict(key)
            with self._written(key, mode=0o600 if private else 0o666) as target:
                target.write(data)
        return hashlib.sha256(data).hexdigest()

    def upload(self, key: str, file: Path, *, sha256: str, on_sent: OnSent | None = None) -> None:
        with self._known(), file.open("rb") as source, self._written(key) as target:
            while data := source.read(_COPIED_AT_ONCE):
                target.write(data)
                if on_sent:
                    on_sent(len(data))
        if not self.holds(key, size=file.stat().st_size, sha256=sha256):
            raise BedivereError(
                ErrorCode.STORE_UNREACHABLE, "What arrived in the folder of releases is not what was sent: try again."
            )

    def size(self, key: str) -> int | None:
        try:
            with self._known(key):
                return self._file(key).stat().st_size
        except KeyError:
            return None

    def holds(self, key: str, *, size: int, sha256: str) -> bool:
        if self.size(key) != size:
            return False
        with self._known(), self._file(key).open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest() == sha256

    def list(self, prefix: str) -> Iterable[Stored]:
        found: list[Stored] = []
        with self._known():
            self._check()
            for place, folders, files in os.walk(self._folder / prefix.rpartition("/")[0]):
                folders[:] = [name for name in folders if not name.startswith(".")]
                for name in files:
                    file = Path(place, name)
                    key = file.relative_to(self._folder).as_posix()
                    if key.startswith(prefix) and not name.startswith("."):
                        # It may be deleted meanwhile.
                        with suppress(FileNotFoundError):
                            status = file.stat()
                            modified = datetime.fromtimestamp(status.st_mtime, UTC)
                            found.append(Stored(key, status.st_size, modified))
        return sorted(found, key=lambda stored: stored.key)

    def delete(self, keys: Iterable[str]) -> None:
        with self._known():
            self._check()
            for key in keys:
                file = self._file(key)
                file.unlink(missing_ok=True)
                # A folder that others still use is not empty.
                with suppress(OSError):
                    file.parent.rmdir()

    def abandon(self, prefix: str, before: datetime) -> int:
        # Where they were to go is not known of them; nobody else writes here.
        del prefix
        removed = 0
        with self._known():
            self._check()
            for file in (self._folder / _UNFINISHED).glob("*"):
                with suppress(FileNotFoundError):
                    if file.stat().st_mtime < before.timestamp():
                        file.unlink()
                        removed += 1
        return removed

    def _file(self, key: str) -> Path:
        parts = PurePosixPath(key).parts
        if not parts or key.startswith("/") or any(part.startswith(".") for part in parts):
            raise ValueError(f"not a key: {key!r}")
        return self._folder.joinpath(*parts)

    def _check(self) -> None:
        if not self._folder.is_dir():
            raise BedivereError(
                ErrorCode.STORE_NOT_FOUND, "The folder of releases does not exist: check the address, or make it first."
            )

    @contextmanager
    def _locked(self) -> Generator[None]:
        """Holds the folder against other writers of small objects; the lock dies with its process."""
        # Imported here: only writers need it, and there is none where there is no POSIX.
        import fcntl

        self._check()
        descriptor = os.open(self._folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    @contextmanager
    def _written(self, key: str, *, mode: int = 0o666) -> Generator[BinaryIO]:
        """A file to write that becomes the object once it is written and on the disk."""
        self._check()
        unfinished = self._folder / _UNFINISHED / secrets.token_hex(8)
        unfinished.parent.mkdir(exist_ok=True)
        try:
            descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
            with os.fdopen(descriptor, "wb") as target:
                yield target
                target.flush()
                os.fsync(target.fileno())
            file = self._file(key)
            # A deletion may remove the empty folder between the two.
            for last in (False, True):
                self._make(file.parent)
                try:
                    unfinished.replace(file)
                    break
                except FileNotFoundError:
                    if last:
                        raise
            _flush(file.parent)
        finally:
            unfinished.unlink(missing_ok=True)

    def _make(self, place: Path) -> None:
        """Makes a folder where it is missing, with those above it; a power cut does not lose it any more."""
        if place != self._folder and not place.is_dir():
            self._make(place.parent)
            place.mkdir(exist_ok=True)
            _flush(place.parent)

    @contextmanager
    def _known(self, key: str | None = None) -> Generator[None]:
        """Makes one of ours of what the file system says; `KeyError` where it is the object `key` that is absent."""
        try:
            yield
        except PermissionError:
            raise Denied("The folder of releases may not be read or written: check its permissions.") from None
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
            self._check()
            if key is not None:
                raise KeyError(key) from None
            raise self._failure(error) from None
        except OSError as error:
            raise self._failure(error) from None

    def _failure(self, error: OSError) -> BedivereError:
        return BedivereError(
            ErrorCode.STORE_UNREACHABLE,
            f"The folder of releases cannot be read or written ({error.strerror or type(error).__name__}).",
        )


def _tag(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _flush(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
