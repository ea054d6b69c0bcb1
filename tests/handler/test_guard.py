"""Which requests reach MCP at all: host, origin, preflight, path and method."""

from typing import Any

import pytest

from handler.authority import HostPolicy, gateway_hosts, origins
from handler.guard import GATEWAY_SCOPE, EndpointPaths, GatewayFacts, Guard
from retrieval.settings import Settings
from tests.handler.guarded import HOST, LISTED, Inner, assert_refused, guard, send

OTHER_METHODS = ["GET", "DELETE", "PUT", "HEAD", "PATCH", "TRACE", "CONNECT", "BREW"]


@pytest.fixture
def inner() -> Inner:
    return Inner()


# Host


@pytest.mark.parametrize(
    "hosts",
    [
        [],
        [("host", "evil.example")],
        [("host", "localhost")],
        [("host", "")],
        [("host", "a:b:c")],
        [("host", "x:np")],
        [("host", "localhost:3000, localhost:3000")],
        [HOST, HOST],
        [HOST, ("host", "evil.example")],
        [HOST, ("Host", "localhost:3000")],
    ],
)
@pytest.mark.parametrize(("method", "path"), [("POST", "/mcp"), ("OPTIONS", "/mcp"), ("GET", "/elsewhere")])
def test_a_host_that_is_unlisted_missing_malformed_or_repeated_is_403_before_the_body_is_read(
    inner: Inner, hosts: list[tuple[str, str]], method: str, path: str
) -> None:
    reply = send(guard(inner), *hosts, without="host", method=method, path=path)

    assert_refused(reply, 403, "HOST_REFUSED")
    assert "BEDIVERE_ALLOWED_HOSTS" in reply.sentence
    assert reply.received == []
    assert inner.scopes == []


def test_what_is_repeated_of_a_host_is_short_and_printable(inner: Inner) -> None:
    reply = send(guard(inner), ("host", '"<script>\x1b\xe9' + "x" * 500), without="host")

    assert '"<script>??' + "x" * 49 + "..." in reply.sentence
    assert reply.body.isascii()


# Origin


@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/", "/elsewhere", "/.well-known/oauth-protected-resource"])
@pytest.mark.parametrize("method", ["POST", "OPTIONS", "GET"])
@pytest.mark.parametrize(
    "sent",
    [
        [("origin", "https://evil.example")],
        [("origin", "http://localhost:3000")],
        [("origin", "null")],
        [("origin", "")],
        [LISTED, LISTED],
        [LISTED, ("origin", "https://evil.example")],
    ],
)
def test_an_origin_that_is_unlisted_null_empty_or_repeated_is_403_on_every_path(
    inner: Inner, path: str, method: str, sent: list[tuple[str, str]]
) -> None:
    reply = send(guard(inner, allowed_origins=("https://a.example",)), *sent, path=path, method=method)

    assert_refused(reply, 403, "ORIGIN_REFUSED")
    assert "BEDIVERE_ALLOWED_ORIGINS" in reply.sentence
    assert reply.header("access-control-allow-origin") is None
    assert reply.all("vary") == ["Origin"]
    assert reply.received == []
    assert inner.scopes == []


def test_without_an_origin_there_are_no_cors_headers(inner: Inner) -> None:
    reply = send(guard(inner))

    assert reply.status == 200
    assert not [name for name, _ in reply.headers if name.startswith("access-control") or name == "vary"]


def test_without_an_origin_a_cache_is_told_that_the_answer_varies_where_a_list_is_set(inner: Inner) -> None:
    reply = send(guard(inner, allowed_origins=("https://a.example",)))

    assert reply.status == 200
    assert reply.all("vary") == ["Origin"]
    assert reply.header("access-control-allow-origin") is None


def test_a_listed_origin_is_answered_with_cors_headers(inner: Inner) -> None:
    reply = send(guard(inner, allowed_origins=("https://a.example/",)), LISTED)

    assert reply.status == 200
    assert reply.all("access-control-allow-origin") == ["https://a.example"]
    assert reply.header("access-control-expose-headers") == (
        "mcp-protocol-version, mcp-session-id, www-authenticate, retry-after"
    )
    assert reply.header("access-control-allow-credentials") is None
    assert reply.all("vary") == ["Origin"]


