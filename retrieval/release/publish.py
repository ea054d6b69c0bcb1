"""Publishes a database: checks it, packs it, uploads the parts and, last of all, makes it the current release.

Whatever happens on the way, and whenever the process dies, the current release is the old one or the new one, whole.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from threading import Event, Lock
from typing import Final, Protocol

from retrieval.database import Database
from retrieval.errors import BedivereError, ErrorCode
from retrieval.indexing.whole import Examined, NotWholeError, examine
from retrieval.notes import counted
from retrieval.release import history, pack, pruning
from retrieval.release.claim import claim, is_made_up, new_ids
from retrieval.release.history import Current, Survey
from retrieval.release.manifest import (
    MAX_FILES,
    READER_FORMAT,
    Manifest,
    PackedFile,
    Part,
    TableEntry,
    manifest_key,
    part_key,
    pending_key,
)
from retrieval.release.pack import SourceFile, not_whole
from retrieval.release.store import Store
from retrieval.table import Table

MAKING_CURRENT: Final = "Making it current"
"""The stage from whose beginning on the new release may be the current one."""

_AT_ONCE: Final = 4
_LENDERS: Final = 10
"""Parts are looked for in so many releases, the newest."""


class Watcher(Protocol):
    """Is told how a run goes, from one thread at a time; what it raises ends the run."""

    def stage(self, name: str) -> None:
        """What is being done from now on."""
        ...

    def planned(self, count: int) -> None:
        """So many bytes more are to be sent, or fewer where it is negative: a part is smaller than its files."""
        ...

    def sent(self, count: int) -> None:
        """So many bytes have arrived in the store."""
        ...


@dataclass(frozen=True, slots=True)
class Published:
    """What a run did, or would do; sizes are in bytes."""

    release: str
    """The current release; the id that it would have where it was only tried."""
    unchanged: bool
    tables: dict[str, int]
    """Rows, by the table's name."""
    files: int
    unpacked_bytes: int
    packed_bytes: int
    parts: int
    reused_parts: int
    uploaded_bytes: int
    pruned: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class _Source:
    """A table as it was examined; as long as `hold` lives, the indexer does not clear its files."""

    name: str
    hold: Table
    examined: Examined
    files: tuple[SourceFile, ...]

    def check(self) -> None:
        """Raises DATASET_NOT_WHOLE where somebody has written to its files since they were found."""
        if tuple(pack.files_of(self.name, Path(self.hold.fingerprint[0]))) != self.files:
            raise not_whole(self.name, "changed while it was packed")


class _Stopped(Exception):
    """Another part failed, or the run was interrupted."""


def publish(
    database: Path,
    store: Store,
    *,
    dry_run: bool = False,
    keep: int | None = None,
    watch: Watcher | None = None,
    leftovers_after: timedelta = pruning.LEFTOVERS_AFTER,
) -> Published:
    """Makes the tables of `database` the current release of `store`, unless they are it already.

    With `dry_run` everything is done but writing to the store. With `keep`, `pruning.prune` follows.
    Raises `BedivereError`: DATASET_NOT_WHOLE, PUBLISH_CONFLICT where another run came first, RELEASE_TOO_NEW where a
    newer Bedivere published the current release, DATABASE_NOT_FOUND, and what the store raises.
    """
    started = time.monotonic()
    watch = watch or _Unwatched()
    watch.stage("Checking the tables")
    sources = _sources(database)
    watch.stage("Looking at what is published")
    seen = history.survey(store)
    history.refuse_newer(seen.current)
    run = _Run(store, sources, seen, watch, dry_run)
    notes: list[str] = []
    if not dry_run:
        notes.extend(pruning.clean(store, seen, after=leftovers_after))
        history.heal(store, seen.current)
    result = run.unchanged() or run.publish()
    notes.extend(run.notes)
    if keep is not None and not dry_run:
        watch.stage("Removing old releases")
        with pruning.allowed(notes, "Old releases could not be removed"):
            pruned = pruning.prune(store, keep)
            notes.extend(pruned.notes)
            result = replace(result, pruned=pruned.releases)
    return replace(result, notes=tuple(dict.fromkeys(notes)), seconds=round(time.monotonic() - started, 3))


