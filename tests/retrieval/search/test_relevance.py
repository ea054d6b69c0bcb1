"""When nothing in a table answers."""

from __future__ import annotations

import pytest

from retrieval.indexing.vocabulary import VocabularyBuilder
from retrieval.search.fusion import Ranked
from retrieval.search.relevance import (
    AS_NEAR_AS_OWN,
    NEAR,
    NOISE,
    SIGNAL,
    SURELY_SEEN,
    THRESHOLDS,
    UNRELATED,
    WITHOUT_A_NAME,
    Verdict,
    judge,
    nearest,
)
from retrieval.search.seen import Seen
from retrieval.search.text import identifier_terms
from retrieval.search.vocabulary import Correction, Vocabulary
from retrieval.types import Ran, Row

CHUNKS = (
    "Rotate the signing key every ninety days.",
    "A backup of the ledger runs every night.",
    "Restore the ledger with ledger_restore from a snapshot.",
    "Import existing resources into the ledger.",
)
CALIBRATION = {NOISE: 0.2, SIGNAL: 0.8}


def words() -> Vocabulary:
    builder = VocabularyBuilder()
    for chunk in CHUNKS:
        builder.add(chunk, "ledger_restore" if "_" in chunk else "")
    return Vocabulary.load(builder.to_bytes())


def found(text: str = CHUNKS[0], cosine: float | None = None) -> Ranked:
    return Ranked(Row("a", text, 1.0, None, None, None, None, None, {}), 1.0, "text", text_rank=1, vector_score=cosine)


def answers(question: str, ran: Ran = "text", cosine: float | None = None) -> bool:
    return judge(question, [found(cosine=cosine)], words(), CALIBRATION, ran, None).answers


def test_a_question_whose_words_are_known_is_answered() -> None:
    verdict = judge("how do I rotate keys", [found()], words(), None, "text", None)
    assert (verdict.answers, verdict.score, verdict.reasons) == (True, 1.0, ())


def test_a_question_about_what_no_document_names_is_not_answered_and_is_told_why() -> None:
    verdict = judge("import with the Terraform provider", [found()], words(), None, "text", None)
    assert not verdict.answers
    assert verdict.score < verdict.threshold == THRESHOLDS["text"]
    assert verdict.reasons == ("no document holds 'Terraform', 'provider'",)


def test_one_strange_word_among_many_known_ones_is_no_reason_to_refuse() -> None:
    assert answers("restore the ledger snapshot from the nightly backup run with existing resources and a gizmo")


def test_the_less_a_table_knows_the_less_a_word_that_it_lacks_tells() -> None:
    def score(*more: str) -> float:
        builder = VocabularyBuilder()
        for chunk in (*CHUNKS, *more):
            builder.add(chunk, "")
        vocabulary = Vocabulary.load(builder.to_bytes())
        return judge("restore the gizmo", [found()], vocabulary, None, "text", None).score

    letters = "bcdfghjklm"
    many = " ".join(
        "".join((a, "o", b, "u", c, "a", d)) for a in letters for b in letters for c in letters for d in "xz"
    )
    assert score(many) > score(many, many.replace("x", "v").replace("z", "w"), many.replace("o", "e"))


@pytest.mark.parametrize("question", ["rotate keys in Salesforce", "rotate keys in KMS"])
def test_a_name_that_no_document_holds_counts_in_full_in_a_small_table(question: str) -> None:
    assert answers("rotate keys in gizmo")
    assert not answers(question)


def test_where_nouns_begin_with_capitals_none_is_taken_for_a_name() -> None:
    def score(question: str) -> float:
        return judge(question, [found()], words(), None, "text", None).score

    assert score("wie geht ein Schnappschuss vom Ledger") > score("how does a Schnappschuss of the Ledger work")


@pytest.mark.parametrize("question", ["ADR-0003", "rotate keys in ADR 0003", "howtocorrupt"])
def test_what_documents_are_called_by_is_held(question: str) -> None:
    called = {"adr-0003", "adr", "0003", "howtocorrupt"}
    assert not answers(question)
    verdict = judge(question, [found()], words(), None, "text", None, called=called)
    assert (verdict.score, verdict.note) == (1.0, None)


