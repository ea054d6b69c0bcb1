"""A tool as data: its name, what an agent is told, and typed arguments from whatever was sent."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, cast

from pydantic import ValidationError

from handler.arguments import Arguments
from retrieval.errors import BedivereError, ErrorCode
from retrieval.retriever import Retriever
from retrieval.settings import Settings
from retrieval.types import Reply

# What other servers call the same thing, so that a refusal can name ours: the first of them that the tool has.
_SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys("k n topk count size maxresults numresults pagesize".split(), ("limit",)),
    **dict.fromkeys("q text search input".split(), ("query", "question")),
    "query": ("question",),
    "question": ("query",),
    "prompt": ("question", "query"),
    **dict.fromkeys("mode type".split(), ("searchType",)),
    "tablename": ("table",),
    **dict.fromkeys("budget maxchars maxtokens maxlength".split(), ("contextBudget", "maxChars")),
    **dict.fromkeys("filter where metadata".split(), ("filters",)),
    **dict.fromkeys("prefix path folder directory".split(), ("pathPrefix",)),
    **dict.fromkeys("threshold scorethreshold minrelevance".split(), ("minScore",)),
    **dict.fromkeys("groupby distinct dedupe".split(), ("collapse",)),
    **dict.fromkeys("namespace source".split(), ("collection",)),
    **dict.fromkeys("documentid docid chunkid hitid ids".split(), ("id",)),
    **dict.fromkeys("uri url file filename document".split(), ("path", "pathPrefix")),
    **dict.fromkeys("nextcursor pagetoken page offset next".split(), ("cursor",)),
    **dict.fromkeys("heading section sections".split(), ("headings",)),
    **dict.fromkeys("columns select".split(), ("fields",)),
    **dict.fromkeys("corpusversion etag".split(), ("ifCorpusVersion",)),
}

A = TypeVar("A", bound=Arguments)


@dataclass(frozen=True, slots=True)
class Service:
    """What a tool may use."""

    settings: Settings
    retriever: Retriever

    def for_call(self, wait_seconds: float | None, hidden: frozenset[str] = frozenset()) -> Service:
        """The same for one call: answered from one release, which is waited for as `Dataset.for_call` says.

        For this call the collections in `hidden` are not there.
        """
        return Service(self.settings, self.retriever.for_call(wait_seconds, hidden))


@dataclass(frozen=True, slots=True)
class Tool(Generic[A]):
    """One tool: its contract and what it runs."""

    name: str
    title: str
    description: str
    arguments: type[A]
    reply: type[Reply]
    run: Callable[[Service, A], Awaitable[Reply]]

    def input_schema(self, settings: Settings) -> dict[str, Any]:
        """JSON Schema of the arguments, with the defaults that are in force."""
        schema = _plain(_inlined(self.arguments.model_json_schema(by_alias=True)))
        # The tool has a description of its own.
        del schema["description"]
        for argument, setting in self.arguments.settings_defaults.items():
            schema["properties"][argument]["default"] = getattr(settings, setting)
        return schema

    def output_schema(self) -> dict[str, Any]:
        """JSON Schema of the structured result, without what tells a reader of results nothing."""
        schema = _plain(self.reply.model_json_schema(by_alias=True))
        for model in (schema, *schema.get("$defs", {}).values()):
            # Each field says what it is, and a field that is left out has no value, whatever its default.
            del model["description"]
            for rules in model["properties"].values():
                rules.pop("default", None)
        return schema

    def parse(self, arguments: Mapping[str, Any], settings: Settings) -> A:
        """Typed arguments. Raises `BedivereError` INVALID_ARGUMENT with one sentence."""
        # Models often send null or "" for what they leave out.
        given = {name: value for name, value in arguments.items() if value is not None and not _left_out(name, value)}
        for argument, setting in self.arguments.settings_defaults.items():
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
        *outer, name = [str(part) for part in problem["loc"] if isinstance(part, str)]
        rules = self.input_schema(Settings.model_construct())
        for part in outer:
            rules = rules["properties"][part]
        if problem["type"] == "extra_forbidden":
            return self._unknown(name, outer, list(rules["properties"]))
        if problem["type"] == "missing":
            return f"Argument {name!r} is required."
        return f"Argument {'.'.join([*outer, name])!r} must be {_rule(rules['properties'][name])}."

    def _unknown(self, name: str, outer: list[str], names: list[str]) -> str:
        shown = f"Unknown argument {name[:60]!r}" if not outer else f"Unknown name {name[:60]!r} in {outer[-1]!r}"
        taker = outer[-1] if outer else self.name
        if not names:
            return f"{shown}; {taker} takes no arguments."
        return f"{shown}; did you mean {_nearest(name, names)!r}? {taker} takes {', '.join(names)}."


def _left_out(name: str, value: object) -> bool:
    return value == "" and name not in {"query", "question"}


def _nearest(name: str, names: list[str]) -> str:
    folded = name.replace("_", "").replace("-", "").casefold()
    exact = next((known for known in names if known.casefold() == folded), None)
    synonym = next((known for known in _SYNONYMS.get(folded, ()) if known in names), None)
    return (
        exact
        or synonym
        or max(names, key=lambda known: difflib.SequenceMatcher(None, folded[:60], known.casefold()).ratio())
    )


def _rule(rules: Mapping[str, Any]) -> str:
    if "enum" in rules:
        return "one of " + ", ".join(rules["enum"])
    match rules.get("type"):
        case "integer":
            return f"a whole number from {rules['minimum']} to {rules['maximum']}"
        case "number":
            return f"a number from {rules['minimum']:g} to {rules['maximum']:g}"
        case "boolean":
            return "true or false"
        case "array":
            longest = rules["items"].get("maxLength")
            return f"a list of at most {rules['maxItems']} texts" + (
                f" of 1 to {longest} characters" if longest else ""
            )
        case "object":
            inner = ", ".join(rules.get("properties", ()))
            return f"an object with {inner}" if inner else 'an object of fields, such as {"status": "final"}'
        case _:
            return f"text of at most {rules['maxLength']} characters" if "maxLength" in rules else "text"


def _inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """`schema` with its definitions in their places: not every client follows references."""
    definitions = schema.pop("$defs", {})
    for name, rules in schema.get("properties", {}).items():
        if "$ref" in rules:
            definition = definitions[rules["$ref"].rpartition("/")[2]]
            rest = {key: value for key, value in rules.items() if key != "$ref"}
            schema["properties"][name] = {**definition, **rest}
    return schema


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
