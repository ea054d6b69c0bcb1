"""The catalog that is written while a table is."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

from random import Random

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from retrieval.catalog import Catalog, Cell
from retrieval.indexing.catalog import CatalogBuilder
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