def test_an_answer_says_which_names_no_document_holds_and_not_which_words() -> None:
    verdict = judge("restore the ledger with ollama from a partition", [found()], words(), None, "text", 0.5)
    assert verdict.note == "No document holds 'ollama': these are the nearest on the rest of the question."


@pytest.mark.parametrize("word", ["restoration", "importer"])
def test_a_word_is_known_by_its_family(word: str) -> None:
    assert judge(f"{word} of the snapshot", [found()], words(), None, "text", None).score == 1.0


@pytest.mark.parametrize("number", ["2031", "10000"])
def test_a_number_need_be_in_no_document(number: str) -> None:
    assert judge(f"restore {number} snapshots", [found()], words(), None, "text", None).score == 1.0


def test_everyday_words_say_nothing_though_no_document_holds_them() -> None:
    assert answers("somebody happens to need a huge backup quickly")


def test_a_few_small_letters_may_be_a_slip_and_capitals_are_a_name() -> None:
    assert answers("rotate ky")
    assert not answers("rotate KMS")


def test_an_identifier_that_neither_rows_nor_vocabulary_hold_refuses_a_short_question() -> None:
    verdict = judge("LEDGER_TURBO_MODE", [found()], words(), None, "text", None)
    assert not verdict.answers
    assert verdict.score < 0.2
    assert verdict.reasons == ("no document holds 'LEDGER_TURBO_MODE'",)


@pytest.mark.parametrize("question", ["my_turbo_thing", "AR-4031", "how do I set MY_TURBO_THING"])
def test_a_question_that_is_nothing_but_an_unknown_name_is_refused(question: str) -> None:
    assert not answers(question)


@pytest.mark.parametrize(
    "question", ["why does my_turbo_thing restore no snapshot", "gizmo.turbo.example rotate the signing key"]
)
def test_a_readers_own_name_beside_what_is_known_is_answered_with_a_note(question: str) -> None:
    verdict = judge(question, [found()], words(), None, "text", None)
    assert verdict.answers
    assert verdict.note is not None
    assert "turbo" in verdict.note


@pytest.mark.parametrize(
    "name", ["ledger.backup.night", "resources-ledger.snapshot", "ledgerBackup", "backup/snapshot"]
)
def test_a_name_whose_words_are_known_is_answered_with_a_note(name: str) -> None:
    verdict = judge(name, [found()], words(), None, "text", None)
    assert (verdict.answers, verdict.note is not None) == (True, True)


def test_a_name_in_capitals_weighs_twice_and_its_number_tells_it_from_others() -> None:
    assert answers("snapshot ar-4031 of resources")
    assert not answers("snapshot AR-4031 of resources")


def test_an_answer_that_holds_all_that_is_named_has_no_note() -> None:
    assert judge("ledger_restore from a snapshot", [found()], words(), None, "text", None).note is None


def test_what_a_doubtful_correction_read_counts_in_part() -> None:
    def score(*corrections: Correction) -> float:
        return judge("rotate keys", [found()], words(), None, "text", None, corrections).score

    assert score() == score(Correction("kyes", "keys")) == 1.0
    assert score(Correction("kews", "keys", 0.6)) < 1.0


def test_a_score_is_in_hundredths_and_below_the_threshold_where_it_is_refused() -> None:
    verdict = judge("rotate gizmo keys", [found()], words(), None, "text", None)
    assert verdict.score == round(verdict.score, 2)
    assert verdict.answers == (verdict.score >= verdict.threshold)


def test_an_identifier_that_a_row_or_the_vocabulary_holds_is_an_answer() -> None:
    assert answers("ledger_restore")
    assert judge("--dry-run", [found("Pass --dry-run first.")], words(), None, "text", None).answers


@pytest.mark.parametrize("name", ["v9.8.7", "https://example.com/a", "me@example.com", "/srv/ledger", "deadbeef99"])
def test_what_a_reader_brings_along_need_be_in_no_document(name: str) -> None:
    assert answers(f"restore the backup of {name}")


