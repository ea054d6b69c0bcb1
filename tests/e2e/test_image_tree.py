"""What the Lambda image can do that is imported late, and what it says of the one thing that it leaves out."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import boto3
import pytest
from mcp.client import Client
from mcp_types import CallToolResult, TextContent

from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options
from retrieval.provider import Endpoint
from retrieval.settings import load_settings
from tests import planted
from tests.e2e.emulator import emulated
from tests.e2e.image_tree import ImageTree, image_tree
from tests.embedding_server import MODEL, EmbeddingServer
from tests.s3_server import S3Server

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> ImageTree:
    return image_tree(tmp_path_factory.mktemp("tree") / "task")


@pytest.fixture
def embedded(embedding_server: EmbeddingServer, tmp_path: Path) -> Path:
    """A database with vectors, of a server that asks for a key."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "keys.md").write_text("# Keys\n\nRotate the signing key every ninety days.\n")
    endpoint = Endpoint(load_settings(openai_base_url=embedding_server.url, embedding_model=MODEL))
    build_table(Options(tmp_path / "docs", tmp_path / "database", embed=True, endpoint=endpoint))
    embedding_server.key = planted.EMBEDDING_KEY
    return tmp_path / "database"


def call(environment: dict[str, str], folder: Path, **arguments: Any) -> CallToolResult:
    """One search of a function with `environment`."""

    async def session(url: str) -> CallToolResult:
        async with Client(url) as client:
            return await client.call_tool("lancedb_search", arguments)

    folder.mkdir()
    with emulated(environment, folder) as function:
        return asyncio.run(session(function.url))


def test_it_embeds_the_question_with_a_key_from_secrets_manager(
    embedded: Path, embedding_server: EmbeddingServer, s3: S3Server, tmp_path: Path
) -> None:
    aws = {name: value for name, value in s3.environment.items() if name != "AWS_ENDPOINT_URL_S3"}
    connect = cast("Any", boto3.client)
    client = connect("secretsmanager", endpoint_url=s3.endpoint, region_name=aws["AWS_DEFAULT_REGION"])
    arn: str = client.create_secret(Name="key", SecretString=planted.EMBEDDING_KEY)["ARN"]
    environment = {
        **aws,
        **embedding_server.environment(),
        "AWS_ENDPOINT_URL": s3.endpoint,
        "LANCEDB_PATH": str(embedded),
        "OPENAI_API_KEY_ARN": arn,
    }

    found = call(environment, tmp_path / "function", query="rotate the signing key", searchType="hybrid")

    assert found.structured_content is not None
    assert found.structured_content["searchType"] == "hybrid"
    assert [hit["path"] for hit in found.structured_content["hits"]] == ["keys.md"]
    assert embedding_server.keys[-1] == f"Bearer {planted.EMBEDDING_KEY}"


def test_the_public_api_of_lancedb_is_not_there_and_the_refusal_says_how_to_have_it(
    handbook: Path, tmp_path: Path
) -> None:
    environment = {"LANCEDB_PATH": str(handbook), "BEDIVERE_LANCEDB_API": "public"}

    refused = call(environment, tmp_path / "function", query="signing key")

    [content] = refused.content
    assert isinstance(content, TextContent)
    assert refused.is_error
    assert content.text.startswith("SETTING_INVALID: This server was built without the Python API of LanceDB: ")
    assert "KEEP='public API of LanceDB'" in content.text


def test_whatever_the_server_imports_early_or_late_is_there(tree: ImageTree) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-S", "infra/complete.py", str(tree.task / "handler"), str(tree.task / "retrieval")],
        env={"PYTHONPATH": tree.search_path, "LD_BIND_NOW": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "absent", ["numpy", "jsonschema", "uvicorn", "handler.cli", "retrieval.indexing", "retrieval.release.publish"]
)
def test_what_was_removed_cannot_be_imported(tree: ImageTree, absent: str) -> None:
    code = f"import importlib, sys; importlib.import_module({absent!r})"

    done = subprocess.run(
        [sys.executable, "-P", "-S", "-c", code],
        env={"PYTHONPATH": tree.search_path},
        capture_output=True,
        text=True,
        check=False,
    )

    assert f"No module named '{absent}'" in done.stderr
