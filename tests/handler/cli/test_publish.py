"""`bedivere publish`, `releases`, `rollback` and `prune` at a terminal and in a script."""

from __future__ import annotations

import importlib
import io
import json
import signal
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from handler.cli import app
from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options
from retrieval.release import history, pruning, publish
from retrieval.release.manifest import POINTER_KEY, Manifest, Pointer, manifest_key
from retrieval.release.publish import Published
from retrieval.release.store import open_store

Run = Callable[..., Result]

# The package's name for it is the command.
publish_module: Any = importlib.import_module("handler.cli.publish")

DONE = Published("20261129T181500Z-3f2a9c1b", False, {"[x]": 1}, 1, 1000, 500, 2, 1, 300)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def store(tmp_path: Path) -> str:
    (tmp_path / "store").mkdir()
    return (tmp_path / "store").as_uri()


def write(tmp_path: Path, edition: int) -> Path:
    source = tmp_path / "docs"
    source.mkdir(exist_ok=True)
    (source / "page.md").write_text(f"# Page\n\nEdition {edition}.\n")
    build_table(Options(source, tmp_path / "db"))
    return tmp_path / "db"


@pytest.fixture
def two_releases(tmp_path: Path, store: str) -> list[str]:
    """Their ids, the older first."""
    return [publish.publish(write(tmp_path, edition), open_store(store)).release for edition in (1, 2)]


# publish


def test_a_first_publication_ends_with_a_summary(run: Run, tmp_path: Path, store: str) -> None:
    result = run("publish", write(tmp_path, 1), store)

    assert result.exit_code == 0
    assert "is published and current" in result.stdout
    for word in ("documents, 1 row", "files", "parts", "uploaded", "seconds"):
        assert word in result.stdout
    assert "Uploading 1 part\n" in result.stderr
    assert "\x1b" not in result.stderr


def test_a_second_one_says_that_nothing_has_changed(run: Run, tmp_path: Path, store: str) -> None:
    run("publish", write(tmp_path, 1), store)
    result = run("publish", tmp_path / "db", store)

    assert result.exit_code == 0
    assert "is up to date: nothing has changed" in result.stdout
    assert "uploaded" not in result.stdout


def test_publishing_speaks_to_s3(run: Run, tmp_path: Path, bucket: str) -> None:
    assert run("publish", write(tmp_path, 1), f"s3://{bucket}/docs").exit_code == 0
    assert "*" in run("releases", f"s3://{bucket}/docs").stdout


def test_a_dry_run_says_what_would_be_uploaded(run: Run, tmp_path: Path, store: str) -> None:
    result = run("publish", write(tmp_path, 1), store, "--dry-run")

    assert "would be published" in result.stdout
    assert "to upload" in result.stdout
    assert list((tmp_path / "store").iterdir()) == []


def test_publishing_as_json_prints_one_object_and_nothing_else(run: Run, tmp_path: Path, store: str) -> None:
    result = run("publish", write(tmp_path, 1), store, "--json", "--dry-run")

    record = json.loads(result.stdout)
    assert (record["tables"], record["unchanged"], record["dry_run"]) == ({"documents": 1}, False, True)
    assert result.stderr == ""


def test_the_summary_tells_of_reused_parts_of_removed_releases_and_of_notes(
    run: Run, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = replace(DONE, pruned=("20261128T181500Z-3f2a9c1b",), notes=("[note]",))
    monkeypatch.setattr(publish, "publish", lambda *_, **__: done)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]

    output = run("publish", "db", store).stdout

    for line in ("[x], 1 row", "1 part of earlier releases", "20261128T181500Z-3f2a9c1b", "[note]"):
        assert line in output


