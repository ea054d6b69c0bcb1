"""Real indexer processes that are killed, interrupted or started twice: the table is the old one or the new one."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import lancedb
import pytest

from retrieval.indexing.build import build_table
from retrieval.indexing.generation import IN_USE
from retrieval.indexing.job import Options

pytestmark = pytest.mark.e2e

FILES = 60
STAGES = ("Looking for", "Reading", "Copying", "Writing", "Indexing", "Swapping")
MOMENTS = [*((stage, 0.0) for stage in STAGES), *(("Writing", 0.02 * step) for step in range(1, 10))]
"""(stage, seconds after it began); writing, indexing and swapping so few documents takes about 0.2 s."""

KILL_AT = """
import os, signal, sys
from pathlib import Path
from retrieval.indexing import generation
from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options

source, database, owner, name, when = sys.argv[1:]
targets = [Path, generation, generation.TableFolder, generation.shutil]
target = next(each for each in targets if each.__name__.rpartition(".")[2] == owner)
real = getattr(target, name)

def die(*arguments, **options):
    result = real(*arguments, **options) if when == "after" else None
    os.kill(os.getpid(), signal.SIGKILL)
    return result

setattr(target, name, die)
build_table(Options(Path(source), Path(database)))
"""


@pytest.fixture
def options(tmp_path: Path) -> Options:
    options = Options(tmp_path / "docs", tmp_path / "db")
    options.source.mkdir()
    write(options, 0)
    build_table(options)
    return options


def write(options: Options, edition: int) -> None:
    """Every document anew, each with one more section every second time: editions differ in their number of rows."""
    for number in range(FILES):
        sections = [f"## Part {part}\n\nSection of edition{edition}.\n" for part in range(2 + edition % 2)]
        (options.source / f"{number:02}.md").write_text(f"# Page {number}\n\n" + "\n".join(sections))


def editions(options: Options) -> tuple[set[int], int]:
    """The editions of which the table holds rows, and how many rows; every row must be there and be found."""
    table = lancedb.connect(options.database).open_table(options.table)
    rows = table.search().select(["text"]).to_list()
    assert len(rows) == table.count_rows()
    found = {int(row["text"].rpartition("edition")[2].rstrip(".\n")) for row in rows}
    (edition,) = found
    query = table.search(f"edition{edition}", query_type="fts", fts_columns="search_text").select(["id", "_score"])
    assert len(query.limit(len(rows) + 1).to_list()) == len(rows)
    return found, len(rows)


def rows_of(edition: int) -> int:
    return FILES * (2 + edition % 2)


def left(options: Options) -> list[str]:
    return [child.name for child in (options.database / ".bedivere" / options.table).iterdir()]


@contextmanager
def indexing(options: Options) -> Generator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "handler.cli", "index", str(options.source), str(options.database)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def reach(process: subprocess.Popen[str], stage: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(stage):
            return
    raise AssertionError(f"the indexer ended before it came to {stage}")


def assert_old_or_new_then_recovers(options: Options, edition: int) -> bool:
    """Whether the new edition had taken its place."""
    (found,), rows = editions(options)
    assert found in (edition - 1, edition)
    assert rows == rows_of(found)
    build_table(options)
    assert editions(options) == ({edition}, rows_of(edition))
    assert len(left(options)) == 1
    return found == edition


@pytest.mark.parametrize(("stage", "delay"), MOMENTS)
def test_a_kill_at_any_moment_leaves_one_whole_table(options: Options, stage: str, delay: float) -> None:
    write(options, 1)
    with indexing(options) as process:
        reach(process, stage)
        time.sleep(delay)  # waits for nothing: it is to be somewhere else each time
        process.kill()
        process.wait()
    assert_old_or_new_then_recovers(options, 1)


@pytest.mark.parametrize(
    ("owner", "name", "when", "swapped"),
    [
        ("TableFolder", "place", "before", False),
        ("generation", "flush", "before", False),
        ("Path", "replace", "before", False),
        ("Path", "replace", "after", True),
        ("TableFolder", "place", "after", True),
        ("shutil", "rmtree", "before", True),
        ("shutil", "rmtree", "after", True),
    ],
)
def test_a_kill_around_the_swap_leaves_one_whole_table(
    options: Options, owner: str, name: str, when: str, swapped: bool
) -> None:
    write(options, 1)
    arguments = [str(options.source), str(options.database), owner, name, when]
    killed = subprocess.run([sys.executable, "-c", KILL_AT, *arguments], check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    assert assert_old_or_new_then_recovers(options, 1) == swapped


@pytest.mark.parametrize(("stop", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("stage", ["Reading", "Writing", "Indexing"])
def test_a_polite_stop_leaves_the_old_table_and_says_so(
    options: Options, stop: signal.Signals, code: int, stage: str
) -> None:
    write(options, 1)
    with indexing(options) as process:
        reach(process, stage)
        process.send_signal(stop)
        _, errors = process.communicate()
    assert process.returncode == code, errors
    assert "Traceback" not in errors
    assert not assert_old_or_new_then_recovers(options, 1)


def test_a_second_process_is_refused_at_once_and_the_first_is_not_disturbed(options: Options) -> None:
    write(options, 1)
    with indexing(options) as first:
        reach(first, "Looking for")
        first.send_signal(signal.SIGSTOP)
        with indexing(options) as second:
            _, errors = second.communicate()
        assert second.returncode == 1
        assert f"INDEX_LOCKED: Process {first.pid} is indexing into table 'documents'" in errors
        first.send_signal(signal.SIGCONT)
        first.communicate()
        assert first.returncode == 0
    assert editions(options) == ({1}, rows_of(1))


def test_a_lock_that_a_killed_process_left_does_not_stand_in_the_way(options: Options) -> None:
    write(options, 1)
    with indexing(options) as process:
        reach(process, "Looking for")
        process.kill()
        process.wait()
    assert (options.database / ".bedivere/documents.lock").read_text() == f"{process.pid}\n"
    assert build_table(options).files == FILES


def test_a_table_that_is_being_read_stays_until_the_reader_has_gone(options: Options) -> None:
    old = (options.database / "documents.lance").resolve()
    reader = os.open(old.parent / IN_USE, os.O_RDONLY)
    try:
        fcntl.flock(reader, fcntl.LOCK_SH)
        write(options, 1)
        with indexing(options) as process:
            process.communicate()
        assert process.returncode == 0
        assert lancedb.connect(old.parent).open_table("documents").count_rows() == rows_of(0)
        assert editions(options) == ({1}, rows_of(1))
    finally:
        os.close(reader)
    build_table(options)
    assert not old.exists()
