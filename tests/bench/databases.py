"""The databases that are asked: built by the real indexer, and kept from run to run while nothing would differ."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from retrieval.indexing import catalog, lance, rows
from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options
from tests.bench import corpus

_RECORD: Final = "built.json"


@dataclass(frozen=True, slots=True)
class BuiltDatabase:
    """A database folder and the chunks that its one table holds."""

    folder: Path
    chunks: int

    @classmethod
    def at(cls, cache: Path, size: int) -> BuiltDatabase:
        """The database of about `size` chunks, from `cache` or built now."""
        kept = cache / f"{size}-{_fingerprint()}"
        record = kept / _RECORD
        if not record.is_file():
            for stale in cache.glob(f"{size}-*"):
                shutil.rmtree(stale)
            with tempfile.TemporaryDirectory(prefix="bedivere-bench-") as source:
                corpus.write(Path(source), size)
                summary = build_table(Options(Path(source), kept / "database"))
            # Written last: a folder without it is what an interrupted run left.
            record.write_text(json.dumps({"chunks": summary.chunks}), encoding="utf-8")
        return cls(kept / "database", json.loads(record.read_text(encoding="utf-8"))["chunks"])


def _fingerprint() -> str:
    """Changes whenever the same size would give other files, rows or indexes."""
    parts = [
        rows.fingerprint(),
        version("lancedb"),
        *(Path(module).read_text(encoding="utf-8") for module in (corpus.__file__, catalog.__file__, lance.__file__)),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
