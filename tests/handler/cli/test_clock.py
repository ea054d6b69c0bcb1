"""The seconds that a command says it took."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from handler.cli import app, clock


@pytest.mark.parametrize("command", ["index", "publish"])
def test_a_command_counts_from_the_start_of_its_process(
    handbook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").write_text("A boat.")
    (tmp_path / "store").mkdir()
    arguments = {
        "index": [str(tmp_path / "docs"), str(tmp_path / "db")],
        "publish": [str(handbook), (tmp_path / "store").as_uri()],
    }
    monkeypatch.setattr(clock, "_STARTED", time.monotonic() - 1000)

    result = CliRunner().invoke(app, [command, *arguments[command], "--json"])

    assert json.loads(result.stdout)["seconds"] >= 1000
