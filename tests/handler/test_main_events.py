"""The table of requests and answers, through the Lambda handler and API Gateway's events."""

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from handler.main import AppHandler, make_handler
from retrieval.settings import Settings
from tests.handler.events import EVENTS, Event, code, load


@pytest.fixture
def serve() -> Iterator[Callable[..., AppHandler]]:
    """Makes the real handler from settings, and closes it at the end."""
    handlers: list[AppHandler] = []

    def make(**values: Any) -> AppHandler:
        handlers.append(make_handler(Settings(**values)))
        return handlers[-1]

    yield make
    for handler in handlers:
        handler.close()


@pytest.fixture
def handler(serve: Callable[..., AppHandler]) -> AppHandler:
    return serve(base_path="/docs")


@pytest.mark.parametrize("name", sorted(path.stem for path in EVENTS.glob("v*.json")))
def test_every_event_of_a_gateway_is_answered_without_a_setting_but_the_base_path(
    handler: AppHandler, name: str
) -> None:
    for _ in range(2):
        answer = handler(load(name), None)

        assert answer["statusCode"] == 200
        assert "result" in json.loads(answer["body"])
        assert answer["headers"]["content-type"] == "application/json"
        assert answer["isBase64Encoded"] is False


@pytest.mark.parametrize("name", ["v2_default_stage", "v1_rest_stage"])
@pytest.mark.parametrize("host", ["evil.example", "a:b:c", "x:np", "", "localhost:3000", "a,b"])
def test_another_host_is_403(handler: AppHandler, name: str, host: str) -> None:
    event = load(name, **{"Host" if name.startswith("v1") else "host": host})
    answer = handler(event, None)
    assert (answer["statusCode"], code(answer)) == (403, "HOST_REFUSED")


def test_a_host_that_is_sent_twice_is_403(handler: AppHandler) -> None:
    event = load("v1_rest_stage")
    event["multiValueHeaders"]["Host"] *= 2
    assert code(handler(event, None)) == "HOST_REFUSED"


@pytest.mark.parametrize("headers", [None, {}])
def test_no_headers_at_all_are_no_host(handler: AppHandler, headers: object) -> None:
    for name in ("v2_default_stage", "v1_rest_stage"):
        event = load(name) | {"headers": headers, "multiValueHeaders": None}
        assert code(handler(event, None)) == "HOST_REFUSED"


@pytest.mark.parametrize("name", ["v2_default_stage", "v1_rest_stage"])
def test_a_list_of_hosts_replaces_the_gateways_domain(serve: Callable[..., AppHandler], name: str) -> None:
    handler = serve(allowed_hosts=("docs.example.com",))
    host = "Host" if name.startswith("v1") else "host"

    assert code(handler(load(name), None)) == "HOST_REFUSED"
    assert handler(load(name, **{host: "docs.example.com"}), None)["statusCode"] == 200


@pytest.mark.parametrize("name", ["v2_default_stage", "v1_rest_stage"])
@pytest.mark.parametrize("origin", ["https://evil.example", "null", "", "https://a.example,https://a.example"])
def test_another_origin_is_403(serve: Callable[..., AppHandler], name: str, origin: str) -> None:
    answer = serve(allowed_origins=("https://a.example",))(load(name, origin=origin), None)
    assert (answer["statusCode"], code(answer)) == (403, "ORIGIN_REFUSED")


@pytest.mark.parametrize("name", ["v2_default_stage", "v1_rest_stage"])
def test_a_listed_origin_has_cors_headers(serve: Callable[..., AppHandler], name: str) -> None:
    handler = serve(allowed_origins=("https://a.example",))

    answer = handler(load(name, origin="https://a.example"), None)
    assert answer["statusCode"] == 200
    assert answer["headers"]["access-control-allow-origin"] == "https://a.example"
    assert answer["headers"]["vary"] == "Origin"

    answer = handler(with_method(load(name, origin="https://a.example"), "OPTIONS"), None)
    assert (answer["statusCode"], answer["body"]) == (204, "")
    assert answer["headers"]["access-control-allow-methods"] == "POST, OPTIONS"


