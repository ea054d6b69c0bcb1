"""`bedivere search` at a terminal and in a script."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from handler.cli import app


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
    assert "\x1b[1;33mbackup\x1b[0m" in run(*arguments, FORCE_COLOR="1", TERM="xterm-256color")[1]


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
    assert (code, out) == (0, "No passage matches.\n")
    assert "Nothing in the table matches" in err


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
    assert "[fleet 2.1 draft]" in run("boat", "--db", str(tmp_path / "db"))[1]


def test_markup_in_a_document_is_printed_as_it_stands(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("# [bold]Boats[/bold]\n\nA [red]boat[/red] of array[0].\n")
    CliRunner().invoke(app, ["index", str(docs), str(tmp_path / "db")])
    out = run("boat", "--db", str(tmp_path / "db"))[1]
    assert "A [red]boat[/red] of array[0]." in out
