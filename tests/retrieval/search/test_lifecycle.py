"""Which documents are outdated, what hides them, and who takes their place."""

# lancedb and pyarrow ship partial types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lancedb.expr import lit

from retrieval.catalog import Catalog, Document
from retrieval.layout import Column, Kind, lay_out
from retrieval.search import lifecycle
from retrieval.search.filters import Where, to_sql
from retrieval.settings import OUTDATED_STATUSES as WORDS


def document(
    path: str,
    *,
    status: str | None = None,
    by: str | None = None,
    title: str | None = None,
    date: str | None = None,
    prefix: str = "",
) -> Document:
    return Document(path, prefix, title, None, None, None, status, date, by, 1, f"{prefix}{path}#0")


@pytest.mark.parametrize(
    "status",
    [
        "superseded",
        "Superseded by ADR-12",
        "DEPRECATED",
        "**Deprecated**",
        "status: draft",
        "⛔ Rejected (2024)",
        "Withdrawn.",
        "superseded_by_adr_12",
        "[Superseded](0012-use-sqlite.md)",
        "draft-03",
    ],
)
def test_a_status_that_begins_with_one_of_the_words_makes_a_document_outdated(status: str) -> None:
    assert lifecycle.outdated(document("a.md", status=status), WORDS)


@pytest.mark.parametrize(
    "status",
    [None, "", "final", "Active", "not deprecated", "partially superseded by ADR-12", "drafted", "Accepted", "-"],
)
def test_any_other_status_leaves_it_current(status: str | None) -> None:
    assert not lifecycle.outdated(document("a.md", status=status), WORDS)


def test_a_final_document_with_a_successor_is_outdated() -> None:
    assert lifecycle.outdated(document("a.md", status="Final", by="b.md"), WORDS)


def test_the_words_are_those_of_the_setting() -> None:
    assert lifecycle.outdated(document("a.md", status="End-of-life since May"), ["end of life"])
    assert not lifecycle.outdated(document("a.md", status="draft"), ["end of life"])


def end(first: str, *documents: Document) -> lifecycle.Succession:
    catalog = Catalog.of_documents(documents)
    (asked,) = (one for one in documents if one.path == first)
    return lifecycle.succession(asked, catalog, WORDS)


def test_a_chain_of_successors_is_followed_to_the_one_that_holds() -> None:
    one, two, three = document("a.md", by="b.md"), document("b.md", by="c.md"), document("c.md", title="C")
    assert end("a.md", one, two, three) == lifecycle.Succession(three, "C")


def test_an_outdated_end_is_no_successor_and_is_named() -> None:
    one, two = document("a.md", by="b.md"), document("b.md", status="withdrawn", title="Second thoughts")
    assert end("a.md", one, two) == lifecycle.Succession(None, "Second thoughts")


def test_a_chain_that_leaves_the_documents_ends_in_the_name_that_is_written() -> None:
    one, two = document("a.md", by="b.md"), document("b.md", by="ADR-99: Not here")
    assert end("a.md", one, two) == lifecycle.Succession(None, "ADR-99: Not here")


def test_a_circle_of_successors_ends() -> None:
    one, two = document("a.md", by="b.md"), document("b.md", by="a.md", title="B")
    assert end("a.md", one, two) == lifecycle.Succession(circle=("a.md", "B"))


def test_a_line_that_leads_into_a_circle_names_those_that_go_round() -> None:
    chain = [document("a.md", by="b.md"), document("b.md", by="c.md"), document("c.md", by="b.md")]
    assert end("a.md", *chain).circle == ("b.md", "c.md")


def test_a_way_out_of_a_circle_is_taken() -> None:
    one, two, three = document("a.md", by="b.md"), document("b.md", by="a.md, c.md"), document("c.md")
    assert end("a.md", one, two, three).document == three
    assert end("b.md", one, two, three).document == three


def test_of_several_successors_the_first_that_holds_counts() -> None:
    one, two, three = document("a.md", by="b.md, c.md"), document("b.md", status="rejected"), document("c.md")
    assert end("a.md", one, two, three).document == three


def test_a_successor_within_the_status_is_read() -> None:
    one, two = document("0001-a.md", status="Superseded by [ADR-2](0002-b.md)"), document("0002-b.md")
    assert end("0001-a.md", one, two).document == two


def test_a_document_without_a_successor_has_none() -> None:
    assert end("a.md", document("a.md", status="draft")) == lifecycle.Succession()


