"""Removes from a store what nobody needs any more: old releases, and what interrupted runs left."""

from __future__ import annotations

from collections.abc import Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from retrieval.errors import BedivereError, ErrorCode
from retrieval.release.claim import is_made_up
from retrieval.release.faults import Denied
from retrieval.release.history import Release, Survey, heal, is_still, moment_told, survey
from retrieval.release.manifest import RELEASES, manifest_key, pending_key
from retrieval.release.store import Store, Stored

GRACE: Final = timedelta(hours=24)
"""For so long after a release was published or replaced, instances may still be reading it."""

LEFTOVERS_AFTER: Final = timedelta(hours=6)
"""A publisher that has written nothing for so long is taken for dead."""


class Reason(StrEnum):
    """Why a release stays that is none of the newest."""

    CURRENT = "it is the current one"
    UNREADABLE = "its manifest cannot be understood"
    PUBLISHING = "its publisher may not have ended"
    PUBLISHED = "it was published within the grace"
    REPLACED = "it was current within the grace"


@dataclass(frozen=True, slots=True)
class Spared:
    """A release that stays although it is none of the newest."""

    release: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was removed, or would be."""

    releases: tuple[str, ...]
    objects: int
    bytes: int
    notes: tuple[str, ...] = ()
    """What was to be removed and was not, and why: who needs it, or the right that it takes."""
    spared: tuple[Spared, ...] = ()
    """Newest first."""


def prune(store: Store, keep: int, *, grace: timedelta = GRACE, dry_run: bool = False) -> Pruned:
    """Removes all but the newest `keep` releases, and what killed publishers left.

    Spared are the current release, each that was published or replaced within `grace`, those whose manifest cannot
    be understood, those whose publisher may not have ended, and the parts that a release which stays refers to.
    A release whose id is made up is none of the newest, whatever its id says, nor within `grace` because of it.
    Raises `BedivereError`: INVALID_ARGUMENT, RELEASE_DAMAGED or RELEASE_TOO_NEW where it is not known which release is
    current, and what the store raises.
    """
    if keep < 1 or grace < timedelta(0):
        raise BedivereError(ErrorCode.INVALID_ARGUMENT, "At least one release is kept, and the grace is not negative.")
    seen = survey(store)
    if seen.problem:
        raise seen.problem
    now = datetime.now(UTC)
    before = now - max(grace, LEFTOVERS_AFTER)
    made_up = {release.id for release in seen.releases if is_made_up(release.id, now)}
    newest = [release.id for release in seen.releases if release.id not in made_up][:keep]
    others = {
        release.id: _why_spared(seen, release, now - grace, before, timeless=release.id in made_up)
        for release in seen.releases
        if release.id not in newest
    }
    doomed = [id_ for id_, reason in others.items() if reason is None]
    spared = tuple(Spared(id_, reason) for id_, reason in others.items() if reason is not None)
    doomed += leftovers(seen, before)
    pruned = remove(store, seen, doomed, claims=_outlived(seen, before), dry_run=dry_run)
    notes = () if dry_run else _abandon(store, before)
    return replace(pruned, notes=(*pruned.notes, *notes), spared=spared)


def _why_spared(seen: Survey, release: Release, grace: datetime, before: datetime, *, timeless: bool) -> Reason | None:
    """Why `release` stays; None where it goes. The grace began at `grace`; `timeless` is one whose id is made up."""
    if release.current:
        return Reason.CURRENT
    if release.manifest is None:
        return Reason.UNREADABLE
    # Its publisher may be about to write its manifest anew.
    if (own := seen.claim_of(release.id)) and own.modified > before:
        return Reason.PUBLISHING
    if not timeless and release.published > grace:
        return Reason.PUBLISHED
    pointer = seen.current.pointer if seen.current else None
    if moment_told((pointer.replaced if pointer else {}).get(release.id)) > grace:
        return Reason.REPLACED
    return None


def clean(store: Store, seen: Survey, *, after: timedelta = LEFTOVERS_AFTER) -> tuple[str, ...]:
    """Removes what publishers that died left behind; what the store does not allow to be removed is named instead.

    Where it is not known which release is current, one of them may be it: then their parts stay.
    """
    before = datetime.now(UTC) - after
    notes = list(_abandon(store, before))
    if not seen.problem:
        with allowed(notes, "What an earlier run left could not be removed"):
            remove(store, seen, leftovers(seen, before), claims=_outlived(seen, before))
    return tuple(notes)


@contextmanager
def allowed(notes: list[str], what: str) -> Generator[None]:
    """Takes a refusal for a note with the right that is lacking: who may publish need not be allowed to delete."""
    try:
        yield
    except BedivereError as error:
        if error.code is not ErrorCode.STORE_DENIED:
            raise
        right = error.right if isinstance(error, Denied) else None
        notes.append(f"{what}: the store does not allow it" + (f", it takes the right {right}." if right else "."))


def _abandon(store: Store, before: datetime) -> tuple[str, ...]:
    notes: list[str] = []
    with allowed(notes, "Unfinished uploads of earlier runs could not be removed"):
        store.abandon(f"{RELEASES}/", before)
    return tuple(notes)


def leftovers(seen: Survey, before: datetime) -> list[str]:
    """The ids that were never made releases, and that nothing was written of since `before`."""
    known = {release.id for release in seen.releases}
    return [
        id_
        for id_, objects in seen.folders.items()
        if id_ not in known
        and manifest_key(id_) not in {stored.key for stored in objects}
        and max(stored.modified for stored in objects) <= before
    ]


def _outlived(seen: Survey, before: datetime) -> list[Stored]:
    """The claims that whoever made a release did not remove, because it died or was not allowed to."""
    released = [release.id for release in seen.releases if release.manifest]
    return [
        own
        for id_ in released
        if (own := seen.claim_of(id_)) and own.modified <= before and seen.stored(manifest_key(id_))
    ]


def remove(
    store: Store, seen: Survey, doomed: Collection[str], *, claims: Collection[Stored] = (), dry_run: bool = False
) -> Pruned:
    """Removes these releases, but for the parts that another refers to, and these claims.

    Somebody may be about to refer to a part of one of them, or to make one of them current. They say so in a
    pending.json, then look whether the manifest of what they take is still there, and only then change the current
    release. Here the manifests go first, and only after that it is read again who refers to what: one of the two sees
    the other, since no manifest comes back unclaimed, see `heal`. Raises `BedivereError` where it is no longer known
    which release is current; their parts stay then.
    """
    released = [release.id for release in seen.releases if release.id in doomed]
    wanted = set[str]()
    first = {key for id_ in doomed for key in (manifest_key(id_), pending_key(id_))}
    if dry_run or not doomed:
        staying = tuple(release for release in seen.releases if release.id not in doomed)
        referred = replace(seen, releases=staying).referred()
    else:
        store.delete(sorted(first))
        again = _settled(store)
        if again.problem:
            raise again.problem
        referred = again.referred()
        # They may have been rolled back to in between.
        wanted = {*(release.id for release in again.releases), *(manifest.release for manifest in again.pending)}
        heal(store, again.current)
    removed = [id_ for id_ in doomed if id_ not in wanted]
    gone = [stored for id_ in removed for stored in seen.folders.get(id_, ()) if stored.key not in referred]
    gone += [stored for stored in claims if stored.key not in first]
    if gone and not dry_run:
        store.delete([stored.key for stored in gone if stored.key not in first])
    return Pruned(
        tuple(id_ for id_ in released if id_ not in wanted),
        len(gone),
        sum(stored.bytes for stored in gone),
        tuple(
            f"Release {id_} keeps its parts: somebody made it current meanwhile, or is about to."
            for id_ in released
            if id_ in wanted
        ),
    )


def _settled(store: Store) -> Survey:
    """A survey during which the current release stayed the same.

    A claim goes once its release is current: a survey that read `current.json` before and the claims after would see
    neither.
    """
    while True:
        seen = survey(store)
        if is_still(store, seen.current):
            return seen
