"""How the command line tells of failures that no command foresees."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import handler.cli
from handler.cli import app

USAGE = [
    (["search"], "Missing argument 'question'. See bedivere search --help."),
    (["serch", "boat"], "Did you mean 'search', 'serve'? See bedivere --help."),
    (["search", "boat", "--limt", "3"], "--limit"),
    (["search", "boat", "--limit", "many"], "'--limit'"),
    (["prune", "file:///store"], "'--keep'"),
    (["serve", "--http", "--stdio"], "choose one of --stdio and --http"),
    (["smoke", "docs.example.com"], "http://"),
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
