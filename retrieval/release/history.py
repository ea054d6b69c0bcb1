"""What has been published to a store: lists it, makes an earlier release current again, removes what is not needed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from retrieval.errors import BedivereError, ErrorCode
from retrieval.release.manifest import (
    MAX_POINTER_BYTES,
    POINTER_KEY,
    RELEASES,
    Manifest,
    Part,
    Pointer,
    damaged,
    is_release_id,
    manifest_key,
    pending_key,
)
from retrieval.release.store import Conflict, Store, Stored

GRACE: Final = timedelta(hours=24)
"""For so long after a release was published or replaced, instances may still be reading it."""

LEFTOVERS_AFTER: Final = timedelta(hours=6)
"""A publisher that has written nothing for so long is taken for dead."""

_REMEMBERED: Final = timedelta(days=90)
_AT_ONCE: Final = 8
_SHOWN: Final = 5

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Current:
    """What `current.json` holds, and the tag to replace it by; `pointer` is None where it is damaged."""

    pointer: Pointer | None
    tag: str

    @property
    def release(self) -> str | None:
        return self.pointer.release if self.pointer else None


@dataclass(frozen=True, slots=True)
class Release:
    """One release that can be made current; `manifest` is None where it cannot be understood, `problem` says why."""

    id: str
    current: bool
    manifest: Manifest | None
    problem: BedivereError | None = None

    @property
    def published(self) -> datetime:
        """When its publishing began, from its id."""
        return moment_of(self.id)


@dataclass(frozen=True, slots=True)
class Survey:
    """Everything below a store's prefix: the releases, newest first, and the objects of each folder."""

    current: Current | None
    releases: tuple[Release, ...]
    pending: tuple[Manifest, ...]
    """What publishers that have not ended, or were killed, will refer to or would have referred to."""
    folders: dict[str, list[Stored]]

    def referred(self) -> set[str]:
        """The keys of the parts that some release needs."""
        manifests = [*(release.manifest for release in self.releases), *self.pending]
        return {part.key for manifest in manifests if manifest for part in manifest.parts}

    def manifests(self) -> list[Manifest]:
        """Those of the releases that can be understood, newest first."""
        return [release.manifest for release in self.releases if release.manifest]


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was removed, or would be."""

    releases: tuple[str, ...]
    objects: int
    bytes: int


def current(store: Store) -> Current | None:
    """None where nothing was published. Raises RELEASE_TOO_NEW for what a newer Bedivere published."""
    try:
        fetched = store.get(POINTER_KEY, max_bytes=MAX_POINTER_BYTES)
    except KeyError:
        return None
    except BedivereError as error:
        if error.code is not ErrorCode.RELEASE_DAMAGED:
            raise
        raise damaged(f"{POINTER_KEY} is too large: delete it") from None
    if fetched is None:  # pragma: no cover - only a reader that names a tag is told so
        return None
    try:
        return Current(Pointer.from_json(fetched.data), fetched.tag)
    except BedivereError as error:
        if error.code is ErrorCode.RELEASE_TOO_NEW:
            raise
        return Current(None, fetched.tag)


def survey(store: Store) -> Survey:
    """Looks at every object; reads the small ones."""
    now = current(store)
    folders: dict[str, list[Stored]] = defaultdict(list)
    for stored in store.list(f"{RELEASES}/"):
        release = stored.key.split("/")[1]
        if is_release_id(release):
            folders[release].append(stored)
    listed = [id_ for id_, objects in folders.items() if manifest_key(id_) in {stored.key for stored in objects}]
    claimed = [id_ for id_ in folders if pending_key(id_) in {stored.key for stored in folders[id_]}]
    found = {
        id_: Release(id_, now is not None and id_ == now.release, *result)
        for id_, result in zip(listed, together(lambda id_: _own_manifest(store, id_), listed), strict=True)
        if result != (None, None)
    }
    if now and now.pointer:
        # Its publisher may have died between the pointer and the manifest.
        found[now.pointer.release] = Release(now.pointer.release, True, now.pointer.manifest)
    pending = together(lambda id_: _manifest(store, pending_key(id_))[0], claimed)
    releases = sorted(found.values(), key=lambda release: age_order(release.id), reverse=True)
    return Survey(now, tuple(releases), tuple(manifest for manifest in pending if manifest), dict(folders))


def _own_manifest(store: Store, release: str) -> tuple[Manifest | None, BedivereError | None]:
    """What `_manifest` gives for the release's own manifest; one of another release is as good as none."""
    manifest, problem = _manifest(store, manifest_key(release))
    if manifest is not None and manifest.release != release:
        return None, damaged("its manifest is that of another release")
    return manifest, problem


