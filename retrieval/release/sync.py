"""Copies a release from its store to this machine's disk, whole or not at all, and reads the pointer that names it.

Parts are fetched side by side and unpacked as they arrive. The release takes its place only when every part had its
checksum and every file its size, so whatever fails leaves nothing behind that could be served.
"""

from __future__ import annotations

import queue
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

from retrieval.errors import BedivereError, ErrorCode
from retrieval.release.disk import SyncFolder, disk_errors
from retrieval.release.manifest import MAX_POINTER_BYTES, POINTER_KEY, Manifest, Part, Pointer, damaged
from retrieval.release.store import Reader
from retrieval.release.unpack import unpack

PARALLEL: Final = 4
"""Parts that are fetched at once."""

_CHUNK_BYTES: Final = 1 << 17
# A slower store than this, over a whole stall, is one that does not answer.
_STALL_BYTES: Final = 1 << 16
# The others see the end at their next chunk; one that never gets it is left behind.
_JOIN_SECONDS: Final = 0.5

T = TypeVar("T")
Progress = Callable[[int, int], None]
"""Called with packed bytes so far and packed bytes in all, from whichever thread fetched them."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a sync waits for what; in seconds."""

    stall: float = 20.0
    """Without 64 KB of progress in this time the store counts as unreachable."""
    pointer: float = 10.0
    lock: float = 60.0
    attempts: int = 3
    """Times that a part is fetched before its failure is the sync's."""
    pause: float = 0.5
    """Before the second attempt; doubled for each further one."""


@dataclass(frozen=True, slots=True)
class SyncFigures:
    """What a sync cost."""

    release: str
    seconds: float
    bytes: int
    """Packed bytes that were fetched; 0 where the release was here already."""
    unpacked_bytes: int
    reused: bool


class PartMissing(BedivereError):
    """A part that the manifest names is not in the store: damaged, or pruned while it was being fetched."""

    def __init__(self) -> None:
        lost = damaged("a part of it is missing in the store")
        super().__init__(lost.code, lost.sentence)


class _Stopped(Exception):
    """Another part failed, or nobody waits for this one any more."""


def read_pointer(
    store: Reader, *, unless_tag: str | None = None, patience: Patience | None = None
) -> tuple[Pointer, str] | None:
    """The current release and the pointer's tag; None where the tag is still `unless_tag`.

    Raises `BedivereError`: RELEASE_NOT_FOUND, RELEASE_DAMAGED, RELEASE_TOO_NEW, or a code of the store.
    """

    def get() -> tuple[Pointer, str] | None:
        try:
            found = store.get(POINTER_KEY, unless_tag=unless_tag, max_bytes=MAX_POINTER_BYTES)
        except KeyError:
            raise BedivereError(
                ErrorCode.RELEASE_NOT_FOUND,
                "Nothing has been published there yet: run bedivere publish, or check BEDIVERE_DATASET.",
            ) from None
        return None if found is None else (Pointer.from_json(found.data), found.tag)

    wait = (patience or Patience()).pointer
    call = _Call(get)
    if not _patiently(call.done, wait, lambda: 0):
        raise _unreachable(f"did not answer within {wait:g} seconds")
    return call.result()


def fetch(
    store: Reader,
    manifest: Manifest,
    folder: Path,
    *,
    on_progress: Progress | None = None,
    patience: Patience | None = None,
) -> SyncFigures:
    """Makes the release of `manifest` stand, complete, at `folder`/<id>; one that is there already is not fetched.

    The caller holds `folder` locked, see `SyncFolder`. Raises `BedivereError`: DATASET_TOO_LARGE before a byte is
    fetched or when the disk fills, RELEASE_DAMAGED (`PartMissing` where a part is not in the store), SETTING_INVALID
    for a folder that cannot be written, or a code of the store.
    """
    patience = patience or Patience()
    started = time.monotonic()
    releases = SyncFolder(folder)
    reused = releases.find(manifest) is not None
    if not reused:
        partial = releases.prepare(manifest)
        try:
            _Download(store, manifest, partial, on_progress, patience).run()
            releases.place(partial, manifest)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    return SyncFigures(
        release=manifest.release,
        seconds=time.monotonic() - started,
        bytes=0 if reused else manifest.packed_bytes,
        unpacked_bytes=manifest.unpacked_bytes,
        reused=reused,
    )


