"""The gate of IAM: who API Gateway says has signed is let in, and nobody who only says so."""

from __future__ import annotations

from typing import Any

import pytest

from handler.access.caller import EVERY_TOOL, Caller
from handler.app import gate_of
from handler.guard import CALLER_SCOPE
from retrieval.settings import Settings
from tests.asgi import Reply
from tests.handler.guarded import Inner, assert_refused, guard, send

ARN = "arn:aws:sts::123456789012:assumed-role/agent/session"


def asked(event: object, *headers: tuple[str, str], inner: Inner | None = None, **settings: Any) -> Reply:
    gate = gate_of(Settings(access="iam", **settings))
    return send(guard(inner or Inner(), gate=gate), *headers, scope={"aws.event": event})


@pytest.mark.parametrize(
    "context",
    [{"authorizer": {"iam": {"userArn": ARN}}}, {"identity": {"userArn": ARN}}],
    ids=["payload 2.0", "payload 1.0"],
)
def test_whom_the_gateway_has_checked_may_call_everything(context: dict[str, Any]) -> None:
    inner = Inner()
    assert asked({"requestContext": context}, inner=inner).status == 200
    assert inner.scopes[0][CALLER_SCOPE] == Caller(
        "iam:assumed-role/agent/session", frozenset(EVERY_TOOL), all_collections=True
    )


@pytest.mark.parametrize(
    "event",
    [
        None,
        {},
        {"requestContext": {}},
        {"requestContext": {"authorizer": None}},
        {"requestContext": {"authorizer": {"iam": {"userArn": None}}}},
        {"requestContext": {"authorizer": {"jwt": {"claims": {"sub": "me"}}}}},
        {"requestContext": {"identity": {"userArn": ""}}},
        {"headers": {"authorization": "AWS4-HMAC-SHA256 Credential=AKIA/20261130"}},
    ],
)
def test_without_the_gateways_word_a_request_is_401(event: object) -> None:
    reply = asked(event, ("authorization", "AWS4-HMAC-SHA256 Credential=AKIA/20261130"))
    assert_refused(reply, 401, "UNAUTHORIZED")
    assert reply.header("www-authenticate") == "AWS4-HMAC-SHA256"


def test_a_signer_has_the_common_limit_too() -> None:
    gate = gate_of(Settings(access="iam", caller_limit="1/min"))
    app = guard(Inner(), gate=gate)
    event = {"requestContext": {"authorizer": {"iam": {"userArn": ARN}}}}
    assert [send(app, scope={"aws.event": event}).status for _ in range(2)] == [200, 429]
