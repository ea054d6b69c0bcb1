"""Arguments: how each may be written, and what is no such argument."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import pytest

from handler.arguments import Arguments, CatalogArguments, FetchArguments, SearchArguments
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


def search(**arguments: object) -> SearchArguments:
    return cast("SearchArguments", parse("lancedb_search", {"query": "x", **arguments}))


def search_refusal(**arguments: object) -> str:
    return refusal("lancedb_search", {"query": "x", **arguments})


@pytest.mark.parametrize("limit", [10, "10", 10.0, " 10 "])
def test_ten_is_ten_however_it_is_written(limit: object) -> None:
    assert cast("SearchArguments", parse("lancedb_search", {"query": "x", "limit": limit})).limit == 10


@pytest.mark.parametrize(
    "limit", [0, -1, 201, 1.5, "ten", "1_0", "١٠", "1e1", True, [10], {"a": 1}, 10**30, float("nan")]
)
def test_any_other_limit_is_refused_with_the_range(limit: object) -> None:
    expected = "Argument 'limit' must be a whole number from 1 to 200."
    assert refusal("lancedb_search", {"query": "x", "limit": limit}) == expected


@pytest.mark.parametrize("written", [{"status": "final"}, '{"status": "final"}', ' {"status": "final"} '])
def test_filters_are_taken_as_an_object_and_as_json(written: object) -> None:
    assert search(filters=written).filters == {"status": "final"}


def test_what_the_comparisons_of_a_filter_mean_is_left_to_the_search() -> None:
    filters = {"date": {"gte": "2025-01-01"}, "priority": {"in": [1, 2]}, "owner": {"between": 1}}
    assert search(filters=filters).filters == filters


@pytest.mark.parametrize("wrong", ["status = 'final'", '{"status": ', [1], 3, True, "[" * 60_000, '["status"]'])
def test_filters_that_are_no_object_are_refused_with_an_example(wrong: object) -> None:
    assert search_refusal(filters=wrong) == (
        'Argument \'filters\' must be an object of fields, such as {"status": "final"}.'
    )


@pytest.mark.parametrize("written", [["/old/", "tmp"], '["/old/", "tmp"]'])
def test_a_list_is_taken_as_a_list_and_as_json(written: object) -> None:
    assert search(exclude=written).exclude == ["/old/", "tmp"]


def test_a_lone_text_is_a_list_of_one() -> None:
    assert search(exclude="/old/").exclude == ["/old/"]
    assert cast("FetchArguments", parse("lancedb_fetch", {"path": "a", "headings": "Keys"})).headings == ["Keys"]
    assert cast("CatalogArguments", parse("lancedb_catalog", {"fields": "path"})).fields == ["path"]


@pytest.mark.parametrize("wrong", [["a"] * 21, ["a" * 201], [""], [3], {"a": 1}, 3])
def test_a_list_that_is_too_long_or_of_other_things_is_refused(wrong: object) -> None:
    assert (
        search_refusal(exclude=wrong) == "Argument 'exclude' must be a list of at most 20 texts of 1 to 200 characters."
    )


@pytest.mark.parametrize(
    "written",
    [
        {"type": "neighbors", "before": 2, "after": 1},
        {"type": "neighbors", "before": "2", "after": None},
        json.dumps({"type": "neighbors", "before": 2.0}),
    ],
)
def test_an_expansion_is_taken_as_an_object_and_as_json(written: object) -> None:
    expand = search(expand=written).expand
    assert (expand.type, expand.before, expand.after) == ("neighbors", 2, 1)


@pytest.mark.parametrize("kind", ["none", "neighbors", "section"])
def test_the_kind_of_an_expansion_may_stand_alone(kind: str) -> None:
    assert search(expand=kind).expand.type == kind


def test_chunks_around_without_a_type_are_neighbors() -> None:
    expand = search(expand={"before": 2}).expand
    assert (expand.type, expand.before, expand.after) == ("neighbors", 2, 1)
    assert search(expand={"type": "none", "before": 2}).expand.type == "none"


@pytest.mark.parametrize(
    ("expand", "sentence"),
    [
        ("all", "Argument 'expand.type' must be one of none, neighbors, section."),
        ({"type": 3}, "Argument 'expand.type' must be one of none, neighbors, section."),
        ({"before": 6}, "Argument 'expand.before' must be a whole number from 0 to 5."),
        ({"after": True}, "Argument 'expand.after' must be a whole number from 0 to 5."),
        ({"befor": 1}, "Unknown name 'befor' in 'expand'; did you mean 'before'? expand takes type, before, after."),
        (7, "Argument 'expand' must be an object with type, before, after."),
        ([], "Argument 'expand' must be an object with type, before, after."),
    ],
)
def test_what_is_wrong_within_an_expansion_is_named(expand: object, sentence: str) -> None:
    assert search_refusal(expand=expand) == sentence


@pytest.mark.parametrize("share", [0.5, "0.5", " .5 ", "0.50"])
def test_half_is_half_however_it_is_written(share: object) -> None:
    assert search(minScore=share).min_score == 0.5


@pytest.mark.parametrize("share", [-0.1, 1.01, "half", "5e-1", True, float("nan"), float("inf"), [0.5], "."])
def test_any_other_score_is_refused_with_the_range(share: object) -> None:
    assert search_refusal(minScore=share) == "Argument 'minScore' must be a number from 0 to 1."


@pytest.mark.parametrize(("written", "read"), [(True, "document"), (False, "none"), ("document", "document")])
def test_collapse_may_be_said_with_yes_and_no(written: object, read: str) -> None:
    assert search(collapse=written).collapse == read


def test_another_collapse_is_refused_with_the_choices() -> None:
    assert search_refusal(collapse="section") == "Argument 'collapse' must be one of none, document."


@pytest.mark.parametrize("name", ["pathPrefix", "collection", "version"])
def test_a_name_that_is_longer_than_any_is_refused(name: str) -> None:
    assert search_refusal(**{name: "x" * 4_097}) == f"Argument {name!r} must be text of at most 4096 characters."
