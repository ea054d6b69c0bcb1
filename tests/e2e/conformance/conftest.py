"""What the tests on Node share: the pinned packages, and one server for all of them."""

from collections.abc import Iterator

import pytest

from tests.e2e.conformance import npm
from tests.e2e.conformance.live_server import live_server


@pytest.fixture(scope="session")
def node() -> npm.Node:
    """Node with the pinned packages."""
    return npm.install()


@pytest.fixture(scope="session")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with live_server(tmp_path_factory.mktemp("live")) as url:
        yield url
