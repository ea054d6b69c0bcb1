"""Releases from end to end: published to S3, served by Lambda's emulator, replaced and rolled back under load."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp_types import CallToolResult

from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options
from tests.e2e.conformance import npm
from tests.e2e.conftest import BEDIVERE, clean_environment
from tests.e2e.emulator import Emulated, emulated
from tests.fault_proxy import running_fault_proxy
from tests.s3_server import S3Server

pytestmark = pytest.mark.e2e

REFRESH_SECONDS = 1
PATIENCE_SECONDS = 60
QUERY = "rotate the signing key"
DAYS = ("ninety", "thirty")


def index(folder: Path, days: str) -> Path:
    """A database of one page, which says after how many days the key is rotated."""
    source, database = folder / f"docs-{days}", folder / f"database-{days}"
    source.mkdir()
    page = f"# Key rotation\n\nRotate the signing key every {days} days with `rotate_signing_key`.\n"
    (source / "rotation.md").write_text(page, encoding="utf-8")
    build_table(Options(source=source, database=database))
    return database


def bedivere(s3: S3Server, *arguments: str) -> dict[str, Any]:
    """What a command says with --json."""
    done = subprocess.run(
        [*BEDIVERE, *arguments, "--json"],
        env=clean_environment(**s3.environment),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@contextmanager
def deployed(s3: Mapping[str, str], store: str, folder: Path, **settings: str) -> Generator[Emulated]:
    """The function on an empty disk, serving the releases of `store`."""
    environment = {
        **s3,
        "BEDIVERE_DATASET": store,
        "BEDIVERE_SYNC_FOLDER": str(folder / "disk"),
        "BEDIVERE_REFRESH_SECONDS": str(REFRESH_SECONDS),
        **settings,
    }
    with emulated(environment, folder) as function:
        yield function


@dataclass
class Load:
    """Clients that ask the same question without pause, and what each answer said."""

    clients: list[Client]
    answers: list[str] = field(default_factory=list[str])
    """The days that an answer named, in the order of the answers; or the text of one that failed."""
    over: bool = False

    async def run(self, client: Client) -> None:
        while not self.over:
            self.answers.append(_said(await client.call_tool("lancedb_search", {"query": QUERY})))

    async def until_all_say(self, days: str) -> float:
        """Seconds until the latest answers, more than there are clients, are all of one release."""
        began = time.monotonic()
        seen = len(self.answers)
        recent = 4 * len(self.clients)
        while len(self.answers) < seen + recent or {*self.answers[-recent:]} != {days}:
            assert time.monotonic() - began < PATIENCE_SECONDS, Counter(self.answers)
            await asyncio.sleep(0.01)
        return time.monotonic() - began


def _said(result: CallToolResult) -> str:
    found: dict[str, Any] = result.structured_content or {}
    hits: list[dict[str, Any]] = found.get("hits", [])
    named = [days for days in DAYS if any(f"every {days} days" in hit["snippet"] for hit in hits)]
    return named[0] if len(named) == 1 else str(result.content)


@asynccontextmanager
async def load_of_both_eras(url: str) -> AsyncGenerator[Load]:
    async with Client(url, mode="auto") as stateless, Client(url, mode="legacy") as handshake:
        load = Load([stateless, handshake])
        async with asyncio.TaskGroup() as group:
            for client in load.clients:
                group.create_task(load.run(client))
            try:
                yield load
            finally:
                load.over = True


def test_a_release_is_served_replaced_and_rolled_back_and_no_call_fails_meanwhile(
    tmp_path: Path, s3: S3Server, bucket: str
) -> None:
    # GIVEN a first release, and a function that has started with nothing
    store = f"s3://{bucket}/docs"
    first, second = index(tmp_path, "ninety"), index(tmp_path, "thirty")
    published = [bedivere(s3, "publish", str(first), store)["release"]]

    async def story(url: str) -> tuple[list[float], list[str]]:
        async with load_of_both_eras(url) as load:
            await load.until_all_say("ninety")
            # WHEN another is published, and then rolled back, while both eras go on asking
            replaced = await asyncio.to_thread(bedivere, s3, "publish", str(second), store)
            published.append(replaced["release"])
            taken = [await load.until_all_say("thirty")]
            await asyncio.to_thread(bedivere, s3, "rollback", store)
            taken.append(await load.until_all_say("ninety"))
        return taken, load.answers

    with deployed(s3.environment, store, tmp_path) as function:
        taken, answers = asyncio.run(story(function.url))
        lines = function.lines()

    # THEN every call was answered from one of the two, in that order, each soon after it became current
    assert {*answers} == {*DAYS}, Counter(answers)
    changes = [now for before, now in zip(["", *answers], answers, strict=False) if before != now]
    assert changes == ["ninety", "thirty", "ninety"]
    assert max(taken) < REFRESH_SECONDS + 10
    # AND the log tells the same story
    served = [line["release"] for line in lines if line.get("message") == "sync"]
    assert served == [published[0], published[1], published[0]]
    assert sum(line.get("SyncMs", []) != [] for line in lines) >= 1
    assert not any("SyncFailures" in line for line in lines)
    assert {line["release"] for line in lines if line.get("message") == "call"} == {*published}
    assert all(line["DatasetAgeSeconds"][0] < PATIENCE_SECONDS * 5 for line in lines if "DatasetAgeSeconds" in line)


def test_before_the_dataset_is_there_the_tools_are_listed_and_a_call_says_when_to_come_back(
    tmp_path: Path, s3: S3Server, bucket: str
) -> None:
    store = f"s3://{bucket}"
    bedivere(s3, "publish", str(index(tmp_path, "ninety")), store)

    async def session(url: str, mode: str) -> tuple[int, CallToolResult]:
        async with Client(url, mode=mode) as client:
            tools = await client.list_tools()
            return len(tools.tools), await client.call_tool("lancedb_search", {"query": QUERY})

    async def patiently(url: str) -> CallToolResult:
        async with Client(url) as client:
            began = time.monotonic()
            while (found := await client.call_tool("lancedb_search", {"query": QUERY})).is_error:
                assert time.monotonic() - began < PATIENCE_SECONDS, found
            return found

    with running_fault_proxy(s3.endpoint) as proxy:
        # GIVEN a store that does not answer
        proxy.fail("hang")
        environment = {**s3.environment, "AWS_ENDPOINT_URL_S3": proxy.endpoint}
        with deployed(environment, store, tmp_path, BEDIVERE_DATASET_WAIT_SECONDS="0.2") as function:
            for mode in ("auto", "legacy"):
                tools, found = asyncio.run(session(function.url, mode))
                assert tools >= 4
                assert found.is_error
                assert "DATASET_LOADING: " in str(found.content)
            # WHEN it answers again THEN the same instance gets its dataset
            proxy.heal()
            proxy.closing.set()
            assert _said(asyncio.run(patiently(function.url))) == "ninety"


def test_bedivere_smoke_waits_for_a_first_sync_that_outlasts_the_functions_time(
    tmp_path: Path, s3: S3Server, bucket: str
) -> None:
    store = f"s3://{bucket}"
    bedivere(s3, "publish", str(index(tmp_path, "ninety")), store)
    go = threading.Event()

    def hold_up(_: str) -> None:
        go.wait(PATIENCE_SECONDS)

    def statuses(function: Emulated) -> list[str]:
        return [line["status"] for line in function.lines() if line.get("message") == "call"]

    with running_fault_proxy(s3.endpoint) as proxy, ThreadPoolExecutor(1) as pool:
        # GIVEN a store that does not answer, and a function with less time than a call waits for the dataset
        proxy.before = hold_up
        environment = {**s3.environment, "AWS_ENDPOINT_URL_S3": proxy.endpoint}
        with deployed(environment, store, tmp_path, AWS_LAMBDA_FUNCTION_TIMEOUT="5") as function:
            # WHEN it answers after a call has been told to come back
            smoked = pool.submit(bedivere, s3, "smoke", function.url)
            try:
                began = time.monotonic()
                while not statuses(function) and not smoked.done():
                    assert time.monotonic() - began < PATIENCE_SECONDS
                    time.sleep(0.05)
            finally:
                go.set()
            # THEN every check passes, and no call was cut short
            assert smoked.result()["passed"]
            told = statuses(function)

    assert told[0] == "DATASET_LOADING"
    assert {*told} == {"DATASET_LOADING", "ok"}


@pytest.fixture(scope="module")
def cold(tmp_path_factory: pytest.TempPathFactory, s3_server: S3Server) -> Iterator[Emulated]:
    """A function that has still to fetch its dataset, from a bucket of its own."""
    folder, store = tmp_path_factory.mktemp("cold"), f"s3://{s3_server.create_bucket()}"
    bedivere(s3_server, "publish", str(index(folder, "ninety")), store)
    with deployed(s3_server.environment, store, folder) as function:
        yield function


def test_bedivere_smoke_passes_on_a_cold_function(cold: Emulated, s3_server: S3Server) -> None:
    assert bedivere(s3_server, "smoke", cold.url)["passed"]


def test_the_typescript_client_is_served_from_a_release(cold: Emulated) -> None:
    node = npm.install()
    done = node.run(npm.HERE / "client.mjs", str(npm.INSTALLED), cold.url)

    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["server"]["name"] == "bedivere"
    assert [hit["path"] for hit in seen["found"]["structuredContent"]["hits"]] == ["rotation.md"]
    assert seen["refused"]["isError"]
