"""A caller's values, typed as a column is."""

from __future__ import annotations

from datetime import date, datetime

import pytest

from retrieval.errors import BedivereError, ErrorCode
from retrieval.layout import Column
from retrieval.search import values

NUMBER = Column("n", "double", "number")
INTEGER = Column("n", "int64", "integer")
TIME = Column("t", "timestamp[us]", "time")
DAY = Column("t", "date32[day]", "time")
TEXT = Column("s", "string", "text")
FIRST = datetime(2024, 5, 31)  # noqa: DTZ001 - as columns hold them
NEXT = datetime(2024, 6, 1)  # noqa: DTZ001


@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [
        ("int8", -128, 127),
        ("uint16", 0, 65_535),
        ("int64", -(2**63), 2**63 - 1),
        ("uint64", 0, 2**63 - 1),
        ("dictionary<values=string>", -(2**63), 2**63 - 1),
    ],
)
def test_a_column_of_whole_numbers_holds_what_its_type_does(kind: str, least: int, most: int) -> None:
    held = values.held(Column("n", kind, "integer"))
    assert (held[0], held[-1]) == (least, most)


@pytest.mark.parametrize(
    ("written", "read"), [("3", 3), ("-3", -3), (" 3.50 ", 3.5), ("1e3", 1000.0), (".5", 0.5), (7, 7)]
)
def test_a_numeral_is_its_number(written: object, read: float) -> None:
    assert values.as_number(INTEGER, "n", written) == read


@pytest.mark.parametrize("written", ["", "three", "1_000", "1,5", "0x10", "inf", "nan", "1e999", [], {}, None, False])
def test_what_is_no_number_is_refused(written: object) -> None:
    with pytest.raises(BedivereError) as raised:
        values.as_number(NUMBER, "n", written)
    assert raised.value.code is ErrorCode.INVALID_FILTER


@pytest.mark.parametrize(
    ("column", "written", "moment"),
    [
        (TIME, "2024-05-31", (FIRST, NEXT)),
        (TIME, "2024-05-31T00:00", (FIRST, None)),
        (TIME, "2024-05-31T02:00:00+02:00", (FIRST, None)),
        (TIME, "2024-05-31T00:00:00Z", (FIRST, None)),
        (DAY, "2024-05-31", (date(2024, 5, 31), None)),
        (DAY, "2024-05", (date(2024, 5, 1), date(2024, 6, 1))),
        (DAY, "2024-12", (date(2024, 12, 1), date(2025, 1, 1))),
        (DAY, "1066", (date(1066, 1, 1), date(1067, 1, 1))),
        (TIME, "2024-05", (datetime(2024, 5, 1), NEXT)),  # noqa: DTZ001
        (TIME, "2024", (datetime(2024, 1, 1), datetime(2025, 1, 1))),  # noqa: DTZ001
    ],
)
def test_a_day_a_month_and_a_year_have_an_end_and_a_time_has_none(
    column: Column, written: str, moment: tuple[object, object]
) -> None:
    assert values.as_time(column, "t", written) == moment


@pytest.mark.parametrize(
    "written",
    [
        "yesterday",
        "2024-13-01",
        "2024-13",
        "0000",
        "1066",
        "24",
        "1066-10-14",
        "9999-12-31",
        "0001-01-01T00:00+02:00",
        2024,
        None,
    ],
)
def test_what_is_no_time_that_can_be_compared_is_refused(written: object) -> None:
    with pytest.raises(BedivereError) as raised:
        values.as_time(TIME, "t", written)
    assert raised.value.code is ErrorCode.INVALID_FILTER


@pytest.mark.parametrize(("value", "stored"), [(2, "2"), (2.1, "2.1"), (True, "true"), ("x", "x")])
def test_a_value_for_a_column_of_text_is_what_the_indexer_would_have_stored(value: object, stored: str) -> None:
    assert values.as_text(TEXT, "s", value) == stored
