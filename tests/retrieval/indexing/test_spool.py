"""Rows that wait on disk come back in order, by the batch, with the documents' own columns."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from retrieval.indexing import spool as module
from retrieval.indexing.rows import SCHEMA, Scope, read_document
from retrieval.indexing.spool import Spool, SpooledDocument


def fill(spool: Spool, documents: int) -> None:
    for number in range(documents):
        data = f"---\nnumber: {number}\n---\n# A\n\nOne.\n\n# B\n\nTwo.".encode()
        made = read_document(f"{number:03}.md", data, "0" * 64, Scope("c"), None)
        spool.add(made.batch, {("c:", f"{number:03}.md"): SpooledDocument("0" * 64, made.metadata)})


def test_rows_come_back_in_order_with_their_documents_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_ROWS", 10)
    spool = Spool(tmp_path / "rows")
    fill(spool, 23)
    spool.finish()
    schema = pa.schema([*SCHEMA, *spool.own_columns().fields()])
    batches = list(spool.batches(schema))
    table = pa.Table.from_batches(batches)
    assert all(batch.schema == schema for batch in batches)
    assert [batch.num_rows for batch in batches] == [10, 10, 10, 10, 6]
    assert spool.rows == table.num_rows == 46
    assert table.column("path").to_pylist() == [f"{n // 2:03}.md" for n in range(46)]
    assert table.column("number").to_pylist() == [n // 2 for n in range(46)]


def test_a_spool_without_rows_gives_none(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "rows")
    spool.finish()
    spool.close()
    assert list(spool.batches(SCHEMA)) == []
