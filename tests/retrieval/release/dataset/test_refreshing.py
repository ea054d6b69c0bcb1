"""Newer releases under load, failures beside an old release, and the clearing up of what no longer serves."""

from __future__ import annotations

import asyncio
import gc
import shutil
import threading
import time
from pathlib import Path

import pytest

from retrieval.dataset import (
    ReleasedDataset,
)
from retrieval.errors import ErrorCode
from retrieval.release.disk import SyncFolder
from retrieval.release.manifest import POINTER_KEY
from retrieval.retriever import Retriever
from retrieval.settings import Settings
from retrieval.types import SearchRequest
from tests.retrieval.release.crafted import LATER_RELEASE, RELEASE, MemoryStore, point_at, put_release
from tests.retrieval.release.dataset.watching import MakeDataset, current, finds, idle, wait_for, wait_until


class TestRefreshing:
    def test_a_new_release_is_synced_beside_the_old_one_and_then_serves(
        self, store: MemoryStore, make_dataset: MakeDataset, settings: Settings, handbook: Path, later: Path
    ) -> None:
        put_release(store, handbook)
        dataset = make_dataset()
        retriever = Retriever(settings, dataset)
        assert finds(retriever, "signing key")
        go = threading.Event()
        put_release(store, later, release=LATER_RELEASE)
        store.before_stream = lambda _: go.wait(5)
        assert finds(retriever, "signing key")
        assert not finds(retriever, "zeppelin")
        go.set()
        wait_until(lambda: dataset.state().release == LATER_RELEASE)
        assert finds(retriever, "zeppelin")
        assert not finds(retriever, "signing key")

    def test_within_the_interval_the_store_is_left_alone(
        self, store: MemoryStore, make_dataset: MakeDataset, handbook: Path
    ) -> None:
        put_release(store, handbook)
        dataset = make_dataset(refresh_seconds=60)
        for _ in range(3):
            assert current(dataset) is None
        assert store.asked.count(POINTER_KEY) == 1

    def test_after_a_freeze_in_which_a_clock_stood_still_the_store_is_asked_at_once(
        self, store: MemoryStore, make_dataset: MakeDataset, handbook: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put_release(store, handbook)
        dataset = make_dataset(refresh_seconds=60)
        assert current(dataset) is None
        thawed = time.time() + 3600
        monkeypatch.setattr("retrieval.dataset.time.time", lambda: thawed)
        for _ in range(3):
            assert current(dataset) is None
            wait_until(idle(dataset))
        assert store.asked.count(POINTER_KEY) == 2

    def test_a_pointer_that_did_not_change_costs_no_part(
        self, store: MemoryStore, make_dataset: MakeDataset, handbook: Path
    ) -> None:
        manifest = put_release(store, handbook)
        dataset = make_dataset()
        for _ in range(3):
            assert current(dataset) is None
            wait_until(idle(dataset))
        assert store.asked.count(POINTER_KEY) >= 3
        assert len(store.fetched_parts) == len(manifest.parts)
        assert dataset.state().syncs == 1

    def test_a_pointer_with_the_same_release_under_another_tag_costs_no_part_either(
        self, store: MemoryStore, make_dataset: MakeDataset, handbook: Path
    ) -> None:
        manifest = put_release(store, handbook)
        dataset = make_dataset()
        assert current(dataset) is None
        database = dataset.served()
        wait_until(idle(dataset))
        store.objects[POINTER_KEY] = store.objects[POINTER_KEY].replace(b"{", b"{ ", 1)
        for _ in range(2):
            dataset.start()
            wait_until(idle(dataset))
        assert dataset.served() is database
        assert len(store.fetched_parts) == len(manifest.parts)

    def test_a_rollback_is_served_without_a_download_where_the_release_is_here_still(
        self, store: MemoryStore, make_dataset: MakeDataset, handbook: Path, later: Path
    ) -> None:
        first = put_release(store, handbook)
        dataset = make_dataset()
        held = asyncio.run(dataset.current())
        put_release(store, later, release=LATER_RELEASE)
        wait_for(dataset, LATER_RELEASE)
        asked = len(store.fetched_parts)
        point_at(store, first)
        wait_for(dataset, RELEASE)
        assert len(store.fetched_parts) == asked
        assert dataset.state().sync_bytes == 0
        assert held.names() == ["documents"]

    @pytest.mark.parametrize("code", [ErrorCode.STORE_DENIED, ErrorCode.STORE_UNREACHABLE, ErrorCode.STORE_NOT_FOUND])
    def test_a_store_that_fails_keeps_the_old_release_serving(
        self,
        store: MemoryStore,
        make_dataset: MakeDataset,
        settings: Settings,
        handbook: Path,
        code: ErrorCode,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        put_release(store, handbook)
        dataset = make_dataset()
        retriever = Retriever(settings, dataset)
        assert finds(retriever, "signing key")
        wait_until(idle(dataset))
        store.failure = code
        assert finds(retriever, "signing key")
        wait_until(lambda: dataset.state().failures > 0)
        assert finds(retriever, "signing key")
        assert code in caplog.text
        failure = dataset.state().failure
        assert failure is not None
        assert failure.code is code

    def test_a_damaged_release_keeps_the_old_one_serving_until_a_whole_one_comes(
        self, store: MemoryStore, make_dataset: MakeDataset, settings: Settings, handbook: Path, later: Path
    ) -> None:
        put_release(store, handbook)
        dataset = make_dataset()
        retriever = Retriever(settings, dataset)
        assert finds(retriever, "signing key")
        put_release(store, later, release=LATER_RELEASE, rows=9)
        dataset.start()
        wait_until(lambda: dataset.state().failures > 0)
        assert finds(retriever, "signing key")
        put_release(store, later, release=LATER_RELEASE)
        wait_for(dataset, LATER_RELEASE)
        assert finds(retriever, "zeppelin")

    def test_a_release_that_was_pruned_while_it_was_fetched_gives_way_to_the_current_one(
        self, store: MemoryStore, make_dataset: MakeDataset, settings: Settings, handbook: Path, later: Path
    ) -> None:
        manifest = put_release(store, handbook)

        def prune(_: str) -> None:
            store.before_stream = lambda _: None
            put_release(store, later, release=LATER_RELEASE)
            store.delete([part.key for part in manifest.parts])

        store.before_stream = prune
        dataset = make_dataset()
        assert finds(Retriever(settings, dataset), "zeppelin")
        assert dataset.state().release == LATER_RELEASE

    def test_a_part_that_is_lost_for_good_is_damage(
        self, store: MemoryStore, make_dataset: MakeDataset, handbook: Path
    ) -> None:
        manifest = put_release(store, handbook)
        store.delete([manifest.parts[0].key])
        failure = current(make_dataset())
        assert failure is not None
        assert "RELEASE_DAMAGED" in failure.sentence
        assert store.asked.count(POINTER_KEY) == 2

    def test_on_lambda_a_call_lends_the_sync_its_time(
        self,
        store: MemoryStore,
        make_dataset: MakeDataset,
        settings: Settings,
        handbook: Path,
        later: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "bedivere")
        put_release(store, handbook)
        retriever = Retriever(settings, make_dataset())
        assert finds(retriever, "signing key")
        put_release(store, later, release=LATER_RELEASE)
        assert finds(retriever, "zeppelin")

    def test_on_lambda_a_sync_that_gets_nowhere_holds_up_one_call(
        self, store: MemoryStore, settings: Settings, handbook: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "bedivere")
        monkeypatch.setattr("retrieval.dataset._LEND_SECONDS", 0.2)
        put_release(store, handbook)
        dataset = ReleasedDataset(settings.model_copy(update={"refresh_seconds": 0}), make_store=lambda: store)
        assert current(dataset) is None
        go, real = threading.Event(), store.get
        monkeypatch.setattr(store, "get", lambda *key, **more: go.wait(5) and real(*key, **more))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        times: list[float] = []
        for _ in range(3):
            started = time.monotonic()
            assert current(dataset) is None
            times.append(time.monotonic() - started)
        assert [spent > 0.15 for spent in times] == [True, False, False]
        go.set()
        wait_until(idle(dataset))

    def test_what_was_cleared_from_the_disk_is_fetched_again(
        self, store: MemoryStore, make_dataset: MakeDataset, settings: Settings, handbook: Path
    ) -> None:
        put_release(store, handbook)
        dataset = make_dataset()
        retriever = Retriever(settings, dataset)
        assert finds(retriever, "signing key")
        wait_until(idle(dataset))
        shutil.rmtree(Path(str(settings.sync_folder)))
        dataset.start()
        wait_until(lambda: dataset.state().syncs == 2)
        assert finds(retriever, "signing key")


class TestClearingUp:
    def test_the_old_release_goes_when_the_last_question_to_it_is_answered(
        self, store: MemoryStore, make_dataset: MakeDataset, settings: Settings, handbook: Path, later: Path
    ) -> None:
        put_release(store, handbook)
        dataset = make_dataset()
        old = Path(str(settings.sync_folder)) / RELEASE

        async def main() -> None:
            database = await dataset.current()
            table = await database.table("documents")
            put_release(store, later, release=LATER_RELEASE)
            dataset.start()
            await asyncio.to_thread(wait_until, lambda: dataset.state().release == LATER_RELEASE)
            del database
            gc.collect()
            await asyncio.sleep(0.1)
            assert old.exists()
            assert await table.count() > 0

        asyncio.run(main())
        gc.collect()
        wait_until(lambda: not old.exists())
        assert current(dataset) is None

    def test_a_sync_that_failed_does_not_keep_the_old_release_on_the_disk(
        self, store: MemoryStore, make_dataset: MakeDataset, settings: Settings, handbook: Path, later: Path
    ) -> None:
        # GIVEN an instance so quiet that nothing is collected which refers to itself
        gc.collect()
        gc.disable()
        try:
            put_release(store, handbook)
            dataset = make_dataset()
            assert current(dataset) is None
            # WHEN a part cannot be fetched, and later all is well
            put_release(store, later, release=LATER_RELEASE)
            parts = {key: store.objects.pop(key) for key in list(store.objects) if f"{LATER_RELEASE}/part" in key}
            dataset.start()
            wait_until(lambda: dataset.state().failures > 0 and idle(dataset)())
            store.objects.update(parts)
            wait_for(dataset, LATER_RELEASE)
            # THEN the old one goes, as it does without the failure
            wait_until(lambda: not (Path(str(settings.sync_folder)) / RELEASE).exists())
        finally:
            gc.enable()

    def test_a_process_that_ends_leaves_its_release_to_the_next(
        self, store: MemoryStore, make_dataset: MakeDataset, handbook: Path
    ) -> None:
        manifest = put_release(store, handbook)
        assert current(make_dataset()) is None
        gc.collect()
        again = make_dataset()
        assert current(again) is None
        assert again.state().sync_bytes == 0
        assert len(store.fetched_parts) == len(manifest.parts)

    def test_two_processes_share_a_folder_without_a_second_download(
        self, store: MemoryStore, make_dataset: MakeDataset, handbook: Path
    ) -> None:
        manifest = put_release(store, handbook)
        first, second = make_dataset(), make_dataset()
        first.start()
        second.start()
        assert current(first) is None
        assert current(second) is None
        assert len(store.fetched_parts) == len(manifest.parts)

    def test_one_does_not_clear_what_another_serves(
        self, store: MemoryStore, make_dataset: MakeDataset, settings: Settings, handbook: Path, later: Path
    ) -> None:
        put_release(store, handbook)
        old = make_dataset(refresh_seconds=60)
        assert current(old) is None
        put_release(store, later, release=LATER_RELEASE)
        assert finds(Retriever(settings, make_dataset()), "zeppelin")
        assert finds(Retriever(settings, old), "signing key")

    def test_one_that_must_wait_for_another_says_that_it_is_loading(
        self, store: MemoryStore, make_dataset: MakeDataset, settings: Settings, handbook: Path
    ) -> None:
        put_release(store, handbook)
        dataset = make_dataset()
        with SyncFolder(Path(str(settings.sync_folder))).locked(0):
            failure = current(dataset)
        assert failure is not None
        assert failure.code is ErrorCode.DATASET_LOADING
        assert current(dataset) is None


def test_questions_under_steady_load_never_fail_and_never_mix_releases(
    store: MemoryStore, make_dataset: MakeDataset, settings: Settings, handbook: Path, later: Path
) -> None:
    first = put_release(store, handbook)
    second = put_release(store, later, release=LATER_RELEASE)
    point_at(store, first)
    dataset = make_dataset()
    retriever = Retriever(settings, dataset)

    async def main() -> set[tuple[bool, bool]]:
        seen: set[tuple[bool, bool]] = set()
        for turn in range(60):
            if turn % 10 == 9:
                point_at(store, second if turn // 10 % 2 == 0 else first)
            replies = await asyncio.gather(
                *(
                    retriever.search(SearchRequest(query="signing key zeppelin", limit=50, min_score=0))
                    for _ in range(4)
                )
            )
            for reply in replies:
                paths = {hit.path for hit in reply.hits}
                seen.add(("keys.md" in paths, "zeppelin.md" in paths))
            await asyncio.sleep(0.01)
        return seen

    assert asyncio.run(main()) == {(True, False), (False, True)}
