"""`bedivere smoke` against a server in a process of its own, over a real network."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.e2e.conftest import BEDIVERE, clean_environment, serving

pytestmark = pytest.mark.e2e


def smoke(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*BEDIVERE, "smoke", *arguments],
        env=clean_environment(COLUMNS="160"),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_server_of_documents_passes(http_server: str) -> None:
    done = smoke(http_server, "--query", "signing key")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "All 13 checks passed."


def test_a_server_without_documents_is_found_out(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving("--db", str(tmp_path_factory.mktemp("empty"))) as url:
        done = smoke(url, "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["passed"]) == (1, False)
    assert {check["name"] for check in report["checks"] if not check["passed"]} == {
        f"{era}: {step}" for era in ("stateless", "handshake") for step in ("search", "context")
    }