def rollback(store: Store, release: str | None = None) -> tuple[str | None, str]:
    """Makes `release` current, or the one before the current; the ids before and after.

    Raises `BedivereError`: RELEASE_NOT_FOUND, RELEASE_DAMAGED where one of its parts is gone, RELEASE_TOO_NEW,
    PUBLISH_CONFLICT where another changed the current release meanwhile, and what the store raises.
    """
    seen = survey(store)
    if seen.current is None:
        raise BedivereError(ErrorCode.RELEASE_NOT_FOUND, "Nothing has been published there: there is no current.json.")
    before = seen.current.release
    target = _target(seen, release)
    if target.manifest is None:
        raise target.problem or damaged("its manifest cannot be read")
    if target.id != before:
        if missing := [part.key for part in target.manifest.parts if part not in held(store, target.manifest.parts)]:
            raise damaged(f"{missing[0]} is gone or is not what was published")
        heal(store, seen.current)
        flip(store, target.manifest, seen.current)
    return before, target.id


def prune(store: Store, keep: int, *, grace: timedelta = GRACE, dry_run: bool = False) -> Pruned:
    """Removes all but the newest `keep` releases, and what killed publishers left.

    Spared are the current release, each that was published or replaced within `grace`, those whose manifest cannot
    be understood, and the parts that a release which stays refers to.
    Raises `BedivereError`: INVALID_ARGUMENT, and what the store raises.
    """
    if keep < 1 or grace < timedelta(0):
        raise BedivereError(ErrorCode.INVALID_ARGUMENT, "At least one release is kept, and the grace is not negative.")
    seen = survey(store)
    now = datetime.now(UTC)
    pointer = seen.current.pointer if seen.current else None
    replaced = pointer.replaced if pointer else {}
    doomed = [
        release.id
        for release in seen.releases[keep:]
        if not release.current
        and release.manifest is not None
        and release.published <= now - grace
        and _moment(replaced.get(release.id)) <= now - grace
    ]
    dead = leftovers(seen, now - max(grace, LEFTOVERS_AFTER))
    return remove(store, seen, [*doomed, *dead], dry_run=dry_run)


def clean(store: Store, seen: Survey, *, after: timedelta = LEFTOVERS_AFTER) -> Pruned:
    """Removes what publishers that died left behind."""
    before = datetime.now(UTC) - after
    store.abandon(f"{RELEASES}/", before)
    return remove(store, seen, leftovers(seen, before))


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


def remove(store: Store, seen: Survey, doomed: Collection[str], *, dry_run: bool = False) -> Pruned:
    """Removes these releases, but for the parts that another refers to.

    A publisher may be about to refer to a part of one of them. It says so in its pending.json, then looks whether the
    release it borrows from is still there, and only then makes its own current. Here the manifests go first, and only
    after that it is read again who refers to what: one of the two sees the other.
    """
    released = tuple(release.id for release in seen.releases if release.id in doomed)
    first = {key for id_ in doomed for key in (manifest_key(id_), pending_key(id_))}
    if dry_run or not doomed:
        staying = tuple(release for release in seen.releases if release.id not in doomed)
        referred = replace(seen, releases=staying).referred()
    else:
        store.delete(sorted(first))
        again = survey(store)
        referred = again.referred()
        # It may have been rolled back to in between.
        heal(store, again.current)
    gone = [stored for id_ in doomed for stored in seen.folders.get(id_, ()) if stored.key not in referred]
    if gone and not dry_run:
        store.delete([stored.key for stored in gone if stored.key not in first])
    return Pruned(released, len(gone), sum(stored.bytes for stored in gone))


