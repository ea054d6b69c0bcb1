"""Every type of column, compared in every way, by both ways into LanceDB: right, or refused in a sentence."""

# pyarrow and lancedb ship no types, or some.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import lancedb
import numpy as np
import pyarrow as pa
import pytest
from lancedb.index import FTS

from retrieval.core import Api
from retrieval.errors import BedivereError, ErrorCode
from retrieval.retriever import Retriever
from retrieval.search.filters import OPERATORS
from retrieval.settings import load_settings
from retrieval.types import CatalogRequest, FetchRequest, Narrowing
from tests.retrieval.asking import ask

WHOLE: Final = {
    name: pa.array([1, 2, 3, None], getattr(pa, name)())
    for bits in (8, 16, 32, 64)
    for name in (f"int{bits}", f"uint{bits}")
} | {
    "wide": pa.array([Decimal(1), Decimal(2), Decimal(3), None], pa.decimal128(38, 0)),
    "dictionary_of_int": pa.array([1, 2, 3, None]).dictionary_encode(),
}
FRACTIONS: Final = {
    "float16": pa.array([np.float16(1), np.float16(2.5), np.float16(3), None], pa.float16()),
    "float32": pa.array([1, 2.5, 3, None], pa.float32()),
    "float64": pa.array([1, 2.5, 3, None], pa.float64()),
    "decimal128": pa.array([Decimal("1.00"), Decimal("2.50"), Decimal("3.00"), None], pa.decimal128(12, 2)),
    "decimal256": pa.array([Decimal("1.00"), Decimal("2.50"), Decimal("3.00"), None], pa.decimal256(50, 2)),
}
DAYS: Final = [date(2024, 1, 1), date(2024, 2, 1), date(2024, 3, 1), None]
MOMENTS: Final = [datetime(2024, month, 1, 10, tzinfo=UTC) for month in (1, 2, 3)] + [None]
TIMES: Final = {
    **{f"date{bits}": pa.array(DAYS, getattr(pa, f"date{bits}")()) for bits in (32, 64)},
    **{
        f"timestamp_{unit}_{zone}": pa.array(MOMENTS, pa.timestamp(unit, "UTC")).cast(pa.timestamp(unit, zone))
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "UTC", "Europe/Berlin", "+02:00")
    },
}
LETTERS: Final = ["a", "b", "c", None]
TEXTS: Final = {
    "string": pa.array(LETTERS),
    "large_string": pa.array(LETTERS, pa.large_string()),
    "dictionary": pa.array(LETTERS).dictionary_encode(),
    "dictionary_of_8_bits": pa.array(LETTERS).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string())),
}
TRUTHS: Final = {"bool": pa.array([False, True, False, None])}
CLOCKS: Final = {
    "time32": pa.array([time(1), time(2), time(3), None], pa.time32("s")),
    "time64": pa.array([time(1), time(2), time(3), None], pa.time64("us")),
}
OTHERS: Final = {
    "duration": pa.array([timedelta(1), timedelta(2), timedelta(3), None], pa.duration("us")),
    "list": pa.array([["a"], ["b"], ["c"], None]),
    "binary": pa.array([b"a", b"b", b"c", None]),
    "struct": pa.array([{"x": 1}, {"x": 2}, {"x": 3}, None]),
}
ROWS: Final = "0123"

