"""What a table says of where it comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrieval.indexing.provenance import corpus_version, describe
from retrieval.indexing.spool import DocumentKey, SpooledDocument
from retrieval.indexing.state import FileRecord, ScopeState

DOCUMENTS: dict[DocumentKey, SpooledDocument] = {
    ("", "a.md"): SpooledDocument("1" * 64, "{}"),
    ("v@2:", "b.md"): SpooledDocument("2" * 64, "{}"),
}


def test_the_same_documents_are_the_same_corpus_in_any_order() -> None:
    assert corpus_version(DOCUMENTS) == corpus_version(dict(reversed(DOCUMENTS.items())))


@pytest.mark.parametrize(
    "changed",
    [
        {("", "a.md"): SpooledDocument("3" * 64, "{}")},
        {("", "c.md"): SpooledDocument("1" * 64, "{}")},
        {("x:", "a.md"): SpooledDocument("1" * 64, "{}")},
    ],
    ids=["content", "path", "collection"],
)
def test_another_place_or_content_is_another_corpus(changed: dict[DocumentKey, SpooledDocument]) -> None:
    assert corpus_version({**DOCUMENTS, **changed}) != corpus_version(DOCUMENTS)


def test_the_size_is_that_of_the_documents_that_gave_rows(tmp_path: Path) -> None:
    read = {"a.md": FileRecord(70, 0, "1" * 64, chunks=1), "empty.md": FileRecord(5, 0, "4" * 64, chunks=0)}
    scopes = {"": ScopeState("f", None, 0, read), "v@2:": ScopeState("f", None, 0, {})}
    source = describe(tmp_path, DOCUMENTS, scopes, None).source
    assert (source["files"], source["bytes"]) == (2, 70)
