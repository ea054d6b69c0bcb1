"""Which database answers now: a folder, or the current release of a store, synced and swapped while it serves.

Imports nothing heavy, so that a cold start can begin the first sync before it imports the rest.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import os
import threading
import time
import traceback
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from retrieval.errors import BedivereError, ErrorCode
from retrieval.look import Attempt, DatasetState, Look, SyncOutcome, seconds_of

if TYPE_CHECKING:
    from retrieval.core import Api
    from retrieval.database import Database
    from retrieval.release.serving import Serving
    from retrieval.release.store import Reader
    from retrieval.release.sync import Patience
    from retrieval.settings import Settings

logger: Final = logging.getLogger("bedivere")

_SCHEMES: Final = ("s3://", "file://")

# Lambda stops every thread between invocations: there a call lends a sync some of its time, so that it gets on.
_LEND_SECONDS: Final = 1.0
_MAX_UNHEARD: Final = 100


class Dataset(Protocol):
    """Where the database of the next question comes from."""

    def start(self) -> None:
        """Begins what takes time, in a thread. Cheap, may be called often, never raises."""
        ...

    async def current(self, *, wait_seconds: float | None = None) -> Database:
        """The database to put one question to; it stays whole and the same as long as it is held.

        Waits at most `wait_seconds` for the first sync, or as the settings say. Raises `BedivereError` DATASET_LOADING
        where it still runs then, DATASET_UNAVAILABLE where it failed.
        """
        ...

    def served(self) -> Database:
        """The database there is now, without waiting. Raises what `current` raises."""
        ...

    def state(self) -> DatasetState:
        """What serves, for status and telemetry."""
        ...

    def for_call(self, wait_seconds: float | None) -> Dataset:
        """This dataset as one call sees it: what it finds first stays, its state included, whatever takes over.

        Its waiting ends `wait_seconds` from now at the latest; with None the settings alone bound it.
        """
        ...

    def listen(self, listener: Callable[[SyncOutcome], None]) -> None:
        """Tells `listener` of every sync from now on, in the sync's thread, and of those that nobody heard of yet."""
        ...


def open_dataset(settings: Settings) -> Dataset:
    """The dataset that the settings name. Touches neither disk nor network and never fails."""
    if (settings.database or "").startswith(_SCHEMES):
        return ReleasedDataset(settings)
    return LocalDataset(settings.database, settings.lancedb_api)


class LocalDataset:
    """A folder of tables, served as it stands."""

    def __init__(self, folder: str | None, api: Api = "auto") -> None:
        self._folder = folder
        self._api: Api = api
        self._database: Database | None = None

    def start(self) -> None:
        """Nothing takes time."""

    async def current(self, *, wait_seconds: float | None = None) -> Database:
        """The folder's database."""
        del wait_seconds
        return self.served()

    def served(self) -> Database:
        """The folder's database."""
        if self._database is None:
            from retrieval.database import Database

            self._database = Database(self._folder, self._api)
        return self._database

    def state(self) -> DatasetState:
        """That a folder serves."""
        return DatasetState(from_releases=False)

    def for_call(self, wait_seconds: float | None) -> Dataset:
        """The folder itself: nothing is waited for, and it has no release."""
        del wait_seconds
        return self

    def listen(self, listener: Callable[[SyncOutcome], None]) -> None:
        """Nothing is ever synced."""
        del listener


