"""The official TypeScript client with an API key, without one, and at a server that asks for no login."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from handler.access import issuing
from tests.e2e.conformance import npm
from tests.e2e.conftest import serving

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
