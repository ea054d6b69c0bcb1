"""What has been published to a store: lists it, makes an earlier release current again, removes what is not needed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from retrieval.errors import BedivereError, ErrorCode
from retrieval.release.claim import age_order, claim, is_made_up, moment_of, unclaim
from retrieval.release.faults import Denied
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


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was removed, or would be."""

    releases: tuple[str, ...]
    objects: int
    bytes: int
    notes: tuple[str, ...] = ()
    """What was not removed and why: who needs it, or the right that it takes."""


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
    """Makes an earlier release current, under a claim that keeps its parts; see `remove` for the order of the steps."""
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
    pointer = seen.current.pointer if seen.current else None
    replaced = pointer.replaced if pointer else {}
    before = now - max(grace, LEFTOVERS_AFTER)
    made_up = {release.id for release in seen.releases if is_made_up(release.id, now)}
    newest = [release.id for release in seen.releases if release.id not in made_up][:keep]
    # Its publisher may be about to write its manifest anew.
    publishing = {id_ for id_ in seen.folders if (own := seen.claim_of(id_)) and own.modified > before}
    doomed = [
        release.id
        for release in seen.releases
        if not release.current
        and release.manifest is not None
        and release.id not in {*newest, *publishing}
        and (release.id in made_up or release.published <= now - grace)
        and _moment(replaced.get(release.id)) <= now - grace
    ]
    doomed += leftovers(seen, before)
    pruned = remove(store, seen, doomed, claims=_outlived(seen, before), dry_run=dry_run)
    return pruned if dry_run else replace(pruned, notes=(*pruned.notes, *_abandon(store, before)))


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
        if _is_still(store, seen.current):
            return seen


def _is_still(store: Store, seen: Current | None) -> bool:
    now = current(store)
    return (now.tag if now else None) == (seen.tag if seen else None)


def flip(store: Store, manifest: Manifest, seen: Survey) -> None:
    """Makes the release of `manifest` current, if what was seen still is. Raises `BedivereError` PUBLISH_CONFLICT."""
    now = datetime.now(UTC)
    pointer = seen.current.pointer if seen.current else None
    moment = f"{now:%Y-%m-%dT%H:%M:%SZ}"
    if pointer:
        replaced = {id_: when for id_, when in pointer.replaced.items() if _moment(when) > now - _REMEMBERED}
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
    if _is_still(store, seen):
        store.put(manifest_key(pointer.release), pointer.manifest.to_json())
        if not _is_still(store, seen):
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
            raise BedivereError(
                ErrorCode.RELEASE_NOT_FOUND,
                "There is no release before the current one: bedivere releases lists those that there are.",
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
