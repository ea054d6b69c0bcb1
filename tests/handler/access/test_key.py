"""The text of an API key."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import pytest

from handler.access.key import PATTERN, SALT_BYTES, digest, is_key, new_key


def test_a_new_key_has_the_form_that_scanners_look_for() -> None:
    key = new_key()
    assert key.startswith("bdv_")
    assert len(key) == 53
    assert re.fullmatch(PATTERN, key)
    assert is_key(key)


def test_no_two_keys_are_alike() -> None:
    assert len({new_key() for _ in range(200)}) == 200


def test_every_random_character_of_a_key_varies() -> None:
    keys = [new_key() for _ in range(400)]
    # The first of 43 base-62 digits holds a little less than six bits of 256, the others all of theirs.
    for place in range(5, 47):
        assert len(Counter(key[place] for key in keys)) > 40
    assert len(Counter(key[4] for key in keys)) > 20


def _other(letter: str) -> str:
    return "a" if letter != "a" else "b"


SPOILT: dict[str, Callable[[str], str]] = {
    "cut": lambda key: key[:-1],
    "longer": lambda key: f"{key}0",
    "in capitals": lambda key: key.upper(),
    "of another prefix": lambda key: f"bdx_{key[4:]}",
    "mistyped": lambda key: f"{key[:10]}{_other(key[10])}{key[11:]}",
    "with a line's end": lambda key: f"{key}\n",
    "not ascii": lambda key: f"{key[:20]}é{key[21:]}",
    "empty": lambda _: "",
}


@pytest.mark.parametrize("spoilt", SPOILT.values(), ids=SPOILT)
def test_a_key_that_was_cut_or_mistyped_is_none(spoilt: Callable[[str], str]) -> None:
    assert not is_key(spoilt(new_key()))


def test_what_is_kept_depends_on_the_key_and_on_the_salt() -> None:
    key, salt = new_key(), bytes(SALT_BYTES)
    kept = digest(key, salt)
    assert len(kept) == 32
    assert kept == digest(key, salt)
    assert kept != digest(key, b"\1" * SALT_BYTES)
    assert kept != digest(new_key(), salt)
