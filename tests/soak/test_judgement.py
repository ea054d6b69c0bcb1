"""What the soak calls wrong: an answer of another release, of two at once, or of half a one."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from tests import planted
from tests.soak.calls import Call, calls
from tests.soak.editions import SUBJECTS, Edition, Mark, marks, path_of
from tests.soak.load import STALE, Answer, judged

OLD, NEW = Edition(1), Edition(2)
RELEASES = {"old": OLD, "new": NEW}


def called(kind: str) -> tuple[Call, int]:
    """A call of a kind, and the page that it asks for."""
    random = Random(7)
    while True:
        call = calls(random)
        if (call.kind or call.tool) == kind:
            asked = str(call.arguments)
            page = next((at for at, subject in enumerate(SUBJECTS) if subject in asked or path_of(at) in asked), 0)
            return call, page


def text_of(marked: list[Mark]) -> str:
    return " ".join(f"It is at e{mark.edition}p{mark.page}s{mark.section}." for mark in marked)


def hits(marked: list[Mark]) -> dict[str, Any]:
    found = [{"path": path_of(mark.page), "snippet": text_of([mark])} for mark in marked]
    return {"hits": found, "searchType": "text", "degraded": True}


def wrong(call: Call, reply: Mapping[str, Any], release: str = "old") -> list[str]:
    answer = Answer("request-1", "kind", 1.0, 200, None, call.check(reply))
    line = {"message": "call", "correlation_id": "request-1", "release": release}
    return judged([answer], [line], RELEASES)[0]


def test_marks_are_read_in_their_order_each_once() -> None:
    assert marks("e1p2s0 e1p2s1. e1p2s0 (e12p3s4) xe1p1s1") == [Mark(1, 2, 0), Mark(1, 2, 1), Mark(12, 3, 4)]


@pytest.mark.parametrize("kind", ["search, text", "search, hybrid"])
def test_a_search_is_right_under_its_own_release_and_wrong_under_another(kind: str) -> None:
    call, page = called(kind)
    reply = hits(OLD.page(page))

    assert wrong(call, reply) == []
    assert wrong(call, reply, "new")
    assert wrong(call, hits([*OLD.page(page), NEW.page(page)[0]]))
    assert wrong(call, hits([]))


def test_a_search_by_words_that_misses_a_section_is_wrong() -> None:
    call, page = called("search, text")
    assert wrong(call, hits(OLD.page(page)[1:]))


def test_a_page_that_was_read_across_two_releases_is_wrong() -> None:
    call, page = called("lancedb_fetch")
    first = {"text": text_of(OLD.page(page)[:1]), "cursor": "next"}
    following = call.then(first)
    assert following is not None

    assert wrong(call, first) == []
    assert wrong(following, {"text": text_of(OLD.page(page)[1:])}) == []
    assert wrong(following, {"text": text_of(NEW.page(page)[1:])}, "new")
    assert wrong(following, {"text": text_of(OLD.page(page)[1:-1])})


def test_a_catalog_of_another_length_is_wrong() -> None:
    call, _ = called("lancedb_catalog")
    documents = [{"path": path} for path in OLD.paths]
    reply = {"documents": documents, "total": OLD.pages}

    assert wrong(call, reply) == []
    assert wrong(call, {**reply, "documents": documents[:-1]})
    assert wrong(call, reply, "new")


def test_a_status_that_names_another_release_or_other_rows_is_wrong() -> None:
    call, _ = called("lancedb_status")
    reply = {"release": {"id": "old"}, "tables": [{"rows": OLD.pages * OLD.sections}]}

    assert wrong(call, reply) == []
    assert wrong(call, reply, "new")
    assert wrong(call, {**reply, "tables": [{"rows": 1}]})


def test_a_context_with_a_mark_of_another_release_is_wrong() -> None:
    call, page = called("lancedb_query")
    sources = [{"path": path_of(page)}]

    assert wrong(call, {"context": text_of(OLD.page(page)), "sources": sources}) == []
    assert wrong(call, {"context": text_of([*OLD.page(page), NEW.page(page)[0]]), "sources": sources})
    assert wrong(call, {"context": text_of(OLD.page(page)), "sources": []})


def test_hits_for_words_that_no_document_holds_are_wrong() -> None:
    call, _ = called("search, nothing")
    assert wrong(call, {"hits": []}) == []
    assert wrong(call, hits(OLD.page(0)))


def test_an_error_is_wrong_unless_a_cursor_is_stale() -> None:
    def problems(status: int, code: str | None) -> list[str]:
        line = {"message": "call", "correlation_id": "request-1", "release": "old"}
        return judged([Answer("request-1", "kind", 1.0, status, code, None)], [line], RELEASES)[0]

    assert problems(200, STALE) == []
    assert problems(200, "INTERNAL_ERROR")
    assert problems(502, "HTTP 502")


def test_an_answer_that_no_line_of_the_log_tells_of_or_that_holds_a_secret_is_wrong() -> None:
    answer = Answer("request-1", "kind", 1.0, 200, STALE, None, spilt=("the key",))
    assert len(judged([answer], [], RELEASES)[0]) == 2


def test_a_planted_secret_and_a_question_are_found_in_what_was_written_and_secrets_are_not_quoted() -> None:
    log = f'{{"error": "key {planted.EMBEDDING_KEY}", "query": "how \\"far\\" is it"}}'

    found = planted.spilt(log, ['how "far" is it', "where is it?", "far"])
    assert found == ["the key of the embedding provider", "the question 'how \"far\" is it'"]
    assert planted.EMBEDDING_KEY not in str(found)


def test_what_is_asked_is_every_text_of_the_arguments_that_a_caller_words() -> None:
    body = b'{"params": {"arguments": {"query": "one", "filters": {"a": {"in": ["two"]}}, "table": "documents"}}}'
    assert list(planted.asked(body)) == ["one", "two"]
    assert list(planted.asked(b"[1]")) == []
