"""What the tests on Node share: the pinned packages, and one server for all of them, and once more from the image."""

from collections.abc import Iterator

import pytest

from tests.e2e.conformance import npm
from tests.e2e.conformance.live_server import live_function, live_server


@pytest.fixture(scope="session")
def node() -> npm.Node:
    """Node with the pinned packages."""
    return npm.install()


@pytest.fixture(scope="session", params=["server", "image"])
def endpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    serve = live_server if request.param == "server" else live_function
    with serve(tmp_path_factory.mktemp("live")) as url:
        yield url
