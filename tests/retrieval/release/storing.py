"""What the tests of stores do to them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from retrieval.errors import BedivereError, ErrorCode
from retrieval.release.store import Fetched, Store

LIMIT = 1 << 20


def sha256_of(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def upload(store: Store, key: str, file: Path) -> None:
    store.upload(key, file, sha256=sha256_of(file))


def code_of(ask: Callable[[], object]) -> ErrorCode:
    with pytest.raises(BedivereError) as caught:
        ask()
    return caught.value.code


def get(store: Store, key: str) -> Fetched:
    fetched = store.get(key, max_bytes=LIMIT)
    assert fetched is not None
    return fetched
