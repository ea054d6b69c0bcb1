"""Words and identifiers: one function for the index and the query."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.search.text import (
    first_terms,
    fold,
    has_unspaced,
    identifier_spans,
    identifier_terms,
    identifier_words,
    identifiers,
    is_hyphenated,
    nfc,
    phrases,
    quoted,
    quoted_spans,
    words,
)


@pytest.mark.parametrize(
    "name",
    [
        "get_user_id",
        "__init__",
        "getUserId",
        "HTTPServer",
        "os.path.join",
        "argocd-cm.yaml",
        "argocd-server",
        "--dry-run",
        "-f",
        "ERR_BAD_REQUEST",
        "ARGOCD_OPTS",
        "E1234",
        "v2.3.1",
        "1.2.3",
        "deadbeef12",
        "etc/argocd/config.yaml",
        "argocd.argoproj.io/sync-wave",
        "std::vector",
        "CVE-2024-1234",
        "k8s",
        "@scope/package".removeprefix("@"),
    ],
)
def test_names_that_a_reader_would_copy_are_identifiers(name: str) -> None:
    assert identifiers(f"Set {name}, please.") == [name]
    assert name.lower() in identifier_terms(f"Set `{name}`.").split()


@pytest.mark.parametrize(
    "word", ["plain", "Capitalised", "RBAC", "end.", "(parenthesis)", "don't", "1200", "—", "a", "i.e.", "U.S."]
)
def test_words_of_prose_are_no_identifiers(word: str) -> None:
    assert identifiers(f"Just {word} here") == []


def test_a_flag_keeps_its_dashes_and_loses_the_full_stop() -> None:
    assert identifiers("Pass --force. Then -v.") == ["--force", "-v"]


def test_the_parts_of_an_identifier_are_terms_of_their_own() -> None:
    terms = identifier_terms("argocd.argoproj.io/sync-wave getUserId").split()
    assert {"argocd.argoproj.io", "sync-wave", "sync", "wave", "getuserid", "get", "user", "id"} <= set(terms)


def test_an_identifier_is_found_by_its_other_spelling_through_its_parts() -> None:
    assert set(identifier_terms("sync_wave").split()) & set(identifier_terms("syncWave").split()) == {"sync", "wave"}


def test_terms_come_once_each() -> None:
    terms = identifier_terms("a_b a_b A_B").split()
    assert sorted(terms) == sorted(set(terms))


def test_what_is_longer_than_any_name_is_left_out() -> None:
    assert identifiers("x_" + "y" * 300) == []


@given(st.text(max_size=400))
def test_any_text_has_terms_of_which_none_holds_white_space_or_a_capital(text: str) -> None:
    terms = identifier_terms(text)
    assert terms == " ".join(terms.split())
    assert terms == terms.lower()


@given(st.lists(st.sampled_from(["get_user", "--flag", "v1.2", "word", "foo.bar"]), max_size=8))
def test_every_term_of_a_query_is_among_the_terms_of_a_text_that_holds_the_query(parts: list[str]) -> None:
    query = " ".join(parts)
    assert set(identifier_terms(query).split()) <= set(identifier_terms(f"Before. {query} after").split())


def test_quoted_text_of_several_words_is_a_phrase() -> None:
    assert phrases('how "shallow clone" and “deep clone” work') == ["shallow clone", "deep clone"]


def test_one_quoted_word_is_no_phrase_and_an_open_quote_is_none_either() -> None:
    assert phrases('the "clone" of "an open') == []


def test_a_run_of_unspaced_script_is_a_phrase() -> None:
    assert phrases("設定 how 全文検索エンジン") == ["設定", "全文検索エンジン"]


def test_the_first_words_are_kept_and_the_cut_is_told() -> None:
    assert first_terms("a b, c d", limit=3) == ("a b, c", True)
    assert first_terms("a b, c", limit=3) == ("a b, c", False)


def test_words_are_folded() -> None:
    assert words("Straße, ΣΊΣΥΦΟΣ 42!") == ["strasse", "σίσυφοσ", "42"]


def test_decomposed_letters_are_composed() -> None:
    assert nfc(unicodedata.normalize("NFD", "café")) == "café"


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Résumé of a fiancé: cliché", "Resume of a fiance: cliche"),
        ("Größe, Łódź, Ærø", "Grosse, Lodz, AEro"),
        ("İstanbul ısı", "Istanbul isi"),
        ("Σίσυφος", "Σισυφοσ"),
        ("ёлка", "елка"),
        ("مُحَمَّد أحمد محـمد", "محمد احمد محمد"),
        ("שָׁלוֹם", "שלום"),
        ("ﬁne Ｆｕｌｌ１ ｶﾞ", "fine Full1 ガ"),
        ("infor\N{SOFT HYPHEN}mation", "information"),
    ],
)
def test_folded_text_has_no_accents_and_plain_letters(text: str, plain: str) -> None:
    assert fold(text) == fold(unicodedata.normalize("NFD", text)) == plain


@pytest.mark.parametrize("text", ["हिन्दी", "น้ำ", "がぎぐ", "한국어", "“x” – Foo™ m² …", "getUserId"])
def test_marks_that_are_vowels_and_signs_between_words_are_not_folded(text: str) -> None:
    assert fold(text) == text


@given(st.text(max_size=200))
def test_folding_again_changes_nothing_and_composition_makes_no_difference(text: str) -> None:
    assert fold(fold(text)) == fold(text) == fold(nfc(text))


def test_a_long_run_of_marks_is_folded_in_linear_time() -> None:
    marks = "\N{COMBINING COMMA ABOVE RIGHT}\N{COMBINING GRAVE ACCENT}" * 100_000
    assert set(fold(f"A{marks}")) <= {"A", "\N{COMBINING GRAPHEME JOINER}"}


def test_an_identifier_is_found_where_it_stands_without_the_punctuation_around_it() -> None:
    text = "Set (ARGOCD_OPTS), or pass --force."
    assert [text[start:end] for start, end in identifier_spans(text)] == ["ARGOCD_OPTS", "--force"]


def test_a_word_of_letters_and_hyphens_may_be_prose_and_other_names_may_not() -> None:
    assert [name for name in ("read-only", "sync_wave", "--force", "v2-beta", "a.b-c") if is_hyphenated(name)] == [
        "read-only"
    ]


def test_quoted_text_is_given_without_its_quotes_and_with_them_where_it_stands() -> None:
    query = 'why "shallow clone" or “depth”'
    assert quoted(query) == ["shallow clone", "depth"]
    assert [query[start:end] for start, end in quoted_spans(query)] == ['"shallow clone"', "“depth”"]


def test_scripts_without_spaces_are_told_from_those_with() -> None:
    assert [word for word in ("word", "мир", "中文", "ไทย") if has_unspaced(word)] == ["中文", "ไทย"]


def test_a_document_is_found_by_its_path_and_name() -> None:
    assert identifier_terms("no names", "Guide/sync-waves.md").split() == [
        "guide/sync-waves.md",
        "sync-waves.md",
        "sync-waves",
    ]
    assert identifier_terms("", "two words.md").split() == ["two_words.md", "two_words"]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("spec.syncPolicy.prune", ["spec", "sync", "policy", "prune"]),
        ("ARGOCD_OPTS", ["argocd", "opts"]),
        ("--dry-run", ["dry", "run"]),
        ("pep-0440", ["pep", "0440"]),
        ("größe_x", ["größe", "x"]),
    ],
)
def test_the_words_of_a_name_are_cut_at_marks_and_capitals(name: str, parts: list[str]) -> None:
    assert identifier_words(name) == parts
