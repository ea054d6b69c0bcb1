"""What rows hold of a question."""

from __future__ import annotations

import pytest

from retrieval.search.seen import Seen
from retrieval.types import Row


def rows(text: str, title: str | None = None, path: str | None = None) -> Seen:
    return Seen([Row("a", text, 1.0, path, None, title, None, None, {})])


@pytest.mark.parametrize("word", ["keys", "key", "rotated", "rotation", "Résumé", "resume"])
def test_a_word_is_held_in_any_form(word: str) -> None:
    assert rows("Rotate each key; then a résumé.").word(word)


@pytest.mark.parametrize("word", ["otate", "ledger"])
def test_a_word_is_not_held_where_only_its_end_stands_or_nothing(word: str) -> None:
    assert not rows("Rotate each key.").word(word)


def test_a_word_that_is_asked_for_exactly_is_held_by_what_begins_with_it() -> None:
    assert rows("verify it").word("verif", exactly=True)
    assert not rows("very well").word("verif", exactly=True)


def test_titles_and_paths_count() -> None:
    seen = rows("Text.", title="Rotating keys", path="guides/ledger.md")
    assert seen.word("rotate")
    assert seen.name("Guides/Ledger.md")


def test_a_phrase_is_held_in_any_form_and_whatever_stands_between_its_words() -> None:
    seen = rows("The write-ahead\nlogs are kept.")
    assert seen.phrase("Write ahead log")
    assert not seen.phrase("ahead write log")
    assert not seen.phrase("log write")


def test_a_phrase_that_is_asked_for_exactly_is_made_of_whole_words() -> None:
    seen = rows("A query of rows.")
    assert seen.phrase("query of", exactly=True)
    assert not seen.phrase("que", exactly=True)


@pytest.mark.parametrize("phrase", ["", "?!"])
def test_nothing_is_no_phrase(phrase: str) -> None:
    assert not rows("What?!").phrase(phrase)


def test_a_run_of_an_unspaced_script_is_held_by_its_pairs_of_letters() -> None:
    seen = rows("数据库的备份每天晚上运行。恢复备份需要快照。")
    assert seen.share_of_run("恢复数据库备份") == 1.0
    assert 0 < seen.share_of_run("怎么恢复这些") < 1
    assert seen.share_of_run("北京烤鸭怎么做") == 0.0
    assert (seen.share_of_run("晚"), seen.share_of_run("猫")) == (1.0, 0.0)


def test_half_of_the_pairs_are_enough_as_the_others_lie_across_words() -> None:
    assert rows("サーバとログ").share_of_run("サーバのログ") == 1.0


def test_an_unspaced_letter_is_seen() -> None:
    assert rows("Redisのログ").any_unspaced()
    assert not rows("Redis, журнал").any_unspaced()
