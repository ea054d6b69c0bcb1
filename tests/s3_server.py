"""A server that speaks S3's protocol on loopback, in a process of its own, as pytest fixtures.

It keeps conditional writes, multipart uploads and listings as S3 does; it checks neither signatures nor checksums.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, cast

import boto3
import pytest
from botocore.config import Config

from tests.planted import AWS_SECRET

PAGE_KEYS = 20
"""Keys on one page of a listing; S3 itself has a thousand."""

_STARTS_WITHIN_SECONDS = 60
_REGION = "eu-west-1"


@dataclass(frozen=True)
class S3Server:
    """A running server: its address, and the variables with which a process finds it."""

    endpoint: str

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": AWS_SECRET,
            "AWS_REGION": _REGION,
            "AWS_DEFAULT_REGION": _REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def client(self) -> Any:
        """A client of boto3's that looks past our own code."""
        connect = cast("Any", boto3.client)
        return connect(
            "s3",
            endpoint_url=self.endpoint,
            region_name=_REGION,
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
            config=Config(s3={"addressing_style": "path"}),
        )

    def create_bucket(self) -> str:
        """A fresh bucket's name."""
        name = f"releases-{uuid.uuid4().hex[:12]}"
        self.client().create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": _REGION})
        return name


@contextmanager
def running_s3_server() -> Generator[S3Server]:
    """Starts the server on a free port and ends it."""
    # Coverage would trace the server too, and it does not like to be.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("COVERAGE", "AWS_"))}
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"],
        env={
            **environment,
            "MOTO_S3_DEFAULT_MAX_KEYS": str(PAGE_KEYS),
            "PYTHONWARNINGS": "ignore",
            "PYTHONUNBUFFERED": "1",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        address = _address(process.stdout)
        # It writes a line for each request, and would stop at a full pipe.
        drain = threading.Thread(target=deque, args=(process.stdout, 0), daemon=True)
        drain.start()
        yield S3Server(address)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()


def _address(output: IO[str]) -> str:
    deadline = time.monotonic() + _STARTS_WITHIN_SECONDS
    said = ""
    while time.monotonic() < deadline and (line := output.readline()):
        said += line
        if found := re.search(r"Running on (http://127\.0\.0\.1:\d+)", line):
            return found.group(1)
    raise AssertionError(f"the S3 server did not start: {said}")


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """One server for all tests of a worker; each takes a bucket of its own."""
    with running_s3_server() as server:
        yield server


@pytest.fixture
def s3(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The server, found by whatever this test starts, and no setting of the machine's own AWS."""
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return s3_server


@pytest.fixture
def bucket(s3: S3Server) -> str:
    """A fresh bucket on the server that this test's environment names."""
    return s3.create_bucket()
