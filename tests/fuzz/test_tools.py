"""Every tool's declared arguments, right, wrong, at their limits and past them, through the front door."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handler.tools import TOOLS
from retrieval.settings import Settings
from tests.fuzz.door import Door
from tests.fuzz.examples import examples
from tests.fuzz.schemas import JSON, any_object, valid_object

DEFAULTS: Final = Settings.model_construct()
SCHEMAS: Final = {name: tool.input_schema(DEFAULTS) for name, tool in TOOLS.items()}

ABOUT: Final = {
    "INVALID_QUERY",
    "INVALID_FILTER",
    "INVALID_CURSOR",
    "INVALID_ARGUMENT",
    "TABLE_NOT_FOUND",
    "COLUMN_NOT_FOUND",
    "TEXT_COLUMN_MISSING",
    "DOCUMENT_NOT_FOUND",
    "VECTOR_UNAVAILABLE",
    "CURSOR_STALE",
}
"""What may be wrong with a call, whoever sends it: nothing of the database's or of ours."""


@pytest.mark.parametrize("tool", SCHEMAS)
def test_what_the_schema_allows_is_answered_or_refused_for_what_it_asks(door: Door, tool: str) -> None:
    @examples(15)
    @given(valid_object(SCHEMAS[tool]))
    def ask(arguments: dict[str, Any]) -> None:
        assert door.call(tool, arguments) in ABOUT | {""}

    ask()


@pytest.mark.parametrize("tool", SCHEMAS)
def test_whatever_is_sent_for_an_argument_has_a_documented_answer(door: Door, tool: str) -> None:
    @examples(25)
    @given(any_object(SCHEMAS[tool]) | JSON)
    def ask(arguments: Any) -> None:
        assert door.call(tool, arguments) in ABOUT | {"", "INVALID_PARAMS", "BODY_NOT_JSON", "BODY_TOO_LARGE"}

    ask()


BASE: Final[dict[str, dict[str, Any]]] = {
    "lancedb_search": {"query": "key"},
    "lancedb_query": {"question": "key"},
    "lancedb_fetch": {"path": "keys.md"},
    "lancedb_catalog": {},
}
WITH_ID: Final = {"before", "after"}


def limits() -> Iterator[tuple[str, str, Any, Any]]:
    """Tool, argument, a value at its limit and one past it, for each limit that a schema states."""
    for tool in BASE:
        for name, rules in SCHEMAS[tool]["properties"].items():
            if "maximum" in rules:
                step = 1 if rules["type"] == "integer" else 0.001
                yield tool, name, rules["maximum"], rules["maximum"] + step
                yield tool, name, rules["minimum"], rules["minimum"] - step
            if "maxLength" in rules:
                yield tool, name, "k" * rules["maxLength"], "k" * (rules["maxLength"] + 1)
            if "maxItems" in rules:
                yield tool, name, ["path"] * rules["maxItems"], ["path"] * (rules["maxItems"] + 1)
            most = rules.get("items", {}).get("maxLength")
            # Of fields only the names that there are will do, which are short.
            if most and name != "fields":
                yield tool, name, ["k" * most], ["k" * (most + 1)]


def arguments_with(tool: str, name: str, value: object) -> dict[str, Any]:
    base = dict(BASE[tool])
    if tool == "lancedb_fetch" and name in {"id", "cursor"}:
        base = {}
    if tool == "lancedb_fetch" and name in WITH_ID:
        base = {"id": "keys.md#0"}
    return {**base, name: value}


LIMITS: Final = list(limits())


@pytest.mark.parametrize(
    ("tool", "name", "within", "beyond"),
    LIMITS,
    ids=[f"{tool} {name} {place}" for place, (tool, name, *_) in enumerate(LIMITS)],
)
def test_each_limit_that_a_schema_states_is_kept_and_not_one_below_it(
    door: Door, tool: str, name: str, within: object, beyond: object
) -> None:
    assert door.call(tool, arguments_with(tool, name, within)) not in {"INVALID_ARGUMENT", "INVALID_QUERY"}
    refused = "INVALID_QUERY" if name in {"query", "question"} else "INVALID_ARGUMENT"
    assert door.call(tool, arguments_with(tool, name, beyond)) == refused


@pytest.mark.parametrize("tool", SCHEMAS)
def test_a_number_of_nothing_but_white_space_costs_no_more_than_its_length(door: Door, tool: str) -> None:
    numbers = [name for name, rules in SCHEMAS[tool]["properties"].items() if "maximum" in rules]
    for name in numbers:
        assert door.call(tool, {**BASE[tool], name: " " * 60_000 + "x"}) == "INVALID_ARGUMENT"


def test_a_cursor_that_was_altered_is_refused_and_nothing_else_happens(door: Door) -> None:
    cursor = door.result("lancedb_catalog", {"limit": 1})["cursor"]

    @examples(25)
    @given(cut=st.integers(0, len(cursor) - 1), put=st.text(st.characters(max_codepoint=0x17F), max_size=4))
    def ask(cut: int, put: str) -> None:
        altered = cursor[:cut] + put + cursor[cut + len(put) :]
        # An empty cursor is one that was left out.
        wanted = {""} if altered in {cursor, ""} else {"INVALID_CURSOR", "INVALID_ARGUMENT", "CURSOR_STALE"}
        assert door.call("lancedb_catalog", {"limit": 1, "cursor": altered}) in wanted

    ask()
