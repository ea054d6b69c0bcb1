"""Which database answers: the first sync, newer releases under load, failures beside an old release, clearing up."""

from __future__ import annotations

import asyncio
import json
import math
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from retrieval.dataset import (
    DatasetState,
    LocalDataset,
    ReleasedDataset,
    SyncOutcome,
    open_dataset,
    sync_folder,
)
from retrieval.errors import BedivereError, ErrorCode
from retrieval.look import seconds_of
from retrieval.release.manifest import POINTER_KEY
from retrieval.retriever import Retriever
from retrieval.settings import Settings, load_settings
from retrieval.types import SearchRequest
from tests.conftest import TableMaker
from tests.retrieval.release.crafted import LATER_RELEASE, RELEASE, MemoryStore, manifest_of, point_at, put_release
from tests.retrieval.release.dataset.watching import URI, MakeDataset, current, finds, idle, wait_for, wait_until


class TestWhichDataset:
    @pytest.mark.parametrize("database", ["s3://bucket/prefix", "file:///srv/releases"])
    def test_an_address_of_a_store_is_served_from_releases(self, database: str) -> None:
        assert isinstance(open_dataset(load_settings(database=database)), ReleasedDataset)

    @pytest.mark.parametrize("database", [None, "database", "/srv/s3://odd"])
    def test_anything_else_is_a_folder(self, database: str | None) -> None:
        assert isinstance(open_dataset(load_settings(database=database)), LocalDataset)

    def test_a_folder_is_served_as_it_stands_and_never_synced(self, handbook: Path) -> None:
        dataset = open_dataset(load_settings(database=str(handbook)))
        dataset.start()
        dataset.listen(lambda _: pytest.fail("nothing is synced"))
        assert asyncio.run(dataset.current()).names() == ["documents"]
        assert dataset.state() == DatasetState(from_releases=False)

    def test_an_address_that_is_none_is_told_by_the_first_call(self, tmp_path: Path) -> None:
        dataset = ReleasedDataset(load_settings(database="s3://NO", sync_folder=str(tmp_path)))
        failure = current(dataset)
        assert failure is not None
        assert failure.code is ErrorCode.DATASET_UNAVAILABLE
        assert "INVALID_ARGUMENT" in failure.sentence


class TestWhereReleasesAreCopiedTo:
    def test_to_the_folder_that_is_set(self, tmp_path: Path) -> None:
        assert sync_folder(load_settings(database=URI, sync_folder=str(tmp_path))) == tmp_path

    def test_on_lambda_to_its_one_writable_folder(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "bedivere")
        assert sync_folder(load_settings(database=URI)) == Path("/tmp/bedivere")

    @pytest.mark.parametrize(("cache", "expected"), [("/var/cache/me", "/var/cache/me"), (" ", "/nobody/.cache")])
    def test_elsewhere_to_the_cache_folder_by_store(
        self, monkeypatch: pytest.MonkeyPatch, cache: str, expected: str
    ) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", cache)
        monkeypatch.setenv("HOME", "/nobody")
        one, other = (sync_folder(load_settings(database=uri)) for uri in (URI, "s3://other"))
        assert one.parent == other.parent == Path(expected) / "bedivere"
        assert one != other


