"""What has been published to a store: lists it, and makes a release the current one, in one step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from retrieval.errors import BedivereError, ErrorCode
from retrieval.release.claim import age_order, claim, moment_of, unclaim
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
from retrieval.release.store import Conflict, Store, Stored, TooLarge

_REMEMBERED: Final = timedelta(days=90)
_AT_ONCE: Final = 8
_SHOWN: Final = 5

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Current:
    """What `current.json` holds, and the tag to replace it by; without a `pointer` the `problem` says why."""

    pointer: Pointer | None
    tag: str
    problem: BedivereError | None = None

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

    @property
    def problem(self) -> BedivereError | None:
        """Why it is not known which release is current, and the way out; None where it is, or there is none."""
        if self.current:
            return self.current.problem
        # A publisher that died may have left a release whole, and it may have been the current one.
        return _unnamed("is missing") if self.releases or self.pending else None

    def ids(self) -> set[str]:
        """Every id that is taken."""
        return {*self.folders, *(release.id for release in self.releases)}

    def stored(self, key: str) -> Stored | None:
        """The object of a release at `key`, where it was there."""
        return next((each for each in self.folders.get(key.split("/")[1], ()) if each.key == key), None)

    def claim_of(self, release: str) -> Stored | None:
        """The claim of this id, where it was there."""
        return self.stored(pending_key(release))

    def referred(self) -> set[str]:
        """The keys of the parts that some release needs."""
        manifests = [*(release.manifest for release in self.releases), *self.pending]
        return {part.key for manifest in manifests if manifest for part in manifest.parts}

    def manifests(self) -> list[Manifest]:
        """Those of the releases that can be understood, newest first."""
        return [release.manifest for release in self.releases if release.manifest]


def current(store: Store) -> Current | None:
    """None where there is no `current.json`. One that cannot be used is no error yet: see `Current.problem`."""
    try:
        fetched = store.get(POINTER_KEY, max_bytes=MAX_POINTER_BYTES)
    except KeyError:
        return None
    except TooLarge as error:
        return Current(None, error.tag, _unnamed("is larger than it can be"))
    if fetched is None:  # pragma: no cover - only a reader that names a tag is told so
        return None
    try:
        return Current(Pointer.from_json(fetched.data), fetched.tag)
    except BedivereError as error:
        newer = error.code is ErrorCode.RELEASE_TOO_NEW
        return Current(None, fetched.tag, error if newer else _unnamed("is damaged"))


def refuse_newer(seen: Current | None) -> None:
    """Raises RELEASE_TOO_NEW where a newer Bedivere published the current release: it must not be replaced."""
    if seen and seen.problem and seen.problem.code is ErrorCode.RELEASE_TOO_NEW:
        raise seen.problem


def survey(store: Store) -> Survey:
    """Looks at every object; reads the small ones. A `current.json` that cannot be used is no error, see `problem`."""
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

    A damaged or missing `current.json` is replaced where the release is named. Raises `BedivereError`:
    RELEASE_NOT_FOUND, also for a release that is removed meanwhile, RELEASE_DAMAGED where one of its parts is gone or
    it is not known which release comes before, RELEASE_TOO_NEW, PUBLISH_CONFLICT where another changed the current
    release meanwhile, and what the store raises.
    """
    seen = survey(store)
    refuse_newer(seen.current)
    if release is None and seen.problem:
        raise seen.problem
    if release is None and seen.current is None:
        raise BedivereError(
            ErrorCode.RELEASE_NOT_FOUND, f"Nothing has been published there: there is no {POINTER_KEY}."
        )
    before = seen.current.release if seen.current else None
    target = _target(seen, release)
    if target.manifest is None:
        raise target.problem or damaged("its manifest cannot be read")
    if target.id != before:
        _go_to(store, seen, target.manifest)
    return before, target.id


def _go_to(store: Store, seen: Survey, manifest: Manifest) -> None:
    """Makes an earlier release current, under a claim that keeps its parts; `pruning.remove` says why in this order."""
    own = claim(store, seen.ids(), manifest.corpus, manifest.to_json())
    try:
        _check_whole(store, manifest)
        heal(store, seen.current)
        flip(store, manifest, seen)
        # It is done: whoever comes next writes what is missing here.
        with suppress(BedivereError):
            heal(store, current(store))
    except BedivereError as error:
        # The store may have made it current and its answer have been lost: then the claim stays, until it is old.
        if error.code is not ErrorCode.STORE_UNREACHABLE:
            unclaim(store, own)
        raise
    unclaim(store, own)