def test_a_successor_of_the_same_version_goes_before_one_of_another() -> None:
    old = document("a.md", by="b.md", prefix="@1:")
    ours, other = document("b.md", prefix="@1:"), document("b.md", prefix="@2:")
    catalog = Catalog.of_documents([other, old, ours])
    assert lifecycle.successor(old, catalog, WORDS) == ours


def test_a_long_chain_is_given_up() -> None:
    chain = [document(f"{n}.md", by=f"{n + 1}.md") for n in range(5000)]
    assert end("0.md", *chain, document("5000.md")).document is None


@given(st.lists(st.tuples(st.sampled_from(["final", "draft", None]), st.integers(0, 8)), min_size=1, max_size=9))
def test_a_successor_is_never_outdated_and_never_the_document_itself(
    drawn: list[tuple[str | None, int]],
) -> None:
    documents = [
        document(f"{place}.md", status=status, by=f"{to}.md" if to else None)
        for place, (status, to) in enumerate(drawn)
    ]
    catalog = Catalog.of_documents(documents)
    for one in documents:
        following = lifecycle.successor(one, catalog, WORDS)
        assert following is None or (following != one and not lifecycle.outdated(following, WORDS))


def test_a_label_tells_status_date_and_successor() -> None:
    one, two = (
        document("a.md", status="Deprecated", date="2024-05-01", by="b.md"),
        document("b.md", title="The new way"),
    )
    catalog = Catalog.of_documents([one, two])
    assert lifecycle.label(one, catalog, WORDS) == "Deprecated (2024-05-01); replaced by The new way (b.md)"


def test_a_label_of_a_final_document_with_an_absent_successor_says_superseded() -> None:
    one = document("a.md", status="Final", by="ADR-99")
    assert lifecycle.label(one, Catalog.of_documents([one]), WORDS) == "Superseded; replaced by ADR-99"


@pytest.mark.parametrize("named", ["self.md", "./self.md", "[this](self.md)", "Myself", "docs/../self"])
def test_a_document_that_names_itself_is_said_to(named: str) -> None:
    one = document("self.md", title="Myself", by=named)
    catalog = Catalog.of_documents([one])
    assert lifecycle.label(one, catalog, WORDS) == "Superseded; it names itself as its successor"
    two = document("two.md", by="self.md")
    catalog = Catalog.of_documents([one, two])
    assert lifecycle.label(two, catalog, WORDS) == "Superseded; its successor, Myself, names itself as its own"


def test_a_name_that_another_document_has_too_is_not_the_documents_own() -> None:
    one, two = document("a/guide.md", by="guide.md"), document("b/guide.md")
    assert end("a/guide.md", one, two).document == two


def test_a_label_says_that_a_chain_is_a_circle() -> None:
    documents = [document(f"{name}.md", title=name.upper(), by=f"{to}.md") for name, to in ("ab", "bc", "ca")]
    catalog = Catalog.of_documents(documents)
    assert lifecycle.label(documents[1], catalog, WORDS) == (
        "Superseded; its successors lead round in a circle: B, C, A"
    )


def told(first: Document, *others: Document, passes: bool = True) -> str:
    return lifecycle.note(first, Catalog.of_documents([first, *others]), WORDS, passes=passes)


def test_a_note_says_what_has_taken_the_place_and_how_to_see_what_was_left_out() -> None:
    one, two = document("1.md", title="Chain one", by="2.md"), document("2.md", title="Chain two", by="3.md")
    three = document("3.md", title="Chain three")
    assert told(one, two, three) == (
        "Chain one (1.md) is outdated (superseded) and left out: Chain three (3.md) has taken its place; "
        "pass includeOutdated true to see it."
    )
    assert "has taken its place, and does not pass the filters; pass includeOutdated" in told(
        one, two, three, passes=False
    )


def test_a_note_names_a_successor_that_is_not_indexed_as_it_is_written() -> None:
    one = document("pep-0345.md", title="PEP 345", status="Superseded", by="Core metadata, at packaging.python.org")
    assert told(one) == (
        "PEP 345 (pep-0345.md) is outdated (Superseded) and left out: its successor, Core metadata, at "
        "packaging.python.org, is not among the current documents; pass includeOutdated true to see it."
    )


def test_a_note_without_a_successor_says_how_to_see_the_document() -> None:
    assert told(document("a.md", status="draft")) == (
        "a.md is outdated (draft) and left out; pass includeOutdated true to see it."
    )
    assert ": it names itself as its successor; pass" in told(document("a.md", by="a.md"))


