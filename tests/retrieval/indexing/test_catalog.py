"""The catalog that is written while a table is."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import lancedb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.catalog import NO_VERSION, Catalog, Cell
from retrieval.indexing.catalog import CatalogBuilder, numbered
from retrieval.indexing.rows import SCHEMA, row_id

FURTHER = SCHEMA.append(pa.field("priority", pa.int64()))

cells = st.none() | st.sampled_from(["none", "N/A"]) | st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@st.composite
def some_rows(draw: st.DrawFn) -> list[dict[str, Cell]]:
    keys = st.tuples(
        st.sampled_from(["", "x:", "x@1:", "@2:"]), st.sampled_from(["a.md", "b/c.md", "d:e.md"]), st.integers(0, 3)
    )
    return [
        {
            "id": row_id(prefix, path, ordinal),
            "path": path,
            "chunk": ordinal,
            "priority": 1,
            **{name: draw(cells) for name in ("title", "url", "collection", "version", "status", "superseded_by")},
        }
        for prefix, path, ordinal in draw(st.lists(keys, max_size=12, unique=True))
    ]


def built(rows: list[dict[str, Cell]], size: int) -> bytes:
    builder = CatalogBuilder()
    for start in range(0, len(rows), size):
        builder.add(pa.RecordBatch.from_pylist(rows[start : start + size], schema=FURTHER))
    return builder.to_bytes()


@given(some_rows(), st.integers(1, 12))
def test_what_is_loaded_is_what_the_rows_say_however_they_are_cut(rows: list[dict[str, Cell]], size: int) -> None:
    loaded, said = Catalog.load(built(rows, size)), Catalog.of_rows(rows)
    assert loaded.documents == said.documents
    assert loaded.unnamed == said.unnamed


@given(some_rows(), st.randoms(use_true_random=False))
def test_the_same_rows_make_the_same_bytes_in_any_order(rows: list[dict[str, Cell]], random: Random) -> None:
    assert built(rows, 5) == built(random.sample(rows, len(rows)), 3)


def test_a_table_without_rows_has_no_documents() -> None:
    assert Catalog.load(CatalogBuilder().to_bytes()).documents == ()


def row(path: str, ordinal: int, prefix: str = "", **said: Cell) -> dict[str, Cell]:
    return {"id": row_id(prefix, path, ordinal), "path": path, "chunk": ordinal, "priority": 1, **said}


def catalog_of(folder: Path, *fragments: list[dict[str, Cell]]) -> tuple[Catalog, Any]:
    """The catalog of a table of these rows with their numbers, and the table."""
    batches = [pa.RecordBatch.from_pylist(rows, schema=FURTHER) for rows in fragments]
    table: Any = lancedb.connect(folder).create_table("documents", batches[0])
    builder = CatalogBuilder()
    builder.add(batches[0])
    for batch in batches[1:]:
        table.add(batch)
        builder.add(batch)
    return Catalog.load(numbered(builder.to_bytes(), table, alike=builder.alike)), table


def test_rows_are_numbered_as_they_lie_in_the_table_though_a_document_lies_in_two_fragments(tmp_path: Path) -> None:
    b, a = [row("b.md", 0), row("b.md", 1)], [row("a.md", ordinal, "x@1:", title="A") for ordinal in range(3)]
    catalog, table = catalog_of(tmp_path, [*b, a[0]], a[1:])
    assert (catalog.version, catalog.columns["path"]) == (table.version, ["a.md", "b.md"])
    numbers = catalog.rows
    assert numbers is not None
    assert (numbers.fragments, [*numbers.starts], [*numbers.places]) == ({0: 0, 1: 3}, [0, 2], [1, 0])


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([row("a.md", 1), row("a.md", 0)], id="chunks in another order"),
        pytest.param([row("a.md", 0), row("b.md", 0), row("a.md", 1)], id="a document in two places"),
        pytest.param([row("a.md", 0), row("a.md", 2)], id="a chunk that is not there"),
        pytest.param([row("a.md", 10), row("a.md", 11)], id="first chunks that are not there"),
        pytest.param([row("a.md", 0, title="A"), row("a.md", 1)], id="chunks that say something else"),
        pytest.param([row("a.md", 0, status="final"), row("a.md", 1, status="draft")], id="two statuses"),
        pytest.param([row("a.md", 0), row("a.md", 1, url="https://a/")], id="an address that the first has not"),
        pytest.param([row("a.md", 0, url="#a")], id="an address of no page"),
        pytest.param([row("a.md", 0) | {"id": "7"}], id="an id of another making"),
        pytest.param([row("a.md", 0), row("a.md", 0)], id="an id twice"),
    ],
)
def test_rows_that_their_numbers_do_not_tell_of_have_none(tmp_path: Path, rows: list[dict[str, Cell]]) -> None:
    catalog, _ = catalog_of(tmp_path, rows)
    assert (catalog.version, catalog.rows) == (NO_VERSION, None)
    assert sum(catalog.columns["chunks"]) == len(rows)


def test_rows_of_which_some_were_deleted_have_no_numbers(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pylist([row("a.md", 0), row("b.md", 0)], schema=FURTHER)
    table = lancedb.connect(tmp_path).create_table("documents", batch)
    table.delete("path = 'a.md'")
    builder = CatalogBuilder()
    builder.add(batch.slice(1))
    assert Catalog.load(numbered(builder.to_bytes(), table, alike=True)).rows is None


@pytest.mark.parametrize(("anchors", "pages"), [(("", ""), True), (("", "#b"), False), (("#a", "#a"), False)])
def test_chunks_of_one_page_are_numbered_and_it_is_said_whether_they_have_anchors_of_their_own(
    tmp_path: Path, anchors: tuple[str, str], pages: bool
) -> None:
    catalog, _ = catalog_of(tmp_path, [row("a.md", n, url=f"https://a/{anchor}") for n, anchor in enumerate(anchors)])
    assert catalog.rows is not None
    assert catalog.rows.pages is pages