def test_every_option_reaches_the_publisher(run: Run, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def record(*arguments: Any, **options: Any) -> Published:
        asked.extend([arguments[0], arguments[1].uri, options["dry_run"], options["keep"]])
        return DONE

    monkeypatch.setattr(publish, "publish", record)
    run("publish", "db", store, "--dry-run", "--keep", "3")

    assert asked == [Path("db"), store, True, 3]


def test_a_failure_is_one_line_with_its_code(run: Run, tmp_path: Path) -> None:
    result = run("publish", write(tmp_path, 1), (tmp_path / "none").as_uri())

    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith("STORE_NOT_FOUND: ")
    assert result.stdout == ""


@pytest.mark.parametrize("command", [["publish", "db"], ["releases"], ["rollback"], ["prune", "--keep", "1"]])
def test_an_address_that_is_none_is_wrong_usage(run: Run, tmp_path: Path, command: list[str]) -> None:
    result = run(*command, tmp_path, "--json")

    assert result.exit_code == 2
    assert json.loads(result.stdout)["code"] == "INVALID_ARGUMENT"


def test_an_interrupted_run_says_that_the_current_release_is_untouched(
    run: Run, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "publish", lambda *_, **__: signal.raise_signal(signal.SIGINT))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    result = run("publish", "db", store)

    assert result.exit_code == 130
    assert "untouched" in result.stderr


def test_a_run_that_is_terminated_ends_on_its_way_out(run: Run, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "publish", lambda *_, **__: signal.raise_signal(signal.SIGTERM))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    before = signal.getsignal(signal.SIGTERM)

    assert run("publish", "db", store).exit_code == 143
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_terminal_sees_a_bar_and_a_log_sees_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish_module, "_LINE_EVERY_SECONDS", 0)
    shown: dict[bool, str] = {}
    for terminal in (True, False):
        output = io.StringIO()
        console = Console(file=output, force_terminal=terminal, width=200)
        with publish_module._watcher(console, quiet=False) as watch:
            assert watch is not None
            watch.stage("Uploading 2 parts")
            watch.planned(2_000_000)
            watch.sent(1_000_000)
        shown[terminal] = output.getvalue()

    assert "1.0/2.0 MB" in shown[True]
    assert shown[False] == "Uploading 2 parts\n1.0 MB of about 2.0 MB sent\n"


# releases


def test_releases_are_listed_with_the_current_marked(run: Run, store: str, two_releases: list[str]) -> None:
    lines = run("releases", store).stdout.splitlines()

    assert [line.split()[:2] for line in lines[1:3]] == [
        ["*", two_releases[1]],
        [two_releases[0], *lines[2].split()[1:2]],
    ]
    assert "text only" in lines[1]
    assert lines[0].split() == ["release", "published", "rows", "size", "model"]