def flip(store: Store, manifest: Manifest, seen: Current | None) -> None:
    """Makes the release of `manifest` current, if `seen` still is. Raises `BedivereError` PUBLISH_CONFLICT."""
    now = datetime.now(UTC)
    replaced: dict[str, str] = {}
    if seen and seen.pointer:
        replaced = {id_: when for id_, when in seen.pointer.replaced.items() if _moment(when) > now - _REMEMBERED}
        replaced[seen.pointer.release] = f"{now:%Y-%m-%dT%H:%M:%SZ}"
    replaced.pop(manifest.release, None)
    data = Pointer(manifest.release, manifest, replaced).to_json()
    try:
        store.put(POINTER_KEY, data, if_tag=seen.tag if seen else None, if_absent=seen is None)
    except Conflict:
        winner = current(store)
        # A write whose answer was lost is sent again, and then finds itself.
        if winner is None or winner.pointer is None or winner.pointer.to_json() != data:
            raise _conflict(winner) from None


def heal(store: Store, seen: Current | None) -> None:
    """Writes the manifest of the current release where its publisher died before it could."""
    if seen and seen.pointer and store.size(manifest_key(seen.pointer.release)) is None:
        store.put(manifest_key(seen.pointer.release), seen.pointer.manifest.to_json())


def held(store: Store, parts: Sequence[Part]) -> set[Part]:
    """Those of `parts` that are in the store as they were published."""
    there = together(lambda part: store.holds(part.key, size=part.bytes, sha256=part.sha256), parts)
    return {part for part, is_there in zip(parts, there, strict=True) if is_there}


def together(ask: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """What `ask` answers for each item, asked side by side."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(ask, items))


def age_order(release: str) -> tuple[str, int]:
    """A key that sorts ids by their age."""
    time, _, rest = release.partition("-")
    return time, int(rest.partition("-")[2] or 1)


def moment_of(release: str) -> datetime:
    """The time in an id; the beginning of time for one that has none."""
    try:
        return datetime.strptime(release[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)


def _moment(text: str | None) -> datetime:
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _manifest(store: Store, key: str) -> tuple[Manifest | None, BedivereError | None]:
    """The manifest at `key`, or what is wrong with it; neither where it has just been deleted."""
    try:
        fetched = store.get(key, max_bytes=MAX_POINTER_BYTES)
        return (Manifest.from_json(fetched.data) if fetched else None), None
    except KeyError:
        return None, None
    except BedivereError as error:
        if error.code not in {ErrorCode.RELEASE_DAMAGED, ErrorCode.RELEASE_TOO_NEW}:
            raise
        return None, error


def _target(seen: Survey, release: str | None) -> Release:
    ids = [found.id for found in seen.releases]
    if release is None:
        before = seen.current.release if seen.current else None
        older = seen.releases[ids.index(before) + 1 :] if before in ids else seen.releases
        usable = [found for found in older if found.manifest]
        if not usable:
            raise BedivereError(ErrorCode.RELEASE_NOT_FOUND, "There is no release before the current one.")
        return usable[0]
    if release not in ids:
        known = ", ".join(ids[:_SHOWN]) + (", …" if len(ids) > _SHOWN else "") if ids else "none"
        raise BedivereError(ErrorCode.RELEASE_NOT_FOUND, f"There is no release {release[:100]!r}; there are: {known}.")
    return seen.releases[ids.index(release)]


def _conflict(winner: Current | None) -> BedivereError:
    name = winner.release if winner else None
    return BedivereError(
        ErrorCode.PUBLISH_CONFLICT,
        f"Another publisher made release {name} current meanwhile, and it stays so."
        if name
        else "Another publisher changed the current release meanwhile.",
    )
