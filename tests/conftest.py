"""What all tests share: an environment without settings, and tables as Bedivere and others write them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import lancedb
import pyarrow as pa
import pytest
from hypothesis import settings
from lancedb.index import FTS

from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options

pytest_plugins = ["tests.s3_server", "tests.embedding_server"]

# A busy machine is no fault: what must be quick has a test that says so.
settings.register_profile("bedivere", deadline=None)
settings.load_profile("bedivere")

# A shell that starts the tests in the background has them ignore Ctrl-C, and every process that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SETTINGS_PREFIXES = ("BEDIVERE_", "LANCELOT_", "LANCEDB_", "OPENAI_", "EMBEDDING_")

HANDBOOK = {
    "index.md": "# Handbook\n\nHow the ledger is run.\n",
    "keys.md": (
        "---\nstatus: final\nowner: platform\npriority: 2\n---\n# Keys\n\n## Rotation\n\n"
        "Rotate the signing key every ninety days with `rotate_signing_key`.\n\n"
        "## Storage\n\nKeys live in the vault. Set `VAULT_ADDR` before you start.\n"
    ),
    "backup.md": (
        "# Backups\n\n## Schedule\n\nA backup of the ledger runs every night.\n\n"
        "## Restore\n\nRestore with `ledger restore --from-snapshot`. Restoring takes an hour.\n"
    ),
    "guides/long.md": "# Long\n\n## Story\n\n"
    + "\n\n".join(f"Paragraph {n} of the story speaks of turbines and of number {n}. " * 12 for n in range(8)),
}


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:  # pyright: ignore[reportUnusedFunction]
    """No setting of the machine reaches a test."""
    for name in list(os.environ):
        if name.startswith(SETTINGS_PREFIXES):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "no-config"))


@pytest.fixture(scope="session")
def handbook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database that `bedivere index` built of HANDBOOK; tests only read it."""
    folder = tmp_path_factory.mktemp("handbook")
    source, database = folder / "docs", folder / "database"
    for name, text in HANDBOOK.items():
        file = source / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    build_table(Options(source=source, database=database))
    return database


TableMaker = Callable[..., Path]


@pytest.fixture
def make_table(tmp_path: Path) -> TableMaker:
    """Writes a table as another tool would: make_table(columns, name="documents", fts=["text"]) -> database folder."""

    def make(
        columns: Mapping[str, object],
        *,
        name: str = "documents",
        fts: list[str] | None = None,
        with_position: bool = False,
    ) -> Path:
        async def write() -> None:
            connection = await lancedb.connect_async(tmp_path / "database")
            table = await connection.create_table(name, cast("Any", pa.table(columns)), mode="overwrite")
            for column in fts or []:
                await table.create_index(column, config=FTS(with_position=with_position))

        asyncio.run(write())
        return tmp_path / "database"

    return make
