"""The arguments of each tool: their types, ranges, defaults and what an agent is told of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, WithJsonSchema
from pydantic.alias_generators import to_camel

from retrieval.listing import MAX_CATALOG_PAGE
from retrieval.reading import (
    MAX_HEADING_CHARS,
    MAX_HEADINGS,
    MAX_NAME_CHARS,
    MAX_NEIGHBORS,
    MAX_PAGE_CHARS,
    MIN_PAGE_CHARS,
)
from retrieval.search.context import MAX_BUDGET
from retrieval.search.cursor import MAX_CURSOR_CHARS
from retrieval.search.plan import MAX_QUERY_CHARS
from retrieval.types import MAX_EXPANSION, ExpandType, Expansion, Narrowing, SearchType

MAX_LIMIT: Final = 200
MAX_EXCLUDED: Final = 20
_MAX_FRAGMENT_CHARS: Final = 200
_MAX_FIELDS: Final = 20

# What is taken is not given back: a body of white space would be tried at each of its lengths.
_NUMERAL: Final = re.compile(r"\s*+[+-]?[0-9]{1,18}(?:\.0*+)?\s*+")
_DECIMAL: Final = re.compile(r"\s*+[+-]?[0-9]{0,18}(?:\.[0-9]{0,18})?\s*+")


def _written(numeral: re.Pattern[str]) -> Callable[[object], object]:
    """Refuses what Python would take for a number and a reader would not: true, 1_0, digits of other scripts."""

    def check(value: object) -> object:
        if isinstance(value, bool) or (isinstance(value, str) and not numeral.fullmatch(value)):
            raise ValueError("not a number")
        return value

    return check


def _from_json(value: object) -> object:
    """What a text of JSON says: models send objects and lists so, too."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _several(value: object) -> object:
    """A lone text as a list of one."""
    value = _from_json(value)
    return [value] if isinstance(value, str) else value


def _expansion(value: object) -> object:
    """A lone type as an object, and an object without the names that were sent as null; chunks around are neighbors."""
    value = _from_json(value)
    if isinstance(value, str):
        return {"type": value}
    if not isinstance(value, dict):
        return value
    given = {name: one for name, one in cast("dict[str, object]", value).items() if one is not None}
    return {"type": "neighbors", **given} if given.keys() & {"before", "after"} else given


def _collapse(value: object) -> object:
    """Yes and no where they were said for document and none."""
    if isinstance(value, bool):
        return "document" if value else "none"
    return value


WholeNumber = Annotated[int, BeforeValidator(_written(_NUMERAL))]
Share = Annotated[float, Field(ge=0, le=1), BeforeValidator(_written(_DECIMAL))]

Name = Annotated[str, StringConstraints(max_length=MAX_NAME_CHARS)]
Cursor = Annotated[str, StringConstraints(max_length=MAX_CURSOR_CHARS)]
Fragments = Annotated[
    list[Annotated[str, StringConstraints(min_length=1, max_length=_MAX_FRAGMENT_CHARS)]],
    BeforeValidator(_several),
]

Filters = Annotated[
    dict[str, Any],
    BeforeValidator(_from_json),
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": {
                "type": ["string", "number", "boolean", "array", "object"],
                "properties": {
                    "eq": {},
                    "neq": {},
                    "in": {"type": "array"},
                    "exists": {"type": "boolean"},
                    "gte": {},
                    "lte": {},
                    "prefix": {"type": "string"},
                },
                "additionalProperties": False,
            },
        }
    ),
    Field(
        description=(
            "Only documents whose fields (those of a hit's metadata, such as status or date) have these values or pass "
            "these comparisons; all must hold."
        ),
        examples=[{"status": "final", "date": {"gte": "2025-01-01"}}],
    ),
]
PathPrefix = Annotated[Name | None, Field(description="Only documents whose path starts so.", examples=["guides/"])]
Exclude = Annotated[
    Fragments,
    Field(
        max_length=MAX_EXCLUDED,
        description="No documents whose path holds one of these.",
        examples=[["/archive/", "CHANGELOG"]],
    ),
]
Collection = Annotated[Name | None, Field(description="Only this collection.", examples=["handbook"])]
Version = Annotated[
    Name | None,
    Field(
        description="This version of the documents. Default: the newest release of each collection.", examples=["2.1"]
    ),
]
IncludeOutdated = Annotated[
    bool,
    Field(
        description="True also takes superseded, withdrawn and draft documents; each is labelled.",
        examples=[False],
    ),
]
MinScore = Annotated[
    Share | None,
    Field(
        description=(
            "Least relevance that counts as an answer, in place of the calibrated threshold; 0 takes all that matches."
        ),
        examples=[0],
    ),
]
TableName = Annotated[
    str | None,
    Field(
        description="Table to read, one of those that lancedb_status lists. Default: the server's own.",
        examples=["documents"],
    ),
]
Search = Annotated[
    SearchType,
    Field(
        description=(
            "text matches words, vector meaning, hybrid both; auto is hybrid where vectors can be used, else text."
        ),
        examples=["auto"],
    ),
]


