"""The part of a chunk that is shown for a question."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from retrieval.search.english import english_words, stem
from retrieval.search.snippet import SNIPPET_CHARS, matched_spans, matched_words, snippet, snippet_and_words

FILLER = "Lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor. " * 10


def test_a_short_text_is_shown_whole_on_one_line() -> None:
    assert snippet("one\n  two", "two") == "one two"


def test_headings_that_open_the_chunk_and_rules_of_tables_are_left_out() -> None:
    text = "# Keys\n\n## Rotation\n\n| When | What |\n|---|:--|\n| daily | key |\n\nTitle\n=====\n"
    assert snippet(text, "key") == "| When | What | | daily | key | Title"


def test_a_chunk_of_headings_alone_shows_them() -> None:
    assert snippet("# Keys\n## Rotation", "keys") == "# Keys ## Rotation"


def test_the_window_holds_the_words_that_match() -> None:
    shown = snippet(FILLER + "Rotate the redis password with care. " + FILLER, "redis password rotation")
    assert "Rotate the redis password" in shown
    assert shown.startswith("…")
    assert shown.endswith("…")


def test_more_distinct_words_win_over_one_word_repeated() -> None:
    text = "redis redis redis redis. " + FILLER + "The redis password is here. " + FILLER
    assert "redis password" in snippet(text, "redis password")


def test_without_a_match_the_beginning_is_shown() -> None:
    assert snippet("Alpha " + FILLER, "zebra").startswith("Alpha")


def test_words_match_in_their_other_forms_and_common_words_do_not() -> None:
    text = "The rotations of keys are rotated"
    assert [text[start:end] for start, end in matched_spans(text, "how the key rotates")] == [
        "rotations",
        "keys",
        "rotated",
    ]


def test_words_match_that_the_index_takes_for_one() -> None:
    for text, question in [
        ("Dependencies of the package", "dependence"),
        ("It hoped in vain", "hoping"),
        ("A conditional jump", "conditions"),
        ("The generalization of it", "generalize"),
        ("call getUserNames()", "user"),
        ("see ARGOCD_OPTS", "opts"),
        ("a happy one", "happiness"),
        ("the dying swan", "die"),
    ]:
        assert matched_words(text, question) == [question]
        assert len(matched_spans(text, question)) == 1


def test_all_words_of_one_stem_match_each_other() -> None:
    words = sorted(english_words())
    # One pair of neighbours in the alphabet out of thirty, which takes milliseconds; a third of them have one stem.
    pairs = [(one, other) for one, other in list(pairwise(words))[::30] if stem(one) == stem(other)]
    assert len(pairs) > 100
    assert [(one, other) for one, other in pairs if matched_words(f"Of {other.title()}", one) != [one]] == []


def test_an_identifier_that_is_not_there_matches_by_its_words() -> None:
    assert matched_words("The timeout of a script.", "CGIDScriptTimeout") == ["script", "timeout"]
    assert matched_words("The wave of a sync.", "SYNC_WAVE_DELAY") == ["sync", "wave"]


def test_a_question_of_common_words_only_still_matches_them() -> None:
    assert matched_spans("to be or not to be", "to be") != []


def test_parts_of_an_identifier_and_unspaced_script_match() -> None:
    assert matched_spans("see ARGOCD_OPTS", "opts") == [(4, 15)]
    assert matched_spans("これは全文検索です", "全文検索") == [(0, 9)]


def test_a_word_of_a_megabyte_is_read_once() -> None:
    # Quadratic in its letters, this would not end.
    assert "needle" in snippet("needle " + "a" * 1_000_000, "needle")
    assert matched_spans("a" * 1_000_000 + "_opts", "opts") == [(0, 1_000_005)]


def test_accents_do_not_count() -> None:
    text = "Mon résumé et mes Resumes"
    for question in ("resume", "résumé"):
        assert [text[start:end] for start, end in matched_spans(text, question)] == ["résumé", "Resumes"]


def test_a_letter_with_an_accent_does_not_match_single_letters() -> None:
    assert matched_spans("a naïve idea", "naïve") == [(2, 7)]


def test_a_book_in_one_cell_has_a_snippet_too() -> None:
    # Quadratic in the matches, this would not end.
    assert "redis password" in snippet("redis password " * 100_000, "redis password")


@given(st.text(max_size=2000), st.text(max_size=60))
def test_a_snippet_is_short_and_its_words_are_the_texts_own(text: str, question: str) -> None:
    shown = snippet(text, question)
    assert len(shown) <= SNIPPET_CHARS
    assert "\n" not in shown
    words = shown.replace("…", " ").split()
    assert all(any(word in whole.replace("…", " ") for whole in text.split()) for word in words)


@given(
    st.text(st.sampled_from("aeks_ .-–”\n2ABK"), max_size=60),
    st.lists(st.sampled_from(["as", "keys", "eak", "a_k", "2a", "Kea", "saved"]), min_size=1, max_size=3),
)
def test_the_quick_way_through_plain_text_finds_what_the_way_through_any_text_finds(
    text: str, question: list[str]
) -> None:
    # One letter beyond ASCII, and every word has to be looked at.
    assert matched_spans(text, " ".join(question)) == matched_spans(f"{text} é", " ".join(question))


@given(
    st.lists(st.sampled_from(["# Keys", "Rotate", "keys_and", "rotation", "résumé", "----", "|", "\n", "the", "a.b"])),
    st.sampled_from(["rotate the keys", "keys_and rotation", "resume", '"rotate keys"', "the"]),
)
def test_text_that_is_searched_once_gives_what_two_searches_give(parts: list[str], question: str) -> None:
    text = " ".join(parts)
    assert snippet_and_words(text, "Title of keys", question) == (
        snippet(text, question),
        matched_words(f"Title of keys\n{text}", question),
    )
