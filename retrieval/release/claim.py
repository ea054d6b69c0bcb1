"""Ids of releases: their times, their order, and claims, by which those who write tell each other what they need."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from retrieval.errors import BedivereError, ErrorCode
from retrieval.release.manifest import pending_key, release_id
from retrieval.release.store import Conflict, Store

# No clock runs so far ahead: an id of such a time is made up, and none is made to come after it.
_AHEAD: Final = timedelta(days=366)
_NO_TIME: Final = datetime.min.replace(tzinfo=UTC)
_SAME_SECOND: Final = 999


def claim(store: Store, taken: Collection[str], corpus: str, content: bytes = b"{}") -> str:
    """An id that is nobody else's, and later than those `taken`.

    `content` is a manifest, or "{}" as long as there is none: pruning removes none of its parts until `unclaim`.
    Raises `BedivereError` PUBLISH_CONFLICT where too many claim at once, and what the store raises.
    """
    for id_ in new_ids(taken, corpus):
        with suppress(Conflict):
            store.put(pending_key(id_), content, if_absent=True)
            return id_
    raise BedivereError(ErrorCode.PUBLISH_CONFLICT, "Too many releases are being published at this moment: try again.")


def unclaim(store: Store, claimed: str) -> None:
    """Gives up a claim; one that cannot be removed is left until it is old."""
    with suppress(BedivereError):
        store.delete([pending_key(claimed)])


def new_ids(taken: Collection[str], corpus: str) -> Iterator[str]:
    """Ids to claim, the first that nobody else has; they sort after those `taken`."""
    now = datetime.now(UTC).replace(microsecond=0)
    # They sort by their time: a clock that runs late, or a second release within the second, must not come first.
    after = [moment + timedelta(seconds=1) for moment in map(moment_of, taken) if moment <= now + _AHEAD]
    base = release_id(corpus, max([now, *after]))
    yield base
    yield from (f"{base}-{number}" for number in range(2, _SAME_SECOND + 1))


def age_order(release: str) -> tuple[str, int]:
    """A key that sorts ids by their age."""
    time, _, rest = release.partition("-")
    return time, int(rest.partition("-")[2] or 1)


def is_made_up(release: str, now: datetime) -> bool:
    """Whether no clock gave this id: its time is none, or lies too far ahead."""
    moment = moment_of(release)
    return moment == _NO_TIME or moment > now + _AHEAD


def moment_of(release: str) -> datetime:
    """The time in an id; the beginning of time for one that has none."""
    try:
        return datetime.strptime(release[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        return _NO_TIME
