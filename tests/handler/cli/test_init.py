"""`bedivere init`: what it asks, what it stores where, and that it takes all of it away again."""

from __future__ import annotations

import json
import os
import pty
import shlex
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends.fail import Keyring as NoKeychain
from typer.testing import CliRunner, Result

from handler.cli import app
from retrieval.keychain import ACCOUNT, SERVICE, key_file
from retrieval.setting_files import settings_file
from retrieval.settings import load_settings

Init = Callable[..., Result]
KEY = "sk-stored-by-init"


class Keychain(KeyringBackend):
    priority = 1.0  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride] - as keyring's docs have it

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.held.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.held[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.held[service, username]


class Forgetful(Keychain):
    def set_password(self, service: str, username: str, password: str) -> None:
        pass


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(keyring.core, "_keyring_backend", NoKeychain())


@pytest.fixture
def init() -> Init:
    def run(*arguments: str, key: str = "") -> Result:
        return CliRunner().invoke(app, ["init", *arguments], input=key)

    return run


def use(backend: KeyringBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyring.core, "_keyring_backend", backend)


def test_the_key_goes_into_the_keychain_where_there_is_one(init: Init, monkeypatch: pytest.MonkeyPatch) -> None:
    use(keychain := Keychain(), monkeypatch)

    done = init("--db", "db", "--key-from-stdin", key=KEY)

    assert "The key is in the keychain of this machine." in done.stdout
    assert keychain.held == {(SERVICE, ACCOUNT): KEY}
    assert not key_file().exists()
    assert load_settings().openai_api_key_store == "keychain"


@pytest.mark.parametrize("backend", [NoKeychain, Forgetful])
def test_without_a_keychain_that_keeps_it_a_file_of_the_user_alone_holds_the_key_and_that_is_said(
    init: Init, monkeypatch: pytest.MonkeyPatch, backend: type[KeyringBackend]
) -> None:
    use(backend(), monkeypatch)

    done = init("--db", "db", "--key-from-stdin", key=KEY)

    assert "The key is in a file that only you can read" in done.stdout
    assert key_file().read_text(encoding="utf-8").strip() == KEY
    assert stat.S_IMODE(key_file().stat().st_mode) == 0o600
    assert load_settings().openai_api_key_store == "file"


def test_the_database_is_stored_by_its_whole_path(init: Init, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    init("--db", "db")
    assert load_settings().database == str(tmp_path / "db")


def test_a_store_of_releases_is_kept_as_it_is_written(init: Init) -> None:
    init("--db", "s3://bucket/docs")
    assert load_settings().database == "s3://bucket/docs"


def test_the_rest_of_the_settings_file_stays_comments_included(init: Init) -> None:
    settings_file().parent.mkdir(parents=True)
    settings_file().write_text("# ours\ndefault_limit = 7 # few\n", encoding="utf-8")

    init("--db", "/srv/db", "--model", "small")
    assert settings_file().read_text(encoding="utf-8").startswith("# ours\ndefault_limit = 7 # few\n")
    assert (load_settings().database, load_settings().embedding_model) == ("/srv/db", "small")

    init("--forget")
    assert settings_file().read_text(encoding="utf-8") == "# ours\ndefault_limit = 7 # few\n"


def test_what_is_stored_is_shown_without_the_key(init: Init) -> None:
    init("--db", "/srv/db", "--key-from-stdin", key=KEY)
    shown = init("--show").stdout
    assert "database = /srv/db" in shown
    assert str(key_file()) in shown
    assert KEY not in shown


def test_forgetting_leaves_no_key_behind(init: Init, monkeypatch: pytest.MonkeyPatch) -> None:
    init("--db", "/srv/db", "--key-from-stdin", key=KEY)
    use(keychain := Keychain(), monkeypatch)
    keychain.held[SERVICE, ACCOUNT] = KEY

    done = init("--forget")

    assert done.stdout.count("The key was removed from") == 2
    assert not keychain.held
    assert not key_file().exists()
    assert load_settings().database is None
    assert init("--forget").stdout == "Nothing was stored.\n"


def test_what_the_environment_overrides_is_told(init: Init, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-shell")
    told = init("--db", "/srv/db").stderr
    assert "OPENAI_API_KEY is set, which counts before what is stored" in told
    assert "sk-of-the-shell" not in told


def test_what_a_client_pastes_starts_this_program(init: Init) -> None:
    out = init("--db", "/srv/db", "--client", "claude-code", "--client", "cursor").stdout
    command = next(line.split(" -- ")[1] for line in out.splitlines() if "claude mcp add" in line)
    entry = next(json.loads(line) for line in out.splitlines() if line.strip().startswith("{"))
    server = entry["mcpServers"]["bedivere"]
    assert shlex.split(command) == [server["command"], *server["args"]]
    assert server["args"] == ["serve", "--stdio"]


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--db", "db", "--client", "netscape"], 2, "INVALID_ARGUMENT: There is no client 'netscape'"),
        ([], 2, "INVALID_ARGUMENT: Nobody can be asked here"),
        (["--db", ""], 2, "INVALID_ARGUMENT: No database was named"),
        (["--db", " ", "--client", "cursor"], 2, "INVALID_ARGUMENT: No database was named"),
        (["--db", "db", "--key-from-stdin"], 2, "INVALID_ARGUMENT: No key came on standard input"),
        (["--db", "db", "--base-url", "ftp://x"], 2, "SETTING_INVALID: openai_base_url must be"),
    ],
)
def test_what_cannot_be_stored_stores_nothing(init: Init, arguments: list[str], code: int, told: str) -> None:
    done = init(*arguments)
    assert (done.exit_code, done.stderr.startswith(told)) == (code, True)
    assert not settings_file().exists()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Init:
    """A terminal at which somebody types these lines."""
    monkeypatch.setattr(sys.modules["handler.cli.init"], "_at_terminal", lambda: True)
    return lambda *lines: CliRunner().invoke(app, ["init"], input="".join(f"{line}\n" for line in lines))


def test_enter_at_every_question_stores_nothing_where_nothing_is_stored(asked: Init) -> None:
    done = asked("", "", "")
    assert (done.exit_code, done.stderr.startswith("INVALID_ARGUMENT: No database was named")) == (2, True)
    assert not settings_file().exists()


def test_enter_keeps_the_database_that_is_stored(asked: Init) -> None:
    settings_file().parent.mkdir(parents=True)
    settings_file().write_text('database = "/srv/db"\n', encoding="utf-8")
    assert "[/srv/db]: " in asked("", "", "").stdout
    assert load_settings().database == "/srv/db"


def test_a_question_without_a_default_shows_none(asked: Init) -> None:
    assert "s3://BUCKET/PREFIX: " in asked("/srv/db", "", "").stdout


def test_a_mistyped_client_is_asked_for_again_and_nothing_typed_is_lost(asked: Init) -> None:
    done = asked("/srv/db", KEY, "netscape", "cursor")
    assert "There is no client 'netscape'" in done.output
    assert "Cursor, in ~/.cursor/mcp.json" in done.stdout
    assert key_file().read_text(encoding="utf-8").strip() == KEY


def test_leaving_at_a_question_ends_quietly_and_stores_nothing(asked: Init) -> None:
    done = asked("/srv/db", KEY)
    assert done.exit_code == 130
    assert "Traceback" not in done.output
    assert not settings_file().exists()
    assert not key_file().exists()


def test_forgetting_removes_a_file_that_holds_nothing_else(init: Init) -> None:
    init("--db", "/srv/db")
    init("--forget")
    assert not settings_file().exists()


def test_what_a_client_pastes_finds_what_this_shell_stored(
    init: Init, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "our own.toml").touch()
    monkeypatch.setenv("BEDIVERE_SETTINGS_FILE", "our own.toml")
    out = init("--db", "/srv/db", "--client", "claude-code", "--client", "vscode").stdout
    entry = next(json.loads(line) for line in out.splitlines() if line.strip().startswith("{"))
    places = {"BEDIVERE_SETTINGS_FILE": f"{tmp_path}/our own.toml", "XDG_CONFIG_HOME": str(tmp_path / "config")}
    assert entry["servers"]["bedivere"]["env"] == places
    (command,) = (shlex.split(line) for line in out.splitlines() if "claude mcp add" in line)
    assert command[3:8] == ["bedivere", *(word for each in places.items() for word in ("-e", "=".join(each)))]


def test_where_no_variable_moves_the_settings_a_client_needs_none(
    init: Init, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    out = init("--db", "/srv/db", "--client", "claude-code", "--client", "vscode").stdout
    assert '"env"' not in out
    assert " -e " not in out


def test_a_folder_that_cannot_be_written_is_told(init: Init, tmp_path: Path) -> None:
    (tmp_path / "config").write_text("in the way", encoding="utf-8")
    done = init("--db", "db")
    assert done.exit_code == 1
    assert done.stderr.startswith("NOT_STORED: ")


@pytest.mark.e2e
def test_at_a_terminal_it_asks_and_does_not_echo_the_key(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
    process = subprocess.Popen(
        [sys.executable, "-m", "handler.cli", "init"], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    seen = b""
    for prompt, answer in ((b"Database", "/srv/db"), (b"Key of", KEY), (b"Clients", "vscode")):
        while prompt not in seen or not seen.endswith(b": "):
            seen += os.read(ours, 4096)
        os.write(ours, f"{answer}\n".encode())
        seen = seen.replace(prompt, b"")
    try:
        while chunk := os.read(ours, 4096):
            seen += chunk
    except OSError:
        # Linux's way to say that the other end is closed.
        pass
    os.close(ours)

    assert process.wait(timeout=30) == 0
    assert KEY.encode() not in seen
    assert b".vscode/mcp.json" in seen
    assert key_file().read_text(encoding="utf-8").strip() == KEY
    assert 'database = "/srv/db"' in settings_file().read_text(encoding="utf-8")
