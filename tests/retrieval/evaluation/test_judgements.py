"""Judged queries in the layouts in which they come."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from retrieval.errors import BedivereError, ErrorCode
from retrieval.evaluation import judgements
from retrieval.evaluation.judgements import Query, Section


def lines(folder: Path, *records: dict[str, Any] | str) -> Path:
    file = folder / "queries.jsonl"
    texts = [record if isinstance(record, str) else json.dumps(record) for record in records]
    file.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return file


def refusal(queries: Path, qrels: Path | None = None) -> str:
    with pytest.raises(BedivereError) as refused:
        judgements.read(queries, qrels)
    assert refused.value.code is ErrorCode.JUDGEMENTS_INVALID
    assert str(queries.parent) not in refused.value.sentence
    return refused.value.sentence


def test_a_line_names_documents_and_sections(tmp_path: Path) -> None:
    relevant = [{"path": "a.md", "heading": "One"}, {"path": "a.md", "heading": "Two"}, {"path": "b.md"}]
    file = lines(tmp_path, {"id": "q1", "kind": "keyword", "text": "one", "relevant": relevant, "answerable": True})

    (query,) = judgements.read(file).queries
    assert query == Query(
        id="q1",
        text="one",
        kind="keyword",
        relevant={"a.md": 1, "b.md": 1},
        sections=(Section("a.md", "One"), Section("a.md", "Two")),
    )


def test_a_query_may_have_no_answer(tmp_path: Path) -> None:
    file = lines(tmp_path, {"id": "q1", "text": "one", "relevant": [], "answerable": False})

    (query,) = judgements.read(file).queries
    assert (query.answerable, query.kind) == (False, judgements.UNANSWERABLE)


def test_documents_may_be_current_and_outdated(tmp_path: Path) -> None:
    file = lines(tmp_path, {"id": 1, "text": "one", "current": ["new.md"], "outdated": ["old.md"]})

    (query,) = judgements.read(file).queries
    assert query == Query("1", "one", judgements.LIFECYCLE, relevant={"new.md": 1}, outdated=("old.md",))


def test_labels_may_be_graded(tmp_path: Path) -> None:
    file = lines(tmp_path, {"id": "q", "text": "one", "relevant": [{"path": "a", "relevance": 3}, {"path": "a"}]})

    assert judgements.read(file).queries[0].relevant == {"a": 3}


def test_judgements_are_read_from_the_file_beside(tmp_path: Path) -> None:
    file = lines(tmp_path, {"id": "1", "text": "one"}, {"id": "2", "text": "two"}, {"id": "3", "text": "three"})
    (tmp_path / "qrels.tsv").write_text("query_id\tdoc_id\trelevance\n1\ta\t2\n1\tb\t0\n2\ta\t0\n")

    read = judgements.read(file)
    assert [(query.id, query.relevant) for query in read.queries] == [("1", {"a": 2})]
    assert read.left_out == 2


def test_topics_take_their_judgements_from_the_file_that_is_named(tmp_path: Path) -> None:
    topics, qrels = tmp_path / "topics.txt", tmp_path / "qrels.txt"
    topics.write_text("<top><num> Number: 5 <title> turtles </top>")
    qrels.write_text("5 0 doc-1 1\n")

    assert judgements.read(topics, qrels).queries == (Query("5", "turtles", relevant={"doc-1": 1}),)


def test_queries_without_judgements_are_refused_with_the_option_to_use(tmp_path: Path) -> None:
    assert "--qrels" in refusal(lines(tmp_path, {"id": "1", "text": "one"}))


NO_QUERIES: list[tuple[dict[str, Any] | str, str]] = [
    ("{", "Line 1 of the queries is not JSON."),
    ("[1]", "Line 1 of the queries is not an object."),
    ({"id": "1"}, "Line 1 of the queries has no 'text'."),
    ({"id": [], "text": "a"}, "is wrong: 'id' must be a text or a whole number."),
    ({"id": "1", "text": 5}, "is wrong: 'text' must be a text."),
    ({"id": "1", "text": "a", "kind": 5}, "is wrong: 'kind' must be a text."),
    ({"id": "1", "text": "a", "answerable": "no"}, "is wrong: 'answerable' must be true or false."),
    ({"id": "1", "text": "a", "current": "a.md"}, "is wrong: 'current' must be a list of paths."),
    ({"id": "1", "text": "a", "outdated": [5]}, "is wrong: 'outdated' must be a list of paths."),
    ({"id": "1", "text": "a", "relevant": "a.md"}, "is wrong: 'relevant' must be a list of objects."),
    ({"id": "1", "text": "a", "relevant": ["a.md"]}, "is wrong: 'relevant' must be a list of objects."),
    ({"id": "1", "text": "a", "relevant": [{}]}, "is wrong: of 'relevant', entry 1 has no 'path'."),
    (
        {"id": "1", "text": "a", "relevant": [{"path": "a"}, {"path": "a", "relevance": "2"}]},
        "is wrong: of 'relevant', entry 2, 'relevance' must be a whole number.",
    ),
    ({"id": "1", "text": " ", "relevant": [{"path": "a"}]}, "Query 1 has no text."),
    ({"id": "1", "text": "a", "relevant": [], "answerable": True}, "no document that answers it is named"),
    ({"id": "1", "text": "a", "relevant": [{"path": "a"}], "answerable": False}, "it is not answerable"),
    ({"id": "1", "text": "a", "relevant": [{"path": "a", "relevance": 0}]}, "less than 1"),
]


@pytest.mark.parametrize(("record", "reason"), NO_QUERIES)
def test_what_is_no_judged_query_is_refused_with_the_place(
    tmp_path: Path, record: dict[str, Any] | str, reason: str
) -> None:
    assert reason in refusal(lines(tmp_path, record))


def test_two_queries_of_one_id_are_refused(tmp_path: Path) -> None:
    twin = {"id": "1", "text": "a", "relevant": [{"path": "a"}]}

    assert refusal(lines(tmp_path, twin, twin)) == "Two queries have the id 1."


def test_judgements_of_a_query_that_is_not_there_are_refused(tmp_path: Path) -> None:
    file = lines(tmp_path, {"id": "1", "text": "one"})
    (tmp_path / "qrels.tsv").write_text("9\ta\t1\n")

    assert refusal(file) == "qrels.tsv judges 1 query that is not there: 9."


@pytest.mark.parametrize(("content", "reason"), [(b"\xff\xfe\n", "is not UTF-8"), (None, "cannot be read")])
def test_a_file_that_cannot_be_read_is_named_without_its_folder(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    if content is not None:
        (tmp_path / "queries.jsonl").write_bytes(content)

    assert reason in refusal(tmp_path / "queries.jsonl")


def test_broken_qrels_are_refused_with_the_line(tmp_path: Path) -> None:
    file = lines(tmp_path, {"id": "1", "text": "one"})
    (tmp_path / "qrels.tsv").write_text("1\n")

    assert refusal(file).startswith("qrels.tsv cannot be read: line 1 ")


def test_a_file_of_no_query_is_refused(tmp_path: Path) -> None:
    assert refusal(lines(tmp_path, "")) == "queries.jsonl holds no judged query."


@pytest.mark.parametrize(
    "change", [{"text": "other"}, {"kind": "typo"}, {"relevant": [{"path": "b"}]}, {"relevant": [{"path": "a"}] * 1}]
)
def test_the_fingerprint_changes_with_what_is_judged_and_with_nothing_else(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    record = {"id": "1", "text": "one", "kind": "keyword", "relevant": [{"path": "a"}]}
    before = judgements.read(lines(tmp_path, record)).fingerprint()

    after = judgements.read(lines(tmp_path, {**record, **change}, "")).fingerprint()
    assert (after == before) == (change["relevant"] == record["relevant"] if "relevant" in change else False)
