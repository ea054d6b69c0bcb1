"""`bedivere status` at a terminal and in a script, over a folder and over releases; and search over releases."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from handler.cli import app
from retrieval.indexing import vector_index
from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options
from retrieval.provider import Endpoint
from retrieval.release.publish import publish
from retrieval.release.store import open_store
from retrieval.settings import load_settings
from tests.conftest import TableMaker
from tests.embedding_server import MODEL, EmbeddingServer
from tests.retrieval.asking import index


def run(command: str, *arguments: str, environment: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [command, *arguments], env=environment)
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def releases(handbook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a store whose current release is the handbook."""
    monkeypatch.setenv("BEDIVERE_SYNC_FOLDER", str(tmp_path / "sync"))
    (tmp_path / "store").mkdir()
    uri = (tmp_path / "store").as_uri()
    publish(handbook, open_store(uri))
    return uri


def test_a_folder_shows_its_tables(handbook: Path) -> None:
    code, out, err = run("status", "--db", str(handbook))
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == f"Dataset   {handbook}"
    assert "Release" not in out
    assert out.splitlines()[-1].split()[0] == "documents"


def test_no_width_cuts_a_table(handbook: Path) -> None:
    wide, narrow = (
        run("status", "--db", str(handbook), environment={"COLUMNS": columns})[1].splitlines()[-1]
        for columns in ("300", "20")
    )
    assert narrow == wide
    assert narrow.rstrip().endswith("text only")


def test_releases_show_which_one_serves_its_age_and_the_figures_of_its_sync(releases: str) -> None:
    code, out, err = run("status", "--db", releases)
    assert (code, err) == (0, "")
    facts = dict(line.split(maxsplit=1) for line in out.splitlines()[:4])
    assert facts["Dataset"] == releases
    assert facts["Release"].startswith("20")
    assert re.search(r", (1 second|\d+ seconds) ago$", facts["Published"])
    assert " kB fetched, " in facts["Sync"]
    assert out.splitlines()[-1].split()[0] == "documents"


def test_a_release_that_is_on_the_disk_is_not_fetched_again(releases: str) -> None:
    run("status", "--db", releases)
    assert "it was on this disk" in run("status", "--db", releases)[1]


def test_vectors_are_shown_with_the_recall_of_their_index(
    tmp_path: Path, embedding_server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load_settings(openai_base_url=embedding_server.url, embedding_model=MODEL)
    (tmp_path / "docs").mkdir()
    for number in range(20):
        (tmp_path / "docs" / f"{number}.md").write_text(f"# Page {number} of twenty\n\nWords of page{number}.\n")
    options = Options(tmp_path / "docs", tmp_path / "db", embed=True, endpoint=Endpoint(settings))
    build_table(options)
    flat = run("status", "--db", str(tmp_path / "db"))[1].splitlines()[-1]
    assert flat.startswith("documents.vector  16 dimensions, flat")
    monkeypatch.setattr(vector_index, "FLAT_ROWS", 10)
    summary = build_table(replace(options, rebuild=True))
    indexed = run("status", "--db", str(tmp_path / "db"))[1].splitlines()[-1]
    assert summary.vectors is not None
    assert f"16 dimensions, HNSW_SQ, recall@10 {summary.vectors.recall_at_10:.3f}" in indexed
    assert "not calibrated" not in indexed


def test_vectors_that_are_not_used_are_told_with_what_to_set(tmp_path: Path, embedding_server: EmbeddingServer) -> None:
    database = str(index(tmp_path, {"a.md": "A boat."}, embedding_server))
    _, _, err = run("status", "--db", database)
    assert "documents: The table's vectors are not used" in err
    assert f"EMBEDDING_MODEL to '{MODEL}'" in err
    assert run("status", "--db", database, environment=embedding_server.environment())[2] == ""


def test_json_is_the_reply_that_an_agent_gets(releases: str) -> None:
    code, out, _ = run("status", "--json", environment={"BEDIVERE_DATASET": releases})
    reply = json.loads(out)
    assert code == 0
    assert reply["connected"]
    assert set(reply["release"]) == {"id", "createdAt", "ageSeconds", "syncedAt", "syncMs", "syncBytes"}
    assert reply["tables"][0]["name"] == "documents"


@pytest.mark.parametrize("command", [["status"], ["search", "backup"]])
def test_a_store_that_cannot_be_read_is_one_line_with_its_own_code(tmp_path: Path, command: list[str]) -> None:
    code, out, err = run(*command, "--db", (tmp_path / "none").as_uri())
    assert (code, out) == (1, "")
    assert err.startswith("STORE_NOT_FOUND: ")
    assert len(err.splitlines()) == 1


def test_a_store_that_cannot_be_read_is_one_object_for_scripts(tmp_path: Path) -> None:
    code, out, _ = run("status", "--json", "--db", (tmp_path / "none").as_uri())
    assert code == 1
    assert json.loads(out)["code"] == "STORE_NOT_FOUND"


def test_a_folder_that_is_not_there_is_told_and_is_a_failure(tmp_path: Path) -> None:
    code, out, err = run("status", "--db", str(tmp_path / "none"))
    assert code == 1
    assert out.startswith("Dataset ")
    assert err.startswith("DATABASE_NOT_FOUND: ")


def test_without_a_database_it_says_what_to_set() -> None:
    code, out, err = run("status")
    assert (code, out) == (1, "Dataset   not set\n")
    assert err.startswith("DATABASE_NOT_SET: ")


def test_what_limits_a_table_of_others_is_told(make_table: TableMaker) -> None:
    code, out, err = run("status", "--db", str(make_table({"text": ["boat"]})))
    assert code == 0
    assert "by another tool" in out
    assert err.startswith("documents: ")


def test_a_search_over_releases_fetches_them_first(releases: str) -> None:
    code, out, _ = run(
        "search", "signing key", "--db", releases, "--json", environment={"BEDIVERE_DATASET_WAIT_SECONDS": "0"}
    )
    assert code == 0
    assert json.loads(out)["hits"][0]["path"] == "keys.md"
