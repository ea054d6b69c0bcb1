"""Stores to publish to, and a database to publish."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportUnknownLambdaType=false
from __future__ import annotations

from pathlib import Path

import pytest

from retrieval.release import pack
from retrieval.release.store import S3Store, Store, open_store
from tests.retrieval.release.releasing import (
    folder_store,
    write,
)


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A fresh store of either kind."""
    if request.param == "s3":
        return open_store(f"s3://{request.getfixturevalue('bucket')}/prefix")
    return folder_store(tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Store:
    """For what the kind of store makes no difference to."""
    return folder_store(tmp_path)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    write(tmp_path, 1)
    return tmp_path / "db"


@pytest.fixture
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    """Each table has a part of its own, however small it is."""
    monkeypatch.setattr(pack, "PART_BYTES", 8)


@pytest.fixture
def s3_store(bucket: str) -> S3Store:
    return S3Store(bucket, "prefix", attempts=1, read_seconds=2)


@pytest.fixture
def part(tmp_path: Path) -> Path:
    file = tmp_path / "part"
    file.write_bytes(b"part" * 1000)
    return file
