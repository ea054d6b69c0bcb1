"""The tools: typed arguments, the retriever's answer, and the contract that an agent reads. No MCP types here."""

from __future__ import annotations

import difflib
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Generic, TypeVar, cast

from mcp_types.version import KNOWN_PROTOCOL_VERSIONS
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from handler import __version__
from retrieval.errors import BedivereError, ErrorCode
from retrieval.retriever import Retriever
from retrieval.search.context import MAX_BUDGET
from retrieval.search.plan import MAX_QUERY_CHARS
from retrieval.settings import Settings
from retrieval.table import LANCEDB_VERSION
from retrieval.types import (
    ContextReply,
    ContextRequest,
    Reply,
    SearchReply,
    SearchRequest,
    SearchType,
    StatusReply,
    VersionReply,
)

MAX_LIMIT: Final = 200

_NUMERAL: Final = re.compile(r"\s*[+-]?[0-9]{1,18}(?:\.0*)?\s*")

# What other servers call the same thing, so that a refusal can name ours.
_SYNONYMS: Final = {
    "k": "limit",
    "n": "limit",
    "topk": "limit",
    "count": "limit",
    "size": "limit",
    "maxresults": "limit",
    "numresults": "limit",
    "q": "query",
    "text": "query",
    "search": "query",
    "input": "query",
    "question": "query",
    "prompt": "question",
    "mode": "searchType",
    "type": "searchType",
    "tablename": "table",
    "budget": "contextBudget",
    "maxchars": "contextBudget",
    "maxtokens": "contextBudget",
}


def _numeral(value: object) -> object:
    """Refuses what Python would take for a number and a reader would not: true, 1_0, digits of other scripts."""
    if isinstance(value, bool) or (isinstance(value, str) and not _NUMERAL.fullmatch(value)):
        raise ValueError("not a number")
    return value


WholeNumber = Annotated[int, BeforeValidator(_numeral)]


