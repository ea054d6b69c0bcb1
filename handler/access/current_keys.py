"""The keys that are good now: read again like a release's pointer, so that a revoked one is refused soon."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from handler.access.key_file import MAX_BYTES, KeyFile, open_place
from handler.access.rereading import PAUSE_SECONDS, Moment, Reread
from retrieval.errors import BedivereError, ErrorCode
from retrieval.release.store import Store

logger: Final = logging.getLogger("bedivere")

KEPT_SECONDS: Final = 900.0
"""How long keys that were good stay good while they cannot be read again; then nobody is let in."""


@dataclass(frozen=True, slots=True)
class _Tagged:
    file: KeyFile
    tag: str | None
    """None where there is no object."""


class CurrentKeys:
    """The keys at `place`. What is older than `refresh_seconds` is read again before it decides anything.

    Where it cannot be, what was read last decides for `KEPT_SECONDS` more.
    """

    def __init__(
        self,
        place: str,
        refresh_seconds: float,
        *,
        open_keys: Callable[[str], tuple[Store, str]] = open_place,
        now: Callable[[], Moment] = Moment.now,
    ) -> None:
        self._place = place
        self._refresh_seconds = refresh_seconds
        self._open_keys = open_keys
        self._store: tuple[Store, str] | None = None
        self._held = Reread("The object of the API keys", self._fetched, now=now)

    def start(self) -> None:
        """Begins the first read, in a thread. Never raises."""
        self._held.begin()

    async def get(self) -> KeyFile:
        """The keys that are good now. Raises `BedivereError` ACCESS_UNAVAILABLE."""
        if self._held.age >= self._refresh_seconds:
            await self._held.again(self._refresh_seconds)
        held = self._held.value
        if held is None or self._held.age >= self._refresh_seconds + KEPT_SECONDS:
            raise BedivereError(
                ErrorCode.ACCESS_UNAVAILABLE,
                f"The API keys cannot be read now, so nobody is let in: call again in {PAUSE_SECONDS:.0f} seconds.",
            )
        return held.file

    def _fetched(self, before: _Tagged | None) -> _Tagged:
        if self._store is None:
            self._store = self._open_keys(self._place)
        store, key = self._store
        try:
            fetched = store.get(key, unless_tag=before.tag if before else None, max_bytes=MAX_BYTES)
        except KeyError:
            if before is None or before.tag is not None:
                logger.warning("There are no API keys, so nobody is let in: make one with bedivere keys create")
            return _Tagged(KeyFile(), None)
        if fetched is not None:
            return _Tagged(KeyFile.load(fetched.data), fetched.tag)
        if before is None:
            raise BedivereError(
                ErrorCode.STORE_UNREACHABLE, "The store said that nothing had changed, and nothing was read."
            )
        return before
