"""The gates behind API Gateway's events: what reaches them, the shape of what they refuse, and what the log tells."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from handler.access import issuing
from handler.access.key import new_key
from handler.main import AppHandler, make_handler
from retrieval.settings import Settings
from tests.handler.events import Answer, load

Serve = Callable[..., AppHandler]

EVENTS = pytest.mark.parametrize("event", ["v2_default_stage", "v1_http_api", "v1_rest_stage", "v2_function_url"])


@pytest.fixture
def serve(handbook: Path) -> Iterator[Serve]:
    """serve(setting=...) -> a handler of the handbook."""
    handlers: list[AppHandler] = []

    def make(**settings: Any) -> AppHandler:
        handlers.append(make_handler(Settings(database=str(handbook), **settings)))
        return handlers[-1]

    yield make
    for handler in handlers:
        handler.close()


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "keys.json")


def searching(name: str, **headers: str) -> dict[str, Any]:
    """The event with a search in it, and `headers`, whose names are written with underscores."""
    event = load(name, **{header.replace("_", "-"): value for header, value in headers.items()})
    for header, value in headers.items():
        if event.get("multiValueHeaders"):
            event["multiValueHeaders"][header.replace("_", "-")] = [value]
    params = {"name": "lancedb_search", "arguments": {"query": "signing key"}}
    event["body"] = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    event["isBase64Encoded"] = False
    return event


def refusal(answer: Answer) -> tuple[int, str, str]:
    headers = answer["headers"]
    return (
        answer["statusCode"],
        json.loads(answer["body"])["error"]["data"]["code"],
        headers.get("www-authenticate", ""),
    )


@EVENTS
def test_a_key_is_asked_for_and_taken(serve: Serve, place: str, event: str) -> None:
    key, _ = issuing.create(place, "ci", scopes=("search",))
    handler = serve(access="keys", keys=place)
    assert refusal(handler(searching(event), None)) == (401, "UNAUTHORIZED", 'Bearer realm="bedivere"')
    for headers in ({"authorization": f"Bearer {key}"}, {"x_api_key": key}):
        answer = handler(searching(event, **headers), None)
        assert answer["statusCode"] == 200
        assert "keys.md" in answer["body"]


@EVENTS
def test_a_signer_is_taken_from_the_event_alone(serve: Serve, event: str) -> None:
    handler = serve(access="iam")
    asked = searching(
        event, authorization="AWS4-HMAC-SHA256 Credential=AKIA/20261130/eu-west-1/execute-api/aws4_request"
    )
    assert refusal(handler(asked, None)) == (401, "UNAUTHORIZED", "AWS4-HMAC-SHA256")
    arn = "arn:aws:iam::123456789012:user/agent"
    if event.startswith("v2"):
        asked["requestContext"]["authorizer"] = {"iam": {"userArn": arn}}
    else:
        asked["requestContext"]["identity"]["userArn"] = arn
    assert handler(asked, None)["statusCode"] == 200


def test_a_call_is_logged_with_the_name_of_its_key_and_never_with_the_key(
    serve: Serve, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    key, stranger = issuing.create(place, "ci", scopes=("search",))[0], new_key()
    handler = serve(access="keys", keys=place)
    with caplog.at_level(logging.DEBUG):
        handler(searching("v2_default_stage", authorization=f"Bearer {key}"), None)
        handler(searching("v2_default_stage", authorization=f"Bearer {stranger}"), None)
    assert "by key:ci" in caplog.text
    for secret in (key, stranger):
        assert secret[4:20] not in caplog.text


def test_a_ping_keeps_an_instance_warm_without_a_key(serve: Serve, place: str) -> None:
    assert serve(access="keys", keys=place)(load("ping_warmup"), None)["statusCode"] == 200


def test_a_gate_that_lacks_a_setting_stops_the_start_instead_of_letting_anyone_in(serve: Serve) -> None:
    with pytest.raises(Exception, match="BEDIVERE_JWT_ISSUER"):
        serve(access="jwt")
