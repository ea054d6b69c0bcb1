"""From what was sent to typed arguments, and what a refusal says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handler.arguments import Arguments, QueryArguments, SearchArguments
from handler.tools import TOOLS
from retrieval.errors import BedivereError, ErrorCode
from retrieval.settings import load_settings


def parse(tool: str, arguments: Mapping[str, Any]) -> Arguments:
    return TOOLS[tool].parse(arguments, load_settings())


def refusal(tool: str, arguments: Mapping[str, Any]) -> str:
    with pytest.raises(BedivereError) as raised:
        parse(tool, arguments)
    assert raised.value.code is ErrorCode.INVALID_ARGUMENT
    return raised.value.sentence


@pytest.mark.parametrize("nothing", [None, ""])
def test_null_and_empty_text_mean_left_out(nothing: object) -> None:
    arguments = {"query": "x", "limit": nothing, "table": nothing, "searchType": nothing}
    parsed = cast("SearchArguments", parse("lancedb_search", arguments))
    assert (parsed.limit, parsed.table, parsed.search_type) == (20, None, "auto")


def test_what_is_left_out_is_taken_from_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCEDB_DEFAULT_LIMIT", "7")
    monkeypatch.setenv("LANCEDB_CONTEXT_BUDGET", "900")
    assert cast("SearchArguments", parse("lancedb_search", {"query": "x"})).limit == 7
    query = cast("QueryArguments", parse("lancedb_query", {"question": "x"}))
    assert (query.limit, query.context_budget) == (7, 900)
    properties = TOOLS["lancedb_query"].input_schema(load_settings())["properties"]
    assert properties["contextBudget"]["default"] == 900


@pytest.mark.parametrize(
    ("tool", "unknown", "nearest"),
    [
        ("lancedb_search", "top_k", "limit"),
        ("lancedb_search", "k", "limit"),
        ("lancedb_search", "q", "query"),
        ("lancedb_search", "Query", "query"),
        ("lancedb_search", "search_type", "searchType"),
        ("lancedb_search", "text_column", "textColumn"),
        ("lancedb_query", "query", "question"),
        ("lancedb_query", "context_budget", "contextBudget"),
        ("lancedb_query", "max_tokens", "contextBudget"),
        ("lancedb_query", "warmstart", "warmStart"),
        ("lancedb_status", "verbos", "verbose"),
        ("lancedb_search", "filter", "filters"),
        ("lancedb_search", "where", "filters"),
        ("lancedb_search", "path", "pathPrefix"),
        ("lancedb_search", "threshold", "minScore"),
        ("lancedb_search", "min_score", "minScore"),
        ("lancedb_search", "include_outdated", "includeOutdated"),
        ("lancedb_search", "groupBy", "collapse"),
        ("lancedb_fetch", "ids", "id"),
        ("lancedb_fetch", "url", "path"),
        ("lancedb_fetch", "max_tokens", "maxChars"),
        ("lancedb_fetch", "max_chars", "maxChars"),
        ("lancedb_fetch", "next_cursor", "cursor"),
        ("lancedb_fetch", "section", "headings"),
        ("lancedb_catalog", "page", "cursor"),
        ("lancedb_catalog", "corpus_version", "ifCorpusVersion"),
        ("lancedb_catalog", "columns", "fields"),
    ],
)
def test_an_unknown_argument_is_refused_with_the_nearest_right_name(tool: str, unknown: str, nearest: str) -> None:
    required = {"lancedb_search": {"query": "x"}, "lancedb_query": {"question": "x"}}.get(tool, {})
    assert f"did you mean '{nearest}'?" in refusal(tool, {**required, unknown: 3})


def test_a_tool_without_arguments_takes_none() -> None:
    assert refusal("lancedb_version", {"verbose": True}).endswith("lancedb_version takes no arguments.")


@pytest.mark.parametrize("wrong", ["q", "question", "Query", "search"])
def test_a_wrong_name_for_the_query_is_told_rather_than_that_the_query_is_missing(wrong: str) -> None:
    assert "did you mean 'query'?" in refusal("lancedb_search", {wrong: "x"})


def test_a_missing_query_is_named() -> None:
    assert refusal("lancedb_search", {}) == "Argument 'query' is required."
    assert refusal("lancedb_search", {"query": None}) == "Argument 'query' is required."


@pytest.mark.parametrize(
    ("argument", "value", "rule"),
    [
        ("query", 5, "text of at most 4000 characters"),
        ("query", ["a"], "text of at most 4000 characters"),
        ("table", {"a": 1}, "text"),
        ("searchType", "fuzzy", "one of auto, text, vector, hybrid"),
    ],
)
def test_a_wrong_type_is_told_in_words(argument: str, value: object, rule: str) -> None:
    sentence = refusal("lancedb_search", {"query": "x", argument: value})
    assert sentence == f"Argument '{argument}' must be {rule}."


def test_a_refusal_names_no_library_and_repeats_no_long_value() -> None:
    sentence = refusal("lancedb_search", {"query": "x", "z" * 5000: "y" * 5000})
    assert len(sentence) < 400
    assert "pydantic" not in sentence.casefold()


@pytest.mark.parametrize("tool", TOOLS)
def test_null_for_everything_is_everything_left_out(tool: str) -> None:
    required = {"lancedb_search": {"query": "x"}, "lancedb_query": {"question": "x"}}.get(tool, {})
    nulls = dict.fromkeys(TOOLS[tool].input_schema(load_settings())["properties"])
    assert parse(tool, {**nulls, **required}) == parse(tool, required)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=8,
)
PARAMETERS = [(tool, name) for tool in TOOLS for name in TOOLS[tool].input_schema(load_settings())["properties"]]


@given(parameter=st.sampled_from(PARAMETERS), value=JSON)
def test_whatever_is_sent_is_taken_or_refused_in_one_sentence(parameter: tuple[str, str], value: object) -> None:
    tool, name = parameter
    sentence = "Taken."
    try:
        parse(tool, {"query": "x", name: value} if tool == "lancedb_search" else {name: value})
    except BedivereError as refused:
        sentence = refused.sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert len(sentence) < 400