class _Download:
    """All parts of one release into one folder, by a few threads that end with the first failure."""

    def __init__(
        self, store: Reader, manifest: Manifest, folder: Path, on_progress: Progress | None, patience: Patience
    ) -> None:
        self._store = store
        self._manifest = manifest
        self._folder = folder
        self._on_progress = on_progress
        self._patience = patience
        self._parts: queue.SimpleQueue[Part] = queue.SimpleQueue()
        for part in sorted(manifest.parts, key=lambda part: -part.bytes):
            self._parts.put(part)
        self._lock = threading.Lock()
        self._received = 0
        self._left = len(manifest.parts)
        self._failure: BaseException | None = None
        self._over = threading.Event()

    def run(self) -> None:
        """Returns when every part is unpacked and verified; raises the first failure."""
        if self._left == 0:
            return
        # Daemons: a process that ends does not wait for a store that drips.
        workers = [
            threading.Thread(target=self._work, name=f"bedivere-part-{number}", daemon=True)
            for number in range(min(PARALLEL, self._left))
        ]
        for worker in workers:
            worker.start()
        if not _patiently(self._over, self._patience.stall, lambda: self._received):
            self._end(_unreachable(f"sent next to nothing for {self._patience.stall:g} seconds"))
        give_up = time.monotonic() + _JOIN_SECONDS
        for worker in workers:
            worker.join(max(0.0, give_up - time.monotonic()))
        if self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        while not self._over.is_set():
            try:
                part = self._parts.get_nowait()
            except queue.Empty:
                return
            try:
                self._fetch(part)
            except BaseException as error:  # noqa: BLE001, RUF100 - handed to the thread that waits
                self._end(error)
                return
            with self._lock:
                self._left -= 1
                last = self._left == 0
            if last:
                self._end(None)

    def _fetch(self, part: Part) -> None:
        pause = self._patience.pause
        for attempt in range(1, self._patience.attempts + 1):
            try:
                with disk_errors(unpacking=True):
                    unpack(self._chunks(part), part, self._folder)
                return
            except BedivereError as error:
                if error.code is not ErrorCode.STORE_UNREACHABLE or attempt == self._patience.attempts:
                    raise
            for file in part.files:
                (self._folder / file.path).unlink(missing_ok=True)
            if self._over.wait(pause):
                raise _Stopped
            pause *= 2

    def _chunks(self, part: Part) -> Iterator[bytes]:
        try:
            for chunk in self._store.stream(part.key, chunk_bytes=_CHUNK_BYTES):
                if self._over.is_set():
                    raise _Stopped
                with self._lock:
                    self._received += len(chunk)
                    received = self._received
                if self._on_progress is not None:
                    self._on_progress(min(received, self._manifest.packed_bytes), self._manifest.packed_bytes)
                yield chunk
        except KeyError:
            raise PartMissing from None
        except OSError:
            raise _unreachable("broke off while it sent a part") from None

    def _end(self, failure: BaseException | None) -> None:
        with self._lock:
            if not self._over.is_set():
                self._failure = failure
                self._over.set()


class _Call(Generic[T]):
    """A call in a thread of its own, so that it can be left alone when it does not return."""

    def __init__(self, function: Callable[[], T]) -> None:
        self.done = threading.Event()
        self._function = function
        self._result: T | None = None
        self._failure: BaseException | None = None
        threading.Thread(target=self._run, name="bedivere-pointer", daemon=True).start()

    def _run(self) -> None:
        try:
            self._result = self._function()
        except BaseException as error:  # noqa: BLE001, RUF100 - raised where the result is asked for
            self._failure = error
        self.done.set()

    def result(self) -> T:
        if self._failure is not None:
            raise self._failure
        return self._result  # type: ignore[return-value] # None only where T has it


def _patiently(done: threading.Event, seconds: float, progress: Callable[[], int]) -> bool:
    """Whether `done` comes before `seconds` pass without `progress` growing by `_STALL_BYTES`.

    Lambda freezes a process between invocations, for minutes: time is counted in ticks in which it ran.
    """
    tick = min(0.25, seconds / 4)
    seen, waited = progress(), 0.0
    while waited < seconds:
        if done.wait(tick):
            return True
        waited += tick
        if progress() - seen >= _STALL_BYTES:
            seen, waited = progress(), 0.0
    return done.is_set()


def _unreachable(what: str) -> BedivereError:
    return BedivereError(
        ErrorCode.STORE_UNREACHABLE, f"The store {what}: check the network and the address in BEDIVERE_DATASET."
    )