class ReleasedDataset:
    """The current release of a store. The first is waited for; later ones take over while the old one serves."""

    def __init__(
        self,
        settings: Settings,
        *,
        make_store: Callable[[], Reader] | None = None,
        patience: Patience | None = None,
        first_pause: float = 1.0,
        last_pause: float = 60.0,
    ) -> None:
        self._settings = settings
        self._uri = settings.database or ""
        self._on_lambda = "AWS_LAMBDA_FUNCTION_NAME" in os.environ
        self._folder = sync_folder(settings)
        self._make_store = make_store
        self.patience = patience
        """How long a sync waits for what; None means as `Patience` says."""
        self._first_pause = first_pause
        self._last_pause = last_pause
        self._lock = threading.Lock()
        self._store: Reader | None = None
        self._serving: Serving | None = None
        self._attempt: Attempt | None = None
        self._failure: BedivereError | None = None
        self._due = self._due_by_the_clock = 0.0
        self._failures_in_row = 0
        self._syncs = 0
        self._failures = 0
        self._listener: Callable[[SyncOutcome], None] | None = None
        self._unheard: list[SyncOutcome] = []

    def start(self) -> None:
        """Begins the first sync, or whatever else is due."""
        self._begin()

    async def current(self, *, wait_seconds: float | None = None) -> Database:
        """The database of the release that serves; see `Dataset`."""
        return (await self.look_patiently(wait_seconds)).database()

    def served(self) -> Database:
        """The database of the release that serves; see `Dataset`."""
        self._begin()
        return self.look().database()

    def state(self) -> DatasetState:
        """What serves, and how the last sync went."""
        return self.look().state()

    def for_call(self, wait_seconds: float | None) -> Dataset:
        """See `Dataset`."""
        return _DatasetOfCall(self, wait_seconds)

    def look(self) -> Look:
        """All that is known now, of one moment."""
        with self._lock:
            return Look(self._serving, self._attempt, self._failure, self._due, self._syncs, self._failures)

    async def look_patiently(self, wait_seconds: float | None, until: float = math.inf) -> Look:
        """What is known once the first sync is over or `wait_seconds` have passed, by `until` at the latest."""
        attempt = self._begin()
        if attempt is not None:
            seconds = 0.0
            if self._serving is None:
                seconds = self._settings.dataset_wait_seconds if wait_seconds is None else wait_seconds
            elif self._on_lambda and attempt.received > attempt.received_before:
                # A call whose time bought nothing is the last to be held up.
                attempt.received_before = attempt.received
                seconds = _LEND_SECONDS
            await _wait(attempt, min(seconds, until - time.monotonic()))
        return self.look()

    def listen(self, listener: Callable[[SyncOutcome], None]) -> None:
        """See `Dataset`."""
        with self._lock:
            self._listener = listener
            unheard, self._unheard = self._unheard, []
        for outcome in unheard:
            listener(outcome)

    def _begin(self) -> Attempt | None:
        """The attempt that runs, which begins now if one is due; None where none is."""
        with self._lock:
            if self._attempt is not None:
                return self._attempt
            # Of an instance that was frozen the monotonic clock may have stood still, and the other may be set.
            if time.monotonic() < self._due and time.time() < self._due_by_the_clock:
                return None
            attempt = self._attempt = Attempt()
        # It must not be cancelled with the call that waits for it.
        attempt.done.set_running_or_notify_cancel()
        threading.Thread(target=self._run, args=(attempt,), name="bedivere-sync", daemon=True).start()
        return attempt

    def _run(self, attempt: Attempt) -> None:
        before, fresh, failure = self._serving, None, None
        try:
            fresh = self._bring(attempt)
        except BedivereError as error:
            failure = BedivereError(error.code, error.sentence)
            _let_go(error)
        except Exception as error:
            logger.exception("The sync failed")
            _let_go(error)
            failure = BedivereError(
                ErrorCode.INTERNAL_ERROR, "The sync failed by a fault of Bedivere; see the server's log."
            )
        if failure is not None:
            logger.warning("The dataset could not be refreshed: %s", failure)
        self._finish(attempt, before, fresh, failure)

    def _finish(
        self, attempt: Attempt, before: Serving | None, fresh: Serving | None, failure: BedivereError | None
    ) -> None:
        swapped = fresh is not None and (before is None or fresh.database is not before.database)
        with self._lock:
            self._attempt, self._failure = None, failure
            if fresh is not None:
                self._serving = fresh
                self._syncs += swapped
                self._failures_in_row = 0
                self._due = attempt.started + self._settings.refresh_seconds
            else:
                pause = min(self._last_pause, self._first_pause * 2 ** min(self._failures_in_row, 16))
                self._due = time.monotonic() + max(pause, self._settings.refresh_seconds if before else 0)
                self._failures_in_row += 1
                self._failures += 1
            self._due_by_the_clock = time.time() + self._due - time.monotonic()
        if swapped and before is not None and fresh is not None and before.folder != fresh.folder:
            from retrieval.release.disk import clear_later

            # Not at exit, where the disk is left as it is for the next process.
            weakref.finalize(before.database, clear_later, before.folder, keep=fresh.folder.name).atexit = False
        if swapped or failure is not None:
            self._tell(failure, attempt)
        attempt.done.set_result(None)

    def _bring(self, attempt: Attempt) -> Serving:
        from retrieval.release.disk import SyncFolder
        from retrieval.release.serving import bring_current
        from retrieval.release.sync import Patience

        if self._store is None:
            self._store = self._make_store() if self._make_store else _open_store(self._uri)

        def on_progress(received: int, expected: int) -> None:
            attempt.received, attempt.expected = received, expected

        try:
            return bring_current(
                self._store,
                SyncFolder(self._folder),
                self._settings,
                self._serving,
                on_progress=on_progress,
                patience=self.patience or Patience(),
            )
        finally:
            self._store.close()

    def _tell(self, failure: BedivereError | None, attempt: Attempt) -> None:
        with self._lock:
            serving, listener = self._serving, self._listener
            outcome = SyncOutcome(
                failure=failure.code if failure else None,
                milliseconds=round((time.monotonic() - attempt.started) * 1000, 1),
                release=serving.manifest.release if serving else None,
                published_at=seconds_of(serving.manifest.created_at) if serving else None,
                fetched_bytes=serving.figures.bytes if serving and failure is None else None,
            )
            if listener is None:
                self._unheard = [*self._unheard[-_MAX_UNHEARD:], outcome]
        if listener is not None:
            try:
                listener(outcome)
            except Exception:
                logger.exception("What listens to syncs failed")


