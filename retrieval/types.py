"""What the retriever is asked and what it answers.

Replies are the tools' wire format: camelCase in JSON, and their JSON Schemas are the tools' output schemas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

SearchType = Literal["auto", "text", "vector", "hybrid"]
Ran = Literal["text", "vector", "hybrid"]
Scalar = str | int | float | bool


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A ranked search; `limit` is 1 to 200, None columns and table mean the configured ones."""

    query: str
    limit: int
    search_type: SearchType = "auto"
    table: str | None = None
    text_column: str | None = None
    vector_column: str | None = None
    path_prefix: str | None = None


@dataclass(frozen=True, slots=True)
class ContextRequest:
    """A block of context for a question; `budget` is in characters, `limit` in chunks considered."""

    question: str
    budget: int
    limit: int
    warm_start: bool = False
    table: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One chunk as it stands in the table; `score` is 0 where nothing was scored."""

    id: str
    text: str
    score: float
    title: str | None
    heading: str | None
    path: str | None
    url: str | None
    ordinal: int | None
    metadata: Mapping[str, Scalar]

    @property
    def document(self) -> tuple[object, ...] | None:
        """What chunks of one document share; None where nothing says which document the chunk is of.

        Collections and versions of a document live side by side under one path: ids of ours tell them apart, in
        tables of others their columns.
        """
        if self.path is None:
            return None
        scope = self.id.removesuffix(f"#{self.ordinal}")
        if scope != self.id:
            return (self.path, scope)
        return (self.path, self.metadata.get("collection"), self.metadata.get("version"))


@dataclass(frozen=True, slots=True)
class Span:
    """Chunks `first` to `last`, both included, of the document at `path`."""

    path: str
    first: int
    last: int


class Reply(BaseModel):
    """Base of all replies: frozen, camelCase on the wire."""

    model_config = ConfigDict(
        frozen=True, alias_generator=to_camel, validate_by_name=True, validate_by_alias=True, serialize_by_alias=True
    )


class Hit(Reply):
    """One matching chunk."""

    id: str = Field(description="Identifies the chunk in this table.")
    title: str | None = Field(default=None, description="Title of the document.")
    heading: str | None = Field(default=None, description="Headings above the chunk, outermost first, joined by ' > '.")
    path: str | None = Field(default=None, description="Path of the document in its source.")
    url: str | None = Field(default=None, description="Where the passage is published: cite this, else the path.")
    snippet: str = Field(description="The part of the chunk that matches best; … marks where it was cut.")
    score: float = Field(description="Higher is better; comparable within one reply only.")
    score_type: Literal["bm25"] = Field(default="bm25", description="What the score is.")
    metadata: dict[str, Scalar] = Field(
        default_factory=dict[str, Scalar], description="The chunk's further columns, such as status, date or version."
    )


class SearchReply(Reply):
    """Ranked hits, best first; an empty list is an answer: nothing in the table matches."""

    search_type: Ran = Field(description="The search that ran; notes say why it is not the one asked for.")
    table: str = Field(description="The table that was searched.")
    hits: list[Hit] = Field(description="Matching chunks, best first.")
    truncated: bool = Field(default=False, description="True where hits were left out to keep the reply small.")
    notes: list[str] = Field(default_factory=list[str], description="What the reader should know about this answer.")


class Source(Reply):
    """A passage of a context block."""

    ids: list[str] = Field(description="The chunks of the passage, in document order.")
    title: str | None = Field(default=None, description="Title of the document.")
    heading: str | None = Field(default=None, description="Headings above the passage, joined by ' > '.")
    path: str | None = Field(default=None, description="Path of the document in its source.")
    url: str | None = Field(default=None, description="Where the passage is published.")


class ContextReply(Reply):
    """One Markdown block of whole chunks, within a budget of characters."""

    mode: Literal["query", "warmStart"] = Field(description="What was asked for.")
    search_type: Ran = Field(description="The search that ran.")
    table: str = Field(description="The table that was searched.")
    context: str = Field(description="The Markdown block, also the text of the result.")
    sources: list[Source] = Field(description="The passages in the block, in the same order.")
    left_out: int = Field(description="Matching chunks that did not fit the budget.")
    notes: list[str] = Field(default_factory=list[str], description="What the reader should know about this answer.")


class IndexStatus(Reply):
    """One index of a table."""

    column: str = Field(description="The column it covers.")
    type: str = Field(description="Kind of index: FTS for full text.")
    indexed: int = Field(description="Rows in the index.")
    unindexed: int = Field(description="Rows found by scan until the table is optimized; 0 in a finished table.")


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


class VersionReply(Reply):
    """What is running."""

    product: str = Field(description="The product's name.")
    version: str = Field(description="The product's version.")
    protocol_versions: list[str] = Field(description="MCP protocol versions that are served, newest first.")
    lancedb: str = Field(description="The LanceDB that reads the tables.")
    features: list[str] = Field(description="What it can do.")
