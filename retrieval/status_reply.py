"""What a status call answers: the tables of a database, their indexes, and where they come from."""

from __future__ import annotations

from pydantic import Field

from retrieval.types import Reply


class IndexStatus(Reply):
    """One index of a table."""

    column: str = Field(description="The column it covers.")
    type: str = Field(description="Kind of index: FTS for full text.")
    indexed: int = Field(description="Rows in the index.")
    unindexed: int = Field(description="Rows found by scan until the table is optimized; 0 in a finished table.")


class VectorsStatus(Reply):
    """One column of vectors."""

    column: str = Field(description="The column.")
    dimensions: int = Field(description="Numbers in each vector.")
    index: str = Field(description="Kind of index; flat where all vectors are compared, which is exact.")
    recall_at_10: float | None = Field(default=None, description="Share of an exact search's best ten it finds.")
    calibrated: bool = Field(description="True where nearness counts when nothing may be relevant.")


class CollectionStatus(Reply):
    """Documents that were indexed under one name."""

    name: str | None = Field(default=None, description="The collection; null for documents without one.")
    documents: int = Field(description="Its documents, all versions counted.")
    versions: list[str] = Field(default_factory=list[str], description="Its versions, newest first, at most 20.")


class ProvenanceStatus(Reply):
    """Where a table comes from."""

    built_at: str = Field(description="When it was built, UTC.")
    tool_version: str = Field(description="The Bedivere that built it.")
    lancedb_version: str = Field(description="The LanceDB that wrote it.")
    corpus_version: str = Field(description="Hash of the indexed content: equal means the same documents.")
    files: int | None = Field(default=None, description="Files it was built from.")
    revision: str | None = Field(default=None, description="Git revision of the source.")
    embedding_model: str | None = Field(default=None, description="Model of its vectors; null without vectors.")


class ColumnStatus(Reply):
    """One column of a table."""

    name: str = Field(description="Its name.")
    type: str = Field(description="Its Arrow type.")


class TableStatus(Reply):
    """One table of the database."""

    name: str = Field(description="Its name.")
    rows: int | None = Field(default=None, description="Chunks in it; null where it cannot be read.")
    indexes: list[IndexStatus] = Field(default_factory=list[IndexStatus], description="Its indexes.")
    vectors: list[VectorsStatus] = Field(default_factory=list[VectorsStatus], description="Its columns of vectors.")
    collections: list[CollectionStatus] = Field(
        default_factory=list[CollectionStatus], description="Its collections, by name, at most 50."
    )
    provenance: ProvenanceStatus | None = Field(default=None, description="Null where another tool wrote it.")
    columns: list[ColumnStatus] | None = Field(default=None, description="Its columns, where verbose was asked.")
    problem: str | None = Field(default=None, description="CODE: sentence, where it cannot be searched.")
    notes: list[str] = Field(default_factory=list[str], description="What limits a search of it.")


class EmbeddingsStatus(Reply):
    """Whether queries can be embedded."""

    available: bool = Field(description="True where vector and hybrid search work.")
    reason: str | None = Field(default=None, description="Why not, where they do not.")
    model: str | None = Field(default=None, description="The configured model.")


class ReleaseStatus(Reply):
    """The release that serves, where the dataset is a store of releases."""

    id: str | None = Field(default=None, description="The release that serves; null where none does yet.")
    created_at: str | None = Field(default=None, description="When it was published, UTC.")
    age_seconds: int | None = Field(default=None, description="Seconds since it was published.")
    synced_at: str | None = Field(default=None, description="When this server took it into service, UTC.")
    sync_ms: int | None = Field(default=None, description="Milliseconds that fetching it took.")
    sync_bytes: int | None = Field(default=None, description="Bytes fetched; 0 where it was on the disk already.")
    last_failure: str | None = Field(
        default=None, description="Code of the failure of the last look for a newer one; null after a success."
    )


class StatusReply(Reply):
    """The state of the database, for an agent or an operator."""

    connected: bool = Field(description="True where the database folder can be read.")
    problem: str | None = Field(default=None, description="CODE: sentence with the way out, where it cannot.")
    default_table: str = Field(description="The table that is searched when a call names none.")
    release: ReleaseStatus | None = Field(default=None, description="Null where a plain folder serves.")
    tables: list[TableStatus] = Field(description="The tables of the database, by name, at most 100.")
    left_out: int = Field(default=0, description="Tables that are not listed.")
    embeddings: EmbeddingsStatus = Field(description="Whether vector and hybrid search work.")