class _DatasetOfCall:
    """A released dataset as one call sees it; see `Dataset.for_call`."""

    def __init__(self, dataset: ReleasedDataset, wait_seconds: float | None) -> None:
        self._dataset = dataset
        self._until = math.inf if wait_seconds is None else time.monotonic() + wait_seconds
        self._found: Look | None = None

    def start(self) -> None:
        self._dataset.start()

    async def current(self, *, wait_seconds: float | None = None) -> Database:
        if self._found is None:
            self._found = await self._dataset.look_patiently(wait_seconds, self._until)
        return self._found.database()

    def served(self) -> Database:
        if self._found is None:
            self._dataset.start()
            self._found = self._dataset.look()
        return self._found.database()

    def state(self) -> DatasetState:
        return (self._found or self._dataset.look()).state()

    def for_call(self, wait_seconds: float | None) -> Dataset:
        return self._dataset.for_call(wait_seconds)

    def listen(self, listener: Callable[[SyncOutcome], None]) -> None:
        self._dataset.listen(listener)


def sync_folder(settings: Settings) -> Path:
    """The folder that the releases of this store are copied to."""
    if settings.sync_folder:
        return Path(settings.sync_folder)
    if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
        return Path("/tmp/bedivere")  # noqa: S108 - the one folder that Lambda lets be written, and nobody else's
    cache = os.environ.get("XDG_CACHE_HOME", "").strip() or os.path.expanduser("~/.cache")  # noqa: PTH111 - Path.expanduser raises where there is no home
    return Path(cache) / "bedivere" / hashlib.sha256((settings.database or "").encode()).hexdigest()[:16]


def _open_store(uri: str) -> Reader:
    from retrieval.release import s3_reader

    return s3_reader.open_reader(uri)


def _let_go(error: BaseException | None) -> None:
    """Empties the frames that an error went through: they hold the release that served, and would keep it on the disk.

    They and the error refer to each other, and a quiet instance collects such circles late.
    """
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__context__


async def _wait(attempt: Attempt, seconds: float) -> None:
    """Until the attempt is over or `seconds` have passed, without holding up the loop."""
    if seconds <= 0:
        # A call whose time is up would be cancelled at its next wait, before it says why.
        return
    waiter = asyncio.wrap_future(attempt.done)
    try:
        await asyncio.wait({waiter}, timeout=None if math.isinf(seconds) else seconds)
    finally:
        waiter.cancel()
