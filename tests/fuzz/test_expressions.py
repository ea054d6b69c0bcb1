"""No expression takes more than in proportion to the text it is asked of, or the text it is asked of is bounded."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.fuzz.expressions import Expression, attacks, expressions

TIMES: Final = 60
"""What 3,200 characters may take, in times of what it takes to pass over as many one by one: a linear expression takes
about as long, one that is quadratic a hundred times as long, and more with more characters."""
QUICK: Final = 0.005
"""Seconds: what takes no longer need not be compared."""
CHARS: Final = 3_200
FEW: Final = 22
"""So many already tell an expression that doubles its time with each character."""
SOME: Final = 300
"""So many tell one that takes the third power, which would be at more for hours."""

BOUNDED: Final = {
    # Only the first characters of a text are asked, or of a part that is itself cut.
    "retrieval.indexing.embedder._TOO_LARGE": 2_000,
    "retrieval.indexing.formats.html._COMMENT": 4_096,
    "retrieval.indexing.formats.html._META_CHARSET": 4_096,
    "retrieval.indexing.formats.markdown._ATTRIBUTES": 1_000,
    "retrieval.indexing.formats.rst._LINK_TARGET": 1_000,
    "retrieval.search.references._MARKDOWN": 1_000,
    "retrieval.search.references._SEPARATORS": 1_000,
    "retrieval.search.stubs._LINK": 4_000,
    "retrieval.search.stubs._PICTURE": 4_000,
}
"""By name, the characters that an expression is asked of at most, where it takes more than in proportion."""

TRIED_AT_ONE_PLACE: Final = {
    # Handed to a function that matches it, or kept in a table of others.
    "handler.arguments._DECIMAL",
    "handler.arguments._NUMERAL",
    "retrieval.indexing.chunks._LINE_BREAKS",
    "retrieval.indexing.formats.markdown._TOML_ENTRY",
    "retrieval.indexing.formats.markdown._YAML_ENTRY",
}

OF_ONE_LINE: Final = {"retrieval.indexing.formats.rst._FIELD", "retrieval.indexing.formats.rst._HEADER_FIELD"}
"""Asked of lines, which hold no end of one."""

ALL: Final = {expression.name: expression for expression in expressions()}


ONE_BY_ONE: Final = Expression("one by one", re.compile("."), searches=True)


def cost(expression: Expression, text: str, chars: int) -> float:
    """In times of what it takes to pass over `CHARS` characters, the least of three, for the machine may be busy."""
    if expression.name in TRIED_AT_ONE_PLACE:
        expression = Expression(expression.name, expression.pattern, searches=False)
    if expression.name in OF_ONE_LINE:
        text = text.replace("\n", "")
    text = text[: BOUNDED.get(expression.name, chars + 64)]
    if expression.seconds(text) < QUICK:
        return 0.0
    return min(expression.seconds(text) / ONE_BY_ONE.seconds("a" * CHARS) for _ in range(3))


def slowest(expression: Expression) -> tuple[float, str]:
    worst = (0.0, "")
    for before, pumped, end in attacks(expression.pattern):
        for chars in (FEW, SOME, CHARS):
            text = before + pumped * (chars // len(pumped) + 1) + end
            worst = max(worst, (cost(expression, text, chars), f"{before!r} {pumped!r} {end!r}"))
            if worst[0] > TIMES:
                return worst
    return worst


def test_no_expression_takes_more_than_in_proportion_to_its_text() -> None:
    slow = {name: slowest(expression) for name, expression in ALL.items()}
    assert {name: found for name, found in slow.items() if found[0] > TIMES} == {}


def test_the_exceptions_are_expressions_that_there_are() -> None:
    assert (set(BOUNDED) | TRIED_AT_ONE_PLACE | OF_ONE_LINE) - set(ALL) == set()


@pytest.mark.parametrize("pattern", [r"(a+)+b", r"\s*x?\s*$", r"(\w+\s?)*!", r"(?:a|a)*c", r"-+$"])
def test_the_attack_finds_what_it_is_to_find(pattern: str) -> None:
    # A time of the few characters is enough where it doubles: longer ones would take for ever.
    assert slowest(Expression("known to be slow", re.compile(pattern), searches=True))[0] > TIMES
