"""What is measured of a table's vectors when it is built."""

from __future__ import annotations

from retrieval.indexing.calibration import (
    FOREIGN_QUESTIONS,
    OWN_QUESTIONS,
    calibration,
    calibration_line,
    own_questions,
    stored,
)
from retrieval.indexing.job import Calibrated
from retrieval.indexing.vocabulary import VocabularyBuilder
from retrieval.search.relevance import NOISE, SIGNAL, THRESHOLDS


def test_a_table_is_asked_for_its_titles_and_innermost_headings() -> None:
    assert own_questions([("Keys", "Rotation > By hand", "text")]) == ["Keys By hand"]


def test_a_text_without_title_and_heading_is_asked_for_by_its_first_words() -> None:
    assert own_questions([("1032", None, "the wing in a slipstream " * 9)]) == [
        " ".join(("the wing in a slipstream " * 9).split()[:24])
    ]


def test_the_same_chunks_give_the_same_questions_in_any_order_and_not_too_many() -> None:
    chunks = [("Guide", f"Section {chr(97 + n % 26) * (3 + n // 26)}", "text") for n in range(90)]
    asked = own_questions(chunks)
    assert len(asked) == OWN_QUESTIONS == len(set(asked))
    assert own_questions(reversed(chunks)) == asked


def test_foreign_questions_are_questions_of_their_own() -> None:
    assert len(set(FOREIGN_QUESTIONS)) == len(FOREIGN_QUESTIONS)


def test_noise_and_signal_are_medians() -> None:
    record = calibration([0.1, 0.2, 0.9], [0.7, 0.8, 0.9, 0.1, 0.8])
    assert record is not None
    assert (record[NOISE], record[SIGNAL]) == (0.2, 0.8)


def test_vectors_that_tell_nothing_apart_are_not_calibrated() -> None:
    assert calibration([0.5], [0.5] * 9) is None
    assert calibration([0.5], [0.4] * 9) is None
    assert calibration([], [0.4] * 9) is None
    assert calibration([0.1], [0.9]) is None


def test_what_a_search_will_read_is_told_of_the_files_themselves() -> None:
    words = VocabularyBuilder()
    words.add("rotate the rotating keys", "")
    by_words = stored(words.to_bytes(), None, embedded=False)
    by_both = stored(words.to_bytes(), calibration([0.2], [0.8] * 4), embedded=True)
    assert by_words == Calibrated(3, THRESHOLDS["text"])
    assert by_both == Calibrated(3, THRESHOLDS["hybrid"], 0.2, 0.8)


def test_the_line_tells_what_was_measured() -> None:
    assert calibration_line(Calibrated(1234, 0.66), embedded=False) == ("1,234 words known, threshold 0.66")
    assert calibration_line(Calibrated(1, 0.65, 0.2, 0.8), embedded=True) == (
        "1 word known, threshold 0.65; nearest passage 0.20 for foreign questions, 0.80 for its own headings"
    )


def test_the_line_says_where_nearness_could_not_be_measured() -> None:
    assert "nearness could not be measured" in calibration_line(Calibrated(9, 0.65), embedded=True)
