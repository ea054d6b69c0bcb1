"""Releases read from S3 without botocore: signed as botocore signs, where all is plain, and left to it where not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from retrieval.errors import BedivereError, ErrorCode
from retrieval.release.s3_reader import S3Reader, open_reader, plain_place
from retrieval.release.store import Fetched, S3Store, TooLarge
from tests.fault_proxy import FaultProxy, running_fault_proxy
from tests.s3_server import S3Server

LAMBDA = {
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
    "AWS_SESSION_TOKEN": "IQoJb3JpZ2luX2VjE+/=",
    "AWS_REGION": "eu-west-1",
    "AWS_DEFAULT_REGION": "eu-west-1",
    "AWS_EXECUTION_ENV": "AWS_Lambda_python3.13",
    "AWS_LAMBDA_FUNCTION_NAME": "bedivere",
    "AWS_XRAY_CONTEXT_MISSING": "LOG_ERROR",
    "PATH": "/usr/bin",
}


class Stated:
    """Stands for botocore: remembers what it was asked for."""

    uri = "s3://stated"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def get(self, key: str, *, unless_tag: str | None = None, max_bytes: int) -> Fetched | None:
        del unless_tag, max_bytes
        self.asked.append(key)
        return Fetched(b"from botocore", '"tag"')

    def stream(self, key: str, *, chunk_bytes: int = 1 << 20) -> Iterator[bytes]:
        del chunk_bytes
        self.asked.append(key)
        return iter([b"from ", b"botocore"])

    def close(self) -> None: ...


@pytest.fixture(autouse=True)
def _plain_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    """No settings of AWS's tools but those that a test makes."""
    for name in [name for name in os.environ if name.startswith("AWS_") or name == "REQUESTS_CA_BUNDLE"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[FaultProxy]:
    with running_fault_proxy(s3.endpoint) as running:
        yield running


@pytest.fixture
def botocore() -> Stated:
    return Stated()


@pytest.fixture
def reader(s3: S3Server, bucket: str, proxy: FaultProxy, botocore: Stated) -> Iterator[S3Reader]:
    place = plain_place(bucket, {**s3.environment, "AWS_ENDPOINT_URL_S3": proxy.endpoint})
    assert place is not None
    client = s3.client()
    client.put_object(Bucket=bucket, Key="docs/current.json", Body=b"{}")
    client.put_object(Bucket=bucket, Key="docs/releases/a/part (1)+é.tar.zst", Body=bytes(range(256)) * 40)
    with closing(S3Reader(bucket, "docs", place, lambda: botocore)) as made:
        yield made


# Where all is plain


def test_on_lambda_the_bucket_has_a_host_of_its_own_in_the_region() -> None:
    place = plain_place("docs-bucket", LAMBDA)

    assert place is not None
    assert (place.scheme, place.host, place.path) == ("https", "docs-bucket.s3.eu-west-1.amazonaws.com", "/")


def test_a_server_in_place_of_s3_is_asked_with_the_bucket_in_the_path() -> None:
    place = plain_place("docs-bucket", {**LAMBDA, "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:5000"})

    assert place is not None
    assert (place.scheme, place.host, place.path) == ("http", "127.0.0.1:5000", "/docs-bucket/")


@pytest.mark.parametrize(
    "odd",
    [
        {"AWS_ACCESS_KEY_ID": ""},
        {"AWS_SECRET_ACCESS_KEY": ""},
        {"AWS_DEFAULT_REGION": ""},
        {"AWS_DEFAULT_REGION": "cn-north-1"},
        {"AWS_DEFAULT_REGION": "us-gov-west-1"},
        {"AWS_DEFAULT_REGION": "eu-west-1.evil.example"},
        {"AWS_PROFILE": "work"},
        {"AWS_CONFIG_FILE": "/tmp/config"},
        {"AWS_USE_FIPS_ENDPOINT": "true"},
        {"AWS_USE_DUALSTACK_ENDPOINT": "true"},
        {"AWS_CA_BUNDLE": "/tmp/bundle.pem"},
        {"REQUESTS_CA_BUNDLE": "/tmp/bundle.pem"},
        {"AWS_A_SETTING_OF_NEXT_YEAR": "1"},
        {"HTTPS_PROXY": "http://proxy:3128"},
        {"all_proxy": "http://proxy:3128"},
        {"AWS_ENDPOINT_URL": "ftp://127.0.0.1"},
        {"AWS_ENDPOINT_URL": "http://user:password@127.0.0.1"},
        {"AWS_ENDPOINT_URL": "http://127.0.0.1:5000/below"},
        {"AWS_ENDPOINT_URL": "https://127.0.0.1:443"},
    ],
    ids=lambda odd: " ".join(f"{name}={value}" for name, value in odd.items()),
)
def test_where_anything_is_set_that_may_change_how_s3_is_asked_botocore_asks(odd: dict[str, str]) -> None:
    assert plain_place("docs-bucket", LAMBDA) is not None
    assert plain_place("docs-bucket", {**LAMBDA, **odd}) is None


@pytest.mark.parametrize("bucket", ["docs.example.com", "docs--use1-az4--x-s3", "Docs", "", "a/b"])
def test_a_bucket_whose_name_is_no_label_of_a_host_is_left_to_botocore(bucket: str) -> None:
    assert plain_place(bucket, LAMBDA) is None


def test_settings_in_files_are_left_to_botocore(tmp_path: Path) -> None:
    assert plain_place("docs-bucket", LAMBDA) is not None
    (tmp_path / ".aws").mkdir()

    assert plain_place("docs-bucket", LAMBDA) is None


@pytest.mark.parametrize("uri", ["s3://docs-bucket/a/../b", "s3://docs-bucket/a?b", "s3://docs-bucket/a b"])
def test_an_address_that_is_no_store_is_refused_as_ever(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in LAMBDA.items():
        monkeypatch.setenv(name, value)
    assert isinstance(open_reader("s3://docs-bucket/a/b"), S3Reader)
    with pytest.raises(BedivereError) as raised:
        open_reader(uri)
    assert raised.value.code is ErrorCode.INVALID_ARGUMENT


def test_what_opens_a_release_on_lambda_reads_it_without_botocore(s3: S3Server, bucket: str) -> None:
    s3.client().put_object(Bucket=bucket, Key="docs/current.json", Body=b"{}")
    code = (
        "import json, sys; from retrieval.release.s3_reader import open_reader\n"
        f"found = open_reader('s3://{bucket}/docs').get('current.json', max_bytes=10)\n"
        "print(json.dumps([found.data.decode(), 'botocore' in sys.modules]))"
    )

    done = subprocess.run([sys.executable, "-c", code], env=s3.environment, capture_output=True, text=True, check=True)

    assert json.loads(done.stdout) == ["{}", False]


# What S3 answers


def test_a_small_object_comes_with_its_tag_and_not_again_while_that_is_the_same(reader: S3Reader) -> None:
    first = reader.get("current.json", max_bytes=10)

    assert first is not None
    assert first.data == b"{}"
    assert reader.get("current.json", unless_tag=first.tag, max_bytes=10) is None
    assert reader.get("current.json", unless_tag='"another"', max_bytes=10) == first


def test_an_object_comes_in_pieces_whatever_its_key_is_made_of(reader: S3Reader, botocore: Stated) -> None:
    pieces = [*reader.stream("releases/a/part (1)+é.tar.zst", chunk_bytes=4096)]

    assert b"".join(pieces) == bytes(range(256)) * 40
    assert [len(piece) for piece in pieces] == [4096, 4096, 2048]
    assert botocore.asked == []


@contextmanager
def in_pieces_of(count: int, s3: S3Server, bucket: str, proxy: FaultProxy, botocore: Stated) -> Generator[S3Reader]:
    place = plain_place(bucket, {**s3.environment, "AWS_ENDPOINT_URL_S3": proxy.endpoint})
    assert place is not None
    with closing(S3Reader(bucket, "docs", place, lambda: botocore, piece_bytes=count)) as made:
        yield made
        for thread in threading.enumerate():
            if thread.name == "bedivere-pieces":
                thread.join(10)


@pytest.mark.parametrize("piece_bytes", [1, 3, 7, 20, 39, 40, 41])
def test_a_large_object_is_fetched_in_pieces_and_comes_in_order(
    s3: S3Server, bucket: str, proxy: FaultProxy, botocore: Stated, piece_bytes: int
) -> None:
    data = bytes(range(40))
    s3.client().put_object(Bucket=bucket, Key="docs/large", Body=data)

    with in_pieces_of(piece_bytes, s3, bucket, proxy, botocore) as reader:
        assert b"".join(reader.stream("large", chunk_bytes=2)) == data

    assert len(proxy.paths) == -(-len(data) // piece_bytes)
    assert botocore.asked == []


def test_an_object_that_is_another_one_meanwhile_is_no_object(
    s3: S3Server, bucket: str, proxy: FaultProxy, botocore: Stated
) -> None:
    s3.client().put_object(Bucket=bucket, Key="docs/large", Body=bytes(40))

    with in_pieces_of(10, s3, bucket, proxy, botocore) as reader:
        chunks = reader.stream("large")
        s3.client().put_object(Bucket=bucket, Key="docs/large", Body=b"1" * 40)
        with pytest.raises(BedivereError) as raised:
            b"".join(chunks)
        again = b"".join(reader.stream("large"))

    assert raised.value.code is ErrorCode.STORE_UNREACHABLE
    assert again == b"from botocore"


def test_whoever_takes_no_more_leaves_no_request_behind(
    s3: S3Server, bucket: str, proxy: FaultProxy, botocore: Stated
) -> None:
    s3.client().put_object(Bucket=bucket, Key="docs/large", Body=bytes(1_000))

    with in_pieces_of(10, s3, bucket, proxy, botocore) as reader:
        chunks = reader.stream("large", chunk_bytes=10)
        next(chunks)
        del chunks

    assert len(proxy.paths) < 10


def test_a_small_object_that_is_not_small_is_refused(reader: S3Reader) -> None:
    with pytest.raises(TooLarge):
        reader.get("current.json", max_bytes=1)


def fail(proxy: FaultProxy, status: int) -> None:
    proxy.fail("status", status=status)


@pytest.mark.parametrize("status", [204, 206, 301, 307, 400, 403, 404, 412, 500, 503])
def test_any_other_answer_is_botocores_to_make_sense_of_from_then_on(
    reader: S3Reader, botocore: Stated, proxy: FaultProxy, status: int
) -> None:
    fail(proxy, status)
    assert reader.get("current.json", max_bytes=100) == Fetched(b"from botocore", '"tag"')
    proxy.heal()

    assert b"".join(reader.stream("part")) == b"from botocore"
    assert botocore.asked == ["current.json", "part"]


def test_a_network_that_fails_is_too(reader: S3Reader, botocore: Stated, proxy: FaultProxy) -> None:
    proxy.fail("refuse")

    assert b"".join(reader.stream("part")) == b"from botocore"
    assert botocore.asked == ["part"]


def test_an_object_cut_short_is_no_object_and_the_next_try_is_botocores(
    reader: S3Reader, botocore: Stated, proxy: FaultProxy
) -> None:
    proxy.fail("truncate")
    with pytest.raises(BedivereError) as raised:
        b"".join(reader.stream("releases/a/part (1)+é.tar.zst"))

    assert raised.value.code is ErrorCode.STORE_UNREACHABLE
    assert b"".join(reader.stream("part")) == b"from botocore"
    assert botocore.asked == ["part"]


def test_why_botocore_is_asked_is_in_the_log_without_an_address(
    reader: S3Reader, proxy: FaultProxy, caplog: pytest.LogCaptureFixture
) -> None:
    fail(proxy, 503)
    with caplog.at_level("INFO", "bedivere"):
        reader.get("current.json", max_bytes=100)

    assert caplog.messages == ["S3 is read by botocore from now on: status 503"]


def test_by_itself_it_leaves_what_is_odd_to_the_store(
    s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    reader = open_reader(f"s3://{bucket}/docs")
    assert isinstance(reader, S3Reader)
    with closing(reader), pytest.raises(KeyError):
        reader.get("absent.json", max_bytes=10)
    assert isinstance(reader._store, S3Store)  # pyright: ignore[reportPrivateUsage]
