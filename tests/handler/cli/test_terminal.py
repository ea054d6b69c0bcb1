"""How the command line tells of failures that no command foresees."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import handler.cli
from handler.cli import app
from handler.cli.terminal import DB_HELP

USAGE = [
    (["search"], "Missing argument 'QUESTION'. See bedivere search --help."),
    (["serch", "boat"], "Did you mean 'search', 'serve'? See bedivere --help."),
    (["search", "boat", "--limt", "3"], "--limit"),
    (["search", "boat", "--limit", "many"], ": --limit must be a whole number from 1 to 200. See"),
    (["search", "boat", "--limit", "0"], ": --limit must be a whole number from 1 to 200. See"),
    (["search", "boat", "--mode", "fast"], ": --search-type must be one of auto, text, vector, hybrid. See"),
    (["search", "boat", "--min-score", "2"], ": --min-score must be a number from 0 to 1. See"),
    (["serve", "70000"], ": PORT must be a whole number from 0 to 65535. See"),
    (["prune", "file:///store", "--keep", "0"], ": --keep must be a whole number of at least 1. See"),
    (["prune", "file:///store"], "'--keep'"),
    (["serve", "--http", "--stdio"], ": Choose one of --stdio and --http"),
    (["smoke", "docs.example.com"], ": URL must start with http:// or https:// and"),
]


@pytest.mark.parametrize(("arguments", "words"), USAGE)
def test_wrong_usage_is_one_line_with_a_code_and_the_way_to_the_help(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(app, arguments, prog_name="bedivere")
    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("INVALID_ARGUMENT: ")
    assert words in line
    assert line.endswith("--help.")


def test_wrong_usage_is_json_where_json_was_asked() -> None:
    result = CliRunner().invoke(app, ["search", "boat", "--limit", "201", "--json"])
    assert (result.exit_code, result.stderr) == (2, "")
    assert json.loads(result.stdout)["code"] == "INVALID_ARGUMENT"


def test_without_a_command_the_help_is_shown() -> None:
    result = CliRunner().invoke(app, [])
    assert "Usage:" in result.output
    assert "INVALID_ARGUMENT" not in result.output


def test_a_paragraph_of_the_help_flows_and_the_arguments_stand_in_capitals() -> None:
    result = CliRunner().invoke(app, ["index", "--help"], prog_name="bedivere", env={"COLUMNS": "100"})
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert "Usage: bedivere index [OPTIONS] SOURCE DATABASE" in lines
    assert any(line.startswith("Reads Markdown") and "Files that have" in line for line in lines)


def test_each_database_option_is_described_alike() -> None:
    group: Any = typer.main.get_command(app)
    described = {
        name: parameter.help
        for name, command in group.commands.items()
        for parameter in command.params
        if "--db" in parameter.opts
    }
    assert set(described) == {"init", "search", "eval", "serve", "status"}
    assert {text for name, text in described.items() if name != "init"} == {DB_HELP}


@pytest.mark.parametrize("pressed", [KeyboardInterrupt, EOFError, typer.Abort])
def test_leaving_a_question_ends_quietly(monkeypatch: pytest.MonkeyPatch, pressed: type[BaseException]) -> None:
    def leave(_: str) -> None:
        raise pressed

    monkeypatch.setattr(sys.modules["handler.cli.releases"], "open_store", leave)
    result = CliRunner().invoke(app, ["releases", "file:///store"])
    assert (result.exit_code, result.output.strip()) == (130, "")


def test_a_fault_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fault() -> None:
        raise RuntimeError("the boat leaks")

    monkeypatch.setattr(handler.cli, "app", fault)
    with pytest.raises(SystemExit) as ended:
        handler.cli.main()
    lines = capsys.readouterr().err.splitlines()
    assert ended.value.code == 1
    assert lines[-2] == "RuntimeError: the boat leaks"
    assert lines[-1] == "INTERNAL_ERROR: A fault of Bedivere itself: report it with the lines above."


def test_without_its_extra_the_command_line_names_it() -> None:
    script = "import sys; sys.modules['typer'] = None; import handler.cli"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("EXTRA_NOT_INSTALLED: ")
    assert "pip install 'bedivere[index]'" in done.stderr


def test_a_command_that_searches_nothing_waits_for_nothing_that_does() -> None:
    script = "import sys, handler.cli; print({'pyarrow', 'lancedb', 'retrieval.retriever'} & sys.modules.keys())"

    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert loaded.stdout == "set()\n"