def test_a_page_of_a_listed_origin_can_read_why_it_was_refused(inner: Inner) -> None:
    reply = send(guard(inner, allowed_origins=("https://a.example",)), LISTED, body=b"[]")

    assert_refused(reply, 400, "BODY_NOT_JSON")
    assert reply.header("access-control-allow-origin") == "https://a.example"


# Preflight


def test_a_preflight_from_a_listed_origin_is_204_with_what_may_be_sent(inner: Inner) -> None:
    asked = [
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "content-type, mcp-method, x-evil"),
    ]

    reply = send(
        guard(inner, allowed_origins=("https://a.example",)), LISTED, *asked, method="OPTIONS", without="content-type"
    )

    assert reply.status == 204
    assert reply.body == b""
    assert reply.header("access-control-allow-origin") == "https://a.example"
    assert reply.header("access-control-allow-methods") == "POST, OPTIONS"
    assert reply.header("access-control-max-age") == "86400"
    assert reply.all("vary") == ["Origin"]
    headers = (reply.header("access-control-allow-headers") or "").split(", ")
    assert {"content-type", "accept", "mcp-protocol-version", "mcp-method", "mcp-name", "mcp-session-id"} <= {*headers}
    assert "x-evil" not in headers
    assert inner.scopes == []


def test_a_preflight_for_another_path_is_404(inner: Inner) -> None:
    reply = send(guard(inner, allowed_origins=("https://a.example",)), LISTED, method="OPTIONS", path="/elsewhere")
    assert_refused(reply, 404, "PATH_NOT_FOUND")


def test_options_without_an_origin_is_no_preflight_and_405(inner: Inner) -> None:
    reply = send(guard(inner), method="OPTIONS")
    assert_refused(reply, 405, "METHOD_NOT_ALLOWED")
    assert reply.header("allow") == "POST"


# Path


def gateway(stage: str | None) -> dict[str, Any]:
    return {GATEWAY_SCOPE: GatewayFacts(domain_name=None, stage=stage)}


@pytest.mark.parametrize(
    ("path", "base", "stage", "served"),
    [
        ("/mcp", "", None, True),
        ("/mcp/", "", None, True),
        ("/%6Dcp", "", None, True),
        ("/docs/mcp", "/docs", None, True),
        ("/docs/mcp/", "/docs", None, True),
        ("/mcp", "/docs", None, True),
        ("/a/b/mcp", "/a/b", None, True),
        ("/d%C3%B3cs/mcp", "/dócs", None, True),
        ("/prod/mcp", "", "prod", True),
        ("/prod/mcp/", "", "prod", True),
        ("/mcp", "", "prod", True),
        ("/prod/docs/mcp", "/docs", "prod", True),
        ("/docs/prod/mcp", "/docs", "prod", True),
        ("/docs/mcp", "/docs", "prod", True),
        ("/prod/mcp", "/docs", "prod", True),
        ("/", "", None, False),
        ("", "", None, False),
        ("mcp", "", None, False),
        ("http://localhost:3000/mcp", "", None, False),
        ("*", "", None, False),
        ("//mcp", "", None, False),
        ("/mcp//", "", None, False),
        ("/%2Fmcp", "", None, False),
        ("/mcp%2F", "", None, False),
        ("/docs%2Fmcp", "/docs", None, False),
        ("/docs/../mcp", "/docs", None, False),
        ("/x/../mcp", "", None, False),
        ("/./mcp", "", None, False),
        ("/%2e%2e/mcp", "", None, False),
        ("/MCP", "", None, False),
        ("/mcp;x", "", None, False),
        ("/mcp%00", "", None, False),
        ("/mcp/x", "", None, False),
        ("/mcpx", "", None, False),
        ("/docs/mcp", "", None, False),
        ("/docs2/mcp", "/docs", None, False),
        ("/a/mcp", "/a/b", None, False),
        ("/b/mcp", "/a/b", None, False),
        ("/docs/docs/mcp", "/docs", None, False),
        ("/docsmcp", "/docs", None, False),
        ("/prod/mcp", "", None, False),
        ("/production/mcp", "", "prod", False),
        ("/prodmcp", "", "prod", False),
        ("/prod/prod/mcp", "", "prod", False),
        ("/prod", "", "prod", False),
        ("/prod/docs2/mcp", "/docs", "prod", False),
        ("/.well-known/oauth-protected-resource", "", None, False),
        ("/.well-known/oauth-protected-resource/mcp", "", None, False),
        ("/.well-known/oauth-authorization-server", "/docs", "prod", False),
        ("/mcp/.well-known/openid-configuration", "", None, False),
        ("/sse", "", None, False),
        ("/favicon.ico", "", None, False),
    ],
)
def test_the_endpoint_and_every_other_path(inner: Inner, path: str, base: str, stage: str | None, served: bool) -> None:
    reply = send(guard(inner, base_path=base), path=path, scope=gateway(stage))

    assert reply.header("location") is None
    if served:
        assert reply.status == 200
        assert inner.scopes[0]["path"] == "/mcp"
        assert inner.scopes[0]["raw_path"] == b"/mcp"
    else:
        assert_refused(reply, 404, "PATH_NOT_FOUND")
        assert f"{base}/mcp" in reply.sentence
        assert reply.received == []
        assert inner.scopes == []


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
def test_another_path_is_404_by_any_method(inner: Inner, method: str) -> None:
    reply = send(guard(inner), method=method, path="/.well-known/oauth-authorization-server/mcp")
    assert reply.status == 404


