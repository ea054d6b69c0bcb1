"""How a run of the indexer is shown."""

from __future__ import annotations

import io
import time
from contextlib import ExitStack

import pytest
from rich.console import Console

from handler.cli.progress import estimate, size_text, wait_text, watcher


def test_a_terminal_gets_a_progress_bar_with_files_chunks_bytes_and_rate() -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=160)
    with ExitStack() as stack:
        shown = watcher(console, stack, quiet=True)
        assert shown is not None
        shown.stage("Reading documents")
        shown.found(1200)
        shown.read("a.md", 2_500_000)
        shown.wrote(1234)
    drawn = screen.getvalue()
    for part in ("Reading documents", "1/1,200 files", "1,234 chunks", "2.5 MB", "files/s"):
        assert part in drawn


def test_a_script_that_asks_for_json_gets_no_progress_lines() -> None:
    with ExitStack() as stack:
        assert watcher(Console(file=io.StringIO()), stack, quiet=True) is None


def test_a_log_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    log = io.StringIO()
    now = iter(range(1000))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(now)))
    with ExitStack() as stack:
        shown = watcher(Console(file=log, width=160), stack, quiet=False)
        assert shown is not None
        shown.found(50)
        for number in range(50):
            shown.read(f"{number}.md", 1_500)
        shown.wrote(3)
    lines = log.getvalue().splitlines()
    assert lines[0] == "50 files found"
    assert 2 < len(lines) < 40
    assert "/50 files, 0 chunks, " in lines[1]
    assert "kB" in lines[1]


def test_embedding_begins_with_an_estimate_and_goes_on_with_what_was_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    log = io.StringIO()
    now = iter(range(0, 10_000, 6))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(now)))
    with ExitStack() as stack:
        shown = watcher(Console(file=log, width=160), stack, quiet=False)
        assert shown is not None
        shown.embedding(200, 40_000, 0.25)
        for _ in range(3):
            shown.embedded(64, 12_000)
    lines = log.getvalue().splitlines()
    assert lines[0] == "200 chunks to embed, about 40,000 tokens, $0.25"
    assert lines[-1] == "192/200 chunks embedded, 36,000 tokens"


def test_a_price_that_is_not_known_is_not_told() -> None:
    assert estimate(1, 90, None) == "1 chunk to embed, about 90 tokens"
    assert estimate(1, 90, 0.0001) == "1 chunk to embed, about 90 tokens, less than $0.01"


def test_a_terminal_is_shown_how_far_embedding_has_come() -> None:
    screen = io.StringIO()
    with ExitStack() as stack:
        shown = watcher(Console(file=screen, force_terminal=True, width=160), stack, quiet=True)
        assert shown is not None
        shown.stage("Embedding")
        shown.embedding(200, 40_000, None)
        shown.embedded(64, 12_000)
    assert "64/200 chunks embedded, 12,000 tokens" in screen.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_a_wait_is_told_with_its_reason_and_its_end(terminal: bool) -> None:
    shown_on = io.StringIO()
    console = Console(file=shown_on, force_terminal=terminal, width=160)
    with ExitStack() as stack:
        shown = watcher(console, stack, quiet=False)
        assert shown is not None
        shown.waiting("The provider answered with status 500.", 3.2)
    assert "The provider answered with status 500. Trying again in 4 seconds." in shown_on.getvalue()


def test_a_wait_of_less_than_a_second_is_told_as_one() -> None:
    assert wait_text("Why.", 0.2) == "Why. Trying again in 1 second."
    assert wait_text("Gone (for the server's owner: look).", 2) == "Gone (look). Trying again in 2 seconds."


def test_documents_of_a_file_of_lines_are_not_called_files() -> None:
    log = io.StringIO()
    with ExitStack() as stack:
        shown = watcher(Console(file=log, width=160), stack, quiet=False, noun="document")
        assert shown is not None
        shown.found(2)
    assert log.getvalue() == "2 documents found\n"


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 bytes"), (999, "999 bytes"), (1_500, "1.5 kB"), (2 * 10**6, "2.0 MB"), (10**9, "1.0 GB")]
)
def test_sizes_are_told_in_decimal_units(size: int, text: str) -> None:
    assert size_text(size) == text
