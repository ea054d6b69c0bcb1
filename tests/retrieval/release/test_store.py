"""The two stores, asked the same: a folder, and S3 by way of a real server on loopback."""

# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from retrieval.errors import BedivereError, ErrorCode
from retrieval.release import store as store_module
from retrieval.release.store import Conflict, Fetched, S3Store, Store, open_store
from tests.retrieval.release.storing import LIMIT, code_of, get, sha256_of, upload
from tests.s3_server import PAGE_KEYS, S3Server


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A fresh store of either kind."""
    if request.param == "s3":
        return open_store(f"s3://{request.getfixturevalue('bucket')}/some/prefix")
    folder = tmp_path / "a store of releases"
    folder.mkdir()
    return open_store(folder.as_uri())


# Small objects


def test_what_was_put_is_got_with_its_tag(store: Store) -> None:
    tag = store.put("current.json", b"{}")

    assert get(store, "current.json") == Fetched(b"{}", tag)


def test_an_object_whose_tag_is_known_is_not_got_again_until_it_changes(store: Store) -> None:
    tag = store.put("current.json", b"1")
    assert store.get("current.json", unless_tag=tag, max_bytes=LIMIT) is None

    store.put("current.json", b"2")
    changed = store.get("current.json", unless_tag=tag, max_bytes=LIMIT)

    assert changed is not None
    assert changed.data == b"2"


def test_what_is_not_there_is_a_key_error(store: Store) -> None:
    with pytest.raises(KeyError):
        store.get("releases/none", max_bytes=LIMIT)
    with pytest.raises(KeyError):
        store.stream("releases/none")
    assert store.size("releases/none") is None
    assert not store.holds("releases/none", size=1, sha256="0" * 64)


def test_an_object_larger_than_it_may_be_is_damaged(store: Store) -> None:
    store.put("current.json", b"12345")

    assert code_of(lambda: store.get("current.json", max_bytes=4)) == ErrorCode.RELEASE_DAMAGED


def test_a_write_that_expects_nothing_there_conflicts_with_something(store: Store) -> None:
    store.put("current.json", b"1", if_absent=True)

    with pytest.raises(Conflict):
        store.put("current.json", b"2", if_absent=True)
    assert get(store, "current.json").data == b"1"


def test_a_write_that_expects_a_tag_conflicts_with_any_other(store: Store) -> None:
    tag = store.put("current.json", b"1")
    store.put("current.json", b"2", if_tag=tag)

    with pytest.raises(Conflict):
        store.put("current.json", b"3", if_tag=tag)
    assert get(store, "current.json").data == b"2"


def test_a_write_that_expects_a_tag_conflicts_with_nothing(store: Store) -> None:
    with pytest.raises(Conflict):
        store.put("current.json", b"3", if_tag=store.put("other.json", b""))
    assert store.size("current.json") is None


def test_of_many_writers_that_expect_the_same_one_wins(store: Store) -> None:
    tag = store.put("current.json", b"old")
    barrier = threading.Barrier(6)
    won: list[int] = []

    def write(number: int) -> None:
        barrier.wait()
        try:
            store.put("current.json", str(number).encode(), if_tag=tag)
        except Conflict:
            return
        won.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(won) == 1
    assert get(store, "current.json").data == str(won[0]).encode()


# Parts


def test_a_part_that_was_uploaded_is_there_as_it_was(store: Store, part: Path) -> None:
    sent: list[int] = []
    store.upload("releases/a/part", part, sha256=sha256_of(part), on_sent=sent.append)

    assert b"".join(store.stream("releases/a/part", chunk_bytes=999)) == part.read_bytes()
    assert sum(sent) == store.size("releases/a/part") == 4000
    assert store.holds("releases/a/part", size=4000, sha256=sha256_of(part))


def test_a_part_of_another_size_or_content_is_not_the_one(store: Store, part: Path) -> None:
    upload(store, "releases/a/part", part)

    assert not store.holds("releases/a/part", size=3999, sha256=sha256_of(part))
    assert not store.holds("releases/a/part", size=4000, sha256="0" * 64)


def test_a_large_file_arrives_in_pieces_and_whole(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_bytes(os.urandom(1000) * (store_module.PIECE_BYTES // 1000 + 5000))
    sent: list[int] = []

    store.upload("releases/a/part", file, sha256=sha256_of(file), on_sent=sent.append)

    assert len(sent) > 1
    assert sum(sent) == file.stat().st_size
    assert hashlib.sha256(b"".join(store.stream("releases/a/part"))).hexdigest() == sha256_of(file)


def test_pieces_of_a_file_go_to_s3_side_by_side(
    s3_store: S3Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "large"
    file.write_bytes(bytes(store_module.PIECE_BYTES + 1))
    client: Any = s3_store._client  # pyright: ignore[reportPrivateUsage]
    real, both = client.upload_part, threading.Barrier(2, timeout=30)

    def upload_part(**request: Any) -> Any:
        both.wait()
        return real(**request)

    monkeypatch.setattr(client, "upload_part", upload_part)

    upload(s3_store, "part", file)

    assert s3_store.size("part") == store_module.PIECE_BYTES + 1


def test_no_more_pieces_are_held_at_once_than_fit_into_memory(
    s3_store: S3Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_store, "_sending", threading.Semaphore(1))
    file = tmp_path / "large"
    file.write_bytes(bytes(store_module.PIECE_BYTES + 1))
    client: Any = s3_store._client  # pyright: ignore[reportPrivateUsage]
    real, alone, met = client.upload_part, threading.Lock(), 0

    def upload_part(**request: Any) -> Any:
        nonlocal met
        met += not alone.acquire(blocking=False)
        answer = real(**request)
        alone.release()
        return answer

    monkeypatch.setattr(client, "upload_part", upload_part)

    upload(s3_store, "part", file)

    assert met == 0


def test_an_upload_that_is_ended_leaves_nothing(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_bytes(bytes(store_module.PIECE_BYTES + 1))

    def stop(_: int) -> None:
        raise InterruptedError

    with pytest.raises((InterruptedError, BedivereError)):
        store.upload("releases/a/part", file, sha256=sha256_of(file), on_sent=stop)
    assert list(store.list("")) == []
    assert store.abandon("releases/", datetime.now(UTC) + timedelta(hours=1)) == 0


def test_what_a_killed_upload_left_is_abandoned_once_it_is_old(
    store: Store, tmp_path: Path, s3_server: S3Server
) -> None:
    file = tmp_path / "large"
    file.write_bytes(bytes(store_module.PIECE_BYTES + 1))
    script = (
        "import os, signal, sys; from pathlib import Path; from retrieval.release.store import open_store\n"
        "open_store(sys.argv[1]).upload('releases/a/part', Path(sys.argv[2]), sha256=sys.argv[3],"
        " on_sent=lambda _: os.kill(os.getpid(), signal.SIGKILL))"
    )
    killed = subprocess.run([sys.executable, "-c", script, store.uri, file, sha256_of(file)], check=False)

    assert killed.returncode < 0
    assert list(store.list("")) == []
    assert store.abandon("releases/", datetime(2000, 1, 1, tzinfo=UTC)) == 0
    if isinstance(store, S3Store):
        assert store.abandon("other/", datetime.now(UTC) + timedelta(hours=1)) == 0
    assert store.abandon("releases/", datetime.now(UTC) + timedelta(hours=1)) == 1
    assert store.abandon("releases/", datetime.now(UTC) + timedelta(hours=1)) == 0


# Listing and deleting


def test_a_listing_holds_each_object_below_the_prefix_with_its_size_and_time(store: Store) -> None:
    for key in ("releases/b/1", "releases/a/2", "current.json"):
        store.put(key, key.encode())

    listed = list(store.list("releases/"))

    assert [(stored.key, stored.bytes) for stored in listed] == [("releases/a/2", 12), ("releases/b/1", 12)]
    assert all(abs(datetime.now(UTC) - stored.modified) < timedelta(minutes=1) for stored in listed)
    assert list(store.list("nothing/")) == []


def test_a_listing_and_a_deletion_are_complete_over_many_pages(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = S3Store(bucket, "p")
    for number in range(2 * PAGE_KEYS + 5):
        store.put(f"releases/{number:04}", b"")
    monkeypatch.setattr(store_module, "_DELETED_AT_ONCE", 7)

    assert [stored.key for stored in store.list("releases/")] == [f"releases/{n:04}" for n in range(2 * PAGE_KEYS + 5)]
    store.delete([stored.key for stored in store.list("")])
    assert list(store.list("")) == []


def test_what_is_deleted_is_gone_and_what_is_not_there_is_no_error(store: Store) -> None:
    store.put("releases/a/1", b"")
    store.put("releases/a/2", b"")

    store.delete(["releases/a/1", "releases/none"])
    store.delete([])

    assert [stored.key for stored in store.list("")] == ["releases/a/2"]


def test_two_prefixes_of_a_bucket_do_not_see_each_other(bucket: str) -> None:
    first, second, whole = S3Store(bucket, "a"), S3Store(bucket, "ab"), S3Store(bucket)
    first.put("current.json", b"1")
    second.put("current.json", b"2")

    assert get(first, "current.json").data == b"1"
    assert [stored.key for stored in first.list("")] == ["current.json"]
    assert [stored.key for stored in whole.list("")] == ["a/current.json", "ab/current.json"]


# Addresses


@pytest.mark.parametrize(
    ("uri", "opened"),
    [
        ("s3://my-bucket", "s3://my-bucket"),
        ("s3://my-bucket/", "s3://my-bucket"),
        ("s3://my.bucket/docs/v1/", "s3://my.bucket/docs/v1"),
        ("file:///srv/releases", "file:///srv/releases"),
        ("file://localhost/srv/my%20releases", "file:///srv/my%20releases"),
    ],
)
def test_an_address_is_opened_as_it_is_written(s3: S3Server, uri: str, opened: str) -> None:
    assert open_store(uri).uri == opened


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "releases",
        "/srv/releases",
        "https://bucket.s3.amazonaws.com",
        "s3://",
        "s3:///prefix",
        "s3://My-Bucket",
        "s3://a",
        "s3://a..b",
        "s3://key:secret@bucket",
        "s3://bucket/../x",
        "s3://bucket/a//b",
        "s3://bucket/a b",
        "s3://bucket/a?x=1",
        "s3://bucket/a#b",
        f"s3://bucket/{'a' * 600}",
        "file://releases",
        "file://host/releases",
        "file:releases",
        "file:///a%00b",
        "s3://[bucket",
    ],
)
def test_any_other_address_is_refused_without_being_quoted(uri: str) -> None:
    with pytest.raises(BedivereError) as caught:
        open_store(uri)
    assert caught.value.code == ErrorCode.INVALID_ARGUMENT
    assert "secret" not in caught.value.sentence


def test_a_folder_without_its_scheme_is_told_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(BedivereError, match="write file://"):
        open_store(str(tmp_path))


def test_botocore_is_imported_by_an_s3_address_only_and_boto3_by_none() -> None:
    script = (
        "import json, sys; from retrieval.release.store import open_store; open_store('file:///tmp')\n"
        "before = 'botocore' in sys.modules; open_store('s3://bucket')\n"
        "print(json.dumps([before, 'botocore' in sys.modules, 'boto3' in sys.modules]))"
    )
    environment = {**os.environ, "AWS_REGION": "eu-west-1"}
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, env=environment, text=True)

    assert json.loads(ran.stdout) == [False, True, False]