@pytest.mark.parametrize(
    ("path", "status"), [("/api/v1/docs", 200), ("/api/v1/docs/", 200), ("/mcp", 404), ("/docs", 404)]
)
def test_the_endpoint_may_be_another_and_deeper(inner: Inner, path: str, status: int) -> None:
    assert send(guard(inner, endpoint="/api/v1/docs"), path=path).status == status


def test_a_server_that_passes_no_raw_path_is_served_by_the_decoded_one(inner: Inner) -> None:
    assert send(guard(inner), scope={"raw_path": None}).status == 200


# Method


@pytest.mark.parametrize("method", OTHER_METHODS)
@pytest.mark.parametrize(
    "version", [[], [("mcp-protocol-version", "2025-11-25")], [("mcp-protocol-version", "2026-07-28")]]
)
@pytest.mark.parametrize("accept", ["text/event-stream", "application/json"])
def test_every_method_but_post_is_405_at_once_in_both_eras(
    inner: Inner, method: str, version: list[tuple[str, str]], accept: str
) -> None:
    reply = send(guard(inner), ("accept", accept), *version, method=method, without="content-type")

    assert reply.status == 405
    assert reply.all("allow") == ["POST"]
    assert reply.received == []
    assert inner.scopes == []
    if method == "HEAD":
        assert reply.body == b""
        assert reply.header("content-length") is None
    else:
        assert_refused(reply, 405, "METHOD_NOT_ALLOWED")


def test_where_there_is_cors_options_is_allowed_too(inner: Inner) -> None:
    reply = send(guard(inner, allowed_origins=("*",)), method="GET")
    assert reply.all("allow") == ["POST, OPTIONS"]


# Behind a gateway


@pytest.mark.parametrize(("domain", "status"), [("mcp.example.com", 200), ("other.example.com", 403), (None, 403)])
def test_behind_a_gateway_the_host_must_be_the_domain_that_it_reports(
    inner: Inner, domain: str | None, status: int
) -> None:
    app = Guard(
        inner,
        hosts=gateway_hosts(Settings()),
        origins=origins(Settings(), HostPolicy()),
        paths=EndpointPaths("/mcp", ""),
        max_body_bytes=1024,
    )
    scope = {"scheme": "https", GATEWAY_SCOPE: GatewayFacts(domain_name=domain, stage=None)}

    assert send(app, ("host", "mcp.example.com"), without="host", scope=scope).status == status
