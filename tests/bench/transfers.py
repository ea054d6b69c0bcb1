"""Publishing and syncing a release, beside boto3's own transfers of the same bytes through the same server."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from boto3.s3.transfer import TransferConfig

from retrieval.release.disk import SyncFolder
from retrieval.release.manifest import Manifest
from retrieval.release.publish import publish
from retrieval.release.store import S3Store
from retrieval.release.sync import fetch, read_pointer
from tests.bench.environment import environment_of
from tests.bench.slow_store import running_slow_store
from tests.bench.timing import Cost, cost_of, interleave
from tests.s3_server import S3Server, running_s3_server

_FILES_AT_ONCE = 4
"""Of boto3, which moves each in eight pieces and more at once: as many as a sync fetches parts."""


@dataclass(frozen=True, slots=True)
class Transfers:
    """What each way cost, round by round, for the same packed bytes."""

    packed_bytes: int
    unpacked_bytes: int
    parts: int
    publish: list[Cost]
    upload: list[Cost]
    sync: list[Cost]
    download: list[Cost]


def transfers(database: Path, delay: float, rounds: int) -> Transfers:
    """Publishes and syncs `database` `rounds` times; the server holds up each request by `delay` seconds."""
    with ExitStack() as stack:
        room = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bedivere-bench-")))
        server = stack.enter_context(running_s3_server())
        slow = stack.enter_context(running_slow_store(server, delay))
        stack.enter_context(environment_of(slow.environment))
        bucket = slow.create_bucket()
        store = S3Store(bucket)
        # Once, uncounted: Python imports what it needs, the server too.
        published = publish(database, store)
        found = read_pointer(store)
        assert found is not None
        manifest = found[0].manifest
        plain = _Plain(slow, bucket, manifest, room)
        plain.download(0)
        costs = interleave(
            rounds,
            [
                lambda _: _publish(database, slow),
                plain.upload,
                lambda number: _sync(store, manifest, room / f"synced-{number}"),
                plain.download,
            ],
        )
        return Transfers(published.packed_bytes, published.unpacked_bytes, published.parts, *costs)


def _publish(database: Path, server: S3Server) -> Cost:
    """Into a bucket of its own: what is published already would not be sent again."""
    store = S3Store(server.create_bucket())
    return cost_of(lambda: publish(database, store))


def _sync(store: S3Store, manifest: Manifest, folder: Path) -> Cost:
    with SyncFolder(folder).locked(1.0):
        cost = cost_of(lambda: fetch(store, manifest, folder))
    shutil.rmtree(folder)
    return cost


@dataclass(slots=True)
class _Plain:
    """The parts as files, moved by boto3."""

    server: S3Server
    bucket: str
    manifest: Manifest
    room: Path

    def download(self, _number: int) -> Cost:
        client = self.server.client()
        return self._all(lambda key: client.download_file(self.bucket, key, self._place(key), Config=TransferConfig()))

    def upload(self, number: int) -> Cost:
        client = self.server.client()
        return self._all(
            lambda key: client.upload_file(
                self._place(key), self.bucket, f"plain/{number}/{key}", Config=TransferConfig()
            )
        )

    def _place(self, key: str) -> str:
        return str(self.room / key.replace("/", "-"))

    def _all(self, move: Callable[[str], Any]) -> Cost:
        keys = [part.key for part in self.manifest.parts]

        def moved() -> None:
            with ThreadPoolExecutor(_FILES_AT_ONCE) as pool:
                list(pool.map(move, keys))

        return cost_of(moved)
