"""Arguments: what is taken, what is refused and what the refusal says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from handler.tools import TOOLS, Arguments, QueryArguments, SearchArguments
from retrieval.errors import BedivereError, ErrorCode
from retrieval.settings import load_settings


def parse(tool: str, arguments: Mapping[str, Any]) -> Arguments:
    return TOOLS[tool].parse(arguments, load_settings())


def refusal(tool: str, arguments: Mapping[str, Any]) -> str:
    with pytest.raises(BedivereError) as raised:
        parse(tool, arguments)
    assert raised.value.code is ErrorCode.INVALID_ARGUMENT
    return raised.value.sentence


@pytest.mark.parametrize("limit", [10, "10", 10.0, " 10 "])
def test_ten_is_ten_however_it_is_written(limit: object) -> None:
    assert cast("SearchArguments", parse("lancedb_search", {"query": "x", "limit": limit})).limit == 10


@pytest.mark.parametrize(
    "limit", [0, -1, 201, 1.5, "ten", "1_0", "١٠", "1e1", True, [10], {"a": 1}, 10**30, float("nan")]
)
def test_any_other_limit_is_refused_with_the_range(limit: object) -> None:
    expected = "Argument 'limit' must be a whole number from 1 to 200."
    assert refusal("lancedb_search", {"query": "x", "limit": limit}) == expected


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
        ("query", 5, "text"),
        ("query", ["a"], "text"),
        ("table", {"a": 1}, "text"),
        ("searchType", "fuzzy", "one of auto, text, vector, hybrid"),
    ],
)
def test_a_wrong_type_is_told_in_words(argument: str, value: object, rule: str) -> None:
    sentence = refusal("lancedb_search", {"query": "x", argument: value})
    assert sentence == f"Argument '{argument}' must be {rule}."


def test_a_refusal_names_no_library_and_repeats_no_long_value() -> None:
    sentence = refusal("lancedb_search", {"query": "x", "z" * 5000: "y" * 5000})
    assert len(sentence) < 250
    assert "pydantic" not in sentence.casefold()


@pytest.mark.parametrize("name", TOOLS)
class TestContracts:
    def test_the_description_says_when_to_use_the_tool_and_when_its_sibling(self, name: str) -> None:
        description = TOOLS[name].description
        assert description.splitlines()[0].split()[0] in {"Search", "Retrieve", "Report"}
        assert "Read-only" in description
        assert "Use it " in description
        assert any(other in description for other in TOOLS if other != name)

    def test_every_parameter_has_a_description_and_an_example(self, name: str) -> None:
        for parameter in TOOLS[name].input_schema(load_settings())["properties"].values():
            assert parameter["description"]
            assert parameter["examples"]

    def test_schemas_are_closed_and_free_of_derived_titles_and_null_branches(self, name: str) -> None:
        schema = TOOLS[name].input_schema(load_settings())
        assert schema["additionalProperties"] is False
        assert "anyOf" not in str(schema)
        for parameter in schema["properties"].values():
            assert "title" not in parameter

    def test_every_field_of_the_result_has_a_description(self, name: str) -> None:
        schema = TOOLS[name].output_schema()
        for model in [schema, *schema.get("$defs", {}).values()]:
            for field in model["properties"].values():
                assert field["description"]
