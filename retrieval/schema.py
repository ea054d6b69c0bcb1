"""The columns that the indexer writes and the provenance record that travels with a table.

One row is one chunk. Readers need only `text`; whatever else a table holds comes back as metadata.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, cast

from pydantic import TypeAdapter, ValidationError

FORMAT: Final = 1
"""Grows when a reader of the last format could no longer read the table."""

PROVENANCE_KEY: Final = b"bedivere"
"""Key of the provenance record in the Arrow schema's metadata."""

DEFAULT_TABLE: Final = "documents"

STRING_COLUMNS: Final = (
    "id",
    "path",
    "title",
    "heading",
    "text",
    "url",
    "collection",
    "version",
    "status",
    "date",
    "superseded_by",
    "content_hash",
    "idents",
    "search_text",
)
"""Columns of UTF-8 text, null where unknown. `search_text` is title, twice, breadcrumb and text, the column
that is searched; `idents` holds identifiers and their parts, separated by spaces."""

ORDINAL_COLUMN: Final = "chunk"
"""int32: the chunk's place in its document, from 0."""

VECTOR_COLUMN: Final = "vector"
"""Fixed-size list of float32, present once a table is embedded."""

COLUMNS: Final = (*STRING_COLUMNS, ORDINAL_COLUMN)

INTERNAL_COLUMNS: Final = frozenset({"idents", "search_text", "content_hash"})
"""Columns that serve search itself and never come back as metadata."""

BREADCRUMB_SEPARATOR: Final = " > "

COMPANIONS: Final = "_bedivere"
"""Folder beside a table's data, within it, for what the indexer learns of the whole table and search needs."""

VOCABULARY_FILE: Final = "vocabulary.tsv"
CATALOG_FILE: Final = "catalog.arrow"


MEASURED_KEY: Final = b"bedivere"
"""Key, in the metadata of the vectors' column, of what was measured of them once the table was written."""


def measured(metadata: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    """What was measured of a column of vectors, by its Arrow metadata: recall and calibration; empty for nothing."""
    raw = (metadata or {}).get(MEASURED_KEY)
    try:
        found: object = json.loads(raw) if raw else {}
    except ValueError:
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a table comes from; stored as JSON in the schema metadata, see `PROVENANCE_KEY`."""

    tool_version: str
    lancedb_version: str
    built_at: str
    """UTC, ISO 8601, to the second."""
    source: dict[str, Any]
    """`files` (count), `bytes`, `revision` (git commit or null)."""
    chunker: dict[str, Any]
    """The chunker's parameters; chunks of a table with other parameters are not reused."""
    corpus_version: str
    """SHA-256 over the documents' places and contents, in hexadecimal."""
    embedding: dict[str, Any] | None = None
    """`model` and `dimensions`, or null where the table has no vectors."""
    format: int = field(default=FORMAT)

    def to_metadata(self) -> dict[bytes, bytes]:
        record = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return {PROVENANCE_KEY: record.encode()}

    @classmethod
    def from_metadata(cls, metadata: dict[bytes, bytes] | None) -> Provenance | None:
        """The record in a schema's metadata; None where there is none or it cannot be understood."""
        raw = (metadata or {}).get(PROVENANCE_KEY)
        if raw is None:
            return None
        try:
            return TypeAdapter(cls).validate_json(raw, strict=True)
        except ValidationError:
            return None
