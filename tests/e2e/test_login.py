"""The Python client signs in by itself: from the first 401 to the metadata, the issuer, a token and an answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from mcp.client import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from tests.token_server import CLIENT_ID, CLIENT_SECRET, TokenServer

pytestmark = [pytest.mark.anyio, pytest.mark.e2e]

ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])
REDIRECT = "http://127.0.0.1:1/callback"


@dataclass
class Memory:
    """What a client remembers of its sign-in."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None
    visited: list[str] = field(default_factory=list[str])

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def signing_in(url: str, memory: Memory) -> OAuthClientProvider:
    """As the SDK does it; the browser that a person would see is a request that is redirected back."""

    async def visit(address: str) -> None:
        async with httpx2.AsyncClient(follow_redirects=False) as browser:
            memory.visited.append((await browser.get(address)).headers["location"])

    async def come_back() -> AuthorizationCodeResult:
        told = parse_qs(urlsplit(memory.visited[-1]).query)
        return AuthorizationCodeResult(code=told["code"][0], state=told["state"][0])

    return OAuthClientProvider(
        server_url=url,
        client_metadata=OAuthClientMetadata(
            client_name="a test", redirect_uris=[AnyUrl(REDIRECT)], grant_types=["authorization_code"]
        ),
        storage=memory,
        redirect_handler=visit,
        callback_handler=come_back,
    )


@asynccontextmanager
async def connected(url: str, mode: str, **how: Any) -> AsyncGenerator[Client]:
    async with (
        httpx2.AsyncClient(**how) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


@ERAS
async def test_a_client_finds_its_own_way_from_401_to_an_answer(url: str, issuer: TokenServer, mode: str) -> None:
    memory = Memory()
    issuer.asked.clear()
    async with connected(url, mode, auth=signing_in(url, memory)) as client:
        found = await client.call_tool("lancedb_search", {"query": "rotate the signing key"})
    assert not found.is_error
    assert found.structured_content is not None
    assert found.structured_content["hits"][0]["path"] == "keys.md"
    assert {"/register", "/authorize", "/token"} <= set(issuer.asked)
    assert memory.tokens is not None
    assert set((memory.tokens.scope or "").split()) == {"search", "fetch", "catalog", "status"}


@ERAS
async def test_a_machine_with_a_token_of_its_own_is_served(url: str, issuer: TokenServer, mode: str) -> None:
    asked = {"grant_type": "client_credentials", "scope": "search", "resource": url}
    async with httpx2.AsyncClient() as http:
        given = await http.post(f"{issuer.issuer}/token", data=asked, auth=(CLIENT_ID, CLIENT_SECRET))
    token = given.json()["access_token"]
    async with connected(url, mode, headers={"authorization": f"Bearer {token}"}) as client:
        assert not (await client.call_tool("lancedb_query", {"question": "where do keys live?"})).is_error


async def test_a_token_without_the_scope_of_a_tool_is_403_to_a_real_client(url: str, issuer: TokenServer) -> None:
    headers = {"authorization": f"Bearer {issuer.token(url, 'search')}", "content-type": "application/json"}
    body = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lancedb_fetch","arguments":{}}}'
    async with httpx2.AsyncClient() as http:
        refused = await http.post(url, content=body, headers=headers)
    assert refused.status_code == 403
    assert 'error="insufficient_scope"' in refused.headers["www-authenticate"]
    assert 'scope="search fetch"' in refused.headers["www-authenticate"]