@pytest.mark.parametrize(
    "filters",
    [
        {"status": "superseded"},
        {"Status": "Superseded by ADR-12"},
        {"metadata.status": {"eq": "draft"}},
        {"status": ["final", "deprecated"]},
        {"status": {"in": ["withdrawn"]}},
        {"status": {"prefix": "superseded"}},
        {"owner": "platform", "status": "archived"},
        {"supersededBy": "b.md"},
        {"superseded_by": {"exists": True}},
    ],
)
def test_a_filter_that_names_what_hides_a_document_asks_for_it(filters: Mapping[str, object]) -> None:
    assert lifecycle.asks_for_outdated(filters, WORDS)


@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"status": "final"},
        {"status": {"neq": "superseded"}},
        {"status": {"exists": True}},
        {"status": None},
        {"status": 3},
        {"status": {"gte": "draft"}},
        {"title": "draft"},
        {"superseded_by": {"exists": "false"}},
        {"superseded_by": {"neq": "b.md"}},
    ],
)
def test_any_other_filter_does_not(filters: Mapping[str, object]) -> None:
    assert not lifecycle.asks_for_outdated(filters, WORDS)
    assert not lifecycle.asks_for_outdated({"status": "superseded"}, ["end of life"])


def sql(where: Where) -> str:
    return to_sql(where, lambda column: f"`{column}`", lambda value: lit(value).to_sql())


def table_of(place: Path, columns: Mapping[str, Any], **kinds: Kind) -> tuple[Any, Catalog, Any]:
    """A LanceDB table, the catalog of its rows and its layout."""
    table = lancedb.connect(place).create_table("t", pa.table(columns), mode="overwrite")
    layout = lay_out([Column(name, kind, kind) for name, kind in kinds.items()], [], "text")
    return table, Catalog.of_rows(table.to_arrow().to_pylist()), layout


statuses = st.sampled_from(
    [None, "", "final", "Draft", "DRAFT", "superseded by x", "it's deprecated", "deprecated' --"]
)
successors = st.sampled_from([None, "", "none", "N/A", "b.md", "it's b", "\\' OR 1=1"])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(statuses, successors), min_size=1, max_size=8))
def test_what_hides_outdated_rows_hides_those_whose_documents_are_and_its_contrary_shows_them(
    tmp_path: Path, rows: list[tuple[str | None, str | None]]
) -> None:
    columns = {
        "text": ["x"] * len(rows),
        "path": [f"{place}.md" for place in range(len(rows))],
        "status": pa.array([status for status, _ in rows], pa.string()),
        "superseded_by": pa.array([successor for _, successor in rows], pa.string()),
    }
    table, catalog, layout = table_of(tmp_path, columns, text="text", path="text", status="text", superseded_by="text")
    expected = {one.path for one in catalog.documents if lifecycle.outdated(one, WORDS)}
    shown, hidden = lifecycle.hiding(catalog, WORDS, layout), lifecycle.among_outdated(catalog, WORDS, layout)

    def passing(where: Where | None) -> set[str]:
        query = table.search() if where is None else table.search().where(sql(where))
        return set(query.to_arrow().column("path").to_pylist())

    assert passing(hidden) == expected
    assert passing(shown) == set(columns["path"]) - expected


def test_successors_that_are_numbers_hide_too(tmp_path: Path) -> None:
    columns = {"text": ["x", "y"], "path": ["a", "b"], "superseded_by": pa.array([2, None], pa.int64())}
    table, catalog, layout = table_of(tmp_path, columns, text="text", path="text", superseded_by="integer")
    where = lifecycle.hiding(catalog, WORDS, layout)
    assert where is not None
    assert table.search().where(sql(where)).to_arrow().column("path").to_pylist() == ["b"]


@pytest.mark.parametrize(
    "told", [pa.array([True, False]), pa.array([1.5, None]), pa.array(["none", ""]), pa.nulls(2, pa.string())]
)
def test_a_column_of_successors_that_names_none_hides_nothing(tmp_path: Path, told: Any) -> None:
    columns = {"text": ["x", "y"], "path": ["a", "b"], "superseded_by": told}
    _, catalog, layout = table_of(tmp_path, columns, text="text", path="text", superseded_by="text")
    assert lifecycle.hiding(catalog, WORDS, layout) is None


def test_documents_that_all_hold_need_no_condition() -> None:
    catalog = Catalog.of_documents([document("a.md", status="final")])
    layout = lay_out([Column("text", "text", "text"), Column("status", "text", "text")], [], "text")
    assert lifecycle.hiding(catalog, WORDS, layout) is None
