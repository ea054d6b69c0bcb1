"""The official TypeScript client with an API key, without one, and signing in by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from handler.access import issuing
from tests.e2e.conformance import npm
from tests.e2e.conftest import serving
from tests.e2e.heard import HEARD
from tests.token_server import CLIENT_ID, CLIENT_SECRET, TokenServer

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def guarded(handbook: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The URL of a server that takes keys, and a key."""
    place = str(tmp_path_factory.mktemp("keys") / "keys.json")
    key, _ = issuing.create(place, "typescript", scopes=("search",))
    with serving("--db", str(handbook), BEDIVERE_ACCESS="keys", BEDIVERE_KEYS=place) as url:
        yield url, key


def test_with_a_key_it_is_served_where_npm_is_present(node: npm.Node, guarded: tuple[str, str]) -> None:
    done = node.run(npm.HERE / "client.mjs", str(npm.INSTALLED), *guarded)
    assert done.returncode == 0, done.stderr
    assert not json.loads(done.stdout)["found"].get("isError")


def test_without_a_key_it_throws_and_says_why_where_npm_is_present(node: npm.Node, guarded: tuple[str, str]) -> None:
    done = node.run(npm.HERE / "client.mjs", str(npm.INSTALLED), guarded[0])
    assert done.returncode != 0
    assert "UNAUTHORIZED" in done.stderr


@dataclass(frozen=True)
class Told:
    """What login.mjs prints: each request of the client's own with its status, and the results of its two calls."""

    asked: list[str]
    found: dict[str, Any]
    read: dict[str, Any]


def signing_in(node: npm.Node, url: str, who: str, issuer: TokenServer, token: str = "") -> Told:
    """As `who`, a person or a machine, which may have a token already."""
    issuer.issued.clear()
    credentials = (issuer.issuer, CLIENT_ID, CLIENT_SECRET, token)
    done = node.run(npm.HERE / "login.mjs", str(npm.INSTALLED), url, who, *credentials)
    for secret in (*issuer.issued, token, CLIENT_SECRET):
        HEARD.keep_secret("what the TypeScript client signed in with", secret)
    assert done.returncode == 0, done.stderr
    return Told(**json.loads(done.stdout))


METADATA = ["GET /.well-known/oauth-protected-resource/mcp 200", "GET /.well-known/oauth-authorization-server 200"]


@pytest.mark.parametrize(
    ("who", "gets"),
    [
        # It comes back from the browser as a new one, which looks again.
        ("person", ["POST /register 201", *METADATA, "POST /token 200"]),
        ("machine", ["POST /token 200"]),
    ],
)
def test_it_finds_its_own_way_from_401_to_an_answer_where_npm_is_present(
    node: npm.Node, url: str, issuer: TokenServer, who: str, gets: list[str]
) -> None:
    told = signing_in(node, url, who, issuer)

    # Once it has a token, all it asks for is answered; that it looks for a stream is none of its login.
    assert told.asked[: len(gets) + 3] == ["POST /mcp 401", *METADATA, *gets]
    assert {asked for asked in told.asked[len(gets) + 3 :] if asked.startswith("POST")} == {
        "POST /mcp 200",
        "POST /mcp 202",
    }
    assert told.found["hits"][0]["path"] == told.read["path"] == "keys.md"


def test_a_scope_that_its_token_lacks_it_asks_for_and_calls_again_where_npm_is_present(
    node: npm.Node, url: str, issuer: TokenServer
) -> None:
    told = signing_in(node, url, "machine", issuer, issuer.token(url, "search"))

    at = told.asked.index("POST /mcp 403")
    assert told.asked[at + 1 :] == [*METADATA, "POST /token 200", "POST /mcp 200"]
    assert told.read["path"] == "keys.md"
