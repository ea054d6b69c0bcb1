"""What can be a bound for text."""

from __future__ import annotations

import pytest

from retrieval.errors import BedivereError, ErrorCode
from retrieval.layout import Column
from retrieval.search.bounds import as_bound, is_dated

COLUMN = Column("date", "string", "text")


@pytest.mark.parametrize(
    "value",
    ["2024", "2024-01", "2024-01-05", "2024-01-05T10:00Z", "2024-01-05 10:00:30.5", "alpha", "v2.1", "Q3 2024", ""],
)
def test_words_and_dates_in_iso_8601_are_bounds_as_they_stand(value: str) -> None:
    assert as_bound(COLUMN, "date", value) == value


def test_a_year_may_be_written_as_a_number() -> None:
    assert as_bound(COLUMN, "date", 2024) == "2024"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        *((date, "no date in ISO 8601: write 2024-01-05") for date in ("2024-1-5", "05.01.2024", "5/1/2024", "24-1-5")),
        *((date, "no date in ISO 8601: write 2024-01-05") for date in ("2024/01/05", "2024-13-01", "2024.10")),
        *((date, "no date in ISO 8601: write 2024-01-05") for date in ("13-Jan-2011", "Jan 5, 2024", "5. Januar 2024")),
        ("2024-01-05T10:00:00+02:00", "in UTC"),
        *((words, "no date in ISO 8601: write 2024-01-05") for words in ("yesterday", "3 days ago", "last 2 weeks")),
        *((day, "there is no day") for day in ("2022-02-30", "2023-02-29", "2024-04-31T10:00Z")),
        *((number, "'10' comes before '9'") for number in ("10", "9.5", "-3", "2.10.1", "20240105", 10, 1.5)),
    ],
)
def test_what_sorts_otherwise_than_it_reads_is_refused_with_what_to_write(value: object, told: str) -> None:
    with pytest.raises(BedivereError, match=told) as raised:
        as_bound(COLUMN, "date", value)
    assert raised.value.code is ErrorCode.INVALID_FILTER


@pytest.mark.parametrize("text", ["2024-02-30T25:00", "0024", "2024-1", "2024-01-05T10:00+01:00", "x2024", "2024 x"])
def test_another_spelling_is_not_dated(text: str) -> None:
    assert not is_dated(text)
