"""The official TypeScript client against a live server."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pydantic import BaseModel, Field, JsonValue

from tests.e2e.conformance import npm

pytestmark = pytest.mark.e2e

TOOLS = {"lancedb_search", "lancedb_query", "lancedb_status", "lancedb_version"}


class Tool(BaseModel):
    name: str
    output_schema: Mapping[str, JsonValue] | None = Field(default=None, alias="outputSchema")


class Result(BaseModel):
    content: Sequence[Mapping[str, Any]]
    is_error: bool = Field(default=False, alias="isError")
    structured: Mapping[str, JsonValue] | None = Field(default=None, alias="structuredContent")


class Seen(BaseModel):
    """What client.mjs prints."""

    server: Mapping[str, str]
    session: str | None
    tools: Sequence[Tool]
    found: Result
    refused: Result


@pytest.fixture(scope="session")
def seen(node: npm.Node, endpoint: str) -> Seen:
    done = node.run(npm.HERE / "client.mjs", str(npm.INSTALLED), endpoint)
    assert done.returncode == 0, done.stderr
    return Seen.model_validate_json(done.stdout)


def test_it_learns_the_servers_name_where_npm_is_present(seen: Seen) -> None:
    assert seen.server["name"] == "bedivere"


def test_it_is_given_no_session_where_npm_is_present(seen: Seen) -> None:
    assert seen.session is None


def test_it_lists_the_tools_with_their_output_schemas_where_npm_is_present(seen: Seen) -> None:
    assert {tool.name for tool in seen.tools if tool.output_schema} >= TOOLS


def test_it_accepts_a_result_with_structured_content_where_npm_is_present(seen: Seen) -> None:
    assert not seen.found.is_error
    assert seen.found.structured is not None
    assert "rotation.md" in str(seen.found.structured["hits"])


def test_it_sees_a_refusal_as_a_result_and_does_not_throw_where_npm_is_present(seen: Seen) -> None:
    assert seen.refused.is_error
    assert seen.refused.structured is None
    assert re.match(r"[A-Z_]+: .", seen.refused.content[0]["text"])
