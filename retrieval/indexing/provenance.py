"""The provenance record of a table that is being built: of what, by what, and when."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from retrieval.indexing import chunks
from retrieval.indexing.spool import DocumentKey, SpooledDocument
from retrieval.indexing.state import ScopeState
from retrieval.schema import Provenance


def describe(
    source: Path,
    documents: Mapping[DocumentKey, SpooledDocument],
    scopes: Mapping[str, ScopeState],
    embedding: dict[str, Any] | None,
) -> Provenance:
    """The record of a table of `documents`, built now of `source` and of what `scopes` say was read before."""
    sizes = sum(
        record.size
        for prefix, path in documents
        if prefix in scopes and (record := scopes[prefix].files.get(path)) is not None
    )
    return Provenance(
        tool_version=version("bedivere"),
        lancedb_version=version("lancedb"),
        built_at=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        source={"files": len(documents), "bytes": sizes, "revision": _revision(source)},
        chunker=dict[str, Any](chunks.PARAMETERS),
        corpus_version=corpus_version(documents),
        embedding=embedding,
    )


def corpus_version(documents: Mapping[DocumentKey, SpooledDocument]) -> str:
    """SHA-256 in hexadecimal over the documents' places and contents and the chunker: the same for the same rows."""
    digest = hashlib.sha256(json.dumps(chunks.PARAMETERS, sort_keys=True).encode())
    for (prefix, path), document in sorted(documents.items(), key=lambda item: item[0]):
        digest.update(f"\0{prefix}\0{path}\0{document.content_hash}".encode())
    return digest.hexdigest()


def _revision(source: Path) -> str | None:
    """The git commit that is checked out at the source; None where there is none to be had."""
    folder = source if source.is_dir() else source.parent
    try:
        result = subprocess.run(  # noqa: S603
            ["git", "-C", str(folder.absolute()), "rev-parse", "--verify", "HEAD"],  # noqa: S607
            capture_output=True,
            check=True,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=2,
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return result.stdout.strip() or None