def test_no_width_cuts_the_mark_or_an_id(
    run: Run, store: str, two_releases: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    lines = run("releases", store).stdout.splitlines()

    assert [line.split()[0] for line in lines[1:]] == ["*", two_releases[0], "*"]
    assert two_releases[1] in lines[1]
    assert all(line.rstrip().endswith("text only") for line in lines[1:3])


def test_releases_as_json_say_the_same(run: Run, store: str, two_releases: list[str]) -> None:
    newest, older = json.loads(run("releases", store, "--json").stdout)

    assert (newest["release"], newest["current"], older["current"]) == (two_releases[1], True, False)
    assert (older["rows"], older["models"], older["problem"]) == (1, [], None)


def test_a_release_names_its_models_and_a_damaged_one_its_code(
    run: Run, tmp_path: Path, store: str, two_releases: list[str]
) -> None:
    opened = open_store(store)
    fetched = opened.get(POINTER_KEY, max_bytes=1 << 20)
    assert fetched is not None
    manifest = Pointer.from_json(fetched.data).manifest
    (table,) = manifest.tables
    embedded: Manifest = replace(manifest, tables=(replace(table, provenance={"embedding": {"model": "small-3"}}),))
    opened.put(POINTER_KEY, Pointer(embedded.release, embedded).to_json())
    opened.put(manifest_key(two_releases[0]), b"{}")

    output = run("releases", store).stdout

    assert "small-3" in output
    assert "RELEASE_DAMAGED" in output
    assert json.loads(run("releases", store, "--json").stdout)[1]["problem"] == "RELEASE_DAMAGED"


def test_nothing_published_is_an_answer(run: Run, store: str) -> None:
    result = run("releases", store)

    assert (result.exit_code, result.stdout) == (0, "Nothing has been published there.\n")


@pytest.mark.parametrize("lost", [b"{}", b" " * (1 << 24), None], ids=["damaged", "too large", "missing"])
def test_a_lost_pointer_is_a_note_to_the_list_and_is_mended_by_naming_a_release(
    run: Run, store: str, two_releases: list[str], lost: bytes | None
) -> None:
    opened = open_store(store)
    opened.delete([POINTER_KEY])
    if lost is not None:
        opened.put(POINTER_KEY, lost)

    listed = run("releases", store)
    assert listed.exit_code == 0
    assert all(release in listed.stdout for release in two_releases)
    assert "* is current" not in listed.stdout
    assert f"bedivere rollback {store} RELEASE" in listed.stderr
    assert run("prune", store, "--keep", 1).stderr.startswith("RELEASE_DAMAGED: ")
    assert run("rollback", store).stderr.startswith("RELEASE_DAMAGED: ")

    assert run("rollback", store, two_releases[0]).exit_code == 0
    assert run("releases", store).stderr == ""


# rollback


def test_rolling_back_says_where_from_and_where_to(run: Run, store: str, two_releases: list[str]) -> None:
    older, newer = two_releases

    assert run("rollback", store).stdout == (
        f"Release {older} is current; before it was {newer}.\nTo go back: bedivere rollback {store} {newer}\n"
    )
    assert run("rollback", store, older).stdout == f"Release {older} is current already.\n"
    assert json.loads(run("rollback", store, newer, "--json").stdout) == {"before": older, "current": newer}


def test_a_second_rollback_past_the_oldest_names_the_way_to_the_newest(
    run: Run, store: str, two_releases: list[str]
) -> None:
    run("rollback", store)

    result = run("rollback", store)

    assert result.stderr.startswith("RELEASE_NOT_FOUND: There is no release before the current one")
    assert f"bedivere rollback {store} {two_releases[1]}" in result.stderr


def test_a_release_that_is_not_there_is_said_so(run: Run, store: str, two_releases: list[str]) -> None:
    result = run("rollback", store, "none")

    assert result.exit_code == 1
    assert result.stderr.startswith("RELEASE_NOT_FOUND: ")


# prune


def test_pruning_says_what_went(run: Run, store: str, two_releases: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "moment_of", lambda _: history.datetime.min.replace(tzinfo=history.UTC))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    arguments = ("prune", store, "--keep", 1, "--grace-hours", 0)

    assert "1 release would be removed: 2 objects" in run(*arguments, "--dry-run").stdout
    assert json.loads(run(*arguments, "--dry-run", "--json").stdout)["releases"] == [two_releases[0]]
    result = run(*arguments)
    assert result.stdout.splitlines()[0] == two_releases[0]
    assert "1 release removed: 2 objects" in result.stdout
    assert "0 releases removed" in run(*arguments).stdout


@pytest.mark.parametrize("tried", [["--dry-run"], []])
def test_pruning_says_why_what_is_old_stays(run: Run, store: str, two_releases: list[str], tried: list[str]) -> None:
    result = run("prune", store, "--keep", 1, "--grace-hours", 1.5, *tried)

    lines = result.stdout.splitlines()
    assert lines[1] == f"{two_releases[0]} stays: it was published within the grace"
    assert lines[2].startswith("The grace is 1.5 hours (--grace-hours)")


def test_what_is_spared_is_told_to_scripts_with_its_reason(run: Run, store: str, two_releases: list[str]) -> None:
    run("rollback", store)

    told = json.loads(run("prune", store, "--keep", 1, "--json").stdout)

    assert told["spared"] == [{"release": two_releases[0], "reason": "it is the current one"}]


def test_no_grace_is_spoken_of_where_it_spares_nothing(run: Run, store: str, two_releases: list[str]) -> None:
    run("rollback", store)

    told = run("prune", store, "--keep", 1, "--dry-run").stdout

    assert f"{two_releases[0]} stays: it is the current one" in told
    assert "grace" not in told


def test_the_grace_is_a_day_where_none_is_given(run: Run, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[timedelta] = []

    def record(*_: Any, **options: Any) -> pruning.Pruned:
        asked.append(options["grace"])
        return pruning.Pruned((), 0, 0)

    monkeypatch.setattr(pruning, "prune", record)
    run("prune", store, "--keep", 1)

    assert asked == [pruning.GRACE]


def test_what_could_not_be_removed_is_a_note(run: Run, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "prune", lambda *_, **__: pruning.Pruned((), 0, 0, ("It takes a right.",)))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]

    assert run("prune", store, "--keep", 1).stderr == "note: It takes a right.\n"
    assert json.loads(run("prune", store, "--keep", 1, "--json").stdout)["notes"] == ["It takes a right."]


@pytest.mark.parametrize(
    ("command", "module", "name"),
    [(["rollback"], history, "rollback"), (["prune", "--keep", "1"], pruning, "prune")],
)
def test_a_command_that_is_interrupted_says_so_in_one_line(
    run: Run, store: str, monkeypatch: pytest.MonkeyPatch, command: list[str], module: ModuleType, name: str
) -> None:
    monkeypatch.setattr(module, name, lambda *_, **__: signal.raise_signal(signal.SIGINT))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    result = run(*command, store)

    assert result.exit_code == 130
    assert result.stderr.startswith("Interrupted: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [[], ["--keep", "0"], ["--keep", "1", "--grace-hours", "-1"], ["--keep", "1", "--grace-hours", "nan"]]
)
def test_pruning_without_a_number_to_keep_is_wrong_usage(run: Run, store: str, arguments: list[str]) -> None:
    assert run("prune", store, *arguments).exit_code == 2
