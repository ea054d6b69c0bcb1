"""A build that fails or is stopped, wherever it is: the old table stays, and nothing else."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import errno
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, NoReturn

import lancedb
import pytest

from retrieval.errors import BedivereError, ErrorCode
from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options, Quiet


@pytest.fixture
def options(tmp_path: Path) -> Options:
    """Of a folder that was indexed and has changed since."""
    source = tmp_path / "docs"
    source.mkdir()
    (source / "a.md").write_text("The old words.")
    (source / "b.md").write_text("Words that stay.")
    options = Options(source, tmp_path / "db")
    build_table(options)
    (source / "a.md").write_text("The new words.")
    return options


def texts(options: Options) -> list[str]:
    table = lancedb.connect(options.database).open_table(options.table)
    return sorted(row["text"] for row in table.search().select(["text"]).to_list())


OLD = ["The old words.", "Words that stay."]
NEW = ["The new words.", "Words that stay."]


def left(options: Options) -> list[Path]:
    return sorted((options.database / ".bedivere" / options.table).iterdir())


def disk_full(*_arguments: Any) -> NoReturn:
    raise OSError(errno.ENOSPC, "No space left on device", "/private/place")


def disk_full_while_rows_are_taken(*_arguments: Any) -> Generator[Any]:
    # Within LanceDB, which turns it into an error of its own.
    yield from ()
    disk_full()


def no_rows(*_arguments: Any) -> Generator[Any]:
    yield from ()


def no_such_file(*_arguments: Any) -> NoReturn:
    raise FileNotFoundError(errno.ENOENT, "No such file or directory", "/private/place")


def library_fault(*_arguments: Any) -> NoReturn:
    raise RuntimeError("lance error: /private/place is odd")


def no(*_arguments: Any) -> bool:
    return False


def nothing(*_arguments: Any) -> None:
    return None


@pytest.mark.parametrize(
    ("place", "breaker", "says"),
    [
        ("retrieval.indexing.spool.Spool.add", disk_full, "The disk is full"),
        ("retrieval.indexing.spool.Spool.batches", disk_full_while_rows_are_taken, "The disk is full"),
        ("retrieval.indexing.spool.Spool.batches", no_rows, "rows are missing"),
        ("retrieval.indexing.lance.is_indexed", no, "rows are not indexed"),
        ("retrieval.indexing.lance.answers", no, "it does not answer"),
        ("retrieval.indexing.lance.provenance_of", nothing, "provenance record is missing"),
        ("retrieval.indexing.lance.write", library_fault, "(RuntimeError)"),
        ("retrieval.indexing.state.save", disk_full, "The disk is full"),
        ("retrieval.indexing.generation.flush", disk_full, "The disk is full"),
        ("pathlib.Path.replace", no_such_file, "(No such file or directory)"),
    ],
)
def test_a_build_that_fails_leaves_the_old_table_and_no_litter(
    options: Options, monkeypatch: pytest.MonkeyPatch, place: str, breaker: Callable[..., Any], says: str
) -> None:
    monkeypatch.setattr(place, breaker)
    with pytest.raises(BedivereError, match="the old table, if any, is untouched") as failed:
        build_table(options)
    assert failed.value.code == ErrorCode.BUILD_FAILED
    assert says in failed.value.sentence
    assert "/" not in failed.value.sentence
    assert texts(options) == OLD
    assert len(left(options)) == 1
    monkeypatch.undo()
    build_table(options)
    assert texts(options) == NEW


STAGES = [
    "Looking for documents",
    "Reading documents",
    "Copying unchanged rows",
    "Writing the table",
    "Indexing",
    "Swapping it in",
]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("stage", STAGES)
def test_a_stop_at_any_stage_leaves_the_old_table_and_no_litter(
    options: Options, stage: str, stop: type[BaseException]
) -> None:
    class Stopper(Quiet):
        def stage(self, name: str) -> None:
            if name == stage:
                raise stop

    with pytest.raises(stop):
        build_table(options, Stopper())
    assert texts(options) == OLD
    assert len(left(options)) == 1
    build_table(options)
    assert texts(options) == NEW


def test_the_first_build_that_fails_leaves_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").write_text("Words.")
    options = Options(tmp_path / "docs", tmp_path / "db")
    monkeypatch.setattr("retrieval.indexing.lance.write", library_fault)
    with pytest.raises(BedivereError):
        build_table(options)
    assert not options.database.exists()


def test_a_run_that_was_killed_after_the_swap_has_its_old_table_cleared_by_the_next(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retrieval.indexing.generation.TableFolder.clear", nothing)
    build_table(options)
    assert len(left(options)) == 2
    monkeypatch.undo()
    assert build_table(options).unchanged
    assert len(left(options)) == 1
    assert texts(options) == NEW
