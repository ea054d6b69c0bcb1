"""What the retriever is asked and what it answers.

Replies are the tools' wire format: camelCase in JSON, and their JSON Schemas are the tools' output schemas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from retrieval.search.visible import seen

SearchType = Literal["auto", "text", "vector", "hybrid"]
Ran = Literal["text", "vector", "hybrid"]
Scalar = str | int | float | bool

Shown = Annotated[str, AfterValidator(seen)]
"""Text of a document as a reply shows it. Ids are not: they are passed back, and must come back as they are stored."""

ExpandType = Literal["none", "neighbors", "section"]

MAX_EXPANSION: Final = 5
"""Chunks before and after a hit that may be asked for."""


@dataclass(frozen=True, slots=True)
class Expansion:
    """What is read around each hit: nothing, `before` and `after` chunks of the document, or the whole section."""

    type: ExpandType = "none"
    before: int = 1
    after: int = 1


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Which documents a request is about; what is left empty narrows nothing.

    `filters` is as the caller wrote it: `retrieval.search.filters` checks it against the table.
    """

    filters: Mapping[str, object] = field(default_factory=dict[str, object])
    path_prefix: str | None = None
    exclude: tuple[str, ...] = ()
    collection: str | None = None
    version: str | None = None
    include_outdated: bool = False


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A ranked search; `limit` is 1 to 200, None columns and table mean the configured ones.

    `min_score` takes the place of the calibrated threshold below which nothing is relevant, 0 to 1. With `whole` the
    reply is as large as it comes, for measuring.
    """

    query: str
    limit: int
    search_type: SearchType = "auto"
    table: str | None = None
    text_column: str | None = None
    vector_column: str | None = None
    narrowing: Narrowing = field(default_factory=Narrowing)
    collapse: bool = False
    expand: Expansion = field(default_factory=Expansion)
    min_score: float | None = None
    explain: bool = False
    whole: bool = False


@dataclass(frozen=True, slots=True)
class ContextRequest:
    """A block of context for a question; `budget` is in characters, `limit` in chunks considered."""

    question: str
    budget: int
    limit: int
    warm_start: bool = False
    table: str | None = None
    search_type: SearchType = "auto"
    narrowing: Narrowing = field(default_factory=Narrowing)
    min_score: float | None = None


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """A chunk by its `id` with its neighbours, or a document by its `path` page by page, or the next page by `cursor`.

    `max_chars` bounds the text of one page; `headings` takes only the sections whose heading holds one of them.
    """

    id: str | None = None
    path: str | None = None
    before: int = 0
    after: int = 0
    headings: tuple[str, ...] = ()
    cursor: str | None = None
    max_chars: int = 32_000
    table: str | None = None
    collection: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class CatalogRequest:
    """The documents of a table, a page of `limit` at a time; `fields` are those wanted of each, all where empty."""

    narrowing: Narrowing = field(default_factory=lambda: Narrowing(include_outdated=True))
    status: str | None = None
    fields: tuple[str, ...] = ()
    limit: int = 100
    cursor: str | None = None
    if_corpus_version: str | None = None
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


Why = Literal["text", "vector", "both", "exact"]
ScoreType = Literal["bm25", "cosine", "rrf"]


class Hit(Reply):
    """One matching chunk, or the best one of its document."""

    id: str = Field(description="Identifies the chunk: pass it to lancedb_fetch.")
    title: Shown | None = Field(default=None, description="Title of the document.")
    heading: Shown | None = Field(
        default=None, description="Headings above the chunk, outermost first, joined by ' > '."
    )
    path: Shown | None = Field(default=None, description="Path of the document in its source.")
    url: Shown | None = Field(default=None, description="Where the passage is published: cite this, else the path.")
    snippet: Shown = Field(description="The part of the chunk that matches best; … marks where it was cut.")
    score: float = Field(description="Higher is better; comparable within one reply only.")
    score_type: ScoreType = Field(
        default="bm25", description="What the score is: of words, of meaning, or of both ranks fused."
    )
    why: Why = Field(
        default="text",
        description="What found it: its words, its meaning, both, or the query's identifiers or quoted words verbatim.",
    )
    matched_words: list[str] = Field(
        default_factory=list[str], description="Words of the query that stand in the chunk, in any of their forms."
    )
    text_rank: int | None = Field(default=None, description="Its place among the matches by words, from 1.")
    text_score: float | None = Field(default=None, description="BM25 score of its words.")
    vector_rank: int | None = Field(default=None, description="Its place among the matches by meaning, from 1.")
    vector_score: float | None = Field(default=None, description="Cosine similarity to the query, -1 to 1.")
    stub: bool | None = Field(
        default=None,
        description="True where half of its score placed it: a heading alone, links or a copyright notice.",
    )
    boost: float | None = Field(
        default=None, description="What its score was multiplied by for its place, as the server is set for its path."
    )
    outdated: Shown | None = Field(
        default=None, description="Where the document no longer holds: its status, date and successor in words."
    )
    stands_for: Shown | None = Field(
        default=None, description="The outdated document that matched and that this one replaces."
    )
    matching_chunk_count: int | None = Field(
        default=None, description="With collapse: chunks of the document among the candidates."
    )
    matched_headings: list[Shown] | None = Field(
        default=None, description="With collapse: headings of those chunks, best first."
    )
    context: Shown | None = Field(default=None, description="With expand: the chunk's text and what stands around it.")
    metadata: dict[str, Shown | int | float | bool] = Field(
        default_factory=dict[str, Shown | int | float | bool],
        description="The chunk's further columns, such as status, date or version.",
    )


class Correction(Reply):
    """A word of the query that no document holds, and the one it was read as."""

    written: str = Field(description="The word as it was asked.")
    read: str = Field(description="The word of the documents that was searched instead.")


class Relevance(Reply):
    """How sure it is that the hits answer the query."""

    score: float = Field(description="Relevance of the best hit, 0 to 1.")
    threshold: float = Field(description="The least relevance that is answered; minScore overrides it.")


class LeftOut(Reply):
    """A chunk of an outdated document that would have been among the best."""

    id: str = Field(description="The chunk.")
    path: Shown | None = Field(default=None, description="Path of its document.")
    place: int = Field(description="The place it would have had among the hits, from 1.")


class Rejected(Reply):
    """Why nothing was found relevant."""

    score: float = Field(description="The best candidate's relevance, 0 to 1.")
    threshold: float = Field(description="The least relevance that is answered; minScore overrides it.")
    id: str | None = Field(default=None, description="The best candidate.")
    title: Shown | None = Field(default=None, description="Its title.")


class SearchReply(Reply):
    """Ranked hits, best first; an empty list is an answer: nothing in the documents is relevant."""

    search_type: Ran = Field(description="The search that ran; notes say why it is not the one asked for.")
    table: str = Field(description="The table that was searched.")
    hits: list[Hit] = Field(description="Matching chunks, best first.")
    truncated: bool = Field(default=False, description="True where hits were left out to keep the reply small.")
    degraded: bool = Field(
        default=False, description="True where meaning was to be searched and words alone answered; notes say why."
    )
    corrections: list[Correction] = Field(
        default_factory=list[Correction], description="Words that were read as others."
    )
    rejected: Rejected | None = Field(
        default=None, description="Where there are no hits because the best one was not relevant enough."
    )
    relevance: Relevance | None = Field(default=None, description="Where there are hits: how relevant the best is.")
    outdated_left_out: list[LeftOut] | None = Field(
        default=None, description="Outdated chunks that would have been among the best and are not shown."
    )
    versions: dict[Shown, Shown] | None = Field(
        default=None, description="The version of each collection that was searched, where there are several."
    )
    timings: dict[str, float] | None = Field(default=None, description="Milliseconds by stage, where asked for.")
    notes: list[Shown] = Field(
        default_factory=list[Shown], description="What the reader should know about this answer."
    )


class Source(Reply):
    """A passage of a context block."""

    ids: list[str] = Field(description="The chunks of the passage, in document order.")
    title: Shown | None = Field(default=None, description="Title of the document.")
    heading: Shown | None = Field(default=None, description="Headings above the passage, joined by ' > '.")
    path: Shown | None = Field(default=None, description="Path of the document in its source.")
    url: Shown | None = Field(default=None, description="Where the passage is published.")


class ContextReply(Reply):
    """One Markdown block of whole chunks, within a budget of characters."""

    mode: Literal["query", "warmStart"] = Field(description="What was asked for.")
    search_type: Ran = Field(description="The search that ran.")
    table: str = Field(description="The table that was searched.")
    context: str = Field(description="The Markdown block, also the text of the result.")
    sources: list[Source] = Field(description="The passages in the block, in the same order.")
    left_out: int = Field(description="Matching chunks that did not fit the budget.")
    degraded: bool = Field(
        default=False, description="True where meaning was to be searched and words alone answered; notes say why."
    )
    corrections: list[Correction] = Field(
        default_factory=list[Correction], description="Words of the question that were read as others."
    )
    rejected: Rejected | None = Field(
        default=None, description="Where there are no passages because the best one was not relevant enough."
    )
    notes: list[Shown] = Field(
        default_factory=list[Shown], description="What the reader should know about this answer."
    )


class Page(Reply):
    """Whole chunks of one document, in order."""

    table: str = Field(description="The table it was read from.")
    path: Shown | None = Field(default=None, description="Path of the document in its source.")
    title: Shown | None = Field(default=None, description="Title of the document.")
    url: Shown | None = Field(default=None, description="Where it is published.")
    version: Shown | None = Field(default=None, description="Its version.")
    collection: Shown | None = Field(default=None, description="Its collection.")
    status: Shown | None = Field(default=None, description="Its status.")
    outdated: Shown | None = Field(
        default=None, description="Where the document no longer holds: its status, date and successor in words."
    )
    ids: list[str] = Field(description="The chunks of the text, in order.")
    first: int | None = Field(default=None, description="Ordinal of the first chunk in the document, from 0.")
    chunks: int | None = Field(default=None, description="Chunks of the whole document.")
    headings: list[Shown] = Field(default_factory=list[Shown], description="Headings of the text, in order, once each.")
    text: Shown = Field(description="The text of the chunks, a blank line between them.")
    cursor: str | None = Field(default=None, description="Pass it to read on; null at the end of the document.")
    notes: list[Shown] = Field(
        default_factory=list[Shown], description="What the reader should know about this answer."
    )


class CatalogEntry(Reply):
    """One document."""

    path: Shown | None = Field(default=None, description="Path of the document in its source.")
    title: Shown | None = Field(default=None, description="Its title.")
    url: Shown | None = Field(default=None, description="Where it is published.")
    collection: Shown | None = Field(default=None, description="Its collection.")
    version: Shown | None = Field(default=None, description="Its version.")
    status: Shown | None = Field(default=None, description="Its status, such as draft or superseded.")
    date: Shown | None = Field(default=None, description="Its date.")
    superseded_by: Shown | None = Field(default=None, description="Its successor, as the document names it.")
    chunks: int | None = Field(default=None, description="Its chunks.")
    id: str | None = Field(default=None, description="Its first chunk: pass it to lancedb_fetch.")


class CatalogReply(Reply):
    """A page of the documents of a table."""

    table: str = Field(description="The table that was listed.")
    corpus_version: str | None = Field(
        default=None, description="Hash of the documents: pass it as ifCorpusVersion to learn whether they changed."
    )
    unchanged: bool = Field(default=False, description="True where the caller's corpus version is this one.")
    total: int | None = Field(default=None, description="Documents that the filters let through.")
    documents: list[CatalogEntry] = Field(description="The documents, by path.")
    cursor: str | None = Field(default=None, description="Pass it for the next page; null at the end.")
    notes: list[Shown] = Field(
        default_factory=list[Shown], description="What the reader should know about this answer."
    )


class VersionReply(Reply):
    """What is running."""

    product: str = Field(description="The product's name.")
    version: str = Field(description="The product's version.")
    protocol_versions: list[str] = Field(description="MCP protocol versions that are served, newest first.")
    lancedb: str = Field(description="The LanceDB that reads the tables.")
    features: list[str] = Field(description="What it can do.")
