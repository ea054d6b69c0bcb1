"""API Gateway facts: which events are HTTP requests, what they say, and the shape in which each wants its answer."""

from __future__ import annotations

import base64
import binascii
import json
import logging
from collections.abc import Mapping
from typing import Any, Final, cast

from mangum.types import LambdaConfig, LambdaContext, LambdaEvent, Response, Scope

from handler.guard import GATEWAY_SCOPE, GatewayFacts
from handler.refusal import Headers, Refused
from retrieval.errors import BedivereError, ErrorCode

logger = logging.getLogger("bedivere")

Answer = dict[str, Any]

# Schedules and plug-ins that keep an instance warm send events that nobody reads the answer to.
_PING_SOURCES: Final = frozenset({"aws.events", "aws.scheduler", "serverless-plugin-warmup"})

# Lambda refuses a larger answer after the handler has returned it, and API Gateway then says 502 without a reason.
# Some of it is left for the envelope.
_LARGEST_ANSWER: Final = 6_291_556 - 65_536

# No JSON text holds this byte, so the guard refuses the body for what it is, in its turn and not before the host.
_UNDECODABLE: Final = b"\xff"


def is_ping(event: object) -> bool:
    """Whether `event` only keeps the instance warm."""
    if not isinstance(event, Mapping):
        return False
    ping = cast("Mapping[str, Any]", event)
    if "requestContext" in ping:
        return False
    return ping.get("warmup") is True or _text(ping.get("source")) in _PING_SOURCES


def check_event(event: object) -> LambdaEvent:
    """`event` as one that `GatewayRequest` can read: payload 2.0, payload 1.0, or a REST API's.

    Raises `BedivereError` EVENT_REFUSED for anything else, such as a load balancer's, a queue's or a WebSocket's event.
    """
    if isinstance(event, dict):
        candidate = cast("LambdaEvent", event)
        context = candidate.get("requestContext")
        if isinstance(context, dict) and "elb" not in context and _method_and_path(candidate) is not None:
            return candidate
    raise BedivereError(
        ErrorCode.EVENT_REFUSED,
        "The Lambda event is not an HTTP request from API Gateway: route an HTTP API (payload 2.0 or 1.0), a REST API "
        "or a function URL to this function.",
    )


def request_id(event: object) -> str | None:
    """The id that the gateway gave the request, and writes to its access log; None where it gave none."""
    return _text(_mapping(_mapping(event).get("requestContext")).get("requestId"))


def _is_v2(event: LambdaEvent) -> bool:
    return event.get("version") == "2.0"


def _method_and_path(event: LambdaEvent) -> tuple[str, str] | None:
    if _is_v2(event):
        http = _mapping(event["requestContext"].get("http"))
        method, path = http.get("method"), event.get("rawPath", http.get("path"))
    else:
        method, path = event.get("httpMethod"), event.get("path")
    if isinstance(method, str) and isinstance(path, str):
        return method.upper(), path
    return None


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value if isinstance(value, Mapping) else {})


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


class GatewayRequest:
    """Mangum's handler for the events that `check_event` passes.

    Mangum's own fold headers that were sent twice into one and raise on hosts and ports that are no numbers; here all
    that was sent reaches the guard, which refuses it as it would on a local server.
    """

    def __init__(self, event: LambdaEvent, context: LambdaContext, config: LambdaConfig) -> None:
        self._event = event
        self._context = context
        self._config = config

    @classmethod
    def infer(cls, event: LambdaEvent, context: LambdaContext, config: LambdaConfig) -> bool:
        del event, context, config
        return True

    @property
    def body(self) -> bytes:
        body = _text(self._event.get("body")) or ""
        if not self._event.get("isBase64Encoded"):
            return body.encode(errors="surrogatepass")
        try:
            return base64.b64decode(body, validate=True)
        except (binascii.Error, ValueError):
            return _UNDECODABLE

    @property
    def scope(self) -> Scope:
        method, path = _method_and_path(self._event) or ("", "")
        context = _mapping(self._event["requestContext"])
        caller = _mapping(context.get("http" if _is_v2(self._event) else "identity"))
        stage = _text(context.get("stage"))
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "https",
            "path": path,
            "raw_path": path.encode(errors="surrogatepass"),
            "root_path": "",
            "query_string": b"",
            "headers": [
                (name.lower().encode(errors="surrogatepass"), value.encode(errors="surrogatepass"))
                for name, value in _headers(self._event)
            ],
            "client": (_text(caller.get("sourceIp")), 0),
            "server": None,
            "aws.event": self._event,
            "aws.context": self._context,
            GATEWAY_SCOPE: GatewayFacts(
                domain_name=_text(context.get("domainName")), stage=None if stage == "$default" else stage
            ),
        }

    def __call__(self, response: Response) -> Answer:
        if _is_too_large(response["body"]):
            logger.error("An answer of %d bytes was dropped: Lambda would have refused it", len(response["body"]))
            return refuse_event(self._event, _answer_too_large())
        headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in response["headers"])
        return _shape(self._event, response["status"], headers, response["body"])


def _headers(event: LambdaEvent) -> list[tuple[str, str]]:
    """Every header as often as it was sent: payload 1.0 lists repeats apart, 2.0 joins them with commas."""
    repeated = _mapping(None if _is_v2(event) else event.get("multiValueHeaders"))
    listed = {name.lower() for name, values in repeated.items() if isinstance(values, list)}
    pairs = [(name, value) for name, values in repeated.items() if name.lower() in listed for value in values]
    pairs += [(name, value) for name, value in _mapping(event.get("headers")).items() if name.lower() not in listed]
    return [(name, value) for name, value in pairs if isinstance(value, str)]


def _shape(event: object, status: int, headers: Headers, body: bytes) -> Answer:
    repeated: dict[str, list[str]] = {}
    for name, value in headers:
        repeated.setdefault(name, []).append(value)
    # The SDK's statuses are enumeration members, which not every writer of JSON knows.
    answer: Answer = {"statusCode": int(status), "body": body.decode(), "isBase64Encoded": False}
    if _mapping(event).get("version") == "2.0":
        return answer | {"headers": {name: ", ".join(values) for name, values in repeated.items()}}
    return answer | {
        "headers": {name: values[0] for name, values in repeated.items() if len(values) == 1},
        "multiValueHeaders": {name: values for name, values in repeated.items() if len(values) > 1},
    }


def _is_too_large(body: bytes) -> bool:
    # Some versions of the runtime write the answer in ASCII only, where two bytes of UTF-8 may become six.
    return 3 * len(body) > _LARGEST_ANSWER and len(json.dumps(body.decode())) > _LARGEST_ANSWER


def _answer_too_large() -> Refused:
    return Refused(
        500, ErrorCode.REPLY_TOO_LARGE, "The answer is larger than Lambda may return: ask for fewer or shorter results."
    )


def refuse_event(event: object, refused: Refused) -> Answer:
    """`refused` as the answer to `event`, in the shape that its payload version wants."""
    return _shape(event, refused.status, refused.headers, refused.body())


def answer_ping() -> Answer:
    return {"statusCode": 200, "headers": {"content-type": "application/json"}, "body": '{"status":"warm"}'}
