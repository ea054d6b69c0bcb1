"""A server that asks for no login says so: every well-known address of one is a 404 that no client mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from handler.app import gate_of
from handler.main import make_handler
from retrieval.settings import Settings
from tests.handler.events import load
from tests.handler.guarded import Inner, assert_refused, guard, send

NAMES = (
    "oauth-authorization-server",
    "oauth-protected-resource",
    "oauth-client",
    "openid-configuration",
)
PATHS = [
    path
    for name in NAMES
    for path in (
        f"/.well-known/{name}",
        f"/.well-known/{name}/",
        f"/.well-known/{name}/mcp",
        f"/mcp/.well-known/{name}",
    )
]


@pytest.mark.parametrize("access", ["public", "keys", "iam"])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_every_address_of_a_login_is_a_plain_404(access: str, path: str, method: str, tmp_path: Path) -> None:
    settings = Settings(access=access, keys=str(tmp_path / "keys.json"))  # type: ignore[arg-type]
    reply = send(guard(Inner(), gate=gate_of(settings)), method=method, path=path)
    assert_refused(reply, 404, "PATH_NOT_FOUND")
    assert reply.header("location") is None
    assert reply.header("www-authenticate") is None


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("event", ["v2_default_stage", "v1_http_api"])
def test_behind_api_gateway_too(path: str, event: str, handbook: Path) -> None:
    handler = make_handler(Settings(database=str(handbook)))
    asked = load(event)
    for place in ("rawPath", "path"):
        if place in asked:
            asked[place] = path
    if "http" in asked["requestContext"]:
        asked["requestContext"]["http"].update(path=path, method="GET")
    try:
        answer = handler(asked, None)
    finally:
        handler.close()
    assert answer["statusCode"] == 404
    assert answer["headers"]["content-type"] == "application/json"
    assert '"PATH_NOT_FOUND"' in answer["body"]
