"""`bedivere keys`: what is shown, once, and what never is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from handler.access.key import is_key
from handler.cli import app
from handler.cli.terminal import ExitCode


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["keys", *arguments])


@pytest.fixture
def to(tmp_path: Path) -> tuple[str, str]:
    return ("--to", str(tmp_path / "keys.json"))


def test_a_new_key_stands_alone_on_standard_output(to: tuple[str, str]) -> None:
    result = run("create", "ci", *to)
    assert result.exit_code == ExitCode.DONE
    assert is_key(result.stdout.strip())
    assert result.stderr == "Key ci, for search, fetch, catalog, status. It is shown this once; keep it now:\n"


def test_a_key_is_shown_never_again(to: tuple[str, str]) -> None:
    key = run("create", "ci", *to).stdout.strip()
    later = "".join(run(*arguments, *to).output for arguments in (("list",), ("list", "--json"), ("revoke", "ci")))
    assert key not in later
    assert key not in Path(to[1]).read_text()


def test_the_list_says_what_each_key_may_do_and_until_when(to: tuple[str, str]) -> None:
    run("create", "ci", "--scopes", "search, hr.read", "--expires", "90d", "--limit", "60/min", *to)
    run("create", "a-name-that-is-long-and-must-not-be-cut-in-any-narrow-terminal", *to)
    shown = run("list", *to).stdout.splitlines()
    assert shown[0].split() == ["name", "scopes", "created", "expires", "limit"]
    assert shown[1].split()[0] == "a-name-that-is-long-and-must-not-be-cut-in-any-narrow-terminal"
    assert shown[1].split()[-1] == "never"
    name, scopes, _, expires, limit = shown[2].split()
    assert (name, scopes, limit) == ("ci", "search,hr.read", "60/min")
    assert expires.endswith("Z")


def test_the_list_as_json_has_neither_salts_nor_hashes(to: tuple[str, str]) -> None:
    run("create", "ci", *to)
    listed: dict[str, Any] = json.loads(run("list", "--json", *to).stdout)
    assert set(listed["keys"][0]) == {"name", "scopes", "created", "expires", "limit"}


def test_a_key_as_json_comes_with_its_record(to: tuple[str, str]) -> None:
    made: dict[str, Any] = json.loads(run("create", "ci", "--json", *to).stdout)
    assert is_key(made["key"])
    assert made["scopes"] == ["search", "fetch", "catalog", "status"]


def test_no_keys_is_an_answer(to: tuple[str, str]) -> None:
    result = run("list", *to)
    assert (result.exit_code, result.stdout) == (ExitCode.DONE, "There are no keys.\n")


def test_a_revoked_key_is_gone_from_the_list(to: tuple[str, str]) -> None:
    run("create", "ci", *to)
    assert run("revoke", "ci", *to).exit_code == ExitCode.DONE
    assert run("list", *to).stdout == "There are no keys.\n"


@pytest.mark.parametrize(
    ("arguments", "code", "exit_code"),
    [
        (("revoke", "nobody"), "KEY_NOT_FOUND", ExitCode.FAILURE),
        (("create", "two words"), "INVALID_ARGUMENT", ExitCode.USAGE),
        (("create", "ci", "--expires", "soon"), "INVALID_ARGUMENT", ExitCode.USAGE),
        (("create", "ci", "--limit", "often"), "INVALID_ARGUMENT", ExitCode.USAGE),
        (("create", "ci", "--scopes", ""), "INVALID_ARGUMENT", ExitCode.USAGE),
    ],
)
def test_what_cannot_be_done_ends_with_its_code(
    to: tuple[str, str], arguments: tuple[str, ...], code: str, exit_code: int
) -> None:
    result = run(*arguments, *to)
    assert result.exit_code == exit_code
    assert result.stderr.startswith(f"{code}: ")
    assert result.stdout == ""


def test_keys_are_kept_beside_the_releases_that_the_settings_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BEDIVERE_DATASET", tmp_path.as_uri())
    assert run("create", "ci").exit_code == ExitCode.DONE
    assert (tmp_path / "keys.json").is_file()
