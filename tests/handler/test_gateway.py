"""API Gateway's events, as they are and as they are sent by mistake."""

import base64
import copy
import json

import pytest
from mangum.types import LambdaConfig, LambdaContext

from handler.gateway import GatewayRequest, answer_ping, check_event, is_ping, refuse_event
from handler.guard import GATEWAY_SCOPE, GatewayFacts
from handler.refusal import Refused
from retrieval.errors import BedivereError, ErrorCode
from tests.handler.events import EVENTS, Event, load

HTTP_EVENTS = sorted(path.stem for path in EVENTS.glob("v*.json"))
OTHER_EVENTS = sorted(path.stem for path in EVENTS.glob("other_*.json"))
PINGS = sorted(path.stem for path in EVENTS.glob("ping_*.json"))

CONFIG: LambdaConfig = {"api_gateway_base_path": "/", "text_mime_types": [], "exclude_headers": []}
CONTEXT: LambdaContext = object()  # type: ignore[assignment]


def request(event: object) -> GatewayRequest:
    return GatewayRequest(check_event(event), CONTEXT, CONFIG)


def values(event: Event, name: str) -> list[bytes]:
    return [value for key, value in request(event).scope["headers"] if key == name.encode()]


@pytest.mark.parametrize("name", HTTP_EVENTS)
def test_an_http_event_is_read_whole(name: str) -> None:
    event = load(name)
    scope = request(event).scope

    assert scope["type"] == "http"
    assert scope["method"] == "POST"
    assert scope["scheme"] == "https"
    assert scope["client"] == ("203.0.113.24", 0)
    assert scope["aws.event"] is event
    assert scope["aws.context"] is CONTEXT
    assert values(event, "host") == [event["requestContext"]["domainName"].encode()]
    assert values(event, "content-type") == [b"application/json"]
    assert json.loads(request(event).body)["jsonrpc"] == "2.0"


@pytest.mark.parametrize(
    ("name", "path", "domain", "stage"),
    [
        ("v2_default_stage", b"/mcp", "a1b2c3d4e5.execute-api.eu-west-1.amazonaws.com", None),
        ("v2_named_stage", b"/prod/mcp", "a1b2c3d4e5.execute-api.eu-west-1.amazonaws.com", "prod"),
        ("v2_custom_domain_base_path", b"/prod/docs/mcp", "mcp.example.com", "prod"),
        ("v1_rest_stage", b"/mcp", "f6g7h8i9j0.execute-api.eu-west-1.amazonaws.com", "prod"),
        ("v1_http_api", b"/mcp", "a1b2c3d4e5.execute-api.eu-west-1.amazonaws.com", None),
    ],
)
def test_path_domain_and_stage_are_what_the_gateway_reports(
    name: str, path: bytes, domain: str, stage: str | None
) -> None:
    scope = request(load(name)).scope

    assert scope["raw_path"] == path
    assert scope[GATEWAY_SCOPE] == GatewayFacts(domain_name=domain, stage=stage)


def test_without_a_raw_path_the_contexts_path_is_taken() -> None:
    event = load("v2_named_stage")
    del event["rawPath"]
    assert request(event).scope["raw_path"] == b"/prod/mcp"


def without(name: str, *keys: str) -> Event:
    event = copy.deepcopy(load(name))
    inner = event
    for key in keys[:-1]:
        inner = inner[key]
    del inner[keys[-1]]
    return event


@pytest.mark.parametrize(
    "event",
    [
        None,
        1,
        "event",
        [],
        {},
        {"version": "2.0"},
        {"requestContext": None},
        {"requestContext": []},
        {"requestContext": {}},
        {"version": "2.0", "requestContext": {"http": None}},
        {"version": "2.0", "requestContext": {"http": "POST"}},
        {"version": "2.0", "requestContext": {"http": {"method": 1, "path": "/mcp"}}},
        {"version": "3.0", "rawPath": "/mcp", "requestContext": {"http": {"method": "POST"}}},
        without("v2_default_stage", "requestContext", "http"),
        without("v2_default_stage", "requestContext", "http", "method"),
        without("v1_rest_stage", "httpMethod"),
        without("v1_rest_stage", "path"),
        without("v1_rest_stage", "requestContext"),
        *(load(name) for name in OTHER_EVENTS),
    ],
)
def test_an_event_that_is_no_http_request_is_refused(event: object) -> None:
    with pytest.raises(BedivereError) as caught:
        check_event(event)
    assert caught.value.code == ErrorCode.EVENT_REFUSED


@pytest.mark.parametrize("name", PINGS)
def test_a_ping_is_known_and_answered(name: str) -> None:
    assert is_ping(load(name))
    assert answer_ping()["statusCode"] == 200


@pytest.mark.parametrize(
    "event", [None, [], "warmup", {}, {"warmup": "no"}, {"source": ["aws.events"]}, {"source": "me"}]
)
def test_nothing_else_is_a_ping(event: object) -> None:
    assert not is_ping(event)


@pytest.mark.parametrize("name", HTTP_EVENTS)
def test_a_request_is_no_ping_whatever_it_adds(name: str) -> None:
    assert not is_ping(load(name) | {"warmup": True, "source": "aws.events"})