ORDERED: Final = {"gte": "12", "lte": "01"}
CASES: Final[tuple[tuple[Mapping[str, Any], object, Mapping[str, str]], ...]] = (
    (WHOLE, 2, ORDERED),
    (WHOLE, "2", ORDERED),
    (FRACTIONS, 2.5, ORDERED),
    (TIMES, "2024-02-01", ORDERED),
    (TIMES, "2024-02", ORDERED),
    (TEXTS, "b", {**ORDERED, "prefix": "1"}),
    (TRUTHS, True, {}),
)
"""Columns, what the second row holds, and which rows pass by what has an order; the fourth row is empty."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("types")
    table = pa.table(
        {"id": list(ROWS), "text": ["red boat"] * 4, "path": [f"{row}.md" for row in ROWS], "chunk": [0] * 4}
        | WHOLE
        | FRACTIONS
        | TIMES
        | TEXTS
        | TRUTHS
        | CLOCKS
        | OTHERS
    )
    lancedb.connect(place).create_table("documents", table).create_index("text", config=FTS())
    return place


def found(folder: Path, api: Api, filters: dict[str, object]) -> str:
    asking = Retriever(load_settings(database=str(folder), lancedb_api=api))
    hits = ask(asking, "boat", narrowing=Narrowing(filters=filters)).hits
    listed = asyncio.run(asking.catalog(CatalogRequest(narrowing=Narrowing(filters=filters, include_outdated=True))))
    rows = "".join(sorted(hit.id for hit in hits))
    assert rows == "".join(str(entry.path)[0] for entry in listed.documents)
    return rows


@pytest.mark.parametrize("api", ["auto", "public"])
@pytest.mark.parametrize(("columns", "value", "ordered"), CASES)
def test_a_comparison_lets_the_right_rows_through(
    folder: Path, api: Api, columns: Mapping[str, Any], value: object, ordered: Mapping[str, str]
) -> None:
    expected: dict[str, tuple[object, str]] = {
        "eq": (value, "1"),
        "neq": (value, "023"),
        "in": ([value], "1"),
        "exists": (True, "012"),
        **{op: (value, rows) for op, rows in ordered.items()},
    }
    for column in columns:
        for op, (asked, rows) in expected.items():
            assert (column, op, found(folder, api, {column: {op: asked}})) == (column, op, rows)


@pytest.mark.parametrize("api", ["auto", "public"])
def test_what_cannot_be_compared_is_refused_whatever_is_asked(folder: Path, api: Api) -> None:
    values = (2.5, "b", "2024-02-01", True, -(2**70))
    everything = [*WHOLE, *FRACTIONS, *TIMES, *TEXTS, *TRUTHS, *CLOCKS, *OTHERS]
    asking = Retriever(load_settings(database=str(folder), lancedb_api=api))
    codes: set[ErrorCode] = set()
    for column in everything:
        for op in OPERATORS:
            for value in values:
                try:
                    ask(asking, "boat", narrowing=Narrowing(filters={column: {op: [value] if op == "in" else value}}))
                except BedivereError as error:
                    codes.add(error.code)
    assert codes == {ErrorCode.INVALID_FILTER}


@pytest.mark.parametrize("column", CLOCKS)
def test_a_time_of_the_day_can_be_asked_for_existence_only(folder: Path, column: str) -> None:
    assert found(folder, "auto", {column: {"exists": True}}) == "012"
    with pytest.raises(BedivereError, match="only exists can be asked"):
        found(folder, "auto", {column: {"gte": "02:00:00"}})


@pytest.mark.parametrize("column", OTHERS)
def test_what_no_hit_shows_is_no_field(folder: Path, column: str) -> None:
    with pytest.raises(BedivereError, match="There is no field"):
        found(folder, "auto", {column: {"exists": True}})


@pytest.mark.parametrize(
    ("versions", "newest"),
    [
        (pa.array([1, 2, 2]), "2"),
        (pa.array([1.5, 2.0, 2.0]), "2.0"),
        (pa.array([Decimal("1.5"), Decimal("2.0"), Decimal("2.0")]), "2.0"),
        (pa.array([date(2024, 1, 1), date(2024, 2, 1), date(2024, 2, 1)]), "2024-02-01"),
        (pa.array(["1", "2", "2"]).dictionary_encode(), "2"),
        (pa.array([False, True, True]), "true"),
    ],
)
def test_a_version_and_a_collection_of_any_type_are_one_to_search_catalog_and_fetch(
    tmp_path: Path, versions: Any, newest: str
) -> None:
    columns = {
        "id": ["a", "b", "c"],
        "text": ["red boat", "blue boat", "green boat"],
        "path": ["a.md", "a.md", "b.md"],
        "chunk": [0, 0, 0],
    }
    for name in ("version", "collection"):
        place = tmp_path / name
        lancedb.connect(place).create_table("documents", pa.table({**columns, name: versions}))
        asking = Retriever(load_settings(database=str(place)))
        asked: dict[str, Any] = {name: newest}
        reply = ask(asking, "boat", narrowing=Narrowing(**asked))
        listed = asyncio.run(asking.catalog(CatalogRequest(narrowing=Narrowing(**asked, include_outdated=True))))
        page = asyncio.run(asking.fetch(FetchRequest(path="a.md", **asked)))
        assert sorted(hit.id for hit in reply.hits) == ["b", "c"]
        assert [entry.id for entry in listed.documents] == ["b", "c"]
        assert page.ids == ["b"]


def test_a_bound_by_a_date_says_how_many_rows_hold_none(tmp_path: Path) -> None:
    dates = ["2024-01-05", "05.02.2024", None, "soon"]
    columns = {"text": ["red boat"] * 4, "path": list("abcd"), "date": dates}
    lancedb.connect(tmp_path).create_table("documents", pa.table(columns)).create_index("text", config=FTS())
    asking = Retriever(load_settings(database=str(tmp_path)))
    filters: dict[str, object] = {"date": {"gte": "2024"}}
    told = [
        "Of 'date', 2 of the table's chunks hold no date in ISO 8601: these were compared letter by letter, so that "
        "some may be missing and some too many."
    ]
    assert ask(asking, "boat", narrowing=Narrowing(filters=filters)).notes == told
    assert asyncio.run(asking.catalog(CatalogRequest(narrowing=Narrowing(filters=filters)))).notes == told
    assert ask(asking, "boat", narrowing=Narrowing(filters={"date": "soon"})).notes == []
