"""Counts in words."""

from __future__ import annotations

import pytest

from retrieval.notes import counted


@pytest.mark.parametrize(("count", "words"), [(0, "0 hits"), (1, "1 hit"), (2, "2 hits"), (1200, "1,200 hits")])
def test_one_is_told_apart_from_many(count: int, words: str) -> None:
    assert counted(count, "hit") == words
