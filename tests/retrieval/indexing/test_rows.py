"""From bytes to rows: titles, breadcrumbs, column names and types."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
from __future__ import annotations

import json
import pickle
import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.indexing.document import Scalar
from retrieval.indexing.rows import (
    MAX_BREADCRUMB_CHARS,
    MAX_TITLE_CHARS,
    SCHEMA,
    OwnColumns,
    Scope,
    as_type,
    breadcrumb,
    column_name,
    prefix_of,
    read_document,
    readable,
    row_id,
    shortened,
)
from retrieval.schema import COLUMNS, VECTOR_COLUMN

NAME = st.text(st.characters(exclude_characters="@:#", exclude_categories=["Cs", "Cc"]), min_size=1)


@given(st.none() | NAME, st.none() | NAME, st.text(min_size=1), st.integers(0, 10**6))
def test_a_rows_scope_is_told_from_its_id_whatever_its_path(
    collection: str | None, version: str | None, path: str, ordinal: int
) -> None:
    prefix = Scope(collection, version).prefix
    assert prefix_of(row_id(prefix, path, ordinal), path, ordinal) == prefix


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("guide/start.md", "a:guide/start.md#7"),
        ("über uns #1 @home.md", "a:über uns #1 @home.md#7"),
        ("b:c.md", "a:b%3Ac.md#7"),
        ("b%3Ac.md", "a:b%253Ac.md#7"),
    ],
)
def test_an_id_shows_the_path_with_colons_encoded(path: str, shown: str) -> None:
    assert row_id("a:", path, 7) == shown


_PATHS = st.text(alphabet="ab:@#%3A/0", min_size=1, max_size=6)
_SCOPES = st.builds(Scope, st.none() | st.sampled_from("ab"), st.none() | st.sampled_from("ab"))


@given(*[st.tuples(_SCOPES, _PATHS, st.integers(0, 11))] * 2)
def test_no_two_rows_have_one_id(one: tuple[Scope, str, int], other: tuple[Scope, str, int]) -> None:
    ids = {row_id(scope.prefix, path, ordinal) for scope, path, ordinal in (one, other)}
    assert len(ids) == len({one, other})


@given(NAME, NAME)
def test_scopes_have_prefixes_of_their_own(one: str, two: str) -> None:
    scopes = [Scope(), Scope(one), Scope(None, one), Scope(one, two)]
    assert len({scope.prefix for scope in scopes}) == 4


@given(st.text())
def test_a_column_name_is_plain_or_nothing_and_never_one_of_ours(key: str) -> None:
    name = column_name(key)
    assert re.fullmatch(r"([a-z][a-z0-9_]{0,63})?", name)
    assert name not in {*COLUMNS, VECTOR_COLUMN}


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("author", "author"),
        ("Author Name", "author_name"),
        ("og:title", "og_title"),
        ("_score", "score"),
        ("_", ""),
        ("2fa", "meta_2fa"),
        ("text", "meta_text"),
        ("Vector", "meta_vector"),
        ("chunk", "meta_chunk"),
        ("título", "t_tulo"),
    ],
)
def test_keys_are_made_column_names(key: str, name: str) -> None:
    assert column_name(key) == name


@pytest.mark.parametrize(
    ("path", "title"),
    [
        ("guide/getting-started_now.md", "Getting started now"),
        ("README.md", "README"),
        ("v1.2.md", "V1.2"),
        ("---.md", "---"),
        ("über uns.html", "Über uns"),
    ],
)
def test_a_file_name_is_made_a_title(path: str, title: str) -> None:
    assert readable(path) == title


@pytest.mark.parametrize(
    ("headings", "crumb"),
    [
        ((), None),
        (("The  title",), None),
        (("THE TITLE", "A", "B"), "A > B"),
        (("A", "The title"), "A > The title"),
        (("A", " ", "B\nb"), "A > B b"),
    ],
)
def test_a_breadcrumb_leaves_out_what_the_title_says(headings: tuple[str, ...], crumb: str | None) -> None:
    assert breadcrumb(headings, "The title") == crumb


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("  two\n words ", "two words"),
        ("one two three", "one two…"),
        ("one two th", "one two th"),
        ("one two t hree", "one two t…"),
        ("abcdefghijkl", "abcdefghi…"),
        ("a bcdefghijkl", "a bcdefgh…"),
    ],
)
def test_what_is_too_long_is_cut_at_a_space(text: str, short: str) -> None:
    assert shortened(text, 10) == short


def test_of_too_many_headings_the_innermost_are_kept() -> None:
    crumb = breadcrumb([f"{place} {'word ' * 50}" for place in range(5)], "The title")
    assert crumb is not None
    assert crumb.startswith("… > 3 word")
    assert crumb.endswith("…")
    assert 300 < len(crumb) <= MAX_BREADCRUMB_CHARS


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.html", "<h1>Guide" + "<div>Words of a page.</div>" * 30_000),
        ("a.html", "<h1>Guide" + " <b>words</b>" * 60_000),
        ("a.html", "<title>" + "Guide " * 100_000 + "</title><p>" + "word " * 100_000),
        ("a.md", "# " + "Guide " * 30_000 + "\n\nWords."),
        ("a.md", "---\ntitle: " + "Guide " * 600 + "\n---\n\n" + "Words. " * 30_000),
        ("a.rst", "Guide " * 30_000 + "\n" + "=" * 180_000 + "\n\nWords."),
    ],
)
def test_a_title_or_heading_without_end_is_not_repeated_with_every_row(name: str, data: str) -> None:
    batch = read_document(name, data.encode(), "0" * 64, Scope(), None).batch
    titles = {title for title in batch.column("title").to_pylist() if title}
    assert max(len(title) for title in titles) <= MAX_TITLE_CHARS
    assert max(len(heading or "") for heading in batch.column("heading").to_pylist()) <= MAX_BREADCRUMB_CHARS
    assert batch.nbytes < 4 * len(data) + 10_000


def test_what_is_searched_is_folded_and_what_is_shown_is_not() -> None:
    batch = read_document("a.md", "# Résumé\n\nCliché, Größe.".encode(), "0" * 64, Scope(), None).batch
    assert batch.column("text").to_pylist() == ["# Résumé\n\nCliché, Größe."]
    assert batch.column("search_text").to_pylist() == ["Resume\nResume\n# Resume\n\nCliche, Grosse."]


@pytest.mark.parametrize(
    ("values", "arrow_type", "stored"),
    [
        ([True, False], pa.bool_(), [True, False]),
        ([1, -2], pa.int64(), [1, -2]),
        ([1, 2.5], pa.float64(), [1.0, 2.5]),
        ([2**53 + 1, 0.5], pa.float64(), [float(2**53 + 1), 0.5]),
        (["a", "b"], pa.string(), ["a", "b"]),
        ([1, True], pa.string(), ["1", "true"]),
        ([1, "a"], pa.string(), ["1", "a"]),
        ([2**63, 1], pa.string(), [str(2**63), "1"]),
    ],
)
def test_a_column_has_one_type_that_holds_all_its_values(
    values: list[Scalar], arrow_type: pa.DataType, stored: list[Scalar]
) -> None:
    columns = OwnColumns()
    for value in values:
        columns.count(json.dumps({"key": value}))
    (column,) = columns.fields()
    assert (column.name, column.type) == ("key", arrow_type)
    array = pa.array([as_type(value, column.type) for value in [*values, None]], column.type)
    assert array.to_pylist() == [*stored, None]


def test_rows_can_be_sent_from_a_worker_process() -> None:
    made = read_document("a.md", b"# A\n\nWords.", "0" * 64, Scope("c", "1"), None)
    again = pickle.loads(pickle.dumps(made))
    assert again == made
    assert made.batch.schema == SCHEMA


def test_what_the_run_says_of_the_version_wins_and_the_documents_own_is_kept() -> None:
    data = b"---\nversion: '7'\ncollection: theirs\n---\nWords."
    scoped = read_document("a.md", data, "0" * 64, Scope("ours", "2"), None)
    plain = read_document("a.md", data, "0" * 64, Scope(), None)
    assert scoped.batch.column("version").to_pylist() == ["2"]
    assert json.loads(scoped.metadata) == {"meta_collection": "theirs", "meta_version": "7"}
    assert plain.batch.column("version").to_pylist() == ["7"]
    assert json.loads(plain.metadata) == {"meta_collection": "theirs"}
