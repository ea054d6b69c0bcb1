"""`bedivere index` at a terminal and in a script: what it prints where, and how it ends."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import lancedb
import pytest
import typer
from typer.testing import CliRunner, Result

from handler.cli import progress
from handler.cli.index import index
from retrieval import schema
from retrieval.indexing import build, embedder
from retrieval.indexing.generation import TableFolder
from tests.embedding_server import EmbeddingServer

Run = Callable[..., Result]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").write_text("# A page\n\nWords of it.")
    return tmp_path / "docs"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "db"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("COLUMNS", "200")
    app = typer.Typer()
    app.command()(index)

    def invoke(*arguments: object) -> Result:
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return invoke


def test_a_run_ends_with_a_summary_on_standard_output(run: Run, source: Path, database: Path) -> None:
    (source / "logo.png").touch()
    (source / "[x].md").touch()
    result = run(source, database)
    assert result.exit_code == 0
    assert "Table documents is ready" in result.stdout
    for line in (
        "files",
        "1 (22 bytes)",
        "chunks",
        "1 file, no reader for .png files: logo.png",
        "1 file, empty: [x].md",
        "seconds",
    ):
        assert line in result.stdout


def test_progress_goes_to_standard_error_in_plain_lines_where_it_is_no_terminal(
    run: Run, source: Path, database: Path
) -> None:
    result = run(source, database)
    assert "1 file found" in result.stderr
    assert "\x1b" not in result.stderr
    assert "found" not in result.stdout


def test_a_second_run_says_that_nothing_changed(run: Run, source: Path, database: Path) -> None:
    run(source, database)
    assert "is up to date: nothing has changed" in run(source, database).stdout


def test_the_summary_tells_of_removed_files_other_collections_and_notes(
    run: Run, source: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(source, database, "--collection", "other")
    (source / "b.md").write_text("---\nkey: 1\n---\nMore.")
    run(source, database)
    (source / "a.md").unlink()
    monkeypatch.setattr("retrieval.indexing.rows.MAX_OWN_COLUMNS", 0)
    output = run(source, database).stdout
    assert "1 file no longer there" in output
    assert "1 chunk of other collections or versions" in output
    assert "1 rarer key of" in output


def test_json_prints_one_object_and_nothing_else(run: Run, source: Path, database: Path) -> None:
    result = run(source, database, "--json")
    summary = json.loads(result.stdout)
    assert (summary["table"], summary["files"], summary["unchanged"], summary["skipped"]) == ("documents", 1, False, [])
    assert result.stderr == ""


def test_every_option_reaches_the_build(
    run: Run, source: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def record(options: Any, _progress: Any) -> NoReturn:
        asked.append(options)
        raise KeyboardInterrupt

    monkeypatch.setattr(build, "build_table", record)
    run(
        *(
            source,
            database,
            "--table",
            "t",
            "--collection",
            "c",
            "--doc-version",
            "1",
            "--base-url",
            "https://x.example",
        ),
        *("--include", "*.md", "--include", "*.rst", "--exclude", "draft/", "--rebuild"),
    )
    assert asked == [
        build.Options(
            source, database, "t", "c", "1", "https://x.example", ("*.md", "*.rst"), ("draft/",), rebuild=True
        )
    ]


def test_nothing_to_index_ends_with_3(run: Run, source: Path, database: Path) -> None:
    (source / "a.md").write_text("")
    result = run(source, database)
    assert result.exit_code == 3
    assert "NOTHING_INDEXED: No document with text was found" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("--no-such-option",), 2), (("--table", "a/b"), 2), (("--base-url", "x"), 2), (("--include", "!"), 2)],
)
def test_wrong_usage_ends_with_2(run: Run, source: Path, database: Path, arguments: tuple[str, ...], code: int) -> None:
    assert run(source, database, *arguments).exit_code == code


def test_a_missing_source_ends_with_1_and_one_line(run: Run, source: Path, database: Path) -> None:
    result = run(source / "nowhere", database)
    assert result.exit_code == 1
    assert result.stderr == "SOURCE_NOT_FOUND: The folder to index does not exist: check its path.\n"


def test_a_file_in_the_databases_place_ends_with_1_and_one_line(run: Run, source: Path, database: Path) -> None:
    database.touch()
    result = run(source, database)
    assert result.exit_code == 1
    assert result.stderr == ("BUILD_FAILED: A file stands where the database folder should be: name another folder.\n")


def test_anothers_table_ends_with_1(run: Run, source: Path, database: Path) -> None:
    lancedb.connect(database).create_table("documents", [{"text": "theirs"}])
    result = run(source, database)
    assert result.exit_code == 1
    assert "TABLE_NOT_OURS" in result.stderr


def test_a_table_that_is_being_written_ends_with_1_and_as_json_for_scripts(
    run: Run, source: Path, database: Path
) -> None:
    with TableFolder(database, "documents").locked():
        result = run(source, database, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["code"] == "INDEX_LOCKED"


def test_the_cause_of_a_failed_build_is_told_before_the_error(
    run: Run, source: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: Any) -> NoReturn:
        raise RuntimeError("lance said [this]\nand more")

    monkeypatch.setattr("retrieval.indexing.lance.write", fail)
    lines = run(source, database).stderr.splitlines()
    assert lines[-2] == "RuntimeError: lance said [this]"
    assert lines[-1].startswith("BUILD_FAILED: ")


@pytest.mark.parametrize(("stop", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "terminated"])
def test_a_signal_ends_the_run_and_leaves_the_old_table(
    run: Run, source: Path, database: Path, monkeypatch: pytest.MonkeyPatch, stop: signal.Signals, code: int
) -> None:
    run(source, database)
    (source / "a.md").write_text("Changed.")

    def interrupt(*_arguments: Any) -> None:
        signal.raise_signal(stop)

    monkeypatch.setattr("retrieval.indexing.lance.write", interrupt)
    before = signal.getsignal(signal.SIGTERM)
    assert run(source, database).exit_code == code
    assert signal.getsignal(signal.SIGTERM) == before
    assert lancedb.connect(database).open_table("documents").search().to_list()[0]["title"] == "A page"
    assert len(list((database / ".bedivere/documents").iterdir())) == 1


def test_help_names_every_option_and_exit_code(run: Run) -> None:
    text = run("--help").stdout
    for part in (
        "--table",
        "--collection",
        "--doc-version",
        "--base-url",
        "--include",
        "--exclude",
        "--rebuild",
        "--json",
    ):
        assert part in text
    assert "3 nothing could be indexed" in " ".join(text.split())


def test_embed_gives_vectors_and_says_what_they_are_and_cost(
    run: Run, source: Path, database: Path, embedding_server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in embedding_server.environment().items():
        monkeypatch.setenv(name, value)
    result = run(source, database, "--embed")
    assert result.exit_code == 0
    assert "vectors   words-16, 16 dimensions, flat" in result.stdout
    assert "embedded  1 chunk, " in result.stdout
    assert "1 chunk to embed, about " in result.stderr
    again = run(source, database)
    assert "nothing has changed" in again.stdout
    assert "with those of the calibration" in result.stdout
    assert "embedded" not in again.stdout


def test_a_script_is_told_of_the_vectors(
    run: Run, source: Path, database: Path, embedding_server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in embedding_server.environment().items():
        monkeypatch.setenv(name, value)
    vectors = json.loads(run(source, database, "--embed", "--json").stdout)["vectors"]
    assert vectors["tokens"] > 0
    del vectors["tokens"]
    assert vectors == {
        "model": "words-16",
        "dimensions": 16,
        "index": "flat",
        "recall_at_10": None,
        "texts": 1,
        "dollars": None,
        "truncated": 0,
    }


@pytest.mark.parametrize("failure", [{"status": 404}, {"status": 400}, {"status": 401}, {"kind": "not_json"}])
def test_of_a_provider_that_fails_nothing_is_shown_that_it_wrote_itself(
    run: Run,
    source: Path,
    database: Path,
    embedding_server: EmbeddingServer,
    monkeypatch: pytest.MonkeyPatch,
    failure: dict[str, Any],
) -> None:
    for name, value in embedding_server.environment().items():
        monkeypatch.setenv(name, value)
    failing: dict[str, Any] = {"kind": "status", "message": "sk-secret cannot embed ['Words of it.']"}
    embedding_server.fail(**failing | failure)
    result = run(source, database, "--embed")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith("EMBEDDING_FAILED: The embeddings provider")
    for secret in ("sk-secret", "Words of it", "Error code", "NotFoundError"):
        assert secret not in result.output


@pytest.mark.parametrize(
    ("code", "told"),
    [("model_not_found", "calls it model_not_found."), (None, "calls it as_told."), ("Words of it", "it as_told.")],
)
def test_the_providers_short_name_for_the_failure_is_shown(
    run: Run,
    source: Path,
    database: Path,
    embedding_server: EmbeddingServer,
    monkeypatch: pytest.MonkeyPatch,
    code: str | None,
    told: str,
) -> None:
    for name, value in embedding_server.environment().items():
        monkeypatch.setenv(name, value)
    embedding_server.fail("status", status=404, code=code)
    assert told in run(source, database, "--embed").stderr


def test_a_provider_that_is_waited_for_is_told_and_an_interrupt_ends_the_wait(
    run: Run, source: Path, database: Path, embedding_server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in embedding_server.environment().items():
        monkeypatch.setenv(name, value)
    for name in ("FIRST_WAIT_SECONDS", "LONGEST_WAIT_SECONDS"):
        monkeypatch.setattr(embedder, name, 3_600)
    embedding_server.fail("status", status=500)
    tell = progress.Lines.waiting

    def tell_and_interrupt(lines: progress.Lines, why: str, seconds: float) -> None:
        tell(lines, why, seconds)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(progress.Lines, "waiting", tell_and_interrupt)
    result = run(source, database, "--embed")
    assert result.exit_code == 130
    assert "The embeddings provider answered with status 500. Trying again in " in result.stderr


def test_the_last_of_embed_and_no_embed_counts(run: Run, source: Path, database: Path) -> None:
    assert run(source, database, "--embed", "--no-embed").exit_code == 0
    assert "EMBEDDING_NOT_SET" in run(source, database, "--no-embed", "--embed").stderr


def test_the_summary_tells_when_a_search_says_that_nothing_is_relevant(run: Run, source: Path, database: Path) -> None:
    line = "relevance 5 words known, threshold 0.77\n"
    assert line in run(source, database).stdout
    assert line in run(source, database).stdout


def test_a_script_is_told_the_calibration_that_is_stored(
    run: Run, source: Path, database: Path, embedding_server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in embedding_server.environment().items():
        monkeypatch.setenv(name, value)
    for number in range(6):
        (source / f"{number}.md").write_text(f"# Number {number} page\n\nPage {number} says little.\n")
    told = json.loads(run(source, database, "--embed", "--json").stdout)["calibration"]
    table: Any = lancedb.connect(database).open_table("documents")
    stored = schema.measured(table.schema.field("vector").metadata)
    assert (told["noise"], told["signal"]) == (stored["calibration"]["noise"], stored["calibration"]["signal"])
    assert json.loads(run(source, database, "--json").stdout)["calibration"] == told
    assert f"nearest passage {told['noise']:.2f} for foreign questions" in run(source, database).stdout


def test_documents_of_a_file_of_lines_are_not_called_files(run: Run, tmp_path: Path, database: Path) -> None:
    lines = tmp_path / "docs.jsonl"
    lines.write_text('{"id": "a", "text": "One."}\n{"id": "b", "text": "Two."}\n{"text": "No id."}\n')
    result = run(lines, database)
    assert "documents 2 (" in result.stdout
    assert "skipped   1 document, " in result.stdout
    assert "2 documents found" in result.stderr
    assert "file" not in result.output


def test_embed_without_a_provider_names_the_variables(run: Run, source: Path, database: Path) -> None:
    result = run(source, database, "--embed")
    assert result.exit_code == 1
    assert "EMBEDDING_NOT_SET" in result.stderr
    assert "OPENAI_API_KEY" in result.stderr