def test_a_table_without_vocabulary_is_only_asked_for_identifiers() -> None:
    assert judge("terraform provider", [found()], None, None, "text", None).answers
    assert not judge("LEDGER_TURBO_MODE", [found()], None, None, "text", None).answers


def test_by_meaning_alone_and_without_vocabulary_an_identifier_is_no_reason_to_refuse() -> None:
    assert judge("LEDGER_TURBO_MODE", [found(cosine=0.5)], None, CALIBRATION, "vector", None).answers


@pytest.mark.parametrize("ran", ["hybrid", "vector"])
def test_a_near_passage_makes_up_for_a_strange_name_and_one_in_between_does_not(ran: Ran) -> None:
    question = "rotate the signing key with Terraform"
    assert answers(question, ran, cosine=0.75)
    assert not answers(question, ran, cosine=0.45)


@pytest.mark.parametrize("ran", ["hybrid", "vector"])
def test_a_far_passage_refuses_what_one_in_between_answers(ran: Ran) -> None:
    question = "rotate the signing key every ninety days with Terraform"
    assert answers(question, ran, cosine=0.45)
    assert not answers(question, ran, cosine=0.2)


def test_no_passage_is_so_far_that_known_words_are_no_answer() -> None:
    assert answers("rotate keys", "hybrid", cosine=-1.0)


@pytest.mark.parametrize("ran", ["hybrid", "vector"])
def test_words_that_no_passage_holds_together_are_no_answer_where_none_is_near(ran: Ran) -> None:
    scattered, question = [CHUNKS[0], CHUNKS[2]], "restore signing keys"
    below, above = (0.2 + 0.6 * nearness for nearness in (UNRELATED - 0.01, UNRELATED + 0.01))

    def verdict(chunks: list[str], cosine: float) -> Verdict:
        return judge(question, [found(one, cosine) for one in chunks], words(), CALIBRATION, ran, None)

    assert not verdict(scattered, below).answers
    assert "no passage is near in meaning" in verdict(scattered, below).reasons
    assert verdict(scattered, above).answers
    assert verdict([*scattered, "Restored: a key for signing."], below).answers


def test_how_near_a_passage_came_counts_for_nothing_without_a_calibration() -> None:
    near, far = (judge("rotate gizmo key", [found(cosine=c)], words(), None, "hybrid", None) for c in (0.9, 0.1))
    assert near == far


@pytest.mark.parametrize("calibration", [{}, {NOISE: 0.8, SIGNAL: 0.2}, {NOISE: "0.1", SIGNAL: None}])
def test_a_calibration_that_says_nothing_is_as_none(calibration: dict[str, object]) -> None:
    one, other = (judge("rotate key", [found(cosine=0.1)], words(), c, "hybrid", None) for c in (calibration, None))
    assert one == other


def test_the_callers_least_score_stands_in_for_the_threshold() -> None:
    question = "terraform provider"
    assert judge(question, [found()], words(), None, "text", 0.0).answers
    assert not judge("rotate gizmo keys", [found()], words(), None, "text", 0.99).answers


def test_without_rows_there_is_no_answer() -> None:
    assert judge("rotate keys", [], words(), None, "text", 0.0) == judge("rotate keys", [], None, None, "text", 0.0)
    assert not judge("rotate keys", [], words(), None, "text", 0.0).answers


@pytest.mark.parametrize("cosine", [-1.0, 0.0, 1.0])
def test_a_score_is_from_nought_to_one(cosine: float) -> None:
    for question in ("rotate keys", "zzzyx qqqw"):
        assert 0 <= judge(question, [found(cosine=cosine)], words(), CALIBRATION, "hybrid", None).score <= 1


@pytest.mark.parametrize("ran", ["vector", "hybrid"])
def test_a_passage_that_is_near_in_meaning_answers_in_words_of_its_own(ran: Ran) -> None:
    near, far = (0.2 + 0.6 * nearness for nearness in (AS_NEAR_AS_OWN + 0.01, AS_NEAR_AS_OWN - 0.1))
    assert answers("kitten naps", ran, near)
    assert not answers("kitten naps", ran, far)
    assert not answers("KITTEN_NAPS_MAX", ran, near)


