"""A `bedivere serve --http` process over a small indexed folder, for clients that are not Python."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

BEDIVERE = Path(sys.executable).with_name("bedivere")
START_SECONDS = 60
DOCUMENTS = {
    "rotation.md": "# Key rotation\n\nRotate the signing key every ninety days with `rotate_signing_key`.\n",
    "backup.md": "# Backups\n\nA backup of the ledger runs every night and is kept for a month.\n",
}


@contextmanager
def live_server(folder: Path) -> Generator[str]:
    """Index DOCUMENTS below the folder and serve them on a free loopback port; yields the endpoint's URL."""
    source, database, log = folder / "docs", folder / "database", folder / "server.log"
    source.mkdir(parents=True)
    for name, text in DOCUMENTS.items():
        (source / name).write_text(text, encoding="utf-8")
    port = _free_port()
    environment = _environment()
    index = [BEDIVERE, "index", source, database]
    indexed = subprocess.run(index, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert indexed.returncode == 0, indexed.stderr
    command = [BEDIVERE, "serve", "--http", str(port), "--host", "127.0.0.1", "--database", database]
    with log.open("wb") as output, subprocess.Popen(command, env=environment, stdout=output, stderr=output) as server:
        try:
            _wait_until_it_listens(server, port, log)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            server.terminate()
            try:
                server.wait(timeout=20)
            except subprocess.TimeoutExpired:
                server.kill()
                raise


def _environment() -> dict[str, str]:
    """The caller's environment without settings of the server, which would change what is tested."""
    ours = ("BEDIVERE_", "LANCELOT_", "LANCEDB_", "OPENAI_", "EMBEDDING_", "AWS_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_it_listens(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            try:
                code = server.wait(timeout=0.1)
            except subprocess.TimeoutExpired:
                continue
            raise AssertionError(f"the server ended with {code}:\n{log.read_text()}") from None
        else:
            return
    raise AssertionError(f"the server did not listen within {START_SECONDS} s:\n{log.read_text()}")
