"""Whatever event or request comes in is answered with a known status, in the shape that its sender reads."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.door import Door
from tests.fuzz.examples import examples
from tests.fuzz.schemas import JSON, ODD_TEXT, places, put
from tests.handler.events import EVENTS

NAMES: Final = sorted(file.stem for file in EVENTS.glob("*.json"))
MESSAGE: Final = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "lancedb_version"}}
VERSIONS: Final = ["2025-06-18", "2026-07-28", "2099-01-01", "", "\u202e", "2025-06-18,2025-06-18"]


@pytest.mark.parametrize("name", NAMES)
def test_an_event_with_anything_in_the_place_of_a_part_of_it_is_answered(door: Door, name: str) -> None:
    event = json.loads((EVENTS / f"{name}.json").read_text(encoding="utf-8"))

    @examples(15)
    @given(st.sampled_from(list(places(event))), JSON)
    def send(place: tuple[Any, ...], other: Any) -> None:
        door.answer(put(event, place, other))

    send()


def test_an_event_of_any_shape_is_answered(door: Door) -> None:
    @examples(40)
    @given(JSON)
    def send(event: Any) -> None:
        door.answer(event)

    send()


def test_a_body_of_any_bytes_is_answered(door: Door) -> None:
    whole = json.dumps(MESSAGE)

    @examples(40)
    @given(
        st.integers(0, len(whole)),
        st.text(max_size=20) | st.sampled_from(["[" * 5_000, "{}", "NaN", "\ud7ff", "\\ud800"]),
    )
    def send(at: int, put_in: str) -> None:
        door.post((whole[:at] + put_in + whole[at:]).encode())
        door.post((whole[:at] + put_in).encode())

    send()


def test_a_message_with_anything_in_the_place_of_a_part_of_it_is_answered(door: Door) -> None:
    @examples(40)
    @given(st.sampled_from(list(places(MESSAGE))), JSON, st.sampled_from(VERSIONS))
    def send(place: tuple[Any, ...], other: Any, version: str) -> None:
        body = json.dumps(put(MESSAGE, place, other)).encode()
        door.post(body)
        if version.isascii():
            door.post(body, mcp_protocol_version=version)

    send()


@pytest.mark.parametrize(
    "header", ["accept", "content_type", "content_length", "origin", "mcp_method", "mcp_name", "cookie"]
)
def test_a_header_of_any_text_is_answered(door: Door, header: str) -> None:
    @examples(10)
    @given(ODD_TEXT.filter(lambda text: text.isascii() and text.isprintable()))
    def send(value: str) -> None:
        door.post(json.dumps(MESSAGE).encode(), **{header: value})

    send()
