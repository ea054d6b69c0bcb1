"""Cursors: they come back as they went, or are refused for what is wrong with them."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.errors import BedivereError, ErrorCode
from retrieval.search.cursor import MAX_CURSOR_CHARS, Anchor, decode, encode

ANCHOR = Anchor("fetch", "documents", "4bad9cf5")
POSITION = {"path": "guide/größe.md", "headings": ["Keys"], "next": 12}


def refusal(cursor: str, anchor: Anchor = ANCHOR) -> ErrorCode:
    with pytest.raises(BedivereError) as raised:
        decode(anchor, cursor)
    return raised.value.code


def altered(cursor: str, at: int) -> str:
    return f"{cursor[:at]}{'A' if cursor[at] != 'A' else 'B'}{cursor[at + 1 :]}"


@pytest.mark.parametrize("position", [POSITION, {}, {"path": "\x00\ud800 𝕏"}])
def test_a_position_comes_back_as_it_went(position: dict[str, Any]) -> None:
    assert decode(ANCHOR, encode(ANCHOR, position)) == position


def test_the_same_position_has_the_same_cursor_in_every_server() -> None:
    assert encode(ANCHOR, POSITION) == encode(replace(ANCHOR), dict(POSITION))


def test_a_cursor_can_stand_in_a_url() -> None:
    cursors = "".join(encode(ANCHOR, {"next": number}) for number in range(200))
    assert set(cursors) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def test_no_character_can_be_changed() -> None:
    cursor = encode(ANCHOR, POSITION)
    assert {refusal(altered(cursor, at)) for at in range(len(cursor))} == {ErrorCode.INVALID_CURSOR}


def test_nothing_can_be_cut_off_or_added() -> None:
    cursor = encode(ANCHOR, POSITION)
    changed = [cursor[:end] for end in range(len(cursor))] + [f"{cursor}A", f"{cursor}=", f" {cursor}", f"{cursor}\n"]
    assert {refusal(one) for one in changed} == {ErrorCode.INVALID_CURSOR}


@given(st.text() | st.binary().map(lambda raw: base64.urlsafe_b64encode(raw).decode()))
def test_whatever_is_sent_is_refused_as_no_cursor(nonsense: str) -> None:
    assert refusal(nonsense) is ErrorCode.INVALID_CURSOR


@pytest.mark.parametrize("nonsense", ["", "x", "42", "*" * 80, "größe", "A" * 64, "A" * (MAX_CURSOR_CHARS + 1)])
def test_nonsense_is_refused(nonsense: str) -> None:
    assert refusal(nonsense) is ErrorCode.INVALID_CURSOR


def test_a_cursor_of_other_documents_is_stale() -> None:
    assert refusal(encode(replace(ANCHOR, state="0a1b"), POSITION)) is ErrorCode.CURSOR_STALE


def test_an_altered_cursor_of_other_documents_is_invalid_rather_than_stale() -> None:
    old = encode(replace(ANCHOR, state="0a1b"), POSITION)
    assert refusal(altered(old, 40)) is ErrorCode.INVALID_CURSOR


@pytest.mark.parametrize(
    "other",
    [replace(ANCHOR, listing="catalog"), replace(ANCHOR, table="others"), replace(ANCHOR, parameters={"status": "x"})],
)
def test_a_cursor_serves_its_own_listing_only(other: Anchor) -> None:
    assert refusal(encode(other, POSITION)) is ErrorCode.INVALID_CURSOR


def test_the_order_in_which_parameters_are_written_does_not_matter() -> None:
    one, other = ({"a": 1, "b": [2]}, {"b": [2], "a": 1})
    cursor = encode(replace(ANCHOR, parameters=one), POSITION)
    assert decode(replace(ANCHOR, parameters=other), cursor) == POSITION


@pytest.mark.parametrize("forged", [b"[1]", b"{", b"\xff"])
def test_what_is_no_position_is_refused_even_where_its_check_holds(forged: bytes) -> None:
    raw = ANCHOR.tag + ANCHOR.check(ANCHOR.tag, forged) + forged
    assert refusal(base64.urlsafe_b64encode(raw).rstrip(b"=").decode()) is ErrorCode.INVALID_CURSOR


def test_a_refusal_does_not_repeat_the_cursor() -> None:
    with pytest.raises(BedivereError) as raised:
        decode(ANCHOR, "secret-looking-thing")
    assert "secret" not in raised.value.sentence
    assert json.dumps(POSITION) not in raised.value.sentence