class TestTheFirstSync:
    def test_a_question_waits_for_it_and_is_answered(
        self, store: MemoryStore, make_dataset: MakeDataset, settings: Settings, handbook: Path
    ) -> None:
        put_release(store, handbook)
        assert finds(Retriever(settings, make_dataset()), "signing key")

    def test_starting_returns_at_once_and_starts_once(
        self, store: MemoryStore, make_dataset: MakeDataset, handbook: Path
    ) -> None:
        put_release(store, handbook)
        go = threading.Event()
        store.before_stream = lambda _: go.wait(5)
        dataset = make_dataset(refresh_seconds=60)
        dataset.start()
        dataset.start()
        assert dataset.state().syncing
        go.set()
        assert current(dataset) is None
        assert store.asked.count(POINTER_KEY) == 1

    def test_a_question_that_waited_long_enough_is_told_when_to_ask_again(
        self, store: MemoryStore, make_dataset: MakeDataset, handbook: Path
    ) -> None:
        put_release(store, handbook)
        go = threading.Event()
        store.before_stream = lambda _: go.wait(5)
        dataset = make_dataset(dataset_wait_seconds=0.05)
        failure = current(dataset)
        assert failure is not None
        assert failure.code is ErrorCode.DATASET_LOADING
        assert "in 3 seconds" in failure.sentence
        go.set()
        wait_until(idle(dataset))
        assert current(dataset) is None

    def test_the_loop_runs_on_while_questions_wait(
        self, store: MemoryStore, make_dataset: MakeDataset, handbook: Path
    ) -> None:
        put_release(store, handbook)
        go = threading.Event()
        store.before_stream = lambda _: go.wait(5)
        dataset = make_dataset()

        async def main() -> int:
            waiting = [asyncio.create_task(dataset.current()) for _ in range(5)]
            given_up = asyncio.create_task(dataset.current())
            ticks = 0
            while ticks < 20:
                await asyncio.sleep(0.002)
                ticks += 1
            given_up.cancel()
            assert not any(task.done() for task in waiting)
            go.set()
            assert len(set(await asyncio.gather(*waiting))) == 1
            return ticks

        assert asyncio.run(main()) == 20

    def test_a_loop_that_ends_before_it_is_no_trouble(
        self, store: MemoryStore, make_dataset: MakeDataset, handbook: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        put_release(store, handbook)
        go = threading.Event()
        store.before_stream = lambda _: go.wait(5)
        dataset = make_dataset(dataset_wait_seconds=0.01)
        assert current(dataset) is not None
        go.set()
        wait_until(idle(dataset))
        assert current(dataset) is None
        assert caplog.records == []

    def test_a_failure_is_told_with_its_cause_and_the_next_try(
        self, store: MemoryStore, make_dataset: MakeDataset, caplog: pytest.LogCaptureFixture
    ) -> None:
        store.failure = ErrorCode.STORE_DENIED
        dataset = make_dataset(first_pause=30.0)
        failure = current(dataset)
        assert failure is not None
        assert failure.code is ErrorCode.DATASET_UNAVAILABLE
        assert "STORE_DENIED: The store fails" in failure.sentence
        assert "next try is in 30 seconds" in failure.sentence
        assert "STORE_DENIED" in caplog.text
        assert dataset.state().failures == 1

    def test_until_the_next_try_calls_are_answered_at_once(self, store: MemoryStore, make_dataset: MakeDataset) -> None:
        store.failure = ErrorCode.STORE_DENIED
        dataset = make_dataset(first_pause=30.0)
        assert current(dataset) is not None
        assert current(dataset) is not None
        assert store.asked == [POINTER_KEY]

    def test_a_later_call_tries_again_and_is_answered(
        self, store: MemoryStore, make_dataset: MakeDataset, handbook: Path
    ) -> None:
        dataset = make_dataset()
        failure = current(dataset)
        assert failure is not None
        assert "RELEASE_NOT_FOUND" in failure.sentence
        put_release(store, handbook)
        assert current(dataset) is None
        state = dataset.state()
        assert (state.failure, state.failures, state.syncs) == (None, 1, 1)

    def test_pauses_double_up_to_a_minute(
        self, store: MemoryStore, make_dataset: MakeDataset, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store.failure = ErrorCode.STORE_UNREACHABLE
        dataset = make_dataset(first_pause=1.0)
        clock = [1000.0]
        monkeypatch.setattr("retrieval.dataset.time.monotonic", lambda: clock[0])
        pauses: list[int] = []
        for _ in range(9):
            tries = len(store.asked)
            while len(store.asked) == tries:
                clock[0] += 0.5
                dataset.start()
                wait_until(idle(dataset))
            failure = current(dataset)
            assert failure is not None
            pauses.append(int(failure.sentence.split()[-2]))
        assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]

    def test_a_fault_of_ours_is_told_without_its_text(
        self, store: MemoryStore, make_dataset: MakeDataset, caplog: pytest.LogCaptureFixture
    ) -> None:
        store.objects[POINTER_KEY] = 7  # type: ignore[assignment]
        failure = current(make_dataset())
        assert failure is not None
        assert "INTERNAL_ERROR" in failure.sentence
        assert "Traceback" in caplog.text

    def test_a_command_waits_however_long_it_takes(
        self, store: MemoryStore, make_dataset: MakeDataset, handbook: Path
    ) -> None:
        put_release(store, handbook)
        dataset = make_dataset(dataset_wait_seconds=0)
        assert asyncio.run(dataset.current(wait_seconds=math.inf)).names() == ["documents"]


class TestTheProof:
    def test_other_rows_than_the_manifest_says_are_never_served(
        self, store: MemoryStore, make_dataset: MakeDataset, handbook: Path, settings: Settings
    ) -> None:
        put_release(store, handbook, rows=7000)
        failure = current(make_dataset())
        assert failure is not None
        assert "RELEASE_DAMAGED" in failure.sentence
        assert not (Path(str(settings.sync_folder)) / RELEASE).exists()

    def test_a_table_that_cannot_be_opened_is_never_served(
        self, store: MemoryStore, make_dataset: MakeDataset, make_table: TableMaker
    ) -> None:
        database = make_table({"text": ["boat"]})
        for version in (database / "documents.lance" / "_versions").iterdir():
            version.write_bytes(b"nonsense")
        put_release(store, database, rows=1)
        failure = current(make_dataset())
        assert failure is not None
        assert "RELEASE_DAMAGED" in failure.sentence

    def test_a_release_without_tables_is_never_served(self, store: MemoryStore, make_dataset: MakeDataset) -> None:
        point_at(store, manifest_of([]))
        failure = current(make_dataset())
        assert failure is not None
        assert "RELEASE_DAMAGED" in failure.sentence

    def test_a_first_table_without_text_is_served_so_that_calls_say_what_it_lacks(
        self, store: MemoryStore, make_dataset: MakeDataset, make_table: TableMaker, settings: Settings
    ) -> None:
        put_release(store, make_table({"body": ["boat"]}))
        with pytest.raises(BedivereError) as raised:
            finds(Retriever(settings, make_dataset()), "boat")
        assert raised.value.code is ErrorCode.TEXT_COLUMN_MISSING

    def test_a_later_table_without_text_does_not_replace_one_with_it(
        self, store: MemoryStore, make_dataset: MakeDataset, make_table: TableMaker, handbook: Path
    ) -> None:
        put_release(store, handbook)
        dataset = make_dataset()
        assert current(dataset) is None
        put_release(store, make_table({"body": ["boat"]}), release=LATER_RELEASE)
        dataset.start()
        wait_until(idle(dataset))
        state = dataset.state()
        assert state.release == RELEASE
        assert state.failure is not None
        assert state.failure.code is ErrorCode.TEXT_COLUMN_MISSING


class TestLoops:
    def test_questions_from_several_event_loops_at_once_are_all_answered_through_a_change_of_release(
        self, store: MemoryStore, make_dataset: MakeDataset, settings: Settings, handbook: Path, later: Path
    ) -> None:
        put_release(store, handbook)
        dataset = make_dataset()
        retriever = Retriever(settings, dataset)
        together = threading.Barrier(3, timeout=10)

        def ask() -> list[bool]:
            # The first release holds it and the second does not.
            found: list[bool] = []

            async def on_one_loop() -> None:
                together.wait()
                for _ in range(10):
                    found.append(bool((await retriever.search(SearchRequest(query="signing key", limit=1))).hits))

            asyncio.run(on_one_loop())
            # And another one in the same thread.
            together.wait()
            found.append(finds(retriever, "signing key"))
            return found

        with ThreadPoolExecutor(3) as pool:
            asked = [pool.submit(ask) for _ in range(3)]
            put_release(store, later, release=LATER_RELEASE)
            answered = [each.result() for each in asked]
        assert [len(each) for each in answered] == [11, 11, 11]
        assert all(each == sorted(each, reverse=True) for each in answered)
        wait_for(dataset, LATER_RELEASE)
        assert finds(retriever, "zeppelin")


class TestWhatIsTold:
    def test_the_state_has_the_release_and_the_figures_of_its_sync(
        self, store: MemoryStore, make_dataset: MakeDataset, handbook: Path
    ) -> None:
        manifest = put_release(store, handbook)
        dataset = make_dataset()
        assert dataset.state() == DatasetState(from_releases=True)
        assert current(dataset) is None
        state = dataset.state()
        assert (state.release, state.created_at, state.sync_bytes) == (
            RELEASE,
            manifest.created_at,
            manifest.packed_bytes,
        )
        assert state.age_seconds is not None
        assert state.sync_milliseconds is not None
        assert state.synced_at is not None
        assert state.synced_at.endswith("Z")

    def test_a_listener_hears_of_syncs_and_failures_those_before_it_included(
        self, store: MemoryStore, make_dataset: MakeDataset, handbook: Path, later: Path
    ) -> None:
        heard: list[SyncOutcome] = []
        manifest = put_release(store, handbook)
        dataset = make_dataset()
        assert current(dataset) is None
        dataset.listen(heard.append)
        assert [(outcome.failure, outcome.release, outcome.fetched_bytes) for outcome in heard] == [
            (None, RELEASE, manifest.packed_bytes)
        ]
        assert heard[0].published_at == 1795976100.0
        put_release(store, later, release=LATER_RELEASE)
        dataset.start()
        wait_until(lambda: len(heard) == 2)
        assert heard[1].release == LATER_RELEASE
        wait_until(idle(dataset))
        store.failure = ErrorCode.STORE_DENIED
        dataset.start()
        wait_until(lambda: len(heard) == 3)
        assert (heard[2].failure, heard[2].release) == (ErrorCode.STORE_DENIED, LATER_RELEASE)
        assert heard[2].fetched_bytes is None

    def test_a_listener_that_fails_is_no_trouble_for_the_sync(
        self, store: MemoryStore, make_dataset: MakeDataset, handbook: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fail(_: SyncOutcome) -> None:
            raise ZeroDivisionError

        put_release(store, handbook)
        dataset = make_dataset()
        dataset.listen(fail)
        assert current(dataset) is None
        wait_until(lambda: "ZeroDivisionError" in caplog.text)

    @pytest.mark.parametrize("hours", [-5, 5])
    def test_a_clock_that_is_hours_off_neither_stops_a_release_nor_makes_its_age_negative(
        self,
        store: MemoryStore,
        make_dataset: MakeDataset,
        handbook: Path,
        later: Path,
        monkeypatch: pytest.MonkeyPatch,
        hours: int,
    ) -> None:
        put_release(store, handbook)
        dataset = make_dataset()
        published = seconds_of("2026-11-29T18:15:00Z") or 0.0
        monkeypatch.setattr("retrieval.look.time.time", lambda: published + hours * 3600)
        assert current(dataset) is None
        assert dataset.state().age_seconds == max(0, hours * 3600)
        put_release(store, later, release=LATER_RELEASE)
        wait_for(dataset, LATER_RELEASE)

    def test_a_release_without_a_readable_date_has_no_age(
        self, store: MemoryStore, make_dataset: MakeDataset, handbook: Path
    ) -> None:
        put_release(store, handbook)
        store.objects[POINTER_KEY] = store.objects[POINTER_KEY].replace(b"2026-11-29T18:15:00Z", b"yesterday")
        dataset = make_dataset()
        assert current(dataset) is None
        assert dataset.state().age_seconds is None

    def test_status_answers_at_once_before_during_and_after_the_first_sync(
        self, store: MemoryStore, make_dataset: MakeDataset, settings: Settings, handbook: Path
    ) -> None:
        put_release(store, handbook)
        go = threading.Event()
        store.before_stream = lambda _: go.wait(5)
        dataset = make_dataset()
        retriever = Retriever(settings, dataset)
        reply = asyncio.run(retriever.status(verbose=False))
        assert (reply.connected, reply.tables) == (False, [])
        assert (reply.problem or "").startswith("DATASET_LOADING")
        assert reply.release is not None
        assert reply.release.id is None
        go.set()
        wait_until(idle(dataset))
        reply = asyncio.run(retriever.status(verbose=False))
        assert reply.connected
        assert reply.release is not None
        assert (reply.release.id, reply.release.last_failure) == (RELEASE, None)

    def test_status_names_the_last_failure(
        self, store: MemoryStore, make_dataset: MakeDataset, settings: Settings
    ) -> None:
        store.failure = ErrorCode.STORE_DENIED
        dataset = make_dataset(first_pause=30.0)
        assert current(dataset) is not None
        reply = asyncio.run(Retriever(settings, dataset).status(verbose=False))
        assert (reply.problem or "").startswith("DATASET_UNAVAILABLE")
        assert reply.release is not None
        assert reply.release.last_failure == "STORE_DENIED"


def test_starting_needs_neither_lancedb_nor_boto3() -> None:
    script = (
        "import json, sys; from retrieval.settings import load_settings; from retrieval.dataset import open_dataset;"
        "open_dataset(load_settings(database='s3://bucket'));"
        "print(json.dumps([name for name in ('lancedb', 'pyarrow', 'boto3', 'mcp') if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
