"""`make audit`: what counts as found, and that what could not be looked at never counts as clean.

The programs are stood in for by ones that print what the real ones print; `make audit` runs those, and asks PyPI.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.infra.programs import loaded

Stand = Callable[[str, str], None]

CLEAN: dict[str, Any] = {"dependencies": [{"name": "h11", "version": "0.16.0", "vulns": []}]}
KNOWN = {"id": "PYSEC-2026-1", "fix_versions": ["0.17.0"]}
SECRET = {"type": "AWS Access Key", "hashed_secret": "f00d", "line_number": 7}


@pytest.fixture
def auditing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    module = loaded("audit", monkeypatch)
    monkeypatch.setattr(module, "TOOLS", tmp_path)
    monkeypatch.setattr(module, "KNOWN_SECRETS", tmp_path / "secrets.baseline")
    module.KNOWN_SECRETS.write_text('{"results": {}}', encoding="utf-8")
    return module


@pytest.fixture
def stand(tmp_path: Path) -> Stand:
    """Puts a program in place that prints a text."""

    def put(program: str, prints: str) -> None:
        script = tmp_path / program
        script.write_text(f"#!/bin/sh\ncat <<'END'\n{prints}\nEND\n", encoding="utf-8")
        script.chmod(0o755)

    put("pip-audit", json.dumps(CLEAN))
    put("cyclonedx-py", '{"components": []}')
    put("detect-secrets", '{"results": {}}')
    return put


def audit(auditing: ModuleType, tmp_path: Path) -> int:
    return auditing.main(["--reports", str(tmp_path / "reports")])


def package(**licence: Any) -> dict[str, Any]:
    return {"components": [{"name": "a", "version": "1", **licence}]}


def test_nothing_found_is_a_success_and_leaves_a_bill_of_materials(
    auditing: ModuleType, stand: Stand, tmp_path: Path
) -> None:
    assert audit(auditing, tmp_path) == 0
    assert json.loads((tmp_path / "reports" / "sbom.cdx.json").read_text(encoding="utf-8")) == {"components": []}


def test_an_advisory_fails_and_names_the_version_that_mends_it(
    auditing: ModuleType, stand: Stand, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stand("pip-audit", json.dumps({"dependencies": [{"name": "h11", "version": "0.16.0", "vulns": [KNOWN]}]}))

    assert audit(auditing, tmp_path) == 1
    assert "h11 0.16.0: PYSEC-2026-1, fixed in 0.17.0" in capsys.readouterr().out


@pytest.mark.parametrize(
    "printed", [json.dumps({"dependencies": [{"name": "h11", "skip_reason": "not found"}]}), "Traceback", ""]
)
def test_what_could_not_be_looked_up_is_no_success(
    auditing: ModuleType, stand: Stand, tmp_path: Path, printed: str
) -> None:
    stand("pip-audit", printed)

    assert audit(auditing, tmp_path) == 2


@pytest.mark.parametrize(
    "licence",
    [
        {"licenses": [{"license": {"id": "MIT"}}]},
        {"licenses": [{"license": {"name": "Apache License, Version 2.0"}}]},
        {"licenses": [{"expression": "(MPL-2.0 AND MIT) OR 0BSD"}]},
    ],
)
def test_licences_that_allow_passing_on_are_fine(auditing: ModuleType, licence: dict[str, Any]) -> None:
    assert list(auditing.licences(package(**licence))) == []


@pytest.mark.parametrize(
    ("licence", "told"),
    [
        ({"licenses": [{"license": {"id": "GPL-3.0-only"}}]}, "licence GPL-3.0-only"),
        ({"licenses": [{"expression": "MIT AND AGPL-3.0-only"}]}, "licence AGPL-3.0-only"),
        ({}, "no licence"),
    ],
)
def test_other_licences_and_none_are_found(auditing: ModuleType, licence: dict[str, Any], told: str) -> None:
    assert [finding.what for finding in auditing.licences(package(**licence))] == [told]


def test_a_secret_fails_unless_it_is_known_to_be_none(
    auditing: ModuleType, stand: Stand, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = json.dumps({"results": {"settings.py": [SECRET]}})
    stand("detect-secrets", found)

    assert audit(auditing, tmp_path) == 1
    assert "settings.py:7: looks like a secret (AWS Access Key)" in capsys.readouterr().out

    auditing.KNOWN_SECRETS.write_text(found, encoding="utf-8")
    assert audit(auditing, tmp_path) == 0


def test_secrets_alone_are_looked_for_without_asking_anybody(
    auditing: ModuleType, stand: Stand, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stand("pip-audit", "no answer")

    assert auditing.main(["--reports", str(tmp_path), "--secrets"]) == 0
    assert capsys.readouterr().out == "✓  Secrets in what git tracks\n"
