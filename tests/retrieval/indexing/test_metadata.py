"""What documents say about themselves arrives under one set of names and as plain values."""

from __future__ import annotations

from datetime import date, datetime

import pytest

from retrieval.indexing.document import Scalar
from retrieval.indexing.metadata import MAX_VALUE_CHARS, collect, iso_date, key, value


@pytest.mark.parametrize(
    ("name", "normal"),
    [
        ("Superseded-By", "superseded_by"),
        ("supersededBy", "superseded_by"),
        ("supersededby", "superseded_by"),
        ("Last Modified", "last_modified"),
        ("DC.date", "dc_date"),
        ("HTMLTitle", "html_title"),
        ("article:modified_time", "article_modified_time"),
        ("Größe", "groe"),
        ("título", "titulo"),
        ("日付", None),
        ("--", None),
    ],
)
def test_keys_are_snake_case(name: str, normal: str | None) -> None:
    assert key(name) == normal


@pytest.mark.parametrize(
    ("raw", "scalar"),
    [
        (True, True),
        (3, 3),
        (1.5, 1.5),
        (2**63, None),
        (float("nan"), None),
        (float("-inf"), None),
        ("  two\n words ", "two words"),
        ("", None),
        ("a\0b\ud800", "ab"),
        ("x" * (MAX_VALUE_CHARS + 1), None),
        (date(2026, 1, 2), "2026-01-02"),
        (datetime(2026, 1, 2, 3, 4), "2026-01-02T03:04:00"),  # noqa: DTZ001 - front matter has no zone
        (["a", 1, None], "a, 1"),
        ([], None),
        (["a", ["b"]], None),
        ({"a": 1}, None),
        (None, None),
    ],
)
def test_values_are_scalars_or_left_out(raw: object, scalar: Scalar | None) -> None:
    assert value(raw) == scalar


def test_the_first_of_two_names_that_become_one_counts() -> None:
    assert collect([("Doc Type", "a"), ("docType", "b"), ("empty", None)]) == {"doc_type": "a"}


def test_what_search_reads_is_text() -> None:
    assert collect([("superseded_by", 3), ("version", 2.1), ("weight", 3)]) == {
        "superseded_by": "3",
        "version": "2.1",
        "weight": 3,
    }


@pytest.mark.parametrize(
    ("pairs", "day"),
    [
        ({"created": "2001-01-01", "updated": "2002-02-02", "date": "2003-03-03"}, "2003-03-03"),
        ({"created": "2001-01-01", "updated": "2002-02-02"}, "2002-02-02"),
        ({"created": "2001-01-01", "Last-Modified": "2004-04-04"}, "2004-04-04"),
        ({"Created": "07-Jul-2001"}, "2001-07-07"),
    ],
)
def test_the_date_is_the_documents_last(pairs: dict[str, object], day: str) -> None:
    assert collect(pairs.items())["date"] == day


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("2026-01-02T10:00:00Z", "2026-01-02T10:00:00Z"),
        ("2026/1/2", "2026-01-02"),
        ("7 July 2001", "2001-07-07"),
        ("Mon, 07 Jul 2001 10:00:00 GMT", "2001-07-07"),
        ("July 7th, 2001", "2001-07-07"),
        ("2026/13/45", "2026/13/45"),
        ("7 Thermidor 1794", "7 Thermidor 1794"),
        ("soon", "soon"),
    ],
)
def test_common_notations_of_dates_become_iso_8601(text: str, iso: str) -> None:
    assert iso_date(text) == iso
