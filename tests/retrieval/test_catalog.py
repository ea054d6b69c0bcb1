"""The documents of a table: made of its chunks, or loaded from the file beside it."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.catalog import CHECKSUM_KEY, Catalog, Cell, Document, checksum, prefix_of
from retrieval.indexing.catalog import CatalogBuilder
from retrieval.indexing.rows import SCHEMA, Scope, row_id
from retrieval.known import Known, UnknownRowError
from retrieval.types import Row


def chunk(path: str, ordinal: int = 0, prefix: str = "", **cells: Cell) -> dict[str, Cell]:
    return {"id": row_id(prefix, path, ordinal), "path": path, "chunk": ordinal, **cells}


def row(identifier: str, path: str | None, ordinal: int | None = None, **metadata: str) -> Row:
    return Row(identifier, "text", 1.0, None, None, path, None, ordinal, metadata)


def paths(catalog: Catalog) -> list[tuple[str, str, int]]:
    return [(one.prefix, one.path, one.chunks) for one in catalog.documents]


def test_chunks_of_a_path_and_scope_are_one_document() -> None:
    chunks = [chunk("b.md", 0), chunk("a.md", 1, "x@2:"), chunk("b.md", 1), chunk("a.md", 0, "x@1:"), chunk("b.md", 2)]
    assert paths(Catalog.of_rows(chunks)) == [("x@1:", "a.md", 1), ("x@2:", "a.md", 1), ("", "b.md", 3)]


def test_a_document_says_what_its_first_chunk_says_whatever_the_order() -> None:
    chunks = [chunk("a.md", 2, title="Third"), chunk("a.md", 0, title="First"), chunk("a.md", 1, title="Second")]
    (document,) = Catalog.of_rows(chunks).documents
    assert (document.title, document.first_id, document.chunks) == ("First", "a.md#0", 3)


def test_every_cell_finds_its_field() -> None:
    cells = {
        "title": "T",
        "url": "https://e.example/a#part",
        "collection": "x",
        "version": "1",
        "status": "Draft",
        "date": "2024-05-01",
        "superseded_by": "b.md",
    }
    (document,) = Catalog.of_rows([chunk("a.md", 0, "x@1:", **cells)]).documents
    assert document == Document(
        *("a.md", "x@1:", "T", "https://e.example/a", "x", "1", "Draft", "2024-05-01", "b.md", 1, "x@1:a.md#0")
    )


@pytest.mark.parametrize("url", ["https://e.example/#/guide", "https://e.example/#!guide"])
def test_the_path_that_a_site_writes_after_a_number_sign_stays(url: str) -> None:
    assert Catalog.of_rows([chunk("a.md", url=url)]).documents[0].url == url


def test_in_tables_of_others_collection_and_version_tell_documents_apart() -> None:
    chunks: list[dict[str, Cell]] = [
        {"path": "a", "version": "2"},
        {"path": "a", "version": "1", "id": "whatever"},
        {"path": "a", "version": "1"},
        {"path": "b"},
        {"path": None},
        {"path": ""},
        {"path": 3},
    ]
    catalog = Catalog.of_rows(chunks)
    assert [(one.path, one.version, one.chunks) for one in catalog.documents] == [
        ("a", "1", 2),
        ("a", "2", 1),
        ("b", None, 1),
    ]


@pytest.mark.parametrize("nobody", ["", "none", "N/A", " - ", "null", False, True, 1.5, None])
def test_a_word_for_no_successor_is_none(nobody: Cell) -> None:
    catalog = Catalog.of_rows([chunk("a.md", superseded_by=nobody)])
    assert catalog.documents[0].superseded_by is None
    assert not catalog.has_successors


def test_what_names_nobody_is_kept_as_it_is_written() -> None:
    chunks = [chunk("a.md", superseded_by="N/A"), chunk("b.md", superseded_by="a.md"), chunk("c.md", superseded_by="")]
    catalog = Catalog.of_rows(chunks)
    assert (catalog.unnamed, catalog.has_successors) == ({"N/A", ""}, True)


def test_columns_in_which_no_document_says_anything_are_told_apart() -> None:
    silent = {"url", "collection", "version", "status", "date", "superseded_by"}
    assert Catalog.of_rows([chunk("a.md")]).unsaid == silent
    assert Catalog.of_rows([chunk("a.md"), chunk("b.md", status="draft")]).unsaid == silent - {"status"}
    # A word for nobody is no successor, and still stands in the row.
    assert Catalog.of_rows([chunk("a.md", superseded_by="none")]).unsaid == silent - {"superseded_by"}


def test_columns_of_numbers_are_not_taken_for_text() -> None:
    catalog = Catalog.of_rows([chunk("a.md", status=1, version="2"), chunk("b.md", superseded_by=3)])
    assert catalog.textual == {"version"}
    assert catalog.documents[1].superseded_by == "3"


def test_cells_of_other_kinds_become_text_where_a_reply_would_show_them() -> None:
    told = {"path": "a", "date": date(2024, 5, 1), "version": 2, "title": ["x"], "status": float("nan")}
    (document,) = Catalog.of_rows([told]).documents
    assert (document.date, document.version, document.title, document.status) == ("2024-05-01", "2", None, None)


def test_the_document_of_a_row_is_that_of_its_collection_and_version() -> None:
    catalog = Catalog.of_rows([chunk("a.md", 0, "x@1:"), chunk("a.md", 0, "x@2:"), chunk("b.md")])
    assert [catalog.of(row(f"x@{at}:a.md#0", "a.md", 0)) for at in (1, 2)] == list(catalog.documents[:2])
    assert catalog.of(row("b.md#7", "b.md", 7)) == catalog.documents[2]
    assert catalog.of(row("x@3:a.md#0", "a.md", 0)) is None
    assert catalog.of(row("c.md#0", "c.md", 0)) is None
    assert catalog.of(row("1", None)) is None


def test_in_tables_of_others_the_document_of_a_row_is_that_of_its_columns() -> None:
    catalog = Catalog.of_rows([{"path": "a", "version": "1"}, {"path": "a", "version": "2", "collection": "x"}])
    assert catalog.of(row("row:1", "a", version="1")) == catalog.documents[0]
    assert catalog.of(row("row:2", "a", version="2", collection="x")) == catalog.documents[1]
    assert catalog.of(row("row:3", "a", version="3")) is None


def test_statuses_collections_versions_and_prefixes_are_those_of_the_documents() -> None:
    catalog = Catalog.of_rows(
        [
            chunk("a.md", 0, "x@1:", collection="x", version="1", status="Draft"),
            chunk("a.md", 0, "x@2:", collection="x", version="2"),
            chunk("b.md", 0, "", version="9", status=""),
        ]
    )
    assert (catalog.statuses, catalog.collections(), catalog.prefixes) == ({"Draft"}, {"x"}, {"x@1:", "x@2:", ""})
    assert (catalog.versions(), catalog.versions("x")) == ({"1", "2", "9"}, {"1", "2"})
    assert [one.scoped_version for one in catalog.documents] == ["1", "2", None]


names = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="@:#"), min_size=1, max_size=8)
any_path = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


@given(collection=st.none() | names, version=st.none() | names, path=any_path, ordinal=st.integers(0, 99))
def test_the_prefix_of_an_id_is_that_of_the_scope_it_was_made_in(
    collection: str | None, version: str | None, path: str, ordinal: int
) -> None:
    prefix = Scope(collection, version).prefix
    assert prefix_of(row_id(prefix, path, ordinal), path, ordinal) == prefix


@pytest.mark.parametrize("identifier", [None, 7, "a.md#1", "kb/a.md#0", "b.md#0", ""])
def test_an_id_that_the_indexer_did_not_make_has_no_prefix(identifier: object) -> None:
    assert prefix_of(identifier, "a.md", 0) is None


def written(rows: list[dict[str, Cell]]) -> bytes:
    builder = CatalogBuilder()
    builder.add(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
    return builder.to_bytes()


DATA = written(
    [
        chunk("a.md", 0, "x@1:", title="A", version="1", collection="x", status="Draft", superseded_by="none"),
        chunk("b.md", 0, title="B", superseded_by="a.md"),
        chunk("b.md", 1, title="B", superseded_by="a.md"),
    ]
)


def _file(table: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _with_numbers(table: Any, *, starts: Any = (0, 2), fragments: str = "[[0, 0]]", version: str = "5") -> Any:
    columns = {"row_start": pa.array(starts, pa.int32()), "row_place": pa.array([1, 0], pa.int32())}
    for name, column in columns.items():
        table = table.append_column(name, column)
    told = {"unnamed": '["none"]', "version": version, "fragments": fragments, "pages": "true", "corpus": "a,b"}
    metadata = {key.encode(): value.encode() for key, value in told.items()}
    with pa.ipc.open_file(pa.BufferReader(_file(table.replace_schema_metadata(metadata)))) as reader:
        metadata[CHECKSUM_KEY] = str(checksum(reader.read_all(), metadata)).encode()
    return table.replace_schema_metadata(metadata)


with pa.ipc.open_file(pa.BufferReader(DATA)) as _reader:
    NUMBERED = _file(_with_numbers(_reader.read_all()))


def test_the_numbers_of_rows_are_loaded_with_the_version_that_they_are_of() -> None:
    numbered, rows = Catalog.load(NUMBERED), Catalog.load(NUMBERED).rows
    assert numbered.documents == Catalog.load(DATA).documents
    assert rows is not None
    assert (numbered.version, rows.fragments, [*rows.starts], [*rows.places]) == (5, {0: 0}, [0, 2], [1, 0])
    assert rows.corpus == "a,b"
    assert (Catalog.load(DATA).version, Catalog.load(DATA).rows) == (None, None)


def test_the_file_loads_as_what_was_written() -> None:
    catalog = Catalog.load(DATA)
    assert paths(catalog) == [("x@1:", "a.md", 1), ("", "b.md", 2)]
    assert [one.superseded_by for one in catalog.documents] == [None, "a.md"]
    assert catalog.unnamed == {"none"}


def _renamed(table: Any) -> Any:
    return table.rename_columns([*table.column_names[1:], "other"])


def _unnamed(table: Any) -> Any:
    return table.set_column(0, "path", pa.nulls(table.num_rows, pa.string()))


def _numbered(table: Any) -> Any:
    return table.set_column(2, "title", pa.array([1] * table.num_rows))


def _uncounted(table: Any) -> Any:
    return table.set_column(10, "chunks", pa.array(["1"] * table.num_rows))


def _without_metadata(table: Any) -> Any:
    return table.replace_schema_metadata(None)


def _with_other_names(table: Any) -> Any:
    return table.replace_schema_metadata({"unnamed": "[1]"})


def _with_other_version(table: Any) -> Any:
    return _with_numbers(table, version="five")


def _with_other_fragments(table: Any) -> Any:
    return _with_numbers(table, fragments="[7]")


def _without_fragments(table: Any) -> Any:
    return _with_numbers(table, fragments="null")


def _with_a_number_lacking(table: Any) -> Any:
    return _with_numbers(table, starts=[0, None])


def _without_numbers(table: Any) -> Any:
    return _with_numbers(table).drop_columns(["row_place"])


def _with_longer_numbers(table: Any) -> Any:
    return _with_numbers(table).set_column(table.num_columns, "row_start", pa.array([0, 2], pa.int64()))


@pytest.mark.parametrize(
    "change",
    [
        *(_without_metadata, _with_other_names, _renamed, _unnamed, _numbered, _uncounted, _with_other_version),
        *(_with_other_fragments, _without_fragments, _with_a_number_lacking, _without_numbers, _with_longer_numbers),
    ],
)
def test_a_file_of_another_kind_is_refused(change: Callable[[Any], Any]) -> None:
    with pa.ipc.open_file(pa.BufferReader(DATA)) as reader:
        table = change(reader.read_all())
    with pytest.raises(ValueError, match="not a catalog"):
        Catalog.load(_file(table))


@pytest.mark.parametrize("data", [b"", b"ARROW1\0\0", DATA[:-1], DATA[: len(DATA) // 2], b"x" * 4096, DATA[8:]])
def test_a_damaged_file_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a catalog"):
        Catalog.load(data)


@settings(max_examples=300)
@given(place=st.integers(0, len(NUMBERED) - 1), byte=st.integers(0, 255))
def test_a_file_with_a_wrong_byte_loads_or_is_refused(place: int, byte: int) -> None:
    try:
        catalog = Catalog.load(bytes([*NUMBERED[:place], byte, *NUMBERED[place + 1 :]]))
    except ValueError:
        return
    documents = catalog.documents
    with suppress(UnknownRowError):
        Known(rows=catalog.rows, told=("path",)).columns(range(3))
    assert all(isinstance(one.path, str) and isinstance(one.chunks, int) for one in documents)


def test_a_file_with_one_bit_changed_is_refused_or_says_the_same() -> None:
    for at in range(0, len(NUMBERED), 3):
        changed = bytearray(NUMBERED)
        changed[at] ^= 1 << at % 8
        try:
            catalog = Catalog.load(bytes(changed))
        except ValueError:
            continue
        # Names of metadata may have changed: then there are no numbers.
        assert catalog.rows is None or (catalog.rows.corpus, catalog.documents) == (
            "a,b",
            Catalog.load(NUMBERED).documents,
        )


@pytest.mark.parametrize("fragments", ["[[0, Infinity]]", "[" * 100_000, "[[0]]", "7", "null"])
def test_fragments_that_are_none_are_refused(fragments: str) -> None:
    with pa.ipc.open_file(pa.BufferReader(DATA)) as reader:
        data = _file(_with_numbers(reader.read_all(), fragments=fragments))
    with pytest.raises(ValueError, match="not a catalog"):
        Catalog.load(data)
