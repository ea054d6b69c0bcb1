"""The words of an index: which it knows, and what was meant by those it does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast
from unittest.mock import patch

import lancedb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.indexing.lance import FULL_TEXT
from retrieval.indexing.vocabulary import VocabularyBuilder
from retrieval.search import lines as lookup
from retrieval.search.lines import SortedLines
from retrieval.search.text import fold, identifier_terms
from retrieval.search.vocabulary import MAX_BYTES, Correction, Vocabulary, to_bytes

TEXTS: Final = (
    "Rotate the signing keys with rotate_signing_key every ninety days.",
    "Applications are synchronised; an application is healthy when its resources are.",
    "Access is denied to anonymous users, access is granted to others.",
    "The Zürich office keeps a résumé of running jobs; ARGOCD_SYNC_WAVE_DELAY waits.",
    "Upgrade to release v2.3.1 with --from-snapshot.",
)


def vocabulary(texts: Sequence[str] = TEXTS) -> Vocabulary:
    builder = VocabularyBuilder()
    for text in texts:
        builder.add(fold(text), identifier_terms(text))
    return Vocabulary.load(builder.to_bytes())


def read(question: str) -> str:
    return vocabulary().correct(question)[0]


def test_the_frequency_of_a_word_counts_the_chunks_that_hold_any_form_of_it() -> None:
    words = vocabulary(["one key", "two keys and a key", "no lock"])
    assert words.chunks == 3
    assert (words.frequency("keys"), words.frequency("KEY"), words.frequency("door")) == (2, 2, 0)


@pytest.mark.parametrize(
    "word", ["apply", "applications", "rotating", "Zurich", "resumes", "jobs", "sync", "snapshots", "quark"]
)
def test_a_word_is_known_exactly_where_the_text_index_finds_it(
    word: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    table = lancedb.connect(tmp_path_factory.mktemp("words")).create_table(
        "words", [{"search_text": fold(text)} for text in TEXTS]
    )
    table.create_index("search_text", config=FULL_TEXT["search_text"])
    query = table.search(fold(word), query_type="fts").select(["search_text", "_score"]).limit(10)
    assert vocabulary().frequency(word) == len(cast("list[object]", query.to_list()))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("aplication", "application"),  # left out
        ("anonymmous", "anonymous"),  # added
        ("acsess", "access"),  # changed
        ("rotaet", "rotate"),  # swapped
        ("zürihc", "zurich"),
        ("synchronzied", "synchronised"),  # two mistakes in a long word
    ],
)
def test_a_misspelt_word_is_read_as_the_nearest_that_is_known(written: str, meant: str) -> None:
    question, corrections = vocabulary().correct(f"how is {written} done?")
    assert question == f"how is {meant} done?"
    assert [(one.written, one.read) for one in corrections] == [(written, meant)]


@pytest.mark.parametrize(
    "question",
    [
        "applications running",  # known, in whatever form
        '"aplication healthy"',  # quoted: it is wanted as it stands
        "ACESS",  # an acronym has no spelling
        "kye",  # too short to tell
        "gobs",  # of four letters, one changed is another word
        "access2",
        "quarks",
        "doors",  # no word is near
    ],
)
def test_what_is_known_quoted_short_or_near_nothing_stays(question: str) -> None:
    assert vocabulary().correct(question) == (question, ())


def test_of_words_as_near_the_more_frequent_is_read() -> None:
    assert vocabulary(["a paster", "a master", "a master"]).correct("xaster")[0] == "master"


def test_two_mistakes_in_a_shorter_word_are_only_mended_where_its_letters_stand_in_no_word() -> None:
    words = vocabulary(["the kubectl cache", "rebus debase global"])
    assert words.correct("with qubcetl")[0] == "with kubectl"
    assert words.correct("with rebal") == ("with rebal", ())


def test_a_small_vocabulary_calls_odd_what_stands_in_no_english_word() -> None:
    words = vocabulary(["the redis cache", "the kubectl"])
    assert words.correct("with kqzectl")[0] == "with kubectl"
    assert words.correct("with radio") == ("with radio", ())


@pytest.mark.parametrize("word", ["bread", "chocolate", "kill", "mother", "became", "plane", "wish"])
def test_a_word_of_english_is_never_read_as_another(word: str) -> None:
    words = vocabulary(["break chocolatey will other become place with fish"])
    assert words.correct(f"the {word}") == (f"the {word}", ())


def test_of_english_words_only_a_doubled_letter_may_be_a_slip_and_is_not_trusted() -> None:
    (correction,) = vocabulary(["the bases of it"]).correct("remote basses")[1]
    assert (correction.read, correction.trust < 1) == ("bases", True)


@pytest.mark.parametrize(
    ("written", "known"),
    [
        ("authorise", "authorize"),
        ("tokenised", "tokenized"),
        ("behaviour", "behavior"),
        ("color", "colour"),
        ("centre", "center"),
        ("catalogue", "catalog"),
        ("license", "licence"),
        ("defence", "defense"),
    ],
)
def test_british_and_american_spelling_are_one(written: str, known: str) -> None:
    words = vocabulary([f"{known} authority"])
    assert words.correct(written) == (known, (Correction(written, known),))


@pytest.mark.parametrize("name", ["Trivy", "Jaeger", "Podman", "Linkerd", "Mongo", "Tempo", "OAuth"])
def test_a_name_needs_more_to_be_a_mistake(name: str) -> None:
    words = vocabulary(["tried larger pacman linked mono month temp auth kubernetes"])
    assert words.correct(f"scan with {name}") == (f"scan with {name}", ())


def test_a_name_that_can_be_no_other_is_corrected() -> None:
    assert vocabulary(["the kubernetes cluster"]).correct("a Kuberentes cluster")[0] == "a kubernetes cluster"


def test_a_name_that_stands_in_most_chunks_needs_less_to_be_meant() -> None:
    assert vocabulary(["argo"] * 20).correct("the Arog server")[0] == "the Arog server"
    assert vocabulary(["argo"] * 500).correct("the Arog server")[0] == "the argo server"


def test_a_mistake_that_shares_its_stem_with_an_english_word_is_none_of_its_forms() -> None:
    assert vocabulary(["an invoice"]).correct("the invoce")[0] == "the invoice"


def test_what_may_be_another_word_is_read_but_not_trusted() -> None:
    (sure,) = vocabulary(["anonymous"]).correct("anonymuos")[1]
    (doubtful,) = vocabulary(["gitea"]).correct("with gitex")[1]
    assert (sure.trust, doubtful.read, doubtful.trust < 1) == (1.0, "gitea", True)


def test_an_everyday_word_is_mended_though_no_document_holds_it() -> None:
    assert vocabulary().correct("becuase")[0] == "because"


def test_a_name_whose_words_are_all_known_is_no_mistake() -> None:
    words = vocabulary(["my-app-pod is a pod", "prod"])
    assert words.correct("my-app-prod") == ("my-app-prod", ())


def test_an_identifier_is_corrected_as_a_whole_and_in_the_case_of_the_documents() -> None:
    assert read("what does ARGOCD_SYNC_WVAE_DELAY do") == "what does ARGOCD_SYNC_WAVE_DELAY do"
    assert read("argocd_sync_wave_delya") == "ARGOCD_SYNC_WAVE_DELAY"


def test_an_identifier_that_differs_in_its_digits_is_another() -> None:
    assert vocabulary(["error ERR_CODE_4031"]).correct("ERR_CODE_4032") == ("ERR_CODE_4032", ())


def test_the_identifiers_of_the_table_are_known_whatever_their_case() -> None:
    assert vocabulary().holds_identifier("Rotate_Signing_Key")
    assert not vocabulary().holds_identifier("rotate_signing_keys")


def test_words_of_scripts_without_spaces_are_left_alone() -> None:
    assert vocabulary(["中文分词"]).correct("中文分詞") == ("中文分詞", ())


@given(st.text(max_size=80))
def test_any_question_is_answered_and_only_corrected_words_change(question: str) -> None:
    corrected, corrections = vocabulary().correct(question)
    assert (corrected == question) == (not corrections)


WRITTEN: Final = to_bytes(3, 0, ["key\t2\tkey 1\tkeys 1", "lock\t1"], ["sync-wave\t1"])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"something else\t2\t1\t0\t0\t0\t0\n",
        WRITTEN.replace(b"\t2\t", b"\t9\t", 1),
        WRITTEN.replace(b"\t3\t", b"\tmany\t", 1),
        WRITTEN.replace(b"\t3\t", b"\t", 1),
        WRITTEN.replace(b"lock", b"clok"),
        WRITTEN.replace(b"sync", b"cync"),
        WRITTEN.replace(b"key 1\tkeys 1", b"keys 1\tkey 1"),
        WRITTEN + b"door\t1\n",
    ],
)
def test_a_damaged_file_is_refused(data: bytes) -> None:
    assert data != WRITTEN
    with pytest.raises(ValueError):  # noqa: PT011 - it is what is promised
        Vocabulary.load(data)


def test_of_a_file_that_was_written_each_line_is_found() -> None:
    words = Vocabulary.load(WRITTEN)
    assert (words.chunks, words.left_out, words.words) == (3, 0, 2)
    assert [words.frequency(word) for word in ("key", "keys", "lock", "locked", "door", "a", "zebra")] == [
        *(2, 2, 1, 1),
        *(0, 0, 0),
    ]
    assert [words.holds_identifier(name) for name in ("Sync-Wave", "sync")] == [True, False]


@given(st.sets(st.text("abc", min_size=1, max_size=3)), st.text("abc", max_size=3), st.integers(1, 80))
def test_a_line_is_looked_up_as_if_all_were_looked_at(names: set[str], start: str, near: int) -> None:
    lines = [f"{name}\t1" for name in sorted(names)]
    with patch.object(lookup, "_NEAR", near):
        found = SortedLines("".join(f"{line}\n" for line in lines)).beginning_with(start)
    assert found.split("\n")[1:-1] == [line for line in lines if line.startswith(start)]


def test_a_file_that_is_too_large_is_refused_before_it_is_read() -> None:
    with pytest.raises(ValueError, match="larger"):
        Vocabulary.load(b" " * (MAX_BYTES + 1))


def test_a_file_that_was_cut_anywhere_is_refused() -> None:
    builder = VocabularyBuilder()
    builder.add(TEXTS[0], identifier_terms(TEXTS[0]))
    data = builder.to_bytes()
    for end in range(len(data)):
        with pytest.raises(ValueError):  # noqa: PT011
            Vocabulary.load(data[:end])


def test_the_first_of_several_words_may_have_a_capital_and_be_no_name() -> None:
    words = vocabulary(["which settings need a restart"])
    assert words.correct("Retsart needed")[0] == "restart needed"
    assert words.correct("Whcih settings")[0] == "which settings"


def test_names_of_documents_stay_as_they_are() -> None:
    known = vocabulary(["a master", "a master"])
    assert known.correct("Xmaster or mastre", {"xmaster"})[0] == "Xmaster or master"


@pytest.mark.parametrize(
    ("written", "held"),
    [("graphql", "graph"), ("openssl", "opens"), ("zeromq", "zero"), ("bcrypt", "script"), ("opencv", "opener")],
)
def test_a_name_is_not_read_as_what_it_begins_with_or_as_what_is_two_letters_away(written: str, held: str) -> None:
    assert vocabulary([f"the {held}", "the other", *["more of this"] * 60]).correct(written) == (written, ())


def test_one_word_alone_needs_more_than_a_word_of_a_sentence_to_be_read_as_another() -> None:
    known = vocabulary(["the redir of this", *["the other one"] * 60])
    assert known.correct("redis")[0] == known.correct("redis?")[0].rstrip("?") == "redis"
    assert known.correct("use the redis")[0] == "use the redir"
    assert known.correct("reddir")[0] == "redir"


@pytest.mark.parametrize(
    ("held", "written"), [("KW-207", "KW207"), ("boil_power_max", "boilPowerMax"), ("boilPowerMax", "BOIL_POWER_MAX")]
)
def test_a_name_with_other_marks_between_its_words_is_that_name(held: str, written: str) -> None:
    assert vocabulary([f"Look at {held} first."]).correct(f"set {written}")[0] == f"set {held}"


@pytest.mark.parametrize("written", ["KW208", "v207", "boil-power-max"])
def test_another_number_is_another_name_and_a_hyphenated_word_is_searched_by_its_words(written: str) -> None:
    held = vocabulary(["Look at KW-207, at v2.07 and boil_power_max."])
    assert held.correct(f"set {written}") == (f"set {written}", ())


@pytest.mark.parametrize(
    ("held", "written"),
    [("Müsli", "Muesli"), ("Muesli", "Müsli"), ("Prüfgerät", "pruefgeraet"), ("Steuergerät", "Steuergeraet")],
)
def test_an_umlaut_is_the_same_spelt_out(held: str, written: str) -> None:
    assert vocabulary([f"Das {held} steht hier."]).correct(written)[0] == fold(held).lower()


def test_a_word_that_stands_only_within_a_name_is_known_there_and_not_corrected() -> None:
    words = vocabulary(["Set networkTimeoutSeconds.", "The timeouts of networkTimeoutSeconds."])
    within = vocabulary(["Set networkTimeoutSeconds.", "Hold networkTimeoutSeconds.", "Timeouts, timeous."])
    assert (words.names_with("Timeout"), words.names_with("time"), words.names_with("max")) == (2, 0, 0)
    assert within.correct("seconds")[1] == ()


@pytest.mark.parametrize("at", range(len(WRITTEN)))
def test_a_file_with_one_bit_changed_is_refused(at: int) -> None:
    for bit in range(8):
        changed = bytearray(WRITTEN)
        changed[at] ^= 1 << bit
        with pytest.raises(ValueError):  # noqa: PT011
            Vocabulary.load(bytes(changed))


@pytest.mark.parametrize(
    ("stems", "identifiers"),
    [
        (["key\tx\tkeys y"], []),
        (["key", "lock"], ["sync-wave"]),
        (["key\t-5", "lock\t3.5"], ["a-b\t1\t1"]),
        (["key\t" + "9" * 5_000], [""]),
        (["", "key\t\t\t"], ["\t"]),
        (["zebra\t1", "key\t1"], []),
    ],
)
def test_lines_that_were_made_to_mislead_do_no_harm(stems: list[str], identifiers: list[str]) -> None:
    words = Vocabulary.load(to_bytes(-5, -1, stems, identifiers))
    for asked in ("key", "kye", "locks", "zebra", "sync-wvae", "a-b", "networkTimeout"):
        assert words.frequency(asked) in {0, 1}
        assert isinstance(words.correct(f"how is {asked} used")[0], str)
        words.names_with(asked)


def test_a_search_for_a_line_in_text_without_an_end_has_one() -> None:
    assert SortedLines("key\t1\nlock\t").beginning_with("lock") == "\nlock\t"
