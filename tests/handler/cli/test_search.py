"""`bedivere search` at a terminal and in a script."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from handler.cli import app
from retrieval.notes import Advice, Nothing
from retrieval.retriever import Retriever
from retrieval.types import Correction, Hit, LeftOut, Narrowing, Rejected, Relevance, SearchReply, SearchRequest
from tests.embedding_server import EmbeddingServer
from tests.retrieval.asking import index


def run(*arguments: str, **environment: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["search", *arguments], env=environment)
    return result.exit_code, result.stdout, result.stderr


def test_passages_are_printed_with_breadcrumb_and_source(handbook: Path) -> None:
    code, out, _ = run("how often is the signing key rotated", "--db", str(handbook), "--limit", "1")
    assert code == 0
    assert out.splitlines()[0].startswith("1. Keys > Rotation")
    assert out.splitlines()[1].strip() == "keys.md"
    assert "ninety days" in out


def test_matched_words_are_coloured_on_a_terminal_only(handbook: Path) -> None:
    arguments = ("ledger backup", "--db", str(handbook), "--limit", "1")
    assert "\x1b[" not in run(*arguments)[1]
    assert "\x1b[1;33mledger\x1b[0m" in run(*arguments, FORCE_COLOR="1", TERM="xterm-256color")[1]


def test_the_database_may_come_from_the_environment(handbook: Path) -> None:
    assert run("backup", LANCEDB_PATH=str(handbook))[0] == 0


def test_json_is_the_reply_that_an_agent_gets(handbook: Path) -> None:
    _, out, _ = run("backup", "--db", str(handbook), "--json")
    reply = json.loads(out)
    assert reply["searchType"] == "text"
    assert reply["hits"][0]["path"] == "backup.md"


def test_a_prefix_keeps_other_paths_out(handbook: Path) -> None:
    _, out, _ = run("number of keys", "--db", str(handbook), "--path-prefix", "guides/", "--json")
    assert {hit["path"] for hit in json.loads(out)["hits"]} == {"guides/long.md"}


def test_nothing_found_is_no_failure(handbook: Path) -> None:
    code, out, err = run("zeppelin", "--db", str(handbook))
    assert (code, out, err) == (0, "Nothing in the table matches any word of the query.\n", "")


def test_without_hits_and_without_a_reason_it_still_says_so(handbook: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, [], notes=["Only words were searched."])
    assert run("paint", "--db", str(handbook))[1:] == ("No passage matches.\n", "note: Only words were searched.\n")


def test_an_empty_database_is_told_with_what_makes_a_table(tmp_path: Path) -> None:
    err = run("boat", "--db", str(tmp_path))[2]
    assert err == "TABLE_NOT_FOUND: There is no table 'documents'; the database has: none, bedivere index makes one.\n"


def test_without_a_database_both_ways_to_name_one_are_told() -> None:
    code, _, err = run("boat")
    assert code == 1
    assert "pass --db, or set LANCEDB_PATH" in err


def test_a_failure_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    code, out, err = run("backup", "--db", str(tmp_path / "none"))
    assert (code, out) == (1, "")
    assert err.startswith("DATABASE_NOT_FOUND: ")
    assert len(err.splitlines()) == 1


def test_a_failure_is_json_too_where_json_was_asked(tmp_path: Path) -> None:
    code, out, _ = run("backup", "--db", str(tmp_path / "none"), "--json")
    assert code == 1
    assert json.loads(out)["code"] == "DATABASE_NOT_FOUND"


def test_a_wrong_setting_is_a_usage_error(handbook: Path) -> None:
    code, _, err = run("backup", "--db", str(handbook), LANCEDB_DEFAULT_LIMIT="many")
    assert code == 2
    assert err.startswith("SETTING_INVALID: LANCEDB_DEFAULT_LIMIT ")


@pytest.mark.parametrize("limit", ["0", "201", "ten"])
def test_a_limit_out_of_range_is_a_usage_error(limit: str) -> None:
    assert run("backup", "--limit", limit)[0] == 2


def test_a_document_cannot_steer_the_terminal(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.txt").write_text("A \x1b[31mred boat\x1b]0;owned\x07 here.\n")
    CliRunner().invoke(app, ["index", str(docs), str(tmp_path / "db")])
    out = run("boat", "--db", str(tmp_path / "db"))[1]
    assert "red boat" in out
    assert "\x1b" not in out
    assert "\x07" not in out


def test_versions_and_statuses_are_told_apart(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("---\nstatus: draft\n---\nA boat.\n")
    index = ["index", str(docs), str(tmp_path / "db"), "--collection", "fleet", "--doc-version", "2.1"]
    CliRunner().invoke(app, index)
    assert "[fleet 2.1 draft]" in run("boat", "--db", str(tmp_path / "db"), "--include-outdated")[1]


def test_markup_in_a_document_is_printed_as_it_stands(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("# [bold]Boats[/bold]\n\nA [red]boat[/red] of array[0].\n")
    CliRunner().invoke(app, ["index", str(docs), str(tmp_path / "db")])
    out = run("boat", "--db", str(tmp_path / "db"))[1]
    assert "A [red]boat[/red] of array[0]." in out


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[SearchRequest]:
    """What the retriever was asked; it finds nothing."""
    requests: list[SearchRequest] = []

    async def search(_: Retriever, request: SearchRequest) -> SearchReply:
        requests.append(request)
        return SearchReply(search_type="text", table="documents", hits=[])

    monkeypatch.setattr(Retriever, "search", search)
    return requests


def answering(monkeypatch: pytest.MonkeyPatch, hits: list[Hit], **reply: Any) -> None:
    async def search(*_: object) -> SearchReply:
        return SearchReply(search_type="hybrid", table="documents", hits=hits, **reply)

    monkeypatch.setattr(Retriever, "search", search)


HIT = Hit(
    id="a.md#1",
    title="Boats",
    snippet="Paint the boat.",
    score=0.032,
    score_type="rrf",
    why="both",
    matched_words=["paint", "boat"],
    text_rank=2,
    text_score=3.456,
    vector_rank=1,
    vector_score=0.7123,
)


def test_every_option_reaches_the_search(handbook: Path, asked: list[SearchRequest]) -> None:
    options = (
        "--limit 3 --mode hybrid --path-prefix guides/ --exclude /old/ --exclude tmp --collection handbook "
        "--version 2.1 --include-outdated --collapse --min-score 0.25 --explain --table documents --filter status=final"
    )
    assert run("boat", "--db", str(handbook), *options.split())[0] == 0
    assert asked == [
        SearchRequest(
            "boat",
            3,
            "hybrid",
            "documents",
            narrowing=Narrowing(
                {"status": {"eq": "final"}}, "guides/", ("/old/", "tmp"), "handbook", "2.1", include_outdated=True
            ),
            collapse=True,
            min_score=0.25,
            explain=True,
        )
    ]


@pytest.mark.parametrize(
    ("written", "filters"),
    [
        (["status=final"], {"status": {"eq": "final"}}),
        (["status!=draft"], {"status": {"neq": "draft"}}),
        (["date>=2025-01-01", "date<=2025-12-31"], {"date": {"gte": "2025-01-01", "lte": "2025-12-31"}}),
        (["url=https://example.com/?a=b"], {"url": {"eq": "https://example.com/?a=b"}}),
        (["title= Two words "], {"title": {"eq": "Two words"}}),
    ],
)
def test_a_filter_is_a_field_a_comparison_and_a_value(
    handbook: Path, asked: list[SearchRequest], written: list[str], filters: dict[str, object]
) -> None:
    run("boat", "--db", str(handbook), *(word for one in written for word in ("--filter", one)))
    assert asked[0].narrowing.filters == filters


@pytest.mark.parametrize("written", [["status"], ["=final"], ["a>1"], ["a=1", "a=2"]])
def test_a_filter_that_is_none_is_a_usage_error(handbook: Path, written: list[str]) -> None:
    code, _, err = run("boat", "--db", str(handbook), *(word for one in written for word in ("--filter", one)))
    assert code == 2
    assert err.startswith("INVALID_ARGUMENT: --filter ")


def test_filters_are_applied(handbook: Path) -> None:
    _, out, _ = run("keys", "--db", str(handbook), "--filter", "priority>=2", "--min-score", "0", "--json")
    assert {hit["path"] for hit in json.loads(out)["hits"]} == {"keys.md"}


@pytest.mark.parametrize("option", [("--mode", "fuzzy"), ("--min-score", "1.5"), ("--min-score", "some")])
def test_a_value_that_is_none_of_an_options_is_a_usage_error(option: tuple[str, str]) -> None:
    assert run("boat", *option)[0] == 2


def test_an_explanation_says_why_and_how_well_each_arm_thought_of_the_passage(
    handbook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, [HIT], timings={"embed": 12.345, "total": 20.0})
    lines = run("paint", "--db", str(handbook), "--explain")[1].splitlines()
    assert lines[0] == "1. Boats  0.0320"
    assert lines[1].strip() == ("why: both · words: paint, boat · text #2 (3.46) · vector #1 (0.712) · rrf 0.0320")
    assert lines[-1] == "hybrid search: embed 12.3 ms, total 20.0 ms"


def test_an_explanation_says_what_moved_a_passage_how_sure_the_answer_is_and_what_was_left_out(
    handbook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(
        monkeypatch,
        [HIT.model_copy(update={"stub": True, "boost": 1.5})],
        relevance=Relevance(score=0.93, threshold=0.65),
        outdated_left_out=[LeftOut(id="old.md#2", path="old.md", place=1)],
    )
    lines = run("paint", "--db", str(handbook), "--explain")[1].splitlines()
    assert lines[1].endswith(" · a stub, placed by half of that · its path's boost places it by 1.5 times that")
    assert lines[-2:] == [
        "relevance: 0.93 of 1; 0.65 is needed",
        "left out as outdated: old.md#2, which would have been #1",
    ]


def test_without_an_explanation_none_is_given(handbook: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, [HIT])
    assert "why" not in run("paint", "--db", str(handbook))[1]


def test_a_word_that_was_read_as_another_is_told_and_marked(handbook: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, [HIT], corrections=[Correction(written="paitn", read="paint")])
    out = run("paitn", "--db", str(handbook), FORCE_COLOR="1", TERM="xterm-256color")[1]
    assert "Read paitn as paint." in out
    assert "\x1b[1;33mPaint\x1b[0m" in out


def test_a_refusal_names_the_nearest_passage_and_what_would_show_it(
    handbook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = f"{Nothing.RELEVANT}: no document holds 'pa\x1bint'. {Advice.ASK_AGAIN} 0.23 or less to see it."
    rejected = Rejected(score=0.23, threshold=0.5, id="a.md#1", title="Boats\x1b[2J")
    answering(monkeypatch, [], rejected=rejected, notes=["Only words were searched.", refusal])
    code, out, err = run("paint", "--db", str(handbook))
    assert code == 0
    assert out.splitlines() == [
        "Nothing relevant was found: no document holds 'paint'. "
        "Ask in other words, or pass --min-score 0.23 or less to see it.",
        "   The nearest is Boats[2J, with a relevance of 0.23; 0.50 is needed.",
    ]
    assert err == "note: Only words were searched.\n"


def test_a_note_names_the_options_of_the_command_line(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("---\nstatus: draft\n---\nA boat.\n")
    CliRunner().invoke(app, ["index", str(docs), str(tmp_path / "db")])
    out = "".join(run("boat", "--db", str(tmp_path / "db"))[1:])
    assert "pass --include-outdated to " in out
    assert "includeOutdated" not in out
    assert "includeOutdated" in run("boat", "--db", str(tmp_path / "db"), "--json")[1]


def test_vectors_that_no_question_uses_are_spoken_of_on_request_alone(
    tmp_path: Path, embedding_server: EmbeddingServer
) -> None:
    database = str(index(tmp_path, {"a.md": "A boat."}, embedding_server))
    assert "The table's vectors are not used" in run("boat", "--db", database, "--explain")[2]
    assert run("boat", "--db", database)[2] == ""
    assert "not used" not in run("boat", "--db", database, "--explain", "--mode", "text")[2]


def test_what_a_reader_must_know_of_a_passage_stands_above_it(handbook: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"outdated": "superseded, replaced by c.md", "stands_for": "old.md"}
    counted = {"matching_chunk_count": 3, "matched_headings": ["Hull", "Mast"]}
    answering(monkeypatch, [HIT.model_copy(update={**told, **counted})])
    lines = [line.strip() for line in run("paint", "--db", str(handbook))[1].splitlines()]
    assert lines[1:4] == [
        "outdated: superseded, replaced by c.md",
        "in place of old.md, which is outdated",
        "3 passages match: Hull; Mast",
    ]


def test_what_no_relevance_would_pass_is_called_nought(tmp_path: Path, embedding_server: EmbeddingServer) -> None:
    database = str(index(tmp_path, {"a.md": "A boat."}, embedding_server))
    out = run("zorblax quuxify", "--db", database, **embedding_server.environment())[1]
    assert "pass --min-score 0 to see the nearest passages" in out


def test_a_version_that_no_document_has_is_told_with_the_option_to_leave_out(handbook: Path) -> None:
    assert "leave --version out" in "".join(run("signing key", "--version", "9", "--db", str(handbook))[1:])
