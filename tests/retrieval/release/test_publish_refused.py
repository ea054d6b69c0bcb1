"""What is not published: tables that are not whole, or that change meanwhile."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportUnknownLambdaType=false
from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa
import pytest

from retrieval.errors import ErrorCode
from retrieval.release import pack
from retrieval.release.publish import publish
from retrieval.release.store import Store
from retrieval.schema import PROVENANCE_KEY, Provenance
from tests.conftest import TableMaker
from tests.retrieval.release.releasing import (
    assert_whole,
    failure,
    keys,
    pointer_of,
    write,
)


def refused(database: Path, store: Store) -> str:
    error = failure(lambda: publish(database, store))
    assert error.code == ErrorCode.DATASET_NOT_WHOLE
    assert keys(store) == []
    return error.sentence


def ours(embedding: dict[str, Any] | None) -> dict[bytes, bytes]:
    record = Provenance("1", "1", "2026-11-29T18:15:00Z", {}, {}, "0" * 64, embedding)
    return record.to_metadata()


def vectors(dimensions: int) -> pa.Array[Any]:
    return pa.array([[0.5] * dimensions], pa.list_(pa.float32(), dimensions))


def write_foreign(tmp_path: Path, table: object) -> Path:
    lancedb.connect(tmp_path / "database").create_table("documents", table)  # pyright: ignore[reportArgumentType]
    return tmp_path / "database"


def test_a_table_that_others_wrote_is_published_where_it_is_whole(folder: Store, make_table: TableMaker) -> None:
    database = make_table({"text": ["one", "two"], "number": [1, None]}, fts=["text"])

    publish(database, folder)

    (table,) = pointer_of(folder).manifest.tables
    assert (table.rows, table.provenance, table.indexed) == (2, None, {"text": 2})


def test_rows_that_no_index_covers_are_refused(folder: Store, make_table: TableMaker) -> None:
    database = make_table({"text": ["one"]}, fts=["text"])
    lancedb.connect(database).open_table("documents").add([{"text": "two"}])

    sentence = refused(database, folder)

    assert "'documents'" in sentence
    assert "'text'" in sentence


def test_an_empty_table_is_refused(folder: Store, tmp_path: Path) -> None:
    database = write_foreign(tmp_path, pa.table({"text": pa.array([], pa.string())}))

    assert "no rows" in refused(database, folder)


def test_a_database_without_a_table_is_refused(folder: Store, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    assert "no table" in refused(tmp_path / "empty", folder)


@pytest.mark.parametrize(
    ("metadata", "columns", "lack"),
    [
        (None, {"vector": vectors(3)}, "the model that made them"),
        (ours(None), {"vector": vectors(3)}, "the model that made them"),
        (ours({"model": "", "dimensions": 3}), {"vector": vectors(3)}, "the model that made them"),
        (ours({"model": "m", "dimensions": 4}), {"vector": vectors(3)}, "length"),
        (ours({"model": "m", "dimensions": 3}), {}, "no vectors"),
        ({PROVENANCE_KEY: b"{}"}, {}, "cannot be understood"),
        (ours(None), {}, "no index of column"),
    ],
)
def test_a_table_that_does_not_say_how_it_was_made_is_refused(
    folder: Store, tmp_path: Path, metadata: Any, columns: dict[str, Any], lack: str
) -> None:
    table = pa.table({"text": ["one"], **columns}).replace_schema_metadata(metadata)

    assert lack in refused(write_foreign(tmp_path, table), folder)


def test_vectors_with_a_record_of_their_model_are_published(
    folder: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retrieval.indexing.whole.FULL_TEXT", {})
    metadata = ours({"model": "m", "dimensions": 3})
    table = pa.table({"text": ["one"], "vector": vectors(3)}).replace_schema_metadata(metadata)

    publish(write_foreign(tmp_path, table), folder)

    (entry,) = pointer_of(folder).manifest.tables
    assert entry.provenance is not None
    assert entry.provenance["embedding"] == {"model": "m", "dimensions": 3}


@pytest.mark.parametrize("kind", ["data", "_indices", "_versions"])
def test_a_table_with_a_damaged_file_is_refused_without_a_word_of_the_librarys(
    folder: Store, database: Path, kind: str
) -> None:
    place = (database / "documents.lance").resolve()
    for file in (place / kind).rglob("*"):
        if file.is_file():
            os.truncate(file, file.stat().st_size // 2)

    sentence = refused(database, folder)

    assert "cannot be read" in sentence
    assert str(place) not in sentence


def test_rows_that_are_counted_and_not_there_are_refused(
    folder: Store, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lancedb.table.LanceTable, "count_rows", lambda _: 2)  # pyright: ignore[reportAttributeAccessIssue]

    assert "does not cover" in refused(database, folder)


def test_a_table_that_changes_while_it_is_packed_is_refused(
    folder: Store, make_table: TableMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = make_table({"text": ["one"]})
    real = pack.write

    def write_and_change(*arguments: Any) -> Any:
        packed = real(*arguments)
        make_table({"text": ["two"]})
        return packed

    monkeypatch.setattr(pack, "write", write_and_change)

    assert "changed while it was packed" in refused(database, folder)


def test_a_table_that_is_indexed_again_while_it_is_packed_is_published_as_it_was(
    store: Store, database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = pack.write

    def index_and_write(*arguments: Any) -> Any:
        write(tmp_path, 2)
        return real(*arguments)

    monkeypatch.setattr(pack, "write", index_and_write)
    first = publish(database, store)
    monkeypatch.undo()

    assert_whole(store, first.release)
    assert not publish(database, store).unchanged