class Arguments(BaseModel):
    """Base of all arguments: camelCase names only, nothing unknown."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, hide_input_in_errors=True)

    settings_defaults: ClassVar[Mapping[str, str]] = {}
    """Arguments whose default is a setting: argument to field of `Settings`."""


class Expand(Arguments):
    """What is read around each hit."""

    type: ExpandType = Field(default="none", description="neighbors in the document, or the hit's whole section.")
    before: WholeNumber = Field(default=1, ge=0, le=MAX_EXPANSION, description="With neighbors: chunks before it.")
    after: WholeNumber = Field(default=1, ge=0, le=MAX_EXPANSION, description="With neighbors: chunks after it.")

    def as_asked(self) -> Expansion:
        return Expansion(type=self.type, before=self.before, after=self.after)


class SearchArguments(Arguments):
    """Arguments of lancedb_search."""

    settings_defaults = MappingProxyType({"limit": "default_limit"})

    query: str = Field(
        description=(
            f"What to look for, in natural language or keywords, 1 to {MAX_QUERY_CHARS} characters. Identifiers, flags "
            'and error codes may be pasted as they are; text in "double quotes" is also matched as a phrase. There are '
            "no operators: AND, OR, * and field: are plain words."
        ),
        examples=["rotate the redis password", "ARGOCD_OPTS", '"shallow clone" --depth'],
        json_schema_extra={"minLength": 1, "maxLength": MAX_QUERY_CHARS},
    )
    limit: WholeNumber = Field(
        default=20, ge=1, le=MAX_LIMIT, description="Most hits to return, 1 to 200.", examples=[5]
    )
    search_type: Search = "auto"
    filters: Filters = Field(default_factory=dict[str, Any])
    path_prefix: PathPrefix = None
    exclude: Exclude = Field(default_factory=list[str])
    collection: Collection = None
    version: Version = None
    include_outdated: IncludeOutdated = False
    collapse: Annotated[Literal["none", "document"], BeforeValidator(_collapse)] = Field(
        default="none",
        description="document returns the best chunk of each document only, and counts the others.",
        examples=["document"],
    )
    expand: Annotated[Expand, BeforeValidator(_expansion)] = Field(
        default_factory=Expand,
        description="Adds what stands around each hit as its context.",
        examples=[{"type": "neighbors", "before": 1, "after": 2}, {"type": "section"}],
    )
    min_score: MinScore = None
    table: TableName = None
    text_column: str | None = Field(
        default=None,
        description="Column that holds the text, for tables of an unusual layout. Default: the server's own.",
        examples=["text"],
    )
    vector_column: str | None = Field(
        default=None, description="Column that holds the vectors. Default: the server's own.", examples=["vector"]
    )


class QueryArguments(Arguments):
    """Arguments of lancedb_query."""

    settings_defaults = MappingProxyType({"limit": "default_limit", "contextBudget": "context_budget"})

    question: str = Field(
        default="",
        description=f"The question, up to {MAX_QUERY_CHARS} characters. Required unless warmStart is true.",
        examples=["How do I rotate the redis password?"],
        json_schema_extra={"maxLength": MAX_QUERY_CHARS},
    )
    context_budget: WholeNumber = Field(
        default=8000,
        ge=500,
        le=MAX_BUDGET,
        description="Most characters of the block, 500 to 100000; about four characters make a token.",
        examples=[8000],
    )
    warm_start: bool = Field(
        default=False,
        description="True returns an overview of the corpus instead: its tables, main documents and their headings.",
        examples=[False],
    )
    limit: WholeNumber = Field(
        default=20, ge=1, le=MAX_LIMIT, description="Most matching chunks to consider, 1 to 200.", examples=[20]
    )
    search_type: Search = "auto"
    filters: Filters = Field(default_factory=dict[str, Any])
    path_prefix: PathPrefix = None
    exclude: Exclude = Field(default_factory=list[str])
    collection: Collection = None
    version: Version = None
    include_outdated: IncludeOutdated = False
    min_score: MinScore = None
    table: TableName = None


class FetchArguments(Arguments):
    """Arguments of lancedb_fetch."""

    id: Name | None = Field(default=None, description="A chunk, by the id of a hit.", examples=["guides/redis.md#3"])
    path: Name | None = Field(
        default=None, description="A whole document, by the path of a hit.", examples=["guides/redis.md"]
    )
    cursor: Cursor | None = Field(
        default=None, description="The next page, by the cursor of the last.", examples=["q83vEjRWeJC"]
    )
    before: WholeNumber = Field(
        default=0, ge=0, le=MAX_NEIGHBORS, description="With id: chunks before it.", examples=[1]
    )
    after: WholeNumber = Field(default=0, ge=0, le=MAX_NEIGHBORS, description="With id: chunks after it.", examples=[2])
    headings: Annotated[
        list[Annotated[str, StringConstraints(min_length=1, max_length=MAX_HEADING_CHARS)]], BeforeValidator(_several)
    ] = Field(
        default_factory=list[str],
        max_length=MAX_HEADINGS,
        description="With path: only sections under a heading that holds one of these, in any case.",
        examples=[["Install", "Upgrade"]],
    )
    max_chars: WholeNumber = Field(
        default=32_000,
        ge=MIN_PAGE_CHARS,
        le=MAX_PAGE_CHARS,
        description="Most characters of one page; a chunk longer than that comes whole.",
        examples=[32_000],
    )
    collection: Collection = None
    version: Annotated[
        Name | None, Field(description="This version of the document. Default: the newest release.", examples=["2.1"])
    ] = None
    table: TableName = None


class CatalogArguments(Arguments):
    """Arguments of lancedb_catalog."""

    filters: Filters = Field(default_factory=dict[str, Any])
    path_prefix: PathPrefix = None
    exclude: Exclude = Field(default_factory=list[str])
    collection: Collection = None
    version: Annotated[Name | None, Field(description="Only this version. Default: all of them.", examples=["2.1"])] = (
        None
    )
    status: Name | None = Field(default=None, description="Only documents of this status.", examples=["superseded"])
    include_outdated: Annotated[
        bool,
        Field(description="False leaves superseded, withdrawn, archived and draft documents out.", examples=[True]),
    ] = True
    fields: Annotated[list[Name], BeforeValidator(_several)] = Field(
        default_factory=list[str],
        max_length=_MAX_FIELDS,
        description="Fields of a document to return. Default: all.",
        examples=[["path", "title"]],
    )
    limit: WholeNumber = Field(
        default=100, ge=1, le=MAX_CATALOG_PAGE, description="Most documents of a page.", examples=[100]
    )
    cursor: Cursor | None = Field(
        default=None,
        description="The next page, by the cursor of the last; repeat the other arguments.",
        examples=["q83vEjRWeJC"],
    )
    if_corpus_version: Name | None = Field(
        default=None,
        description="The corpusVersion you know: while it holds, the reply is unchanged true, without documents.",
        examples=["4bad9cf516f190724b023cf731bbf4fa"],
    )
    table: TableName = None


class StatusArguments(Arguments):
    """Arguments of lancedb_status."""

    verbose: bool = Field(default=False, description="True adds the columns of every table.", examples=[False])


class VersionArguments(Arguments):
    """Arguments of lancedb_version: none."""


def narrowing(arguments: SearchArguments | QueryArguments | CatalogArguments) -> Narrowing:
    """What `arguments` say about the documents."""
    return Narrowing(
        filters=arguments.filters,
        path_prefix=arguments.path_prefix,
        exclude=tuple(arguments.exclude),
        collection=arguments.collection,
        version=arguments.version,
        include_outdated=arguments.include_outdated,
    )
