"""Brings the current release of a store into service: pointer, sync, opening, and one real question put to it."""

from __future__ import annotations

import asyncio
import os
import weakref
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from retrieval.errors import BedivereError, ErrorCode
from retrieval.release.disk import SyncFolder, hold, remove
from retrieval.release.manifest import Manifest, Pointer, damaged
from retrieval.release.store import Reader
from retrieval.release.sync import PartMissing, Patience, Progress, SyncFigures, fetch, read_pointer

if TYPE_CHECKING:
    from retrieval.database import Database
    from retrieval.settings import Settings

_QUESTION: Final = "the first question"


@dataclass(frozen=True, slots=True)
class Serving:
    """A release that answers. Its files stay as long as anything holds `database` or an open table of it."""

    database: Database
    folder: Path
    manifest: Manifest
    tag: str
    """The pointer's, when it was read."""
    synced_at: datetime
    figures: SyncFigures


def bring_current(
    store: Reader,
    releases: SyncFolder,
    settings: Settings,
    serving: Serving | None,
    *,
    on_progress: Progress | None = None,
    patience: Patience,
) -> Serving:
    """The current release, opened and proven by a query: `serving` itself, but for its tag, where it is current still.

    Blocks; runs an event loop of its own, so call it from a thread that has none. Raises what `read_pointer`, `fetch`
    and `SyncFolder.locked` raise, and RELEASE_DAMAGED where the tables are not those of the manifest.
    """
    if serving is not None and releases.find(serving.manifest) is None:
        # Somebody cleared the disk: what is open still answers, but not for long.
        serving = None
    found = read_pointer(store, unless_tag=serving.tag if serving else None, patience=patience)
    if serving is not None and (found is None or found[0].manifest == serving.manifest):
        return serving if found is None else replace(serving, tag=found[1])
    if found is None:  # pragma: no cover - a store that breaks its promise
        raise damaged("its store says that nothing changed since nothing")
    try:
        return _sync(store, releases, settings, found, serving, on_progress, patience)
    except PartMissing:
        # Pruned while it was fetched, if another release is current by now.
        again = read_pointer(store, patience=patience)
        if again is None or again[0].manifest == found[0].manifest:
            raise
        return _sync(store, releases, settings, again, serving, on_progress, patience)


def _sync(
    store: Reader,
    releases: SyncFolder,
    settings: Settings,
    found: tuple[Pointer, str],
    serving: Serving | None,
    on_progress: Progress | None,
    patience: Patience,
) -> Serving:
    manifest, tag = found[0].manifest, found[1]
    folder = releases.path / manifest.release
    with releases.locked(patience.lock):
        releases.clear(keep=manifest.release)
        figures = fetch(store, manifest, releases.path, on_progress=on_progress, patience=patience)
        in_use = hold(folder)
    # Imported only now: on a cold start the parts are on their way before LanceDB is loaded.
    from retrieval.database import Database

    database = Database(str(folder), settings.lancedb_api)
    weakref.finalize(database, os.close, in_use)
    try:
        asyncio.run(_prove(database, manifest, settings, strict=serving is not None))
    except BedivereError as error:
        if error.code in {ErrorCode.TABLE_UNREADABLE, ErrorCode.TABLE_NOT_FOUND, ErrorCode.RELEASE_DAMAGED}:
            # Fetched again next time: it may be this disk that lost something.
            remove(folder)
            raise damaged("a table in it cannot be read, or has other rows than its manifest says") from None
        raise
    return Serving(database, folder, manifest, tag, datetime.now(UTC), figures)


async def _prove(database: Database, manifest: Manifest, settings: Settings, *, strict: bool) -> None:
    """Opens every table and puts one question to the default one, or to the first.

    A table without the parts that a search needs is refused where another release serves already (`strict`); where
    none does, each call says better what it lacks.
    """
    for entry in manifest.tables:
        table = await database.table(entry.name)
        if await table.count() != entry.rows:
            raise damaged("a table has other rows than its manifest says")
    names = [entry.name for entry in manifest.tables]
    if not names:
        raise damaged("it holds no table")
    table = await database.table(settings.table if settings.table in names else names[0])
    try:
        layout = table.layout(settings.text_column)
    except BedivereError:
        if strict:
            raise
        return
    from retrieval.search.plan import plan_text

    plan = plan_text(_QUESTION, layout.searchable)
    if plan is not None:
        # With the catalog, which the first call needs as well, a row is read as each call reads it.
        await table.catalog(layout)
        await table.try_out(plan, layout)