def _check_whole(store: Store, manifest: Manifest) -> None:
    if store.size(manifest_key(manifest.release)) is None:
        raise BedivereError(
            ErrorCode.RELEASE_NOT_FOUND,
            f"Release {manifest.release} is being removed by somebody else: take one that bedivere releases lists.",
        )
    there = held(store, manifest.parts)
    if missing := [part.key for part in manifest.parts if part not in there]:
        raise damaged(f"{missing[0]} is gone or is not what was published")


def is_still(store: Store, seen: Current | None) -> bool:
    """Whether the current release is the one that was seen."""
    now = current(store)
    return (now.tag if now else None) == (seen.tag if seen else None)


def flip(store: Store, manifest: Manifest, seen: Survey) -> None:
    """Makes the release of `manifest` current, if what was seen still is. Raises `BedivereError` PUBLISH_CONFLICT."""
    now = datetime.now(UTC)
    pointer = seen.current.pointer if seen.current else None
    moment = f"{now:%Y-%m-%dT%H:%M:%SZ}"
    if pointer:
        replaced = {id_: when for id_, when in pointer.replaced.items() if moment_told(when) > now - _REMEMBERED}
        replaced[pointer.release] = moment
    else:
        # Any of them may have been current until now, and servers still read it.
        replaced = dict.fromkeys((release.id for release in seen.releases), moment)
    replaced.pop(manifest.release, None)
    data = Pointer(manifest.release, manifest, replaced).to_json()
    if len(data) > MAX_POINTER_BYTES:
        raise BedivereError(
            ErrorCode.DATASET_NOT_WHOLE,
            "The release has more files than its manifest can list: index with --rebuild, then publish.",
        )
    try:
        store.put(POINTER_KEY, data, if_tag=seen.current.tag if seen.current else None, if_absent=not seen.current)
    except Conflict:
        winner = current(store)
        # A write whose answer was lost is sent again, and then finds itself.
        if winner is None or winner.pointer is None or winner.pointer.to_json() != data:
            raise _conflict(winner) from None


def heal(store: Store, seen: Current | None) -> None:
    """Writes the manifest of the current release where its publisher died before it could.

    Another release may have become current meanwhile, and whoever prunes this one have looked already who needs it:
    its manifest would say that its parts are there. So they are claimed before it is asked what is current. The claim
    goes only where this release was current all the while; else it stays until it is old.
    """
    pointer = seen.pointer if seen else None
    if seen is None or pointer is None or store.size(manifest_key(pointer.release)) is not None:
        return
    own = claim(store, {pointer.release}, pointer.manifest.corpus, pointer.manifest.to_json())
    if is_still(store, seen):
        store.put(manifest_key(pointer.release), pointer.manifest.to_json())
        if not is_still(store, seen):
            return
    unclaim(store, own)


def held(store: Store, parts: Sequence[Part]) -> set[Part]:
    """Those of `parts` that are in the store as they were published."""
    there = together(lambda part: store.holds(part.key, size=part.bytes, sha256=part.sha256), parts)
    return {part for part, is_there in zip(parts, there, strict=True) if is_there}


def together(ask: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """What `ask` answers for each item, asked side by side."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(ask, items))


def moment_told(text: str | None) -> datetime:
    """The time that a pointer tells; the beginning of time where it tells none."""
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
            newest = next((found.id for found in seen.releases if found.manifest and not found.current), None)
            none = "there is no other to go to: bedivere publish makes one"
            way = f"to go to the newest: bedivere rollback STORE {newest}" if newest else none
            raise BedivereError(
                ErrorCode.RELEASE_NOT_FOUND, f"There is no release before the current one ({before}); {way}."
            )
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


def _unnamed(lack: str) -> BedivereError:
    return BedivereError(
        ErrorCode.RELEASE_DAMAGED,
        f"{POINTER_KEY} {lack}, so it is not known which release is current: choose one that bedivere releases lists, "
        "and make it current with bedivere rollback STORE RELEASE.",
    )