def test_a_verdict_speaks_of_the_nearest_row_or_of_the_best_where_words_alone_judge() -> None:
    far, near = found(cosine=0.2), found(cosine=0.6)
    assert nearest([found(), far, near]) == near
    assert nearest([first := found(CHUNKS[1]), found()]) == first
    assert nearest([]) is None


NEITHER_NEAR_NOR_FAR = 0.45


@pytest.mark.parametrize("question", ["who is he", "what to eat", "¿qué?", "should it be so", "2031", "somebody"])
@pytest.mark.parametrize("ran", ["text", "hybrid", "vector"])
def test_a_question_that_names_nothing_is_refused(question: str, ran: Ran) -> None:
    verdict = judge(question, [found(cosine=NEITHER_NEAR_NOR_FAR)], words(), CALIBRATION, ran, None)
    assert (verdict.answers, verdict.score) == (False, 0.0)
    assert verdict.reasons == ("the query names nothing in particular",)


@pytest.mark.parametrize("ran", ["hybrid", "vector"])
def test_a_question_that_names_nothing_is_answered_by_what_is_near(ran: Ran) -> None:
    assert answers("what to eat", ran, cosine=0.2 + 0.6 * (NEAR + 0.01))
    assert not answers("what to eat", ran, cosine=0.2 + 0.6 * (NEAR - 0.01))
    assert not judge("what to eat", [found(cosine=0.9)], words(), None, ran, None).answers


@pytest.mark.parametrize("question", ["to be or not to be", "be", '"not to be"', "to be", "/ledger/night"])
def test_common_words_and_the_readers_paths_are_answered_where_they_stand(question: str) -> None:
    assert judge(question, [found("To be or not to be.")], words(), None, "text", None).answers


@pytest.mark.parametrize("ran", ["text", "hybrid", "vector"])
@pytest.mark.parametrize("question", ["北京烤鸭怎么做", "서울 맛집 추천", "ทำอาหารไทย", "猫", "как приготовить борщ"])
def test_a_question_in_a_script_that_no_row_holds_is_refused(question: str, ran: Ran) -> None:
    verdict = judge(question, [found(cosine=NEITHER_NEAR_NOR_FAR)], words(), CALIBRATION, ran, None)
    assert (verdict.answers, verdict.score) == (False, 0.0)
    assert verdict.reasons[0].startswith("no document holds ")


@pytest.mark.parametrize("ran", ["text", "hybrid", "vector"])
def test_a_question_in_an_unspaced_script_is_answered_where_rows_hold_it(ran: Ran) -> None:
    row = found("数据库的备份每天晚上运行。恢复备份需要快照。", cosine=NEITHER_NEAR_NOR_FAR)
    assert judge("怎样恢复数据库备份", [row], words(), CALIBRATION, ran, None).answers


@pytest.mark.parametrize("ran", ["text", "hybrid"])
def test_rows_of_the_same_script_are_no_answer_to_all_that_is_asked_in_it(ran: Ran) -> None:
    row = found("数据库的备份怎么恢复。", cosine=NEITHER_NEAR_NOR_FAR)
    assert not judge("北京烤鸭怎么做", [row], words(), CALIBRATION, ran, None).answers


def test_an_answer_without_a_name_of_the_question_is_not_wholly_relevant() -> None:
    verdict = judge("ledger_gizmo_get of the ledger snapshot", [found()], words(), None, "text", None)
    assert (verdict.score, verdict.note is not None) == (WITHOUT_A_NAME, True)


@pytest.mark.parametrize("ran", ["hybrid", "vector"])
def test_what_lies_near_a_constant_that_nothing_holds_is_no_answer(ran: Ran) -> None:
    assert not answers("LEDGER_BACKUP_MAX_FOO", ran, cosine=0.8)


@pytest.mark.parametrize("ran", ["text", "hybrid"])
def test_an_answer_says_which_quotation_no_row_holds(ran: Ran) -> None:
    verdict = judge('restore the ledger with "snapshot every key"', [found()], words(), None, ran, None)
    assert verdict.score == WITHOUT_A_NAME
    assert verdict.note == "No document holds 'snapshot every key': these are the nearest on the rest of the question."


