"""What the machine does to a function and a client to a server: disks, freezes, hang-ups. All of it is survived."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from mcp.client import Client

from tests.e2e.conftest import serving
from tests.e2e.emulator import Emulated, emulated
from tests.fault_proxy import running_fault_proxy
from tests.retrieval.release.releasing import write
from tests.s3_server import S3Server
from tests.soak.load import ask

pytestmark = pytest.mark.e2e

PATIENCE_SECONDS = 60
# A mount of its own process: the machine does not see it.
MOUNTED = 'mount -t tmpfs -o "$1" tmpfs "$2" && shift 2 && exec "$@"'
NOBODY = 990
# As on Lambda: all but one folder is read-only, for a user without rights; here he may read what only its owner may,
# since the code lies where it lies.
UNPRIVILEGED = """
mount -o remount,bind,ro / && mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" || exit
mount -t tmpfs -o mode=1777 tmpfs "$2" && shift 2 || exit
reading=-all,+dac_read_search
exec setpriv --reuid 990 --regid 990 --clear-groups --no-new-privs \\
    --bounding-set=$reading --inh-caps=$reading --ambient-caps=$reading "$@"
"""


def may_mount() -> bool:
    """Whether this user may mount what only its own processes see."""
    try:
        tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    except OSError:
        return False
    return tried.returncode == 0


def publish(folder: Path, store: str, edition: int) -> None:
    from retrieval.release.publish import publish as publishing
    from retrieval.release.store import open_store

    write(folder, edition)
    publishing(folder / "db", open_store(store))


def called(function: Emulated, query: str = "edition of the page") -> dict[str, Any]:
    """The result of one search, which the gateway has answered with 200."""
    with httpx2.Client(timeout=PATIENCE_SECONDS) as client:
        response = ask(client, function.url, "lancedb_search", {"query": query})
    assert response.status_code == 200, response.text
    return response.json()["result"]


def edition(result: dict[str, Any]) -> int | str:
    """The edition that a search was answered from; the text of an error."""
    if result.get("isError"):
        return str(result["content"][0]["text"])
    (hit,) = result["structuredContent"]["hits"]
    return int(hit["snippet"].partition("Edition ")[2].partition(" ")[0])


def until(answer: Callable[[], object], wanted: object) -> None:
    began = time.monotonic()
    while (seen := answer()) != wanted:
        assert time.monotonic() - began < PATIENCE_SECONDS, seen


def environment(s3: S3Server, store: str, disk: Path, **settings: str) -> dict[str, str]:
    return {
        **s3.environment,
        "BEDIVERE_DATASET": store,
        "BEDIVERE_SYNC_FOLDER": str(disk),
        "BEDIVERE_REFRESH_SECONDS": "1",
        **settings,
    }


@pytest.mark.skipif(not may_mount(), reason="only root may mount a small disk")
@pytest.mark.parametrize(
    ("disk", "cause"),
    [("size=200k", "does not fit the disk"), ("size=64m,ro", "cannot be written")],
    ids=["full", "ro"],
)
def test_a_full_or_read_only_tmp_is_told_by_each_call_and_ends_nothing_where_root_may_mount(
    tmp_path: Path, s3: S3Server, bucket: str, disk: str, cause: str
) -> None:
    store, small = f"s3://{bucket}", tmp_path / "small"
    small.mkdir()
    publish(tmp_path, store, 1)
    wrapper = ["unshare", "--mount", "sh", "-c", MOUNTED, "sh", disk, str(small)]
    settings = environment(s3, store, small / "releases", TMPDIR=str(small), HOME=str(small))

    with emulated(settings, tmp_path, wrapper=wrapper) as function:
        said = [edition(called(function)) for _ in range(3)]
        processes = function.process_ids()
        smoke = httpx2.get(function.url).status_code

    assert all(str(each).startswith("DATASET_") and cause in str(each) for each in said[1:]), said
    assert str(small) not in str(said)
    assert len(processes) == 1
    assert smoke == 405


@pytest.mark.skipif(not may_mount(), reason="only root may take its rights away")
def test_a_user_without_rights_on_a_disk_that_cannot_be_written_is_served_where_root_may_mount(
    tmp_path: Path, s3: S3Server, bucket: str
) -> None:
    store, writable = f"s3://{bucket}", tmp_path / "writable"
    writable.mkdir()
    publish(tmp_path, store, 1)
    wrapper = ["unshare", "--mount", "sh", "-c", UNPRIVILEGED, "sh", str(tmp_path), str(writable)]
    tried = subprocess.run(
        [*wrapper, "sh", "-c", 'touch "$1" || touch "$2" && id -u', "sh", tmp_path / "file", writable / "file"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Read-only file system" in tried.stderr
    assert tried.stdout == f"{NOBODY}\n"

    settings = environment(s3, store, writable / "releases", TMPDIR=str(writable), HOME="/nonexistent")
    with emulated(settings, tmp_path, wrapper=wrapper) as function:
        until(lambda: edition(called(function)), 1)
        publish(tmp_path, store, 2)
        until(lambda: edition(called(function)), 2)
        (process,) = function.process_ids()
        assert f"Uid:\t{NOBODY}\t{NOBODY}\t" in Path(f"/proc/{process}/status").read_text()
        assert [line for line in function.lines() if line.get("level") in {"WARNING", "ERROR"}] == []


@pytest.fixture
def frozen(tmp_path: Path, s3: S3Server, bucket: str) -> Iterator[tuple[Emulated, str, Any]]:
    """A function that serves the first edition through a proxy, its store, and the proxy."""
    store = f"s3://{bucket}"
    publish(tmp_path, store, 1)
    with running_fault_proxy(s3.endpoint) as proxy:
        settings = environment(s3, store, tmp_path / "disk", AWS_ENDPOINT_URL_S3=proxy.endpoint)
        with emulated(settings, tmp_path) as function:
            until(lambda: edition(called(function)), 1)
            yield function, store, proxy
            proxy.closing.set()


def stop(function: Emulated, how: signal.Signals) -> None:
    (process,) = function.process_ids()
    os.kill(process, how)


def test_an_instance_that_was_frozen_between_calls_answers_at_once_and_then_from_the_release_that_came_meanwhile(
    frozen: tuple[Emulated, str, Any], tmp_path: Path
) -> None:
    function, store, _ = frozen
    # GIVEN a freeze of many refresh intervals, during which there was a release
    stop(function, signal.SIGSTOP)
    publish(tmp_path, store, 2)
    # The interval is to be over when it is thawed: there is nothing to see until then.
    threading.Event().wait(1.5)
    stop(function, signal.SIGCONT)
    # WHEN it is thawed THEN no call fails, and soon all are of the new one
    assert edition(called(function)) in (1, 2)
    until(lambda: edition(called(function)), 2)


def test_an_instance_that_was_frozen_in_the_middle_of_a_sync_takes_it_up_again(
    frozen: tuple[Emulated, str, Any], tmp_path: Path
) -> None:
    function, store, proxy = frozen
    fetching, thawed = threading.Event(), threading.Event()

    def hold(path: str) -> None:
        if "/part-" in path and not thawed.is_set():
            fetching.set()
            thawed.wait(PATIENCE_SECONDS)

    # GIVEN a sync that has begun, and a connection that is lost while the instance is frozen
    publish(tmp_path, store, 2)
    proxy.before = hold
    proxy.fail("refuse", "/part-", times=1)
    until(lambda: (edition(called(function)), fetching.is_set()), (1, True))
    stop(function, signal.SIGSTOP)
    thawed.set()
    stop(function, signal.SIGCONT)
    # WHEN it is thawed THEN the old release answers until the new one is there
    assert edition(called(function)) in (1, 2)
    until(lambda: edition(called(function)), 2)


@pytest.mark.parametrize("sent", ["half of the head", "half of the body", "all of it"])
def test_a_client_that_hangs_up_is_no_trouble_for_the_next(handbook: Path, sent: str) -> None:
    body = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}'

    async def tools(url: str) -> int:
        async with Client(url) as client:
            return len((await client.list_tools()).tools)

    with serving("--db", str(handbook)) as url:
        place = urlsplit(url)
        head = (
            f"POST {place.path} HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Type: application/json\r\n"
            "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        ).encode()
        parts = {"half of the head": head[:60], "half of the body": head + body[:20], "all of it": head + body}
        for _ in range(20):
            with socket.create_connection((place.hostname or "", place.port or 0)) as connection:
                connection.sendall(parts[sent])
        assert asyncio.run(tools(url)) >= 4


def test_a_client_that_hangs_up_on_the_gateway_leaves_the_function_to_the_next(
    frozen: tuple[Emulated, str, Any],
) -> None:
    function, _, _ = frozen
    place = urlsplit(function.url)
    for _ in range(3):
        with socket.create_connection((place.hostname or "", place.port or 0)) as connection:
            connection.sendall(
                f"POST {place.path} HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Length: 2\r\n\r\n{{}}".encode()
            )
    assert edition(called(function)) == 1
    assert len(function.process_ids()) == 1
