"""What stands around a hit: which chunks are read, and what is made of them."""

from __future__ import annotations

import pytest

from retrieval.layout import Column, lay_out
from retrieval.search.expand import MAX_CONTEXT_CHARS, SECTION_REACH, contexts, limits, spans
from retrieval.types import Expansion, Row, Span

NEIGHBORS = Expansion("neighbors", before=1, after=1)
SECTION = Expansion("section")


def chunk(ordinal: int | None, text: str | None = None, *, heading: str | None = "A", scope: str = "") -> Row:
    told = text or f"<{ordinal}>"
    return Row(f"{scope}a.md#{ordinal}", told, 0.0, None, heading, "a.md", None, ordinal, {})


def around(hit: Row, near: list[Row], expansion: Expansion) -> str:
    return contexts([hit], near, expansion)[hit.id].replace("\n\n", " ")


def test_neighbours_are_read_on_both_sides_as_asked_and_never_before_the_beginning() -> None:
    assert spans([chunk(5)], Expansion("neighbors", before=2, after=3)) == [Span("a.md", 3, 8)]
    assert spans([chunk(0)], NEIGHBORS) == [Span("a.md", 0, 1)]


def test_spans_that_touch_are_read_once() -> None:
    assert spans([chunk(9), chunk(2), chunk(5)], NEIGHBORS) == [Span("a.md", 1, 6), Span("a.md", 8, 10)]


@pytest.mark.parametrize("expansion", [Expansion("none"), Expansion("neighbors", before=0, after=0)])
def test_nothing_is_read_where_nothing_around_is_asked_for(expansion: Expansion) -> None:
    assert spans([chunk(5)], expansion) == []


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (["path", "chunk"], None),
        (["path"], "The table has no whole numbers in a column 'chunk', so hits are not expanded."),
        (["chunk"], "The table has no column that names the document of a chunk, so hits are not expanded."),
    ],
)
def test_a_table_that_cannot_be_read_around_a_hit_says_so(names: list[str], missing: str | None) -> None:
    kinds: dict[str, Column] = {
        "text": Column("text", "string", "text"),
        "path": Column("path", "string", "text"),
        "chunk": Column("chunk", "int64", "integer"),
    }
    assert limits(lay_out([kinds[name] for name in ["text", *names]], [], "text")) == missing


def test_a_chunk_without_a_number_or_a_document_is_not_looked_around() -> None:
    nowhere = Row("x", "text", 0.0, None, None, None, None, 3, {})
    assert spans([chunk(None), nowhere], NEIGHBORS) == []


def test_a_hit_is_read_in_its_place_among_its_neighbours() -> None:
    near = [chunk(6), chunk(4), chunk(3), chunk(5), chunk(7)]
    assert around(chunk(5), near, NEIGHBORS) == "<4> <5> <6>"
    assert around(chunk(5), near, Expansion("neighbors", before=0, after=2)) == "<5> <6> <7>"
    assert around(chunk(5), near, Expansion("neighbors", before=2, after=0)) == "<3> <4> <5>"


def test_what_does_not_touch_is_left_out() -> None:
    assert around(chunk(5), [chunk(7), chunk(3)], Expansion("neighbors", before=2, after=2)) == "<5>"


def test_another_version_of_the_document_is_left_out() -> None:
    assert around(chunk(5, scope="@1:"), [chunk(4, scope="@2:"), chunk(6, scope="@1:")], NEIGHBORS) == "<5> <6>"


def test_a_section_ends_where_the_heading_changes_even_if_it_comes_again() -> None:
    near = [chunk(n, heading=heading) for n, heading in enumerate("BAAABA")]
    assert around(near[2], near, SECTION) == "<1> <2> <3>"


def test_a_chunk_above_all_headings_is_a_section_too() -> None:
    near = [chunk(n, heading=heading) for n, heading in enumerate([None, None, "A"])]
    assert around(near[0], near, SECTION) == "<0> <1>"


def test_of_a_long_section_the_nearest_chunks_are_given() -> None:
    near = [chunk(n) for n in range(100)]
    first, last = 50 - SECTION_REACH, 50 + SECTION_REACH
    assert spans([near[50]], SECTION) == [Span("a.md", first, last)]
    assert around(near[50], near, SECTION) == " ".join(f"<{n}>" for n in range(first, last + 1))


def test_a_context_stays_within_its_bound_with_whole_chunks_of_both_sides() -> None:
    near = [chunk(n, f"{n}" * 1_500) for n in range(9)]
    text = contexts([near[4]], near, Expansion("neighbors", before=4, after=4))[near[4].id]
    assert len(text) <= MAX_CONTEXT_CHARS
    assert text.split("\n\n") == [near[n].text for n in (2, 3, 4, 5, 6)]


def test_a_chunk_that_does_not_fit_ends_its_side_only() -> None:
    near = [chunk(4), chunk(5), chunk(6, "x" * MAX_CONTEXT_CHARS), chunk(7)]
    assert around(near[1], near, Expansion("neighbors", before=2, after=2)) == "<4> <5>"


def test_a_hit_that_is_longer_than_the_bound_has_no_context() -> None:
    assert contexts([chunk(5, "x" * (MAX_CONTEXT_CHARS + 1))], [], NEIGHBORS) == {}


def test_a_hit_of_a_table_without_numbers_is_its_own_context() -> None:
    assert contexts([chunk(None, "alone")], [], SECTION) == {"a.md#None": "alone"}


def test_hits_that_share_an_id_get_no_context_that_might_be_the_others() -> None:
    assert contexts([chunk(1, "one"), chunk(1, "two")], [], NEIGHBORS) == {}


def test_no_expansion_is_no_context() -> None:
    assert contexts([chunk(5)], [chunk(4)], Expansion("none")) == {}
