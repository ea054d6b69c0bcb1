"""Clients that call without pause, and the judgement of what they were told by the release that each call was of."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, cast

import httpx2
from mcp_types.version import LATEST_MODERN_VERSION

from tests import planted
from tests.soak.calls import Call, Check, calls
from tests.soak.editions import Edition

_PATIENCE_SECONDS: Final = 60.0
_META: Final = {
    "io.modelcontextprotocol/protocolVersion": LATEST_MODERN_VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "soak", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
STALE: Final = "CURSOR_STALE"
"""The one error that a caller may meet: the release that it was reading is not served any more."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one call: the gateway's id of it, its status, and the check that waits for its release."""

    request_id: str
    kind: str
    milliseconds: float
    status: int
    code: str | None
    """Of an error of the call; None where it was answered."""
    check: Check | None
    degraded: bool = False
    spilt: tuple[str, ...] = ()


@dataclass
class Load:
    """Some clients, each in a thread, and all that they were answered."""

    url: str
    seed: int
    clients: int
    answers: list[Answer] = field(default_factory=list[Answer])
    failures: list[str] = field(default_factory=list[str])
    """What kept a client from being answered at all."""
    over: threading.Event = field(default_factory=threading.Event)

    def start(self) -> list[threading.Thread]:
        threads = [threading.Thread(target=self._run, args=(number,), daemon=True) for number in range(self.clients)]
        for thread in threads:
            thread.start()
        return threads

    def _run(self, number: int) -> None:
        random = Random(self.seed * 1000 + number)
        try:
            with httpx2.Client(timeout=_PATIENCE_SECONDS) as client:
                following: Call | None = None
                while not self.over.is_set():
                    following = self._ask(client, following or calls(random))
        except Exception as error:
            self.failures.append(f"a client ended with {type(error).__name__}: {error}")

    def _ask(self, client: httpx2.Client, call: Call) -> Call | None:
        began = time.perf_counter()
        response = ask(client, self.url, call.tool, call.arguments)
        milliseconds = (time.perf_counter() - began) * 1000
        kind = call.kind or call.tool.removeprefix("lancedb_")
        result: dict[str, Any] = response.json().get("result", {}) if response.status_code == 200 else {}
        reply = cast("dict[str, Any] | None", result.get("structuredContent"))
        answered = reply is not None and not result.get("isError")
        code = None if answered else str(result.get("_meta", {}).get("code") or f"HTTP {response.status_code}")
        self.answers.append(
            Answer(
                request_id=response.headers.get("apigw-requestid", ""),
                kind=kind,
                milliseconds=milliseconds,
                status=response.status_code,
                code=code,
                check=call.check(reply) if reply is not None and answered else None,
                degraded=bool(reply and reply.get("degraded")),
                spilt=tuple(planted.spilt(response.text)),
            )
        )
        return call.then(reply) if reply is not None and answered else None


def ask(client: httpx2.Client, url: str, tool: str, arguments: Mapping[str, object]) -> httpx2.Response:
    """One call of a tool, as a client of the stateless protocol makes it."""
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool, "arguments": dict(arguments), "_meta": _META},
    }
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": LATEST_MODERN_VERSION,
        "mcp-method": "tools/call",
        "mcp-name": tool,
    }
    return client.post(url, json=message, headers=headers)


def judged(
    answers: Sequence[Answer], lines: Sequence[Mapping[str, Any]], editions: Mapping[str, Edition]
) -> tuple[list[str], int]:
    """What was wrong with the answers, and how many were checked.

    `lines` is the function's log, whose line of a call names the release that answered it; `editions` is what was
    published under each id.
    """
    named: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for line in lines:
        if line.get("message") == "call":
            named[str(line.get("correlation_id"))].append(line)
    problems: list[str] = []
    checked = 0
    for answer in answers:
        problems += [f"{answer.kind}: the answer holds {what}" for what in answer.spilt]
        if answer.status != 200 or answer.code not in (None, STALE):
            problems.append(f"{answer.kind}: answered with {answer.code}")
            continue
        calls_of = named[answer.request_id]
        if len(calls_of) != 1:
            problems.append(f"{answer.kind}: {len(calls_of)} lines of log for {answer.request_id or 'a call'}")
            continue
        release = str(calls_of[0].get("release"))
        edition = editions.get(release)
        if edition is None:
            problems.append(f"{answer.kind}: release {release} was never published")
        elif answer.check is not None:
            checked += 1
            if wrong := answer.check(edition, release):
                problems.append(f"{answer.kind}: edition {edition.number}: {wrong}")
    return problems, checked
