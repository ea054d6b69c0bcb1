"""The order of versions, and which rows a request is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.catalog import Catalog, Document
from retrieval.search.filters import NOTHING, AllOf, AnyOf, Condition, Not, Where
from retrieval.search.versions import Choice, chosen, newest, order, preference, same


@pytest.mark.parametrize(
    "ordered",
    [
        ["2.8", "2.9", "2.10", "2.10.1", "3", "10"],
        ["1.0.dev1", "1.0a1", "1.0-alpha.2", "1.0b1", "1.0-rc1", "1.0-rc.2", "1.0-rc11", "1.0", "1.0.post1", "1.1-rc1"],
        ["v1.9", "1.10", "V1.11", "release-1.12", "1.13.0"],
        ["2023-12-31", "2024-01-02", "2024-01-10"],
        ["22.04", "22.10", "24.04"],
        ["2.9", "2.10.4", "2.x", "3.0"],
        ["5.0-SNAPSHOT", "5.0-M2", "5.0"],
        ["main", "1.0", "latest", "current", "stable"],
        ["nightly", "0.1"],
        ["whatever", "next", "0"],
        ["", "main"],
    ],
)
def test_versions_sort_by_what_their_numbers_and_words_mean(ordered: list[str]) -> None:
    assert all(order(older) < order(newer) for older, newer in pairwise(ordered))


@given(st.lists(st.tuples(st.integers(0, 9999), st.integers(0, 9999), st.integers(0, 9999)), min_size=2, max_size=9))
def test_plain_numbers_sort_as_tuples_do(numbers: list[tuple[int, int, int]]) -> None:
    assert sorted((".".join(map(str, one)) for one in set(numbers)), key=order) == [
        ".".join(map(str, one)) for one in sorted(set(numbers))
    ]


any_version = st.one_of(
    st.text(max_size=12),
    st.from_regex(r"v?[0-9]{1,3}(\.[0-9x]{1,3}){0,3}([-.]?(rc|beta|dev|post|lts)[0-9]?)?", fullmatch=True),
    st.sampled_from(["main", "latest", "stable", "1" * 5000, "²", "١"]),
)


@given(any_version, any_version)
def test_two_versions_are_equal_only_if_their_texts_are(one: str, other: str) -> None:
    assert (order(one) == order(other)) is (one == other)
    assert (order(one) < order(other)) is (order(other) > order(one))


@given(st.integers(0, 99), st.integers(0, 99), st.sampled_from(["rc1", "-rc.1", "a1", "-beta", ".dev3", "-alpha.2"]))
def test_a_pre_release_comes_before_its_release_and_after_the_one_before(major: int, minor: int, tag: str) -> None:
    release = f"{major}.{minor + 1}"
    assert order(f"{major}.{minor}") < order(release + tag) < order(release)


def document(prefix: str, *, version: str | None = None, collection: str | None = None, path: str = "a.md") -> Document:
    its, _, scoped = prefix.removesuffix(":").partition("@")
    return Document(
        *(path, prefix, None, None, its or collection, scoped or version, None, None, None, 1), f"{prefix}{path}#0"
    )


def catalog_of(*prefixes: str) -> Catalog:
    return Catalog.of_documents([document(prefix) for prefix in prefixes])


def begins(prefix: str) -> Condition:
    return Condition("id", "prefix", prefix)


def test_the_newest_is_found_for_each_collection() -> None:
    catalog = catalog_of("a@2.9:", "a@2.10:", "b@1:", "@3:", "@4-rc1:", "c:", "")
    assert newest(catalog) == {"a": "2.10", "b": "1", "": "3"}


@pytest.mark.parametrize(
    ("there", "served"),
    [
        (["3.0-beta", "2.10", "2.9"], "2.10"),
        (["3.0.0-next.1", "2.10", "main"], "2.10"),
        (["3.0-rc1", "3.0-beta", "main"], "3.0-rc1"),
        (["main", "whatever"], "main"),
        (["2.10", "2.x-dev", "latest", "stable"], "stable"),
        (["3.0.post1", "3.0"], "3.0.post1"),
    ],
)
def test_a_release_is_served_before_a_newer_pre_release(there: list[str], served: str) -> None:
    assert max(there, key=preference) == served
    assert newest(catalog_of(*(f"@{version}:" for version in there))) == {"": served}


def test_a_pre_release_that_is_left_out_is_told_first() -> None:
    choice = chosen(catalog_of("a@2.9:", "a@2.10:", "a@3.0-beta:"), None, None)
    assert choice.where == Not(AnyOf((begins("a@2.9:"), begins("a@3.0-beta:"))))
    assert choice.note == "Searched in the newest release, 2.10 of a; pass version for another: 3.0-beta, 2.9."


def test_without_a_version_older_ones_are_left_out_and_the_note_says_so() -> None:
    choice = chosen(catalog_of("a@2.9:", "a@2.10:", "a@2.1:", "b@1:", "c:", ""), None, None)
    assert choice.where == Not(AnyOf((begins("a@2.1:"), begins("a@2.9:"))))
    assert choice.versions == {"a": "2.10", "b": "1"}
    assert choice.others == ("2.9", "2.1")
    assert choice.note == "Searched in the newest version, 2.10 of a; pass version for another: 2.9, 2.1."


def test_documents_without_versions_need_no_choice() -> None:
    assert chosen(catalog_of("a:", "b@1:", ""), None, None) == Choice()


def test_a_documents_own_version_hides_nothing() -> None:
    catalog = Catalog.of_documents([document("", version="1", path="a.md"), document("", version="2", path="b.md")])
    assert chosen(catalog, None, None) == Choice()


def test_a_version_asked_for_is_the_only_one_in_every_collection() -> None:
    choice = chosen(catalog_of("a@1:", "a@2:", "b@1:", "c:", ""), None, "1")
    assert choice.where == AnyOf((begins("a@1:"), begins("b@1:")))
    assert (choice.versions, choice.others, choice.note) == ({"a": "1", "b": "1"}, ("2",), None)


def test_a_collection_asked_for_is_the_only_one_in_its_newest_version() -> None:
    choice = chosen(catalog_of("a@1:", "a@2:", "b@1:", "b@9:"), "a", None)
    its: Where = Condition("collection", "eq", "a")
    assert choice.where == AllOf((its, Not(begins("a@1:"))))
    assert choice.versions == {"a": "2"}


def test_collection_and_version_asked_for_are_one_set() -> None:
    choice = chosen(catalog_of("a@1:", "a@2:", "b@1:"), "a", "1")
    assert (choice.where, choice.versions) == (begins("a@1:"), {"a": "1"})


@pytest.mark.parametrize("asked", ["v2.1", "2.1.0", "V2.1.0"])
def test_a_version_may_be_spelled_otherwise(asked: str) -> None:
    assert chosen(catalog_of("@2.1:", "@2.2:"), None, asked).where == begins("@2.1:")


@pytest.mark.parametrize(
    ("indexed", "asked"),
    [("v2.10.1-rc1", "2.10.1-rc1"), ("2.10.1-rc1", "v2.10.1-rc1"), ("v2.1.0-RC.1", "2.1rc1"), ("2.x", "v2.x")],
)
def test_a_pre_release_may_be_spelled_otherwise(indexed: str, asked: str) -> None:
    assert chosen(catalog_of(f"@{indexed}:", "@2.2:"), None, asked).where == begins(f"@{indexed}:")


@pytest.mark.parametrize(
    ("one", "other"), [("2.1-1.1", "2.1-11"), ("2.1-foo", "2.1-bar"), ("2.1-ä", "2.1-ö"), ("2.1-rc1", "2.1"), ("v", "")]
)
def test_versions_that_only_sort_alike_are_not_the_same(one: str, other: str) -> None:
    assert not same(one, other)


@pytest.mark.parametrize(
    "asked",
    [
        Condition("version", "eq", "1"),
        Condition("version", "in", ("1", "2")),
        Not(Condition("version", "eq", "2")),
        AllOf((Condition("status", "eq", "final"), Condition("version", "lte", "1"))),
    ],
)
def test_who_filters_by_version_chooses_it(asked: Where) -> None:
    assert replace(chosen(catalog_of("a@1:", "a@2:"), None, None, asked=asked), note=None) == Choice()
    assert chosen(catalog_of("a@1:", "a@2:"), "a", None, asked=asked).where == Condition("collection", "eq", "a")


@pytest.mark.parametrize(
    "asked",
    [
        Condition("status", "eq", "final"),
        Condition("version", "exists", True),
        AllOf((Condition("version", "exists", True), Condition("version", "neq", ""))),
    ],
)
def test_another_filter_chooses_no_version(asked: Where) -> None:
    assert chosen(catalog_of("a@1:", "a@2:"), None, None, asked=asked).versions == {"a": "2"}


@pytest.mark.parametrize(
    "asked", [Condition("collection", "eq", "a"), AllOf((Condition("collection", "in", ("a", "z")),))]
)
def test_of_collections_that_a_filter_leaves_out_nothing_is_told(asked: Where) -> None:
    choice = chosen(catalog_of("a@1:", "a@2:", "b@1:", "b@9:"), None, None, asked=asked)
    assert (choice.where, choice.versions, choice.others) == (Not(begins("a@1:")), {"a": "2"}, ("1",))


def test_a_version_that_is_there_letter_by_letter_is_not_mixed_with_other_spellings() -> None:
    assert chosen(catalog_of("@2.1:", "@2.1.0:"), None, "2.1").where == begins("@2.1:")


@pytest.mark.parametrize("asked", ["3", "2", "main", "2.1-rc1", "2.1-foo"])
def test_an_unknown_version_finds_nothing_and_lists_those_there_are_newest_first(asked: str) -> None:
    choice = chosen(catalog_of("@2.9:", "@2.10:", "@next:", "@2.1-bar:"), None, asked)
    assert choice.where == NOTHING
    assert choice.note == f"There is no version {asked!r}; there are 2.10, 2.9, 2.1-bar, next."


def test_of_a_number_that_is_not_released_the_pre_release_is_named() -> None:
    note = chosen(catalog_of("@2.0-rc.1:", "@1.9:"), None, "2.0").note
    assert note == "There is no version '2.0'; did you mean '2.0-rc.1'? There are 2.0-rc.1, 1.9."


@pytest.mark.parametrize(
    "asked",
    [
        Not(Condition("version", "eq", "2")),
        Condition("version", "gte", "1"),
        Condition("version", "lte", "2"),
        AllOf((Condition("version", "in", ("1", "1.5")), AnyOf((Condition("version", "prefix", "1"), NOTHING)))),
    ],
)
def test_a_filter_that_lets_several_versions_through_is_told_of(asked: Where) -> None:
    note = chosen(catalog_of("a@1:", "a@1.5:", "a@2:", "b@1:"), None, None, asked=asked).note
    assert note is not None
    assert note.startswith("Several versions are searched at once, as the filter by version asks: ")
    assert chosen(catalog_of("a@1:", "b@1:", "a@2:"), None, None, asked=Condition("version", "eq", "1")).note is None


def test_a_version_that_only_documents_say_of_themselves_is_found_beside_indexed_ones() -> None:
    said = Document("p.md", "", None, None, None, "7", None, None, None, 1, "p.md#0")
    indexed = Document("q.md", "a@1:", None, None, "a", "1", None, None, None, 1, "a@1:q.md#0")
    catalog = Catalog.of_documents([said, indexed])
    assert chosen(catalog, None, "7").where == Condition("version", "eq", "7")


def test_an_unknown_collection_finds_nothing_and_lists_those_there_are() -> None:
    choice = chosen(catalog_of("b:", "a@1:"), "c", None)
    assert (choice.where, choice.note) == (NOTHING, "There is no collection 'c'; there are a, b.")


def test_where_nothing_was_indexed_by_version_the_documents_own_versions_can_be_asked_for() -> None:
    catalog = Catalog.of_documents([document("", version="1.0"), document("", version="2", path="b.md")])
    assert chosen(catalog, None, "1").where == Condition("version", "eq", "1.0")


def test_columns_that_hold_no_text_are_compared_as_who_asks_says() -> None:
    catalog = Catalog.of_rows([{"path": "a", "version": 2, "collection": 1}])

    def among(column: str, asked: Sequence[str]) -> Where:
        return Condition(column, "in", tuple(int(one) for one in asked))

    assert chosen(catalog, None, "v2", among=among).where == Condition("version", "in", (2,))
    assert chosen(catalog, "1", None, among=among).where == Condition("collection", "in", (1,))
    assert chosen(catalog, "3", None, among=among).where == NOTHING


@given(
    st.lists(st.tuples(st.sampled_from(["", "a", "b"]), st.sampled_from(["", "1", "1.5", "2", "main"])), max_size=8),
    st.sampled_from([None, "", "1", "9", "main"]),
    st.sampled_from([None, "a", "z"]),
)
def test_versions_of_a_collection_are_never_mixed(
    sets: list[tuple[str, str]], version: str | None, collection: str | None
) -> None:
    prefixes = {f"{its}@{at}:" if at else f"{its}:" if its else "" for its, at in sets}
    catalog = catalog_of(*prefixes)
    choice = chosen(catalog, collection, version)
    served = [one for one in catalog.documents if choice.where is None or _passes(choice.where, one)]
    for its in {one.collection for one in served}:
        assert len({one.scoped_version for one in served if one.collection == its and one.scoped_version}) <= 1
    if collection is not None:
        assert {one.collection for one in served} <= {collection}
    if version is not None:
        assert {one.version for one in served} <= {version}
    if version is None and collection is None:
        assert {one.collection for one in served} == {one.collection for one in catalog.documents}


def _passes(where: Where, one: Document) -> bool:
    match where:
        case AllOf(parts):
            return all(_passes(part, one) for part in parts)
        case AnyOf(parts):
            return any(_passes(part, one) for part in parts)
        case Not(part):
            return not _passes(part, one)
        case Condition("id", "prefix", prefix):
            return one.first_id.startswith(str(prefix))
        case Condition("collection", "eq", collection):
            return one.collection == collection
        case Condition("version", "in", tuple(known)):
            return one.version in known
        case _:
            raise AssertionError(where)


def test_a_note_lists_a_dozen_versions_and_counts_the_rest() -> None:
    note = chosen(catalog_of(*(f"@{number}:" for number in range(30))), None, None).note
    assert note is not None
    assert note.endswith("pass version for another: 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17 and 17 more.")
