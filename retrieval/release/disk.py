"""Where synced releases lie on disk: whole or not there, one writer at a time, kept as long as somebody reads them.

FOLDER/sync.lock                 held by the process that syncs
FOLDER/<id>/                     a release, complete: it is renamed into place when all of it was verified
FOLDER/<id>/release.json         which manifest it was unpacked from
FOLDER/<id>/in-use.lock          readers hold a shared lock on it, each open table another
FOLDER/<id>.<token>.partial/     a release being unpacked, or what a crashed process left of one
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import secrets
import shutil
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Final

from retrieval.errors import BedivereError, ErrorCode
from retrieval.release.manifest import Manifest, damaged, is_release_id

MARKER: Final = "release.json"
IN_USE: Final = "in-use.lock"

MARGIN_BYTES: Final = 16 * 1024 * 1024
"""What is left free on the disk beside a release."""

_LOCK: Final = "sync.lock"
_PARTIAL: Final = ".partial"
_GONE: Final = ".gone"
_POLL_SECONDS: Final = 0.05
_CLEAR_ATTEMPTS: Final = 40
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class SyncFolder:
    """The folder that releases are copied to; made where it is missing, readable by its owner only."""

    def __init__(self, folder: Path) -> None:
        self.path = folder.expanduser().absolute()

    @contextmanager
    def locked(self, wait_seconds: float) -> Generator[None]:
        """Holds the folder against other syncs, in this process and in others. The lock dies with its process.

        Raises `BedivereError` SETTING_INVALID where the folder cannot be written, DATASET_LOADING where another
        process still syncs after `wait_seconds`.
        """
        with disk_errors():
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            give_up = time.monotonic() + wait_seconds
            while not _lock(descriptor):
                if time.monotonic() >= give_up:
                    raise BedivereError(
                        ErrorCode.DATASET_LOADING,
                        "Another process is fetching a release to the same folder; wait for it, "
                        "or give this one a folder of its own with BEDIVERE_SYNC_FOLDER.",
                    )
                time.sleep(_POLL_SECONDS)
            yield
        finally:
            os.close(descriptor)

    def find(self, manifest: Manifest) -> Path | None:
        """The release where it is here, complete and unpacked from exactly this manifest; else None."""
        place = self.path / manifest.release
        try:
            record = json.loads((place / MARKER).read_bytes())
            whole = record == _marker(manifest) and all(
                (place / file.path).stat().st_size == file.bytes for part in manifest.parts for file in part.files
            )
        except (OSError, ValueError):
            return None
        return place if whole else None

    def prepare(self, manifest: Manifest) -> Path:
        """An empty partial release with all its subfolders. Needs the lock.

        Raises `BedivereError` DATASET_TOO_LARGE, before anything is written, or RELEASE_DAMAGED for file names that no
        release has.
        """
        paths = [PurePosixPath(file.path) for part in manifest.parts for file in part.files]
        folders = {parent for path in paths for parent in path.parents}
        names = set(paths)
        if names & folders or names & {PurePosixPath(MARKER), PurePosixPath(IN_USE)}:
            raise damaged("its manifest gives a file the name of something else")
        with disk_errors(unpacking=True):
            self._check_space(manifest)
            partial = self.path / f"{manifest.release}.{secrets.token_hex(4)}{_PARTIAL}"
            partial.mkdir(mode=0o700)
            for folder in sorted(folders - {PurePosixPath()}):
                (partial / folder).mkdir(mode=0o700)
        return partial

    def place(self, partial: Path, manifest: Manifest) -> Path:
        """Makes a partial release, verified and whole, the release. Needs the lock."""
        place = self.path / manifest.release
        with disk_errors():
            (partial / IN_USE).touch(mode=0o600)
            (partial / MARKER).write_text(json.dumps(_marker(manifest)), encoding="utf-8")
            if _outlives_the_machine():
                _flush(partial)
            # Whatever stands there is damaged, or of another manifest.
            remove(place)
            partial.rename(place)
        return place

    def clear(self, *, keep: str) -> None:
        """Removes what crashed syncs left, and every release that nobody reads but `keep`. Needs the lock."""
        with suppress(OSError):
            for entry in sorted(self.path.iterdir()):
                leftover = entry.name.endswith((_PARTIAL, _GONE))
                if leftover or (is_release_id(entry.name) and entry.name != keep and not _in_use(entry)):
                    remove(entry)

    def _check_space(self, manifest: Manifest) -> None:
        largest = max((part.bytes for part in manifest.parts), default=0)
        needed = manifest.unpacked_bytes + largest + MARGIN_BYTES
        free = shutil.disk_usage(self.path).free
        if needed > free:
            raise too_large(f"it needs {_mb(needed)} MB of disk and {_mb(free)} MB are free")


def hold(place: Path) -> int:
    """A descriptor whose lock keeps the release at `place` from being cleared until it is closed."""
    with disk_errors():
        descriptor = os.open(place / IN_USE, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def remove(place: Path) -> None:
    """Removes a release or a partial one; what cannot be removed is left to the next clearing."""
    doomed = place.with_name(f"{place.name.removesuffix(_GONE)}{_GONE}")
    with suppress(OSError):
        # Renamed first: whoever opens it from now on finds nothing, rather than half of it.
        if doomed != place:
            shutil.rmtree(doomed, ignore_errors=True)
            place.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)


def clear_later(place: Path, *, keep: str) -> None:
    """Clears the folder of the release at `place`, which loses its last reader, in a thread: that one need not wait."""
    threading.Thread(target=_clear, args=(place, keep), name="bedivere-clear", daemon=True).start()


def _clear(place: Path, keep: str) -> None:
    folder = SyncFolder(place.parent)
    # The locks on it go one by one, with the objects that hold them.
    for _ in range(_CLEAR_ATTEMPTS):
        with suppress(BedivereError), folder.locked(0):
            folder.clear(keep=keep)
        if not place.exists():
            return
        time.sleep(_POLL_SECONDS)


def too_large(reason: str) -> BedivereError:
    """DATASET_TOO_LARGE, whose sentence holds `reason`."""
    return BedivereError(
        ErrorCode.DATASET_TOO_LARGE,
        f"The release does not fit the disk: {reason}. Raise the template parameter EphemeralStorageMb, "
        "or name a folder on a larger disk in BEDIVERE_SYNC_FOLDER.",
    )


@contextmanager
def disk_errors(*, unpacking: bool = False) -> Generator[None]:
    """Turns what the disk raises, whose text shows paths, into errors of ours."""
    try:
        yield
    except OSError as error:
        if unpacking and isinstance(error, FileExistsError):
            # On a disk that does not tell capitals from small letters.
            raise damaged("two of its files have the same name on this disk") from None
        if error.errno in _FULL:
            raise too_large("the disk is full") from None
        reason = os.strerror(error.errno) if error.errno else type(error).__name__
        raise BedivereError(
            ErrorCode.SETTING_INVALID,
            f"The folder for releases cannot be written ({reason}): set BEDIVERE_SYNC_FOLDER to one that can.",
        ) from None


def _marker(manifest: Manifest) -> dict[str, str]:
    return {"release": manifest.release, "manifest": hashlib.sha256(manifest.to_json()).hexdigest()}


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _in_use(place: Path) -> bool:
    try:
        descriptor = os.open(place / IN_USE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not _lock(descriptor)
    finally:
        os.close(descriptor)


def _outlives_the_machine() -> bool:
    """Whether the disk is there after a power cut: not on Lambda, where a cold start waits for nothing it can spare."""
    return "AWS_LAMBDA_FUNCTION_NAME" not in os.environ


def _flush(folder: Path) -> None:
    """Writes a folder and all below it through to the disk."""
    for place, _, names in os.walk(folder):
        for path in (*(Path(place, name) for name in names), Path(place)):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _mb(size: int) -> int:
    return -(-size // 1_000_000)
