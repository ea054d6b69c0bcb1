"""Real indexer processes that are killed while they embed: the next run asks only for what is not on the disk yet."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import lancedb
import pytest

from tests import planted
from tests.embedding_server import EmbeddingServer

pytestmark = pytest.mark.e2e

FILES = 400
REQUESTS_BEFORE = 4
WITHIN_SECONDS = 60
RUN = """
import sys
from pathlib import Path
from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options
from retrieval.provider import Endpoint
from retrieval.settings import load_settings

source, database = map(Path, sys.argv[1:])
build_table(Options(source, database, embed=True, endpoint=Endpoint(load_settings())))
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for number in range(FILES):
        (folder / f"{number:03}.md").write_text(f"# Page {number}\n\nWords of page{number}.\n")
    return folder


def started(source: Path, database: Path, server: EmbeddingServer) -> subprocess.Popen[bytes]:
    environment = {**os.environ, **server.environment(), "OPENAI_API_KEY": planted.EMBEDDING_KEY}
    return subprocess.Popen(
        [sys.executable, "-c", RUN, str(source), str(database)], env=environment, stderr=subprocess.PIPE
    )


def kept(database: Path) -> int:
    """Bytes of vectors on the disk."""
    return sum(file.stat().st_size for file in (database / ".bedivere").glob("documents.vectors/*"))


def wait_for_vectors(database: Path, count: int) -> None:
    """Until so many vectors of 16 numbers are on the disk."""
    deadline = time.monotonic() + WITHIN_SECONDS
    while kept(database) < count * (20 + 16 * 4):
        assert time.monotonic() < deadline, "the vectors did not come"
        time.sleep(0.01)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_run_that_was_ended_midway_loses_nothing_that_it_paid_for(
    source: Path, tmp_path: Path, embedding_server: EmbeddingServer, how: signal.Signals
) -> None:
    database = tmp_path / "db"
    embedding_server.hang_after = REQUESTS_BEFORE
    with started(source, database, embedding_server) as process:
        try:
            assert embedding_server.held.wait(WITHIN_SECONDS)
            wait_for_vectors(database, len(embedding_server.answered))
            process.send_signal(how)
            # What hangs would be waited for.
            embedding_server.closing.set()
            process.communicate(timeout=WITHIN_SECONDS)
        finally:
            process.kill()
    assert process.returncode != 0
    assert not (database / "documents.lance").exists()
    paid = set(embedding_server.answered)
    assert 0 < len(paid) < FILES

    embedding_server.answered.clear()
    embedding_server.heal()
    with started(source, database, embedding_server) as process:
        _, errors = process.communicate(timeout=WITHIN_SECONDS)
    assert process.returncode == 0, errors.decode()
    assert paid.isdisjoint(embedding_server.answered)
    # Beside the documents, the questions that the table is measured by.
    documents = [text for text in embedding_server.answered if "Words of page" in text and "\n" in text]
    assert len(paid) + len(documents) == FILES
    table = lancedb.connect(database).open_table("documents")
    assert table.count_rows() == FILES
