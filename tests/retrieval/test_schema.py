"""The provenance record: what was written comes back, and nothing else is trusted."""

from __future__ import annotations

import json

import pytest

from retrieval.schema import PROVENANCE_KEY, Provenance

RECORD = Provenance(
    tool_version="0.1.0",
    lancedb_version="0.40.0",
    built_at="2026-01-02T03:04:05Z",
    source={"files": 3, "bytes": 10, "revision": None},
    chunker={"target": 1200},
    corpus_version="ab" * 32,
)


def test_the_record_survives_the_schemas_metadata() -> None:
    assert Provenance.from_metadata(RECORD.to_metadata()) == RECORD


def test_keys_of_a_newer_format_are_passed_over() -> None:
    newer = json.loads(RECORD.to_metadata()[PROVENANCE_KEY]) | {"format": 2, "signature": "x"}
    read = Provenance.from_metadata({PROVENANCE_KEY: json.dumps(newer).encode()})
    assert read is not None
    assert read.format == 2


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {},
        {PROVENANCE_KEY: b"not json"},
        {PROVENANCE_KEY: b"[]"},
        {PROVENANCE_KEY: b"{}"},
        {PROVENANCE_KEY: b"\xff\xfe"},
        {PROVENANCE_KEY: json.dumps({**json.loads(RECORD.to_metadata()[PROVENANCE_KEY]), "source": "x"}).encode()},
        {PROVENANCE_KEY: json.dumps({**json.loads(RECORD.to_metadata()[PROVENANCE_KEY]), "built_at": 5}).encode()},
    ],
)
def test_a_record_that_is_not_ours_is_none(metadata: dict[bytes, bytes] | None) -> None:
    assert Provenance.from_metadata(metadata) is None
