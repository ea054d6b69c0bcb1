"""Whom an author means who names another document."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.catalog import Catalog, Document
from retrieval.search.references import MAX_NAME_CHARS, References


def document(
    path: str, title: str | None = None, *, url: str | None = None, prefix: str = "", collection: str | None = None
) -> Document:
    return Document(path, prefix, title, url, collection, None, None, None, None, 1, f"{prefix}{path}#0")


DOCUMENTS = (
    document("adr/0005-use-postgres.md", "5. Use Postgres"),
    document("adr/0012-use-sqlite.md", "ADR-012: Use SQLite"),
    document("adr/index.md", "Decisions"),
    document("guide/install.md", "Installing, and what to check", url="https://docs.example/guide/install/"),
    document("guide/new/setup.md", "Set-up"),
    document("peps/pep-0345.rst", "Metadata 1.2"),
    document("peps/pep-0426.rst", "Metadata 2.0"),
    document("runbooks/12-restart.md", "Restart"),
)
CATALOG = Catalog.of_documents(DOCUMENTS)
BY = {one.path: one for one in DOCUMENTS}


@pytest.mark.parametrize(
    ("by", "written", "meant"),
    [
        ("adr/0005-use-postgres.md", "adr/0012-use-sqlite.md", ["adr/0012-use-sqlite.md"]),
        ("adr/0005-use-postgres.md", "/adr/0012-use-sqlite.md", ["adr/0012-use-sqlite.md"]),
        ("adr/0005-use-postgres.md", "0012-use-sqlite.md#why", ["adr/0012-use-sqlite.md"]),
        ("adr/0005-use-postgres.md", "./0012-use-sqlite", ["adr/0012-use-sqlite.md"]),
        ("guide/install.md", "../adr/0012-use-sqlite.md", ["adr/0012-use-sqlite.md"]),
        ("guide/install.md", "decisions/adr/0012-use-sqlite", ["adr/0012-use-sqlite.md"]),
        ("guide/install.md", "0012-USE-SQLite.md", ["adr/0012-use-sqlite.md"]),
        ("guide/install.md", "new%2Fsetup.md", ["guide/new/setup.md"]),
        ("guide/install.md", "setup", ["guide/new/setup.md"]),
        ("guide/install.md", "adr/", ["adr/index.md"]),
        ("guide/new/setup.md", "https://docs.example/guide/install", ["guide/install.md"]),
        ("guide/new/setup.md", "http://docs.example/guide/install/?a=b#c", ["guide/install.md"]),
        ("guide/install.md", "https://elsewhere.example/docs/guide/new/setup.html", ["guide/new/setup.md"]),
        ("adr/0005-use-postgres.md", "ADR-012", ["adr/0012-use-sqlite.md"]),
        ("adr/0005-use-postgres.md", "ADR 12: whatever it is called", ["adr/0012-use-sqlite.md"]),
        ("adr/0005-use-postgres.md", "12", ["adr/0012-use-sqlite.md"]),
        ("adr/0005-use-postgres.md", "#12", ["adr/0012-use-sqlite.md"]),
        ("guide/install.md", "adr-5", ["adr/0005-use-postgres.md"]),
        ("peps/pep-0345.rst", "426", ["peps/pep-0426.rst"]),
        ("guide/install.md", "PEP 426", ["peps/pep-0426.rst"]),
        ("guide/install.md", ":pep:`426`", ["peps/pep-0426.rst"]),
        ("guide/install.md", "use sqlite", ["adr/0012-use-sqlite.md"]),
        ("guide/new/setup.md", "Installing, and what to check", ["guide/install.md"]),
        ("guide/install.md", "[the other](../adr/0012-use-sqlite.md 'Title')", ["adr/0012-use-sqlite.md"]),
        ("guide/install.md", "[ADR-012](https://elsewhere.example/)", ["adr/0012-use-sqlite.md"]),
        ("guide/install.md", "[[setup|the set-up]]", ["guide/new/setup.md"]),
        ("guide/install.md", "`the set-up <new/setup.md>`_", ["guide/new/setup.md"]),
        ("guide/install.md", "<new/setup.md>", ["guide/new/setup.md"]),
        ("guide/install.md", "missing.md, PEP 426; ADR-005", ["peps/pep-0426.rst", "adr/0005-use-postgres.md"]),
        ("guide/install.md", "PEP 345 and PEP 426", ["peps/pep-0345.rst", "peps/pep-0426.rst"]),
        ("guide/install.md", "PEP 999", []),
        ("guide/install.md", "nothing of the kind", []),
        ("guide/install.md", "", []),
    ],
)
def test_a_document_is_found_by_what_its_colleagues_call_it(by: str, written: str, meant: list[str]) -> None:
    assert [one.path for one in CATALOG.named(written, BY[by])] == meant


def test_a_document_never_means_itself() -> None:
    assert CATALOG.named("ADR-012", BY["adr/0012-use-sqlite.md"]) == [BY["runbooks/12-restart.md"]]


def test_a_number_is_one_of_the_same_folder_before_another() -> None:
    other = document("runbooks/14-stop.md", "Stop")
    assert Catalog.of_documents((*DOCUMENTS, other)).named("12", other)[0].path == "runbooks/12-restart.md"


def test_a_document_of_the_same_collection_and_version_is_meant_before_another() -> None:
    ours, older, theirs = (
        document("a.md", prefix="x@2:", collection="x"),
        document("a.md", prefix="x@1:", collection="x"),
        document("a.md", prefix="b:", collection="b"),
    )
    by = document("b.md", prefix="x@2:", collection="x")
    assert Catalog.of_documents([theirs, older, ours, by]).named("a.md", by) == [ours]
    assert Catalog.of_documents([theirs, older, by]).named("a.md", by) == [older]
    assert Catalog.of_documents([theirs, by]).named("a.md", by) == [theirs]


@pytest.mark.parametrize(
    ("question", "paths"),
    [
        ("PEP 345", ["peps/pep-0345.rst"]),
        ("what does pep-0345 say about markers", ["peps/pep-0345.rst"]),
        ("peps/pep-0345.rst", ["peps/pep-0345.rst"]),
        ("PEP 345 or PEP 426?", ["peps/pep-0345.rst", "peps/pep-0426.rst"]),
        ("Metadata 1.2", ["peps/pep-0345.rst"]),
        ("does installing, and what to check, take long", ["guide/install.md"]),
        ("restart", ["runbooks/12-restart.md"]),
        ("how do I restart it", []),
        ("345", []),
        ("metadata of the packages", []),
        ("?", []),
    ],
)
def test_a_question_calls_a_document_by_its_number_its_path_or_its_title(question: str, paths: list[str]) -> None:
    references = References(CATALOG.columns)
    assert [CATALOG.document(place).path for place in references.called(question)] == paths


def test_a_number_with_a_fraction_is_no_number_of_a_document() -> None:
    assert References(CATALOG.columns).called("which of pep 345.1 and pep 345.2 is newer") == []


def test_a_numbered_file_is_called_by_its_folder_too() -> None:
    numbered = Catalog.of_documents([document("adr/0003-use-rust.md", "Rust"), document("docs/decisions/4.md", "Go")])
    assert References(numbered.columns).names_in("ADR-0003 or adr 4") == {"adr-0003": [0], "adr 4": [1]}


def test_a_word_of_a_sentence_is_the_name_of_a_file_where_it_is_no_word_of_any_text() -> None:
    files = References(
        Catalog.of_documents([document("howtocorrupt.html", "How To"), document("lock.html", "L")]).columns
    )
    assert files.names_in("what says howtocorrupt of lock", lambda _: True) == {"howtocorrupt": [0]}
    assert files.names_in("what says howtocorrupt of lock") == {}
    assert files.names_in("lock") == {"lock": [1]}


def test_the_versions_of_a_document_are_called_by_one_name() -> None:
    versions = [document("adr-7.md", "Choice", prefix=f"x@{number}:") for number in range(5)]
    assert References(Catalog.of_documents(versions).columns).called("ADR-7") == [0, 1, 2, 3, 4]


def test_what_many_documents_are_called_calls_none_and_of_two_titles_the_longer_counts() -> None:
    many = Catalog.of_documents(document(f"{folder}/readme.md", "Read this first") for folder in "abcd")
    assert References(many.columns).called("Read this first") == []
    two = Catalog.of_documents(
        [document("a.md", "Rules for the road"), document("b.md", "Rules for the road in winter")]
    )
    assert References(two.columns).called("which rules for the road in winter are there") == [1]


@given(st.text(max_size=2 * MAX_NAME_CHARS))
def test_whatever_is_asked_calls_documents_or_none(question: str) -> None:
    places = References(CATALOG.columns).called(question)
    assert len(set(places)) == len(places)


@given(st.text(max_size=2 * MAX_NAME_CHARS))
def test_whatever_is_written_finds_documents_or_none(written: str) -> None:
    by = DOCUMENTS[0]
    found = CATALOG.named(written, by)
    assert by not in found
    assert len(set(found)) == len(found)


def test_a_question_that_calls_nobody_waits_for_no_index_of_a_small_catalog() -> None:
    references = References(CATALOG.columns)
    assert references.called("how do I rotate the signing key of the harbour") == []
    assert not {"_paths", "_names", "_titles"} & references.__dict__.keys()


_PARTS = sorted({part for one in DOCUMENTS for text in (one.path, one.title or "") for part in (text, *text.split())})


@given(st.lists(st.one_of(st.sampled_from(_PARTS), st.sampled_from(["the", "?", "SETUP", "é", "_", "\n"])), max_size=6))
def test_whom_a_question_calls_is_the_same_with_an_index_and_without(parts: list[str]) -> None:
    quick, indexed = References(CATALOG.columns), References(CATALOG.columns)
    indexed.__dict__["_written"] = None
    question = " ".join(parts)
    assert quick.names_in(question, lambda _: True) == indexed.names_in(question, lambda _: True)


@pytest.mark.parametrize("other", ["Größe der Akten", "x" * 100_000])
def test_a_catalog_that_is_large_or_foreign_has_its_names_gathered(other: str) -> None:
    catalog = Catalog.of_documents([*DOCUMENTS, document("z.md", other)])
    references = References(catalog.columns)
    assert [catalog.document(place).path for place in references.called("use sqlite")] == ["adr/0012-use-sqlite.md"]
    assert "_titles" in references.__dict__
    assert references.answers_at_once


@pytest.mark.parametrize(("more", "small"), [("b", True), ("x" * 100_000, False)])
def test_a_question_waits_for_the_names_of_a_large_catalog_and_for_none_of_a_small_one(more: str, small: bool) -> None:
    references = References(Catalog.of_documents([*DOCUMENTS, document("z.md", more)]).columns)
    assert not references.answers_at_once
    # By a path alone: its kind of name is gathered, and others are still to come.
    references.find("adr/0012-use-sqlite.md", DOCUMENTS[0])
    assert not references.answers_at_once
    references.names_in("how do I rotate the key")
    assert references.answers_at_once
    assert ("_titles" not in references.__dict__) == small
