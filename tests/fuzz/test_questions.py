"""A question and its filters become a plan of bounded size, or are refused, whatever they hold."""

from __future__ import annotations

from collections.abc import Callable
from time import thread_time
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.errors import BedivereError, ErrorCode
from retrieval.layout import Column, Layout, lay_out
from retrieval.search import filters, snippet
from retrieval.search import text as lexicon
from retrieval.search.filters import MAX_CONDITIONS, Where, to_sql
from retrieval.search.plan import MAX_QUERY_CHARS, Match, Searchable, plan_text
from retrieval.search.values import MAX_VALUE_CHARS
from tests.fuzz.examples import examples
from tests.fuzz.schemas import JSON, ODD_TEXT

SECONDS: Final = 1.0
"""Of the processor, for a question as long as they may be."""

PIECES: Final = st.sampled_from(
    [
        *(
            "word",
            " ",
            '"',
            "“",
            "”",
            "«",
            "»",
            "a.b",
            "--flag",
            "_",
            "a_b",
            "camelCase",
            "é",
            "日本",
            "\u0301",
            "\u200d",
        ),
        *(
            "-",
            "'",
            "`",
            "(",
            ")",
            "*",
            ":",
            "^",
            "~",
            "AND",
            "\\",
            "\x00",
            "\n",
            "1.2.3",
            "0x1f",
            "/",
            "ﷺ",
            "ß",
            "\u200d",
        ),
    ]
)
COLUMNS: Final = [
    Column("text", "string", "text"),
    Column("path", "string", "text"),
    Column("status", "string", "text"),
    Column("priority", "int64", "integer"),
    Column("rate", "double", "number"),
    Column("final", "bool", "boolean"),
    Column("at", "timestamp[us]", "time"),
    Column("list", "list<string>", "other"),
    Column('quo"te', "string", "text"),
]
SEARCHABLE: Final = Searchable(text="search_text", title="title", heading="heading", identifiers="idents", folded=True)


@examples(25)
@given(st.lists(PIECES, min_size=1, max_size=12), st.integers(1, MAX_QUERY_CHARS))
def test_a_question_of_any_pieces_has_a_plan_of_bounded_size_in_time(pieces: list[str], times: int) -> None:
    question = ("".join(pieces) * times)[:MAX_QUERY_CHARS]
    began = thread_time()
    plan = plan_text(question, SEARCHABLE)
    snippet.snippet(question, question)
    snippet.matched_words(question, question)
    assert thread_time() - began < SECONDS
    parts = plan.parts if plan else ()
    assert len(parts) <= 16
    for part in parts:
        if isinstance(part, Match) and part.column != "idents":
            assert len(lexicon.words(part.terms)) <= lexicon.MAX_TERMS


NAMES: Final = st.sampled_from([column.name for column in COLUMNS]) | ODD_TEXT
NEARLY: Final = st.sampled_from(
    [
        *("2024", "2024-02", "2024-02-29", "2024-02-30", "0001-01-01", "9999-12", "9999-12-31", "1600", "2024-13"),
        *("2024-02-29T24:00", "2024-02-29T10:00:00+14:00", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"),
        *("12", " -1.5 ", "1e400", "-0", "9" * 400, "1e-400", "٣", "true", " FALSE ", 2**63, -(2**63) - 1, 1e308, 0.5),
    ]
)
"""What columns of one kind or another take, or nearly."""
COMPARED: Final = st.dictionaries(
    st.sampled_from(list(filters.OPERATORS)) | ODD_TEXT, NEARLY | JSON | st.lists(NEARLY, max_size=3), max_size=3
)


@examples(150)
@given(st.dictionaries(NAMES, NEARLY | JSON | COMPARED, max_size=4))
def test_filters_of_any_shape_are_a_condition_or_are_refused(asked: dict[str, Any]) -> None:
    layout = lay_out(COLUMNS, [], "text")
    where, refused = read(asked, layout)
    assert where is None or refused is None
    if refused:
        assert refused.code == ErrorCode.INVALID_FILTER
        assert len(refused.sentence) < 2_000
    if where:
        # Whatever was written, what reaches the table has every quote closed.
        assert to_sql(where, lambda name: f"`{name}`", str).count("'") % 2 == 0


def read(asked: dict[str, Any], layout: Layout) -> tuple[Where | None, BedivereError | None]:
    try:
        return filters.parse(asked, COLUMNS, layout), None
    except BedivereError as error:
        return None, error


@pytest.mark.parametrize("more", [0, 1])
def test_conditions_are_taken_up_to_their_limit_and_no_further(more: int) -> None:
    asked = {name: {"gte": 1, "lte": 2, "neq": 3, "exists": True, "eq": 1} for name in ("priority", "rate")}
    spelled = {f"metadata.{name}": dict(operators) for name, operators in asked.items()}
    whole: dict[str, Any] = {**asked, **spelled}
    assert sum(len(operators) for operators in whole.values()) == MAX_CONDITIONS
    _, refused = read({**whole, **({"status": "a"} if more else {})}, lay_out(COLUMNS, [], "text"))
    assert (refused is not None) == bool(more)
    assert refused is None or f"more than {MAX_CONDITIONS}" in refused.sentence


LIMITS: Final[dict[str, tuple[int, Callable[[int], dict[str, Any]]]]] = {
    "values of a list": (filters.MAX_VALUES, lambda size: {"status": [str(value) for value in range(size)]}),
    "characters of a value": (MAX_VALUE_CHARS, lambda size: {"status": "a" * size}),
    "characters of a prefix": (MAX_VALUE_CHARS, lambda size: {"path": {"prefix": "a" * size}}),
}


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("what", LIMITS)
def test_a_comparison_is_taken_up_to_its_limit_and_no_further(what: str, more: int) -> None:
    limit, asked = LIMITS[what]
    where, refused = read(asked(limit + more), lay_out(COLUMNS, [], "text"))
    assert (where is None) == bool(more)
    assert (refused is not None) == bool(more)