class Arguments(BaseModel):
    """Base of all arguments: camelCase names only, nothing unknown."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, hide_input_in_errors=True)


class SearchArguments(Arguments):
    """Arguments of lancedb_search."""

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
    search_type: SearchType = Field(
        default="auto",
        description=(
            "text matches words; vector matches meaning; hybrid does both; auto takes the best there is. Today that is "
            "text: it answers for the others too, and notes say so."
        ),
        examples=["auto"],
    )
    table: str | None = Field(
        default=None,
        description="Table to search, one of those that lancedb_status lists. Default: the server's own.",
        examples=["documents"],
    )
    text_column: str | None = Field(
        default=None,
        description="Column that holds the text, for tables of an unusual layout. Default: the server's own.",
        examples=["text"],
    )
    vector_column: str | None = Field(
        default=None,
        description="Column that holds the vectors. Text search, the only one today, does not use it.",
        examples=["vector"],
    )


class QueryArguments(Arguments):
    """Arguments of lancedb_query."""

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
    table: str | None = Field(
        default=None,
        description="Table to read, one of those that lancedb_status lists. Default: the server's own.",
        examples=["documents"],
    )
    limit: WholeNumber = Field(
        default=20, ge=1, le=MAX_LIMIT, description="Most matching chunks to consider, 1 to 200.", examples=[20]
    )


class StatusArguments(Arguments):
    """Arguments of lancedb_status."""

    verbose: bool = Field(default=False, description="True adds the columns of every table.", examples=[False])


class VersionArguments(Arguments):
    """Arguments of lancedb_version: none."""


A = TypeVar("A", bound=Arguments)


@dataclass(frozen=True, slots=True)
class Service:
    """What a tool may use."""

    settings: Settings
    retriever: Retriever

    def for_call(self, wait_seconds: float | None) -> Service:
        """The same for one call: answered from one release, which is waited for as `Dataset.for_call` says."""
        return Service(self.settings, Retriever(self.settings, self.retriever.dataset.for_call(wait_seconds)))


@dataclass(frozen=True, slots=True)
class Tool(Generic[A]):
    """One tool: its contract and what it runs."""

    name: str
    title: str
    description: str
    arguments: type[A]
    reply: type[Reply]
    run: Callable[[Service, A], Awaitable[Reply]]

    settings_defaults: ClassVar[Mapping[str, str]] = {"limit": "default_limit", "contextBudget": "context_budget"}
    """Arguments whose default is a setting: argument to field of `Settings`."""

    def input_schema(self, settings: Settings) -> dict[str, Any]:
        """JSON Schema of the arguments, with the defaults that are in force."""
        schema = _plain(self.arguments.model_json_schema(by_alias=True))
        # The tool has a description of its own.
        del schema["description"]
        for argument, setting in self.settings_defaults.items():
            if argument in schema.get("properties", {}):
                schema["properties"][argument]["default"] = getattr(settings, setting)
        return schema

    def output_schema(self) -> dict[str, Any]:
        """JSON Schema of the structured result."""
        return _plain(self.reply.model_json_schema(by_alias=True))

    def parse(self, arguments: Mapping[str, Any], settings: Settings) -> A:
        """Typed arguments. Raises `BedivereError` INVALID_ARGUMENT with one sentence."""
        # Models often send null or "" for what they leave out.
        given = {name: value for name, value in arguments.items() if value is not None and not _left_out(name, value)}
        for argument, setting in self.settings_defaults.items():
            if argument in self._names():
                given.setdefault(argument, getattr(settings, setting))
        try:
            return self.arguments.model_validate(given)
        except ValidationError as error:
            raise BedivereError(ErrorCode.INVALID_ARGUMENT, self._sentence(error)) from None

    def _names(self) -> list[str]:
        return [field.alias or name for name, field in self.arguments.model_fields.items()]

    def _sentence(self, error: ValidationError) -> str:
        problems = error.errors(include_url=False, include_input=False, include_context=False)
        # A wrong name explains a missing one, and says what to write instead.
        problem = next((one for one in problems if one["type"] == "extra_forbidden"), problems[0])
        name = str(problem["loc"][0])
        if problem["type"] == "extra_forbidden":
            return self._unknown(name)
        if problem["type"] == "missing":
            return f"Argument {name!r} is required."
        rules = self.input_schema(Settings.model_construct())["properties"][name]
        return f"Argument {name!r} must be {_rule(rules)}."

    def _unknown(self, name: str) -> str:
        names = self._names()
        shown = f"Unknown argument {name[:60]!r}"
        if not names:
            return f"{shown}; {self.name} takes no arguments."
        return f"{shown}; did you mean {_nearest(name, names)!r}? {self.name} takes {', '.join(names)}."


def _left_out(name: str, value: object) -> bool:
    return value == "" and name not in {"query", "question"}


def _nearest(name: str, names: list[str]) -> str:
    folded = name.replace("_", "").replace("-", "").casefold()
    synonym = _SYNONYMS.get(folded)
    if synonym == "query" and synonym not in names:
        synonym = "question"
    if synonym in names:
        return synonym
    return max(names, key=lambda known: difflib.SequenceMatcher(None, folded, known.casefold()).ratio())


def _rule(rules: Mapping[str, Any]) -> str:
    if "enum" in rules:
        return "one of " + ", ".join(rules["enum"])
    match rules.get("type"):
        case "integer":
            return f"a whole number from {rules['minimum']} to {rules['maximum']}"
        case "boolean":
            return "true or false"
        case _:
            return "text"


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """`schema` without the titles that pydantic derives from names, and with optional fields as their own type."""

    def walk(node: object, *, names: bool = False) -> object:
        if isinstance(node, list):
            return [walk(item) for item in cast("list[object]", node)]
        if not isinstance(node, dict):
            return node
        branch = cast("dict[str, object]", node)
        kept = {key: walk(value, names=key in {"properties", "$defs"}) for key, value in branch.items()}
        if names:
            return kept
        kept.pop("title", None)
        choices = cast("list[dict[str, object]]", kept.get("anyOf", []))
        if {"type": "null"} in choices and len(choices) == 2:
            del kept["anyOf"]
            kept = {**next(choice for choice in choices if choice != {"type": "null"}), **kept}
            if kept.get("default", ...) is None:
                del kept["default"]
        return kept

    return cast("dict[str, Any]", walk(schema))


async def _search(service: Service, arguments: SearchArguments) -> SearchReply:
    return await service.retriever.search(
        SearchRequest(
            query=arguments.query,
            limit=arguments.limit,
            search_type=arguments.search_type,
            table=arguments.table,
            text_column=arguments.text_column,
            vector_column=arguments.vector_column,
        )
    )


async def _query(service: Service, arguments: QueryArguments) -> ContextReply:
    return await service.retriever.context(
        ContextRequest(
            question=arguments.question,
            budget=arguments.context_budget,
            limit=arguments.limit,
            warm_start=arguments.warm_start,
            table=arguments.table,
        )
    )


async def _status(service: Service, arguments: StatusArguments) -> StatusReply:
    return await service.retriever.status(verbose=arguments.verbose)


async def _version(service: Service, arguments: VersionArguments) -> VersionReply:
    del service, arguments
    return VersionReply(
        product="Bedivere",
        version=__version__,
        protocol_versions=list(reversed(KNOWN_PROTOCOL_VERSIONS)),
        lancedb=LANCEDB_VERSION,
        features=["text search", "identifiers", "phrases", "context blocks", "warm start", "any Lance table"],
    )


TOOLS: Final[Mapping[str, Tool[Any]]] = {
    tool.name: tool
    for tool in (
        Tool(
            name="lancedb_search",
            title="Search documents",
            description=(
                "Search the indexed documents and return ranked hits, each with a short snippet, its title, heading, "
                "path and URL to cite, and its metadata (status, date, version and the like). Use it to find which "
                "passages or documents speak of something and to compare candidates; use lancedb_query instead when "
                "you want the passages' full text to answer a question from. Read-only: it changes nothing and calls "
                "no other service.\n\n"
                "Returns at most limit hits, best first, with snippets of at most 280 characters (score compares hits "
                "of one reply only). An empty list means that no indexed document holds any of the words: say so, or "
                "try other words; do not invent. "
                "notes says when another search ran than the one asked for, or what limits this table; truncated says "
                "that hits were left out to keep the reply small.\n\n"
                "Errors come as CODE: sentence. INVALID_ARGUMENT, INVALID_QUERY, TABLE_NOT_FOUND and COLUMN_NOT_FOUND "
                "name what to change in the call; DATABASE_NOT_SET, DATABASE_NOT_FOUND, TABLE_UNREADABLE and "
                "TEXT_COLUMN_MISSING are for the server's owner: retrying does not help."
            ),
            arguments=SearchArguments,
            reply=SearchReply,
            run=_search,
        ),
        Tool(
            name="lancedb_query",
            title="Get context for a question",
            description=(
                "Retrieve the passages that answer a question as one Markdown block within a budget of characters: a "
                "passage a section, each with title, headings, status and source to cite; whole chunks only, "
                "neighbours in the same section joined in document order. Use it when you are about to answer from the "
                "documents; use lancedb_search instead to scan many candidates by snippet. With warmStart true it "
                "returns an overview of the corpus (tables, first and longest documents, headings): use that once, "
                "first, when you do not know what is in it. Read-only: it changes nothing and calls no other "
                "service.\n\n"
                "The block ends by saying how many matching chunks were left out and how to get them; leftOut is their "
                "number. No passages and none left out means that nothing matches: say so, do not invent.\n\n"
                "Errors come as CODE: sentence. INVALID_ARGUMENT, INVALID_QUERY and TABLE_NOT_FOUND name what to "
                "change in the call; DATABASE_NOT_SET, DATABASE_NOT_FOUND, TABLE_UNREADABLE and TEXT_COLUMN_MISSING "
                "are for the server's owner: retrying does not help."
            ),
            arguments=QueryArguments,
            reply=ContextReply,
            run=_query,
        ),
        Tool(
            name="lancedb_status",
            title="Report the database's state",
            description=(
                "Report the state of the database: whether it can be read, its tables with their rows, indexes and "
                "provenance (when and from what they were built), and whether vector search is available or why not. "
                "Use it to choose a table, or to find out why a search failed or found nothing; use lancedb_version "
                "for what software is running. Read-only, takes no query and returns no document text.\n\n"
                "A table with a problem is listed with its CODE: sentence instead of failing the call. An empty list "
                "of tables means that nothing has been indexed yet."
            ),
            arguments=StatusArguments,
            reply=StatusReply,
            run=_status,
        ),
        Tool(
            name="lancedb_version",
            title="Report the version",
            description=(
                "Report which Bedivere is running: its version, the MCP protocol versions it serves, the LanceDB that "
                "reads the tables, and the features that are on. Use it when you file a bug or check compatibility; "
                "use lancedb_status for the data instead. Read-only, takes no arguments, and answers even where no "
                "database is configured."
            ),
            arguments=VersionArguments,
            reply=VersionReply,
            run=_version,
        ),
    )
}