def _sources(database: Path) -> list[_Source]:
    async def opened() -> list[Table]:
        found = Database(str(database))
        tables: list[Table] = []
        for name in found.names():
            try:
                tables.append(await found.table(name))
            except BedivereError as error:
                if error.code is not ErrorCode.TABLE_UNREADABLE:
                    raise
                raise not_whole(name, "cannot be read") from None
        return tables

    sources: list[_Source] = []
    for table in asyncio.run(opened()):
        place = Path(table.fingerprint[0])
        files = tuple(pack.files_of(table.name, place))
        try:
            examined = examine(place)
        except NotWholeError as lack:
            raise not_whole(table.name, str(lack)) from lack.__cause__
        sources.append(_Source(table.name, table, examined, files))
    if not sources:
        raise BedivereError(
            ErrorCode.DATASET_NOT_WHOLE, "The database has no table: build one with bedivere index, then publish."
        )
    return sources


@dataclass(slots=True)
class _Run:
    store: Store
    sources: Sequence[_Source]
    seen: Survey
    watch: Watcher
    dry_run: bool
    corpus: str = field(init=False)
    lenders: dict[str, tuple[str, Part]] = field(init=False)
    """By the SHA-256 of the part: the release that is borrowed from, and the part as it is there."""
    borrowed: set[str] = field(default_factory=set[str])
    notes: list[str] = field(default_factory=list[str])
    late: bool = False
    """Whether the release may be the current one from now on."""
    stop: Event = field(default_factory=Event)
    lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        digest = sha256()
        for source in self.sources:
            digest.update(f"{source.name}\0{source.examined.digest}\0".encode())
        self.corpus = digest.hexdigest()
        self.lenders = {}
        now = datetime.now(UTC)
        lenders = [manifest for manifest in self.seen.manifests() if not is_made_up(manifest.release, now)]
        for manifest in lenders[:_LENDERS]:
            for part in manifest.parts:
                self.lenders.setdefault(part.sha256, (manifest.release, part))

    @property
    def current(self) -> Current | None:
        return self.seen.current

    def unchanged(self) -> Published | None:
        """The current release, where it holds the same tables and nothing of it is missing."""
        pointer = self.current.pointer if self.current else None
        if pointer is None or pointer.manifest.corpus != self.corpus:
            return None
        if len(history.held(self.store, pointer.manifest.parts)) != len(pointer.manifest.parts):
            return None
        return self._published(pointer.manifest, unchanged=True)

    def publish(self) -> Published:
        """Uploads what is new and flips the pointer."""
        release = self._claim()
        try:
            manifest = self._manifest(release, self._parts(release))
            for source in self.sources:
                source.check()
            if not self.dry_run:
                self.watch.stage(MAKING_CURRENT)
                self._make_current(manifest)
        except BaseException as error:
            # Where it is not known what the store has done, the next run removes what is left.
            known = error.code is not ErrorCode.STORE_UNREACHABLE if isinstance(error, BedivereError) else not self.late
            if known and not self.dry_run:
                with suppress(BedivereError):
                    self._withdraw(release)
            raise
        return self._published(manifest, unchanged=False)

    def _claim(self) -> str:
        """An id of its own, later than every other; nobody else can take it from now on."""
        if self.dry_run:
            return next(new_ids(self.seen.ids(), self.corpus))
        return claim(self.store, self.seen.ids(), self.corpus)

    def _parts(self, release: str) -> tuple[Part, ...]:
        files = [file for source in self.sources for file in source.files]
        earlier = [part for _, part in self.lenders.values()]
        groups = pack.plan(files, earlier)
        self.watch.planned(sum(file.bytes for file in files))
        self.watch.stage(f"{'Packing' if self.dry_run else 'Uploading'} {counted(len(groups), 'part')}")
        with pack.workspace() as folder, ThreadPoolExecutor(_AT_ONCE) as pool:
            futures: list[Future[Part]] = [
                pool.submit(self._part, release, number, group, folder) for number, group in enumerate(groups)
            ]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
            finally:
                self.stop.set()
                pool.shutdown(wait=False, cancel_futures=True)
            failures = [
                error
                for future in futures
                if future.done()
                and not future.cancelled()
                and (error := future.exception())
                and not isinstance(error, _Stopped)
            ]
            if failures:
                raise failures[0]
            return tuple(future.result() for future in futures)

    def _part(self, release: str, number: int, group: Sequence[SourceFile], folder: Path) -> Part:
        """Packs one part and brings it to the store, unless an earlier release has it there."""
        self._stop_if_asked()
        key = part_key(release, number)
        file = folder / f"part-{number:04}"
        try:
            packed = pack.write(group, file)
            self._say(self.watch.planned, packed.bytes - sum(each.bytes for each in group))
            part = Part(key, packed.bytes, packed.sha256, tuple(PackedFile(each.path, each.bytes) for each in group))
            lender, same = self.lenders.get(packed.sha256, ("", part))
            if lender and self.store.holds(same.key, size=part.bytes, sha256=part.sha256):
                self.borrowed.add(lender)
                self._say(self.watch.planned, -packed.bytes)
                return replace(part, key=same.key)
            self._stop_if_asked()
            if not self.dry_run:
                self.store.upload(key, file, sha256=packed.sha256, on_sent=self._sent)
            return part
        finally:
            file.unlink(missing_ok=True)

    def _sent(self, count: int) -> None:
        self._stop_if_asked()
        self._say(self.watch.sent, count)

    def _say(self, tell: Callable[[int], None], count: int) -> None:
        with self.lock:
            tell(count)

    def _stop_if_asked(self) -> None:
        if self.stop.is_set():
            raise _Stopped

    def _manifest(self, release: str, parts: tuple[Part, ...]) -> Manifest:
        manifest = Manifest(
            release=release,
            created_at=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
            minimum_reader=READER_FORMAT,
            tool_version=version("bedivere"),
            corpus=self.corpus,
            parts=parts,
            tables=tuple(map(_entry, self.sources)),
        )
        try:
            return Manifest.from_json(manifest.to_json())
        except BedivereError:
            # What no reader would take must not become current.
            raise _too_many_files() from None

    def _make_current(self, manifest: Manifest) -> None:
        release = manifest.release
        # From now on no pruning removes a part of it; see `pruning.remove` for the order of these steps.
        self.store.put(pending_key(release), manifest.to_json())
        gone = [lender for lender in self.borrowed if self.store.size(manifest_key(lender)) is None]
        if gone or len(history.held(self.store, manifest.parts)) != len(manifest.parts):
            raise BedivereError(
                ErrorCode.PUBLISH_CONFLICT,
                f"Parts that release {release} needs were removed while it was being published: publish again.",
            )
        self.late = True
        history.flip(self.store, manifest, self.seen)
        # It is published: whoever comes next writes what is missing here.
        with suppress(BedivereError):
            self.store.put(manifest_key(release), manifest.to_json())
            with pruning.allowed(self.notes, f"The claim of release {release} could not be removed"):
                self.store.delete([pending_key(release)])

    def _withdraw(self, release: str) -> None:
        """Removes what this run has uploaded, unless it became current all the same."""
        seen = history.survey(self.store)
        if seen.current is None or seen.current.release not in {None, release}:
            pruning.remove(self.store, seen, [release])

    def _published(self, manifest: Manifest, *, unchanged: bool) -> Published:
        prefix = part_key(manifest.release, 0).rpartition("/")[0]
        new = [] if unchanged else [part for part in manifest.parts if part.key.startswith(f"{prefix}/")]
        return Published(
            release=manifest.release,
            unchanged=unchanged,
            tables={table.name: table.rows for table in manifest.tables},
            files=sum(len(part.files) for part in manifest.parts),
            unpacked_bytes=manifest.unpacked_bytes,
            packed_bytes=manifest.packed_bytes,
            parts=len(manifest.parts),
            reused_parts=len(manifest.parts) - len(new),
            uploaded_bytes=sum(part.bytes for part in new),
        )


def _entry(source: _Source) -> TableEntry:
    seen = source.examined
    provenance = asdict(seen.provenance) if seen.provenance else None
    return TableEntry(source.name, seen.rows, seen.columns, seen.indexed, provenance)


def _too_many_files() -> BedivereError:
    return BedivereError(
        ErrorCode.DATASET_NOT_WHOLE,
        f"The tables have more files than a release can list, which is {MAX_FILES:,} with short names: "
        "run bedivere index with --rebuild, then publish.",
    )


class _Unwatched:
    def stage(self, name: str) -> None: ...

    def planned(self, count: int) -> None: ...

    def sent(self, count: int) -> None: ...
