"""Lets any HTTP client of httpx2, the MCP SDK's among them, speak to an in-process Lambda handler.

transport = LambdaTransport(handler, stage="prod")
async with httpx2.AsyncClient(transport=transport) as http, Client(streamable_http_client(url, http_client=http)):
    ...
"""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Callable
from typing import Any, Literal

import httpx2

Payload = Literal["2.0", "1.0"]


class LambdaTransport(httpx2.AsyncBaseTransport):
    """An HTTP transport that makes each request an API Gateway event, and each answer of `handler` a response.

    As one Lambda instance does, it answers one request at a time. `answers` keeps what the handler returned.
    """

    def __init__(
        self,
        handler: Callable[[Any, Any], dict[str, Any]],
        *,
        payload: Payload = "2.0",
        stage: str = "$default",
        base64_bodies: bool = False,
    ) -> None:
        self._handler = handler
        self._payload = payload
        self._stage = stage
        self._base64_bodies = base64_bodies
        self._one_at_a_time = threading.Lock()
        self.answers: list[dict[str, Any]] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        body = await request.aread()
        make = rest_event if self._payload == "1.0" else http_event
        event = make(request, body, stage=self._stage, as_base64=self._base64_bodies)
        answer = await asyncio.to_thread(self._invoke, event)
        content = base64.b64decode(answer["body"]) if answer["isBase64Encoded"] else answer["body"].encode()
        headers = list(answer["headers"].items())
        headers += [(name, value) for name, values in answer.get("multiValueHeaders", {}).items() for value in values]
        return httpx2.Response(answer["statusCode"], headers=headers, content=content, request=request)

    def _invoke(self, event: dict[str, Any]) -> dict[str, Any]:
        # Both ways through JSON, as the Lambda runtime does it.
        with self._one_at_a_time:
            answer = json.loads(json.dumps(self._handler(json.loads(json.dumps(event)), None)))
        self.answers.append(answer)
        return answer


def http_event(
    request: httpx2.Request, body: bytes, *, stage: str = "$default", as_base64: bool = False
) -> dict[str, Any]:
    """`request` as the event of an HTTP API, payload 2.0."""
    path = request.url.raw_path.split(b"?")[0].decode("ascii")
    headers: dict[str, str] = {}
    for name, value in request.headers.multi_items():
        headers[name.lower()] = f"{headers[name.lower()]},{value}" if name.lower() in headers else value
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": request.url.query.decode("ascii"),
        "headers": headers,
        "requestContext": {
            "domainName": request.url.host,
            "stage": stage,
            "http": {"method": request.method, "path": path, "protocol": "HTTP/1.1", "sourceIp": "203.0.113.24"},
        },
        **_body(body, as_base64),
    }


def rest_event(request: httpx2.Request, body: bytes, *, stage: str = "prod", as_base64: bool = False) -> dict[str, Any]:
    """`request` as the event of a REST API, which keeps its stage out of the path."""
    path = request.url.raw_path.split(b"?")[0].decode("ascii")
    repeated: dict[str, list[str]] = {}
    for name, value in request.headers.multi_items():
        repeated.setdefault(name, []).append(value)
    return {
        "resource": "/{proxy+}",
        "path": path,
        "httpMethod": request.method,
        "headers": {name: values[-1] for name, values in repeated.items()},
        "multiValueHeaders": repeated,
        "queryStringParameters": None,
        "requestContext": {
            "domainName": request.url.host,
            "stage": stage,
            "path": f"/{stage}{path}",
            "httpMethod": request.method,
            "identity": {"sourceIp": "203.0.113.24"},
        },
        **_body(body, as_base64),
    }


def _body(body: bytes, as_base64: bool) -> dict[str, Any]:
    text = base64.b64encode(body).decode("ascii") if as_base64 else body.decode()
    return {"body": text or None, "isBase64Encoded": as_base64}
