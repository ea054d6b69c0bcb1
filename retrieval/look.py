"""A released dataset at one moment: what serves, what is being fetched, and what to say where nothing serves yet."""

from __future__ import annotations

import math
import time
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from retrieval.errors import BedivereError, ErrorCode

if TYPE_CHECKING:
    from retrieval.database import Database
    from retrieval.release.serving import Serving


@dataclass(frozen=True, slots=True)
class SyncOutcome:
    """One finished look for a release that found a new one, or failed."""

    failure: ErrorCode | None
    milliseconds: float
    release: str | None
    """The release that serves now."""
    published_at: float | None
    """When that was published, in seconds since 1970."""
    fetched_bytes: int | None
    """Packed bytes that were fetched; None for a failure."""


@dataclass(frozen=True, slots=True)
class DatasetState:
    """What serves, and how the last sync went. Everything is None where a plain folder serves."""

    from_releases: bool
    release: str | None = None
    created_at: str | None = None
    """When the release was published, UTC."""
    age_seconds: int | None = None
    """Since then."""
    synced_at: str | None = None
    """When the release was brought into service here, UTC."""
    sync_milliseconds: int | None = None
    sync_bytes: int | None = None
    """Packed bytes that its sync fetched; 0 where it was on this disk already."""
    syncing: bool = False
    failure: BedivereError | None = None
    """Why the last look or sync failed; None once one succeeded."""
    syncs: int = 0
    """Releases brought into service by this process."""
    failures: int = 0
    """Looks and syncs of this process that failed."""


@dataclass(slots=True)
class Attempt:
    """One look at the pointer, and the sync that follows where it names another release."""

    done: Future[None] = field(default_factory=Future[None])
    started: float = field(default_factory=time.monotonic)
    received: int = 0
    """Packed bytes so far, of `expected`."""
    expected: int = 0
    received_before: int = -1
    """What had been received when a call last lent its time."""

    def seconds_left(self) -> int:
        """A guess from the speed so far, 1 to 30 seconds."""
        if not self.received:
            return 3
        spent = time.monotonic() - self.started
        return min(30, max(1, math.ceil(spent * (self.expected - self.received) / self.received)))


@dataclass(frozen=True, slots=True)
class Look:
    """A released dataset at one moment."""

    serving: Serving | None
    attempt: Attempt | None
    failure: BedivereError | None
    due: float
    """When the next attempt may begin, on the monotonic clock."""
    syncs: int
    failures: int

    def database(self) -> Database:
        """The database of the release that serves. Raises DATASET_LOADING or DATASET_UNAVAILABLE where none does."""
        if self.serving is not None:
            return self.serving.database
        pause = max(1, math.ceil(self.due - time.monotonic()))
        if self.failure is not None and self.attempt is None and self.failure.code is not ErrorCode.DATASET_LOADING:
            raise BedivereError(
                ErrorCode.DATASET_UNAVAILABLE,
                f"The dataset could not be fetched: {self.failure} The next try is in {_counted(pause)}.",
            )
        if self.attempt is not None:
            pause = self.attempt.seconds_left()
        raise BedivereError(
            ErrorCode.DATASET_LOADING, f"The dataset is still being fetched: call again in {_counted(pause)}."
        )

    def state(self) -> DatasetState:
        """What served, and how the last sync went."""
        state = DatasetState(
            from_releases=True,
            syncing=self.attempt is not None,
            failure=self.failure,
            syncs=self.syncs,
            failures=self.failures,
        )
        if self.serving is None:
            return state
        manifest, figures = self.serving.manifest, self.serving.figures
        published = seconds_of(manifest.created_at)
        return replace(
            state,
            release=manifest.release,
            created_at=manifest.created_at,
            age_seconds=None if published is None else max(0, round(time.time() - published)),
            synced_at=f"{self.serving.synced_at:%Y-%m-%dT%H:%M:%SZ}",
            sync_milliseconds=round(figures.seconds * 1000),
            sync_bytes=figures.bytes,
        )


def seconds_of(moment: str) -> float | None:
    """A UTC time of a manifest in seconds since 1970; None where it is none."""
    try:
        return datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _counted(seconds: int) -> str:
    return "1 second" if seconds == 1 else f"{seconds} seconds"
