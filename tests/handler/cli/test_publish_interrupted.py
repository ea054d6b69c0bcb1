"""Ctrl-C and SIGTERM during `bedivere publish`, in a process of its own: one line, and a whole release is current."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options
from retrieval.release import history
from retrieval.release.publish import publish
from retrieval.release.store import Store, open_store

pytestmark = pytest.mark.e2e

UNTOUCHED = "Interrupted: the current release, if any, is untouched."
CURRENT = "Interrupted: the new release is current."

INTERRUPTED_AT = """
import os, signal, sys, threading
from handler.cli import main
from retrieval.release.folder import FolderStore

moment, number = sys.argv.pop(1), int(sys.argv.pop(1))

def interrupt():
    os.kill(os.getpid(), number)

def interrupt_and_hang(*_, **__):
    interrupt()
    threading.Event().wait(60)

def upload(self, key, file, *, sha256, on_sent):
    interrupt()
    try:
        while True:
            on_sent(0)
    finally:
        if moment == "an upload, twice":
            interrupt_and_hang()

class Importing:
    def find_spec(self, name, *_):
        if name == "retrieval.release.publish":
            interrupt_and_hang()

if moment == "the imports":
    sys.meta_path.insert(0, Importing())
else:
    from retrieval.release import history, publish
match moment:
    case "the checks":
        publish.examine = interrupt_and_hang
    case "the look at the store":
        history.survey = interrupt_and_hang
    case "an upload" | "an upload, twice":
        FolderStore.upload = upload
    case "the flip":
        real = history.flip
        history.flip = lambda *arguments: (interrupt(), real(*arguments))
main()
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    (tmp_path / "store").mkdir()
    return open_store((tmp_path / "store").as_uri())


@pytest.fixture
def old(tmp_path: Path, store: Store) -> str:
    """The release that is current before the run; the database has changed since."""
    write(tmp_path, 1)
    release = publish(tmp_path / "db", store).release
    write(tmp_path, 2)
    return release


def write(tmp_path: Path, edition: int) -> None:
    source = tmp_path / "docs"
    source.mkdir(exist_ok=True)
    (source / "page.md").write_text(f"# Page\n\nEdition {edition}.\n")
    build_table(Options(source, tmp_path / "db"))


def keys(store: Store) -> list[str]:
    return [stored.key for stored in store.list("")]


def current_and_whole(store: Store) -> str:
    found = history.current(store)
    assert found is not None
    assert found.pointer is not None
    parts = found.pointer.manifest.parts
    assert history.held(store, parts) == set(parts)
    return found.pointer.release


def interrupted_at(
    moment: str, tmp_path: Path, store: Store, number: signal.Signals = signal.SIGINT
) -> tuple[int, list[str]]:
    """The exit code of a run that gets the signal at that moment, and its lines on standard error."""
    command = [
        sys.executable,
        "-c",
        INTERRUPTED_AT,
        moment,
        str(number.value),
        "publish",
        str(tmp_path / "db"),
        store.uri,
    ]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.stdout == ""
    return ran.returncode, ran.stderr.splitlines()


@pytest.mark.parametrize("moment", ["the imports", "the checks", "the look at the store", "an upload"])
def test_ctrl_c_before_the_new_release_is_current_leaves_the_store_as_it_was(
    tmp_path: Path, store: Store, old: str, moment: str
) -> None:
    before = keys(store)

    code, lines = interrupted_at(moment, tmp_path, store)

    assert code == 130
    assert [line for line in lines if not line.endswith(("tables", "published", "part"))] == [UNTOUCHED]
    assert current_and_whole(store) == old
    assert keys(store) == before


def test_a_second_ctrl_c_ends_at_once_and_the_next_run_removes_what_is_left(
    tmp_path: Path, store: Store, old: str
) -> None:
    code, lines = interrupted_at("an upload, twice", tmp_path, store)

    assert (code, lines[-1]) == (130, UNTOUCHED)
    assert "Traceback" not in "".join(lines)
    assert current_and_whole(store) == old


def test_ctrl_c_at_the_flip_says_that_the_new_release_is_current(tmp_path: Path, store: Store, old: str) -> None:
    code, lines = interrupted_at("the flip", tmp_path, store)

    assert (code, lines[-1]) == (130, CURRENT)
    assert current_and_whole(store) > old


def test_a_run_that_is_terminated_leaves_the_store_as_it_was(tmp_path: Path, store: Store, old: str) -> None:
    before = keys(store)

    code, lines = interrupted_at("an upload", tmp_path, store, signal.SIGTERM)

    assert (code, lines[-1]) == (143, UNTOUCHED)
    assert keys(store) == before
    assert current_and_whole(store) == old


@pytest.mark.parametrize("stage", ["Checking", "Looking", "Uploading", "Making"])
def test_ctrl_c_from_a_stage_on_is_told_as_what_it_has_come_to(
    tmp_path: Path, store: Store, old: str, stage: str
) -> None:
    command = [sys.executable, "-u", "-m", "handler.cli", "publish", str(tmp_path / "db"), store.uri]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while not process.stderr.readline().startswith(stage):
            assert process.poll() is None
        os.kill(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=120)

    assert process.returncode == (130 if "Interrupted" in errors else 0)
    assert "Traceback" not in errors
    assert (current_and_whole(store) == old) == (UNTOUCHED in errors)
