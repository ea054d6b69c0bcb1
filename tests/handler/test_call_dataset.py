"""What a call says of a dataset that is still being fetched, or that another release replaces while it is answered."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp_types import CallToolResult

from handler import protocol
from handler.main import AppHandler, make_handler
from handler.protocol import build_server
from retrieval.database import Database
from retrieval.dataset import ReleasedDataset
from retrieval.retriever import Retriever
from retrieval.settings import Settings, load_settings
from retrieval.types import SearchReply
from tests.conftest import TableMaker
from tests.handler.test_call_limits import ERAS, Context, Remembering, ask, refused
from tests.retrieval.release.crafted import LATER_RELEASE, RELEASE, MemoryStore, put_release


@pytest.fixture
def store(handbook: Path) -> MemoryStore:
    store = MemoryStore()
    put_release(store, handbook)
    return store


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Those of a function whose calls wait longer for the dataset than they may take."""
    return load_settings(database="s3://bucket", sync_folder=str(tmp_path / "sync"), dataset_wait_seconds=20.0)


@pytest.fixture
def dataset(store: MemoryStore, settings: Settings) -> ReleasedDataset:
    # An interval that the setting has not: every call looks for a newer release.
    return ReleasedDataset(settings.model_copy(update={"refresh_seconds": 0.0}), make_store=lambda: store)


@pytest.fixture
def recorder() -> Remembering:
    return Remembering()


@pytest.fixture
def handler(settings: Settings, recorder: Remembering, dataset: ReleasedDataset) -> Iterator[AppHandler]:
    made = make_handler(settings, recorder, dataset)
    yield made
    made.close()


@pytest.fixture
def held(store: MemoryStore) -> Iterator[threading.Event]:
    """The store sends no part until this is set."""
    go = threading.Event()
    store.before_stream = lambda _: go.wait(20)
    yield go
    go.set()


@ERAS
@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("milliseconds", [2050, 1500, 10])
@pytest.mark.parametrize(
    ("tool", "arguments"), [("lancedb_search", {"query": "key"}), ("lancedb_query", {"question": "key?"})]
)
def test_a_call_with_less_time_than_the_wait_says_that_the_dataset_is_loading(
    handler: AppHandler, recorder: Remembering, tool: str, arguments: dict[str, Any], milliseconds: int, modern: bool
) -> None:
    text = refused(ask(handler, tool, arguments, modern=modern, context=Context(milliseconds)))

    assert text == "DATASET_LOADING: The dataset is still being fetched: call again in 3 seconds."
    assert [call.status for call in recorder.calls] == ["DATASET_LOADING"]


@pytest.mark.usefixtures("held")
def test_a_wait_that_is_ended_too_late_is_told_as_what_it_waited_for(
    handler: AppHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "_QUESTION_SECONDS", -20.0)
    text = refused(ask(handler, "lancedb_search", {"query": "key"}, modern=True, context=Context(1050)))
    assert text.startswith("DATASET_LOADING: ")


def test_a_question_that_takes_too_long_is_no_dataset_that_is_loading(
    handler: AppHandler, dataset: ReleasedDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(handler, "lancedb_search", {"query": "key"}, modern=True, context=Context(29_000))
    assert dataset.state().release == RELEASE

    async def never(*_: object, **__: object) -> SearchReply:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(Database, "read", never)
    text = refused(ask(handler, "lancedb_search", {"query": "key"}, modern=True, context=Context(1050)))
    assert text.startswith("DEADLINE_EXCEEDED: ")


def test_the_dataset_that_comes_while_a_call_may_wait_answers_it(handler: AppHandler, recorder: Remembering) -> None:
    ask(handler, "lancedb_search", {"query": "key"}, modern=True, context=Context(15_000))
    assert [(call.status, call.release) for call in recorder.calls] == [("ok", RELEASE)]


def take_over(dataset: ReleasedDataset) -> None:
    """Waits until the later release serves."""
    give_up = time.monotonic() + 10
    while dataset.state().release != LATER_RELEASE:
        assert time.monotonic() < give_up, "it never came"
        dataset.start()
        time.sleep(0.01)


def test_status_and_the_log_name_the_release_whose_tables_were_read_though_another_takes_over(
    settings: Settings,
    dataset: ReleasedDataset,
    store: MemoryStore,
    recorder: Remembering,
    make_table: TableMaker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    later = make_table({"text": ["boat"]})

    def swapping(self: Database) -> list[str]:
        # Once: the sync looks for tables too.
        monkeypatch.undo()
        found = self.names()
        put_release(store, later, release=LATER_RELEASE)
        take_over(dataset)
        return found

    async def session() -> list[CallToolResult]:
        async with Client(build_server(settings, Retriever(settings, dataset), recorder)) as client:
            await client.call_tool("lancedb_search", {"query": "key"})
            # GIVEN a release that takes over between the look at what serves and all that follows
            monkeypatch.setattr(Database, "names", swapping)
            during = await client.call_tool("lancedb_status", {})
            return [during, await client.call_tool("lancedb_status", {})]

    told: list[dict[str, Any]] = [result.structured_content or {} for result in asyncio.run(session())]

    assert [status["release"]["id"] for status in told] == [RELEASE, LATER_RELEASE]
    assert [status["tables"][0]["rows"] == 1 for status in told] == [False, True]
    assert [call.release for call in recorder.calls] == [RELEASE, RELEASE, LATER_RELEASE]
