"""One search, as an MCP client of the stateless era sends it, and the hits in what comes back."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from tests.image.steps import Failed

QUERY = "which hosts and origins are answered"
VERSION = "2026-07-28"
_CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {
        "name": "lancedb_search",
        "arguments": {"query": QUERY, "limit": 3},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientInfo": {"name": "e2e-image", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    },
}
_HEADERS = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": VERSION,
    "mcp-method": "tools/call",
    "mcp-name": "lancedb_search",
}
_HOST = "abc123.execute-api.eu-central-1.amazonaws.com"


def search_event(address: str, patience: float) -> tuple[int, float]:
    """Ask the emulator at `address`, as API Gateway would; the hits, and the seconds of the first answer."""
    event = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": "/mcp",
        "rawQueryString": "",
        "headers": {**_HEADERS, "host": _HOST},
        "requestContext": {
            "accountId": "111122223333",
            "apiId": "abc123",
            "domainName": _HOST,
            "http": {"method": "POST", "path": "/mcp", "protocol": "HTTP/1.1", "sourceIp": "203.0.113.24"},
            "requestId": "e2e",
            "stage": "$default",
        },
        "body": json.dumps(_CALL),
        "isBase64Encoded": False,
    }
    url = f"http://{address}/2015-03-31/functions/function/invocations"

    def ask() -> Mapping[str, Any]:
        answer = _post(url, json.dumps(event).encode(), {}, patience)
        if "body" not in answer:
            raise Failed(f"the emulator answered {answer}")
        return json.loads(answer["body"])

    return _patiently(ask, patience)


def search_url(url: str, patience: float) -> tuple[int, float]:
    """Ask the endpoint at `url`; the hits, and the seconds of the first answer."""
    return _patiently(lambda: _post(url, json.dumps(_CALL).encode(), _HEADERS, patience), patience)


def _patiently(ask: Callable[[], Mapping[str, Any]], patience: float) -> tuple[int, float]:
    """Until something listens and the dataset is there."""
    until = time.monotonic() + patience
    while True:
        started = time.monotonic()
        try:
            answer = ask()
        except urllib.error.HTTPError as error:
            raise Failed(f"answered {error.code}: {error.read(2000)!r}") from None
        except (ConnectionError, urllib.error.URLError) as error:
            if time.monotonic() > until:
                raise Failed(f"no answer: {error}") from None
            time.sleep(0.25)
            continue
        content: Mapping[str, list[Any]] = answer.get("result", {}).get("structuredContent") or {}
        hits = content.get("hits")
        if hits:
            return len(hits), time.monotonic() - started
        if "DATASET_LOADING" not in json.dumps(answer) or time.monotonic() > until:
            raise Failed(f"no hits in {json.dumps(answer)[:2000]}")
        time.sleep(1)


def _post(url: str, body: bytes, headers: Mapping[str, str], timeout: float) -> Mapping[str, Any]:
    request = urllib.request.Request(url, data=body, headers=dict(headers), method="POST")
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return json.load(answer)
