"""A server of a small folder for clients that are not Python: `bedivere serve --http`, or what the image holds."""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.emulator import emulated
from tests.e2e.listening import free_ports, wait_until_it_listens

BEDIVERE = Path(sys.executable).with_name("bedivere")
START_SECONDS = 60
DOCUMENTS = {
    "rotation.md": "# Key rotation\n\nRotate the signing key every ninety days with `rotate_signing_key`.\n",
    "backup.md": "# Backups\n\nA backup of the ledger runs every night and is kept for a month.\n",
}


@contextmanager
def live_server(folder: Path) -> Generator[str]:
    """Index DOCUMENTS below the folder and serve them on a free loopback port; yields the endpoint's URL."""
    database, log = _index(folder), folder / "server.log"
    (port,) = free_ports(1)
    environment = _environment()
    command = [BEDIVERE, "serve", "--http", str(port), "--host", "127.0.0.1", "--database", database]
    with log.open("wb") as output, subprocess.Popen(command, env=environment, stdout=output, stderr=output) as server:
        try:
            wait_until_it_listens(server, port, log, seconds=START_SECONDS)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            server.terminate()
            try:
                server.wait(timeout=20)
            except subprocess.TimeoutExpired:
                server.kill()
                raise


@contextmanager
def live_function(folder: Path) -> Generator[str]:
    """The same from what the Lambda image holds, under the emulator."""
    with emulated({"LANCEDB_PATH": str(_index(folder))}, folder) as function:
        yield function.url


def _index(folder: Path) -> Path:
    source, database = folder / "docs", folder / "database"
    source.mkdir(parents=True)
    for name, text in DOCUMENTS.items():
        (source / name).write_text(text, encoding="utf-8")
    index = [BEDIVERE, "index", source, database]
    indexed = subprocess.run(index, env=_environment(), capture_output=True, text=True, timeout=120, check=False)
    assert indexed.returncode == 0, indexed.stderr
    return database


def _environment() -> dict[str, str]:
    """The caller's environment without settings of the server, which would change what is tested."""
    ours = ("BEDIVERE_", "LANCELOT_", "LANCEDB_", "OPENAI_", "EMBEDDING_", "AWS_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}