def test_a_quotation_that_a_row_holds_in_another_form_is_not_missing() -> None:
    verdict = judge('"signing keys every" ninety', [found()], words(), None, "text", None)
    assert (verdict.score, verdict.note) == (1.0, None)


def test_by_meaning_alone_rows_need_not_hold_what_is_quoted() -> None:
    assert judge('"restore the ledger"', [found()], words(), None, "vector", None).note is None


class TestWithinAPart:
    """Where only a part of the table was searched."""

    @staticmethod
    def judged(question: str, *texts: str, whole: bool = True) -> Verdict:
        ranked = [found(text) for text in texts]
        within = Seen([one.row for one in ranked], whole=whole)
        return judge(question, ranked, words(), None, "text", None, within=within)

    @pytest.mark.parametrize("question", ["restore the ledger snapshot", "ledger_restore"])
    def test_what_only_the_rest_of_the_table_holds_is_missing(self, question: str) -> None:
        verdict = self.judged(question, CHUNKS[0])
        assert not verdict.answers
        assert verdict.reasons[0].startswith("no document that was searched holds ")

    @pytest.mark.parametrize("question", ["rotating signing keys", "key rotation"])
    def test_what_it_holds_in_any_form_is_known(self, question: str) -> None:
        assert self.judged(question, CHUNKS[0]).score == 1.0

    def test_what_the_table_lacks_is_told_as_ever(self) -> None:
        assert self.judged("rotate KMS", CHUNKS[0]).reasons == ("no document holds 'KMS'",)

    def test_a_common_word_that_was_not_among_the_rows_of_a_full_search_may_be_in_others(self) -> None:
        builder = VocabularyBuilder()
        for number in range(SURELY_SEEN + 1):
            builder.add(f"The ledger of number{number}", "")
        vocabulary = Vocabulary.load(builder.to_bytes())
        ranked = [found(CHUNKS[0])]

        def score(question: str, *, whole: bool) -> float:
            within = Seen([one.row for one in ranked], whole=whole)
            return judge(question, ranked, vocabulary, None, "text", None, within=within).score

        assert score("ledger", whole=False) == 1.0
        assert score("ledger", whole=True) == score("number7", whole=False) == 0.0

    def test_what_the_rest_of_the_table_holds_is_less_missing_than_what_is_nowhere(self) -> None:
        elsewhere, nowhere = (self.judged(f"rotate the {one}", CHUNKS[0]) for one in ("snapshot", "gizmo"))
        assert nowhere.score < elsewhere.score < 1.0


@pytest.mark.parametrize("question", ["how to rotate my car", "import a cat", "rotate the dog"])
def test_a_short_noun_that_no_document_holds_counts_as_missing(question: str) -> None:
    short = judge(question, [found()], words(), None, "text", None)
    assert short.score < 1
    assert short.reasons == (f"no document holds {question.split()[-1]!r}",)
    assert short.note is None


@pytest.mark.parametrize("question", ["rotate teh keys", "rotate keys wth import"])
def test_a_slip_of_a_common_word_does_not(question: str) -> None:
    assert judge(question, [found()], words(), None, "text", None).score == 1.0


@pytest.mark.parametrize("question", ["wie geht das für Empfänger ohne ledger"])
def test_short_words_of_another_language_do_not(question: str) -> None:
    reasons = judge(question, [found()], words(), None, "text", None).reasons
    assert reasons == ("no document holds 'geht', 'Empfänger', 'ohne'",)


def test_a_word_that_stands_only_within_a_name_is_held() -> None:
    builder = VocabularyBuilder()
    builder.add("Set networkTimeoutSeconds.", identifier_terms("networkTimeoutSeconds"))
    vocabulary = Vocabulary.load(builder.to_bytes())
    row = found("Set networkTimeoutSeconds.")
    for within in (None, Seen([row.row], whole=True)):
        verdict = judge("network timeout", [row], vocabulary, None, "text", None, within=within)
        assert (verdict.score, verdict.reasons) == (1.0, ())
    elsewhere = Seen([found("Set nothing.").row], whole=True)
    assert not judge("network timeout", [row], vocabulary, None, "text", None, within=elsewhere).answers