def with_method(event: Event, method: str) -> Event:
    changed = copy.deepcopy(event)
    changed["body"] = None
    if "httpMethod" in event:
        changed["httpMethod"] = method
    else:
        changed["requestContext"]["http"]["method"] = method
    return changed


@pytest.mark.parametrize("name", ["v2_named_stage", "v1_rest_stage"])
@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "HEAD", "get"])
@pytest.mark.parametrize(
    "version", [{}, {"mcp-protocol-version": "2025-11-25"}, {"mcp-protocol-version": "2026-07-28"}]
)
def test_every_method_but_post_is_405(handler: AppHandler, name: str, method: str, version: dict[str, str]) -> None:
    answer = handler(with_method(load(name, accept="text/event-stream", **version), method), None)
    assert answer["statusCode"] == 405
    assert answer["headers"]["allow"] == "POST"
    assert (answer["body"] == "") is (method == "HEAD")


def with_path(event: Event, path: str) -> Event:
    changed = copy.deepcopy(event)
    if "httpMethod" in event:
        changed["path"] = path
    else:
        changed["rawPath"] = changed["requestContext"]["http"]["path"] = path
    return changed


@pytest.mark.parametrize("name", ["v2_named_stage", "v1_rest_stage"])
@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/prod/mcp/", 200),
        ("/prod/docs/mcp", 200),
        ("/docs/mcp/", 200),
        ("/mcp", 200),
        ("/production/mcp", 404),
        ("/docs2/mcp", 404),
        ("//mcp", 404),
        ("/prod//mcp", 404),
        ("/", 404),
        ("", 404),
        ("/prod/.well-known/oauth-protected-resource", 404),
        ("/.well-known/oauth-authorization-server/mcp", 404),
    ],
)
def test_the_endpoint_under_stage_and_base_path(handler: AppHandler, name: str, path: str, status: int) -> None:
    answer = handler(with_path(load(name), path), None)
    assert answer["statusCode"] == status
    assert "location" not in answer["headers"]


@pytest.mark.parametrize("name", ["v2_default_stage", "v1_rest_stage"])
@pytest.mark.parametrize(
    ("change", "status", "expected"),
    [
        ({"body": " " * 65_537}, 413, "BODY_TOO_LARGE"),
        ({"body": None}, 400, "BODY_NOT_JSON"),
        ({"body": "not json"}, 400, "BODY_NOT_JSON"),
        ({"body": "[]"}, 400, "BODY_NOT_JSON"),
        ({"body": "{}", "isBase64Encoded": True}, 400, "BODY_NOT_JSON"),
    ],
)
def test_a_body_that_is_no_message(handler: AppHandler, name: str, change: Event, status: int, expected: str) -> None:
    answer = handler(load(name) | change, None)
    assert (answer["statusCode"], code(answer)) == (status, expected)


@pytest.mark.parametrize(
    "event", [None, [], "x", {}, {"Records": []}, json.loads((EVENTS / "other_load_balancer.json").read_text())]
)
def test_another_event_is_refused_with_one_log_line(
    handler: AppHandler, event: object, caplog: pytest.LogCaptureFixture
) -> None:
    answer = handler(event, None)

    assert (answer["statusCode"], code(answer)) == (400, "EVENT_REFUSED")
    assert [record.levelname for record in caplog.records if record.name == "bedivere"] == ["WARNING"]
    assert caplog.records[-1].exc_info is None


@pytest.mark.parametrize("name", ["ping_schedule", "ping_warmup"])
def test_a_ping_is_answered_without_a_word_in_the_log(
    handler: AppHandler, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    handler.start()
    caplog.clear()
    answer = handler(json.loads((EVENTS / f"{name}.json").read_text()), None)
    assert answer["statusCode"] == 200
    assert [record for record in caplog.records if record.name == "bedivere"] == []