@pytest.mark.parametrize("name", ["v2_default_stage", "v1_rest_stage"])
@pytest.mark.parametrize("headers", [None, [], "host", {"host": None}, {"host": 1}])
def test_headers_that_are_missing_or_no_text_are_no_headers(name: str, headers: object) -> None:
    event = load(name) | {"headers": headers, "multiValueHeaders": None}
    assert request(event).scope["headers"] == []


def test_headers_that_differ_in_case_alone_are_both_there() -> None:
    event = load("v2_default_stage")
    event["headers"]["Host"] = "evil.example"
    assert len(values(event, "host")) == 2


def test_headers_that_payload_2_joined_stay_joined() -> None:
    event = load("v2_default_stage")
    event["headers"]["origin"] = "https://a.example,https://b.example"
    assert values(event, "origin") == [b"https://a.example,https://b.example"]


def test_headers_that_payload_1_lists_apart_are_all_there() -> None:
    event = load("v1_rest_stage")
    event["multiValueHeaders"]["Host"] = ["a.example", "b.example"]
    assert values(event, "host") == [b"a.example", b"b.example"]


def test_headers_that_payload_1_does_not_list_are_taken_from_the_plain_ones() -> None:
    event = load("v1_rest_stage")
    del event["multiValueHeaders"]["Host"]
    event["multiValueHeaders"]["Accept"] = None
    assert values(event, "host") == [event["requestContext"]["domainName"].encode()]
    assert values(event, "accept") == [event["headers"]["Accept"].encode()]


@pytest.mark.parametrize(
    ("body", "is_base64", "expected"),
    [
        ("{}", False, b"{}"),
        ("é", False, "é".encode()),
        (None, False, b""),
        (None, True, b""),
        ({"already": "parsed"}, False, b""),
        (base64.b64encode(b"{}").decode(), True, b"{}"),
        ("{}", True, b"\xff"),
        ("e30", True, b"\xff"),
        ("e3\n0=", True, b"\xff"),
        ("é", True, b"\xff"),
    ],
)
def test_a_body_is_bytes_and_one_that_cannot_be_decoded_is_no_json(
    body: object, is_base64: bool, expected: bytes
) -> None:
    assert request(load("v2_default_stage") | {"body": body, "isBase64Encoded": is_base64}).body == expected


def test_half_a_surrogate_pair_does_no_harm() -> None:
    event = load("v2_default_stage")
    event.update(body="\ud800", rawPath="/\ud800", headers={"x-\ud800": "\ud800"})

    assert request(event).body == b"\xed\xa0\x80"
    assert request(event).scope["raw_path"] == b"/\xed\xa0\x80"


def test_an_absent_body_is_an_empty_one() -> None:
    assert request(without("v2_default_stage", "body")).body == b""


RESPONSE_HEADERS = [[b"content-type", b"application/json"], [b"vary", b"Origin"], [b"vary", b"Accept"]]


def test_payload_2_is_answered_with_one_line_a_header() -> None:
    answer = request(load("v2_default_stage"))({"status": 200, "headers": RESPONSE_HEADERS, "body": "é".encode()})
    assert answer == {
        "statusCode": 200,
        "headers": {"content-type": "application/json", "vary": "Origin, Accept"},
        "body": "é",
        "isBase64Encoded": False,
    }


@pytest.mark.parametrize("name", ["v1_rest_stage", "v1_http_api"])
def test_payload_1_is_answered_with_repeated_headers_apart(name: str) -> None:
    answer = request(load(name))({"status": 200, "headers": RESPONSE_HEADERS, "body": b""})
    assert answer == {
        "statusCode": 200,
        "headers": {"content-type": "application/json"},
        "multiValueHeaders": {"vary": ["Origin", "Accept"]},
        "body": "",
        "isBase64Encoded": False,
    }


@pytest.mark.parametrize("event", [None, load("v2_default_stage"), load("v1_rest_stage"), load("other_queue")])
def test_a_refusal_is_an_answer_to_any_event(event: object) -> None:
    answer = refuse_event(event, Refused(400, ErrorCode.EVENT_REFUSED, "No."))

    assert answer["statusCode"] == 400
    assert answer["headers"]["content-type"] == "application/json"
    assert json.loads(answer["body"])["error"]["data"] == {"code": "EVENT_REFUSED"}
    assert json.loads(json.dumps(answer)) == answer


LIMIT = 6_291_556


@pytest.mark.parametrize("unit", [b"a", b'\\"', "漢".encode()])
def test_an_answer_that_lambda_would_refuse_becomes_an_error_that_says_so(
    unit: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    body = unit * (LIMIT // len(unit))
    answer = request(load("v2_default_stage"))({"status": 200, "headers": RESPONSE_HEADERS, "body": body})

    assert answer["statusCode"] == 500
    assert json.loads(answer["body"])["error"]["data"] == {"code": "REPLY_TOO_LARGE"}
    assert "ask for fewer" in answer["body"]
    assert str(len(body)) in caplog.text


@pytest.mark.parametrize("unit", [b"a", b'\\"', "漢".encode()])
def test_whatever_passes_is_within_what_lambda_takes(unit: bytes) -> None:
    passed = 0
    for size in range(2_000_000, LIMIT, 400_000):
        body = unit * (size // len(unit))
        answer = request(load("v2_default_stage"))({"status": 200, "headers": RESPONSE_HEADERS, "body": body})
        if answer["statusCode"] == 200:
            passed += 1
            assert len(json.dumps(answer, ensure_ascii=True)) < LIMIT
    assert passed
