"""The contracts that an agent reads, and what becomes of the arguments it sends."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest

from handler.contract import Service
from handler.tools import TOOLS
from retrieval.retriever import Retriever
from retrieval.settings import load_settings
from retrieval.types import CatalogRequest, ContextRequest, Expansion, FetchRequest, Narrowing, SearchRequest

MAX_LISTED_BYTES = 30_000
"""What an agent reads, and pays for, before its first call. A larger list wants a reason."""

NARROWED = {
    "filters": {"status": "final"},
    "pathPrefix": "guides/",
    "exclude": ["/old/"],
    "collection": "handbook",
    "version": "2.1",
    "includeOutdated": True,
}
NARROWING = Narrowing({"status": "final"}, "guides/", ("/old/",), "handbook", "2.1", include_outdated=True)


class _Asked(Exception):
    """Carries what a retriever was asked."""


class _Recording:
    """A retriever that says what it is asked instead of answering."""

    def __getattr__(self, name: str) -> object:
        async def ask(request: object) -> None:
            raise _Asked(name, request)

        return ask


def asked(tool: str, **arguments: object) -> tuple[str, Any]:
    """The retriever's method that `tool` calls, and the request it makes of `arguments`."""
    settings = load_settings()
    contract = TOOLS[tool]
    service = Service(settings, cast("Retriever", _Recording()))
    with pytest.raises(_Asked) as raised:
        asyncio.run(cast("Any", contract.run(service, contract.parse(arguments, settings))))
    return raised.value.args


def test_a_search_asks_for_all_that_its_arguments_say() -> None:
    arguments = {
        "query": "keys",
        "limit": 3,
        "searchType": "hybrid",
        "table": "documents",
        "textColumn": "body",
        "vectorColumn": "embedding",
        "collapse": "document",
        "expand": {"type": "neighbors", "before": 2, "after": 3},
        "minScore": 0.25,
    }
    assert asked("lancedb_search", **arguments, **NARROWED) == (
        "search",
        SearchRequest(
            "keys",
            3,
            "hybrid",
            "documents",
            "body",
            "embedding",
            NARROWING,
            collapse=True,
            expand=Expansion("neighbors", 2, 3),
            min_score=0.25,
        ),
    )


def test_a_search_narrows_nothing_by_itself() -> None:
    assert asked("lancedb_search", query="keys") == ("search", SearchRequest("keys", 20))


def test_a_question_asks_for_all_that_its_arguments_say() -> None:
    arguments = {"question": "Which keys?", "contextBudget": 900, "limit": 3, "searchType": "text", "minScore": 0}
    request = ContextRequest("Which keys?", 900, 3, search_type="text", narrowing=NARROWING, min_score=0)
    assert asked("lancedb_query", **arguments, **NARROWED) == ("context", request)


def test_a_fetch_asks_for_all_that_its_arguments_say() -> None:
    assert asked("lancedb_fetch", id="a.md#3", before=1, after=2, maxChars=1_000) == (
        "fetch",
        FetchRequest(id="a.md#3", before=1, after=2, max_chars=1_000),
    )
    arguments = {"path": "a.md", "headings": ["Keys"], "collection": "c", "version": "1", "table": "t"}
    assert asked("lancedb_fetch", **arguments) == (
        "fetch",
        FetchRequest(path="a.md", headings=("Keys",), collection="c", version="1", table="t"),
    )
    assert asked("lancedb_fetch", cursor="abc") == ("fetch", FetchRequest(cursor="abc"))


def test_a_catalog_asks_for_all_that_its_arguments_say() -> None:
    arguments = {"status": "draft", "fields": ["path"], "limit": 9, "cursor": "abc", "ifCorpusVersion": "4bad"}
    request = CatalogRequest(NARROWING, "draft", ("path",), 9, "abc", "4bad", "t")
    assert asked("lancedb_catalog", table="t", **arguments, **NARROWED) == ("catalog", request)


def test_a_catalog_shows_outdated_documents_unless_it_is_told_not_to() -> None:
    assert asked("lancedb_catalog") == ("catalog", CatalogRequest())
    assert not asked("lancedb_catalog", includeOutdated=False)[1].narrowing.include_outdated


def test_the_page_of_a_catalog_is_not_the_limit_of_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCEDB_DEFAULT_LIMIT", "7")
    assert asked("lancedb_catalog")[1].limit == 100
    assert TOOLS["lancedb_catalog"].input_schema(load_settings())["properties"]["limit"]["default"] == 100


def test_what_an_agent_reads_before_its_first_call_stays_small() -> None:
    settings = load_settings()
    listed = [
        {"description": tool.description, "input": tool.input_schema(settings), "output": tool.output_schema()}
        for tool in TOOLS.values()
    ]
    assert len(json.dumps(listed, separators=(",", ":"), ensure_ascii=False).encode()) < MAX_LISTED_BYTES


@pytest.mark.parametrize("name", TOOLS)
class TestContracts:
    def test_the_description_says_when_to_use_the_tool_and_when_its_sibling(self, name: str) -> None:
        description = TOOLS[name].description
        assert description.splitlines()[0].split()[0] in {"Search", "Retrieve", "Read", "List", "Report"}
        assert "Read-only" in description
        assert "Use it " in description
        assert any(other in description for other in TOOLS if other != name)

    def test_every_parameter_has_a_description_and_an_example_that_is_taken(self, name: str) -> None:
        required = {"lancedb_search": {"query": "x"}, "lancedb_query": {"question": "x"}}.get(name, {})
        for parameter, rules in TOOLS[name].input_schema(load_settings())["properties"].items():
            assert rules["description"]
            assert rules["examples"]
            for example in rules["examples"]:
                TOOLS[name].parse({**required, parameter: example}, load_settings())

    def test_schemas_are_closed_and_free_of_derived_titles_and_null_branches(self, name: str) -> None:
        schema = TOOLS[name].input_schema(load_settings())
        assert schema["additionalProperties"] is False
        assert "anyOf" not in str(schema)
        assert "$ref" not in str(schema)
        for parameter in schema["properties"].values():
            assert "title" not in parameter

    def test_no_argument_travels_in_a_header(self, name: str) -> None:
        # The SDK is told of no schema to look for such arguments in.
        assert "x-mcp-header" not in str(TOOLS[name].input_schema(load_settings()))

    def test_every_field_of_the_result_has_a_description(self, name: str) -> None:
        schema = TOOLS[name].output_schema()
        for model in [schema, *schema.get("$defs", {}).values()]:
            for field in model["properties"].values():
                assert field["description"]
