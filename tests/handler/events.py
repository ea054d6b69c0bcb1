"""The events under tests/events, and how to read an answer to one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

EVENTS = Path(__file__).parents[1] / "events"

Event = dict[str, Any]
Answer = dict[str, Any]


def load(name: str, **headers: str) -> Event:
    """The event of that file's name, with `headers` set besides its own."""
    event: Event = json.loads((EVENTS / f"{name}.json").read_text())
    if headers:
        event["headers"].update(headers)
    if headers and "multiValueHeaders" in event:
        event["multiValueHeaders"].update({name: [value] for name, value in headers.items()})
    return event


def code(answer: Answer) -> str:
    return json.loads(answer["body"])["error"]["data"]["code"]
