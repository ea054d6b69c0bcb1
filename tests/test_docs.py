"""The documentation against the code: its tables hold each name that the code has, and no other."""

import ast
import asyncio
import importlib
import json
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, cast

import pytest
import typer
from markdown_it import MarkdownIt
from markdown_it.token import Token
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.testing import CliRunner

from handler.cli import app
from handler.cli.terminal import ExitCode
from handler.contract import Service
from handler.protocol import MAX_REPLY_BYTES
from handler.telemetry import METRICS
from handler.tools import TOOLS
from retrieval.errors import MEANINGS, ErrorCode
from retrieval.indexing import chunks, formats, metadata, rows, sources
from retrieval.indexing.build import build_table
from retrieval.indexing.formats.markdown import slug
from retrieval.indexing.job import Options
from retrieval.layout import MAX_COLUMNS
from retrieval.retriever import MAX_REPLY_CHARS, Retriever
from retrieval.schema import COLUMNS, INTERNAL_COLUMNS, ORDINAL_COLUMN
from retrieval.search.plan import HEADING_BOOST, IDENTIFIER_BOOST, MAX_QUERY_CHARS, PART_BOOST, TITLE_BOOST
from retrieval.search.snippet import SNIPPET_CHARS
from retrieval.search.text import MAX_TERMS
from retrieval.setting_files import SETTINGS_FILE_VARIABLE
from retrieval.settings import Settings, allowed_range, load_settings, variables
from retrieval.types import Reply, SearchReply, SearchRequest

ROOT = Path(__file__).parents[1]
DOCS = sorted(path.name for path in (ROOT / "docs").glob("*.md"))
PAGES = ("README.md", "CONTRIBUTING.md", *(f"docs/{name}" for name in DOCS))
USER_PAGES = tuple(page for page in PAGES if page != "CONTRIBUTING.md")
OPTIONS_PAGES = {
    "init": "docs/settings.md#Set once",
    "eval": "docs/evaluation.md",
    "index": "docs/indexing.md",
    "keys create": "docs/access.md#Making a key",
    "keys list": "docs/access.md#Listing keys",
    "keys revoke": "docs/access.md#Revoking a key",
    "publish": "docs/releases.md#Publishing",
    "releases": "docs/releases.md#Listing",
    "rollback": "docs/releases.md#Rolling back",
    "prune": "docs/releases.md#Pruning",
    "search": "docs/retrieval.md",
    "serve": "docs/serving.md#Serving documents over MCP",
    "smoke": "docs/observability.md",
    "status": "docs/serving.md#Which release serves",
}
EXAMPLE = ("/CONTRIBUTING.md", "/SECURITY.md")


@dataclass(frozen=True)
class Table:
    """A table of a page; cells are Markdown as it stands in the source."""

    columns: Sequence[str]
    rows: Sequence[Mapping[str, str]]


@dataclass(frozen=True)
class Fence:
    """A code block; `language` is empty where none is given or the block is indented."""

    language: str
    text: str


@dataclass(frozen=True)
class Page:
    """A parsed page of the documentation."""

    name: str
    tokens: Sequence[Token]

    @cached_property
    def headings(self) -> Sequence[str]:
        titles = [self.tokens[at + 1] for at, token in enumerate(self.tokens) if token.type == "heading_open"]
        return ["".join(part.content for part in title.children or ()) for title in titles]

    @cached_property
    def anchors(self) -> Sequence[str]:
        return [slug(heading) for heading in self.headings]

    @cached_property
    def links(self) -> Sequence[str]:
        inner = (part for token in self.tokens for part in token.children or ())
        return [str(part.attrs["href"]) for part in inner if part.type == "link_open"]

    @cached_property
    def spans(self) -> Sequence[str]:
        inner = (part for token in self.tokens for part in token.children or ())
        return [part.content for part in inner if part.type == "code_inline"]

    @cached_property
    def fences(self) -> Sequence[Fence]:
        return [Fence(token.info, token.content) for token in self.tokens if token.type in {"fence", "code_block"}]

    def tables(self, under: str | None = None) -> Sequence[Table]:
        """The tables of the page, or those below the heading `under` and before the next."""
        found: list[Table] = []
        heading = ""
        cells: list[list[str]] = []
        for at, token in enumerate(self.tokens):
            match token.type:
                case "heading_open":
                    heading = self.tokens[at + 1].content
                case "table_open":
                    cells = []
                case "tr_open":
                    cells.append([])
                case "th_open" | "td_open":
                    cells[-1].append(self.tokens[at + 1].content)
                case "table_close" if under in {None, heading}:
                    head, *body = cells
                    found.append(Table(head, [dict(zip(head, row, strict=True)) for row in body]))
                case _:
                    pass
        return found

    def rows(self, column: str, under: str | None = None) -> Sequence[Mapping[str, str]]:
        """The rows of all tables whose first column is `column`."""
        return [row for table in self.tables(under) if table.columns[0] == column for row in table.rows]


@cache
def page(name: str) -> Page:
    parser = MarkdownIt("commonmark").enable("table")
    return Page(name, parser.parse((ROOT / name).read_text(encoding="utf-8")))


def names(rows: Sequence[Mapping[str, str]], column: str) -> list[str]:
    """The cells of a column, without the marks of code."""
    return [row[column].replace("`", "") for row in rows]


def code(value: object) -> str:
    if isinstance(value, tuple):
        value = ", ".join(
            str(part) for part in cast("tuple[object, ...]", value)
        )  # as it is written in the environment
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


# Settings


def test_each_setting_stands_in_the_table_with_its_variables_default_range_and_meaning_and_nothing_else_does() -> None:
    documented = [tuple(row.values()) for row in page("docs/settings.md").rows("Setting")]

    assert documented == [
        (
            code(name),
            ", ".join(code(variable) for variable in variables(field)),
            "unset" if field.default in (None, "", (), {}) else code(field.default),
            allowed_range(field),
            field.description,
        )
        for name, field in Settings.model_fields.items()
    ]


def test_each_variable_that_is_read_past_the_settings_is_documented_and_no_other_is() -> None:
    read = {name for path in source_files() for name in environment_names(ast.parse(path.read_bytes()))}

    assert set(names(page("docs/settings.md").rows("Variable"), "Variable")) == read


def test_each_variable_that_the_documentation_names_exists() -> None:
    known = {variable for field in Settings.model_fields.values() for variable in variables(field)}
    known |= set(names(page("docs/settings.md").rows("Variable"), "Variable"))
    known |= set(ErrorCode)
    pattern = re.compile(r"\b(?:BEDIVERE|LANCEDB|LANCELOT|OPENAI|EMBEDDING)_[A-Z_]+\b")
    named = {(name, variable) for name in PAGES for variable in pattern.findall(text_of(name))}

    assert {(name, variable) for name, variable in named if variable not in known} == set()


def test_the_example_of_a_settings_file_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = (fence.text for fence in page("docs/settings.md").fences if fence.language == "toml")
    (tmp_path / "settings.toml").write_text(example, encoding="utf-8")
    monkeypatch.setenv(SETTINGS_FILE_VARIABLE, str(tmp_path / "settings.toml"))

    assert load_settings().database == tomllib.loads(example)["database"]


def source_files() -> Iterator[Path]:
    return (path for package in ("handler", "retrieval") for path in sorted((ROOT / package).rglob("*.py")))


def environment_names(tree: ast.Module) -> Iterator[str]:
    """What a module asks `os.environ` for by a name that is written out, or by a constant of its own."""
    constants = {
        node.target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="environ"), attr="get"), args=[asked, *_]):
                pass
            case ast.Call(func=ast.Attribute(attr="getenv"), args=[asked, *_]):
                pass
            case ast.Subscript(value=ast.Attribute(attr="environ"), slice=asked):
                pass
            case ast.Compare(left=asked, comparators=[ast.Attribute(attr="environ")]):
                pass
            case _:
                continue
        match asked:
            case ast.Constant(value=str(name)):
                yield name
            case ast.Name(id=constant) if constant in constants:
                yield str(constants[constant])
            case _:
                pass


# Tools


def schemas() -> Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]]:
    defaults = Settings.model_construct()
    return {name: (tool.input_schema(defaults), tool.output_schema()) for name, tool in TOOLS.items()}


@pytest.mark.parametrize("name", ["README.md", "docs/tools.md"])
def test_each_tool_stands_in_the_overview_and_nothing_else_does(name: str) -> None:
    listed = re.findall(r"`(\w+)`", " ".join(row["Tool"] for row in page(name).rows("Tool")))

    assert listed == list(TOOLS)


@pytest.mark.parametrize("tool", TOOLS)
def test_each_parameter_stands_in_the_table_with_its_type_range_and_default_and_nothing_else_does(tool: str) -> None:
    schema, _ = schemas()[tool]
    documented = [
        (row["Parameter"].replace("`", ""), row["Type"], row["Range"], row["Default"])
        for row in page("docs/tools.md").rows("Parameter", tool)
    ]

    assert documented == [
        (name, rules["type"], range_of(name, rules), default_of(name, rules, schema.get("required", [])))
        for name, rules in schema["properties"].items()
    ]


@pytest.mark.parametrize("tool", TOOLS)
def test_each_field_of_a_reply_stands_in_the_table_and_nothing_else_does(tool: str) -> None:
    _, schema = schemas()[tool]

    assert names(page("docs/tools.md").rows("Field of the reply", tool), "Field of the reply") == list(fields(schema))


def range_of(name: str, rules: Mapping[str, Any]) -> str:
    match rules:
        case {"minimum": least, "maximum": most}:
            return f"{least} to {most}"
        case {"enum": choices}:
            return ", ".join(code(choice) for choice in choices)
        case {"minLength": least, "maxLength": most}:
            return f"{least} to {most} characters"
        case {"maxLength": most}:
            return f"up to {most} characters"
        case {"type": "boolean"}:
            return "`true`, `false`"
        case {"type": "array", "maxItems": most, "items": {"minLength": least, "maxLength": longest}}:
            return f"up to {most} texts of {least} to {longest} characters"
        case {"type": "array", "maxItems": most}:
            return f"up to {most} texts"
        case {"type": "object", "properties": inner}:
            return ", ".join(code(part) for part in inner)
        case {"type": "object"}:
            return "fields and values"
        case _:
            return "a table's name" if name == "table" else "a column's name"


def default_of(name: str, rules: Mapping[str, Any], required: Sequence[str]) -> str:
    if name in required:
        return "required"
    if "default" not in rules:
        setting = re.sub(r"[A-Z]", lambda found: f"_{found[0].lower()}", name)
        return f"setting {code(setting)}" if setting in Settings.model_fields else "none"
    return "empty" if rules["default"] == "" else code(rules["default"])


def fields(schema: Mapping[str, Any]) -> Iterator[str]:
    """The names in a schema, those within lists and objects as `list[].name` and `object.name`."""

    def walk(node: Mapping[str, Any], prefix: str) -> Iterator[str]:
        for name, rules in node.get("properties", {}).items():
            yield prefix + name
            for inner, mark in ((rules, "."), (rules.get("items", {}), "[].")):
                if "$ref" in inner:
                    yield from walk(schema["$defs"][inner["$ref"].rpartition("/")[2]], f"{prefix}{name}{mark}")

    return walk(schema, "")


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The database that the pages' examples ask."""
    database = tmp_path_factory.mktemp("example")
    build_table(Options(ROOT, database, include=EXAMPLE))
    return str(database)


def test_the_example_calls_give_replies_like_those_shown(example: str) -> None:
    blocks = [fence for fence in page("docs/tools.md").fences if fence.language in {"json", "markdown"}]
    calls = [(at, json.loads(fence.text)) for at, fence in enumerate(blocks) if fence.text.startswith('{"name"')]

    assert [call["name"] for _, call in calls] == [name for name in TOOLS if name != "lancedb_version"]
    for at, call in calls:
        reply = answer(example, call["name"], call["arguments"])
        shown = blocks[at + 1]
        if shown.language == "markdown":
            assert shown.text.split("\n\n")[:2] == str(reply["context"]).split("\n\n")[:2]
        else:
            assert outline(json.loads(shown.text)) == outline(reply), call["name"]


def answer(database: str, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    async def run() -> Reply:
        settings = load_settings(database=database)
        tool = TOOLS[name]
        return await tool.run(Service(settings, Retriever(settings)), tool.parse(arguments, settings))

    return asyncio.run(run()).model_dump(mode="json", exclude_none=True)


def outline(value: object) -> object:
    """The names in a reply and the places it cites: what stays when a document of the example is edited."""
    if isinstance(value, dict):
        pairs = cast("dict[str, object]", value).items()
        return {
            name: inner if name in {"path", "title", "heading", "name"} else outline(inner) for name, inner in pairs
        }
    if isinstance(value, list):
        return [outline(inner) for inner in cast("list[object]", value)]
    return type(value).__name__


def test_the_summaries_shown_are_those_that_the_indexer_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    shown = [fence.text for fence in page("docs/indexing.md").fences if fence.text.startswith("$ bedivere index . ")]
    for example in shown:
        command, *lines = example.splitlines()
        given = shlex.split(command)[2:]
        assert given[:2] == ["index", "."]
        done = CliRunner().invoke(app, [*given[:2], str(tmp_path), *given[3:]], catch_exceptions=False)
        assert masked(lines) == masked(done.stdout.splitlines())

    assert len(shown) == 3


def masked(lines: Sequence[str]) -> Sequence[str]:
    """Lines without their figures, which change with every edit of a document."""
    text = re.sub(r'"[0-9a-f]{64}"', '"…"', "\n".join(lines))
    return [re.sub(r"[\d.,]+( kB| bytes)?", "0", line).rstrip() for line in text.splitlines()]


def test_the_session_in_the_readme_finds_what_it_shows(tmp_path: Path) -> None:
    build_table(Options(ROOT / "docs", tmp_path))

    assert_first_hit("README.md", str(tmp_path))


def test_the_search_in_the_documentation_finds_what_it_shows(example: str) -> None:
    assert_first_hit("docs/retrieval.md", example)


def assert_first_hit(name: str, database: str) -> None:
    (shown,) = (fence.text for fence in page(name).fences if fence.text.startswith("$ bedivere search"))
    line, first, place = shown.splitlines()[:3]
    reply = search(database, shlex.split(line)[3])
    hit = reply.hits[0]

    assert place.strip() == hit.path
    assert re.fullmatch(r"1\. (.+)  [\d.]+", first).group(1) == f"{hit.title} > {hit.heading}"  # type: ignore[union-attr]


def search(database: str, query: str) -> SearchReply:
    return asyncio.run(Retriever(load_settings(database=database)).search(SearchRequest(query=query, limit=1)))


# Errors


def test_each_error_code_stands_in_the_tables_once_with_its_meaning_and_nothing_else_does() -> None:
    listed = page("docs/errors.md").rows("Code")

    assert sorted((row["Code"].strip("`"), row["Meaning"]) for row in listed) == sorted(
        (str(code), MEANINGS[code]) for code in ErrorCode
    )


def test_each_error_code_says_what_to_do() -> None:
    assert [row["Code"] for row in page("docs/errors.md").rows("Code") if not row["What to do"].strip()] == []


def test_each_code_that_the_documentation_names_exists() -> None:
    pattern = re.compile(
        r"(?:INVALID|TABLE|COLUMN|DATABASE|TEXT|SETTING|HOST|ORIGIN|PATH|METHOD|CONTENT|ACCEPT|BODY|EVENT|SOURCE|INDEX|NOTHING|BUILD)_[A-Z_]+"
    )
    named = {(name, span) for name in USER_PAGES for span in page(name).spans if pattern.fullmatch(span)}

    assert {(name, span) for name, span in named if span not in set(ErrorCode)} == set()


def test_the_table_of_refusals_holds_each_refusal_of_the_server_and_nothing_else() -> None:
    documented = {
        (int(row["Status"]), row["Code"].strip("`"))
        for row in page("docs/serving.md").rows("Request", "What the server refuses")
    }

    assert documented == {
        refusal
        for name in ("authority", "guard", "message", "refusal", "access/gate", "access/token_gate")
        for refusal in refusals(ast.parse((ROOT / "handler" / f"{name}.py").read_bytes()))
    }


def refusals(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Name(id="Refused" | "cls"),
                args=[ast.Constant(value=int(status)), ast.Attribute(value=ast.Name(id="ErrorCode"), attr=name), *_],
            ):
                yield status, name
            case _:
                pass


def test_each_exit_code_stands_in_the_table_and_nothing_else_does() -> None:
    documented = [int(row["Exit code"]) for row in page("docs/errors.md").rows("Exit code")]

    assert documented == list(ExitCode)


def test_the_page_on_indexing_names_the_exit_codes_that_its_command_gives() -> None:
    rows = page("docs/errors.md").rows("Exit code")
    given = [row["Exit code"] for row in rows if row["Commands"] == "all" or "`index`" in row["Commands"]]
    (sentence,) = re.findall(r"Exit codes: ([^.]+)\.", " ".join(text_of("docs/indexing.md").split()))

    assert re.findall(r"\b\d+\b", sentence) == given


# The command line


def commands() -> TyperGroup:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    return group


def leaves() -> dict[str, TyperCommand]:
    """Each command that does something, by the words that call it."""
    found: dict[str, TyperCommand] = {}
    for name, command in commands().commands.items():
        inner = command.commands if isinstance(command, TyperGroup) else {"": command}
        found |= {f"{name} {word}".strip(): cast("TyperCommand", one) for word, one in inner.items()}
    return found


@pytest.mark.parametrize("command", leaves())
def test_each_option_stands_in_the_table_of_its_command_with_its_default_and_nothing_else_does(command: str) -> None:
    expected: dict[str, str | None] = {}
    for parameter in leaves()[command].params:
        if isinstance(parameter, TyperOption):
            label = ", ".join(parameter.opts)
            default = "off" if parameter.is_flag else None if parameter.default is None else code(parameter.default)
        else:
            label = str(parameter.name).upper()
            default = "required" if parameter.required else None
        expected[label] = default
    name, _, heading = OPTIONS_PAGES[command].partition("#")
    listed = page(name).rows("Option", heading or None)

    assert names(listed, "Option") == list(expected)
    stated = {label: row["Default"] for label, row in zip(names(listed, "Option"), listed, strict=True)}
    assert {label: stated[label] for label, default in expected.items() if default is not None} == {
        label: default for label, default in expected.items() if default is not None
    }


def test_each_option_of_the_program_itself_is_documented() -> None:
    shown = {word for name in USER_PAGES for span in page(name).spans for word in span.split()}

    assert [option for parameter in commands().params for option in parameter.opts if option not in shown] == []


def command_lines(name: str) -> Iterator[Sequence[str]]:
    """Each command in the code blocks of a page, as words."""
    for fence in page(name).fences:
        for line in fence.text.replace("\\\n", " ").splitlines():
            if fence.language in {"", "sh"} or (fence.language == "console" and line.startswith("$ ")):
                yield from commands_of(line.removeprefix("$ "))


def commands_of(line: str) -> Iterator[Sequence[str]]:
    """The commands that a line of a shell joins, each as words."""
    command: list[str] = []
    for word in [*shlex.split(line, comments=True), ";"]:
        if word not in {"|", "||", "&&", "&", ";"}:
            command.append(word)
        elif command:
            yield command
            command = []


def arguments_of(program: str, words: Sequence[str]) -> Sequence[str] | None:
    """What `program` is called with, should these words call it, by itself or at the end of another's arguments."""
    return words[words.index(program) + 1 :] if program in words else None


def test_each_bedivere_command_in_the_documentation_is_understood_by_the_program() -> None:
    called = [
        (name, given)
        for name in PAGES
        for words in command_lines(name)
        if (given := arguments_of("bedivere", words)) and "mcp" not in words
    ]

    assert called
    assert [(name, problem) for name, given in called if (problem := misunderstanding(given))] == []


def misunderstanding(given: Sequence[str]) -> str | None:
    """Why the program would refuse these arguments before it does anything; None where it would not."""
    group = commands()
    try:
        context = group.make_context("bedivere", list(given), resilient_parsing=False)
        name, command, rest = group.resolve_command(context, list(given))
        if command is None:
            return f"no command {name}"
        command.make_context(str(name), rest, parent=context)
    except typer.Exit:
        return None
    except Exception as error:
        return f"{shlex.join(given)}: {error}"
    return None


@pytest.mark.parametrize("wrong", ["serve --nope", "index docs", "fetch docs", "search words --limit 500"])
def test_a_command_that_the_program_refuses_would_be_noticed(wrong: str) -> None:
    assert misunderstanding(shlex.split(wrong)) is not None


def test_each_command_and_option_in_running_text_exists() -> None:
    known = commands().commands
    wrong: list[tuple[str, str]] = []
    for name in USER_PAGES:
        for span in page(name).spans:
            words = span.split()
            if words[0] != "bedivere" or len(words) < 2:
                continue
            options = [option for parameter in commands().params for option in parameter.opts]
            if words[1] in known:
                called = " ".join(words[1:3]) if isinstance(known[words[1]], TyperGroup) else words[1]
                parameters = leaves()[called].params if called in leaves() else ()
                options = [option for parameter in parameters for option in parameter.opts]
            elif not words[1].startswith("--"):
                wrong.append((name, span))
            wrong += [(name, span) for word in words if word.startswith("--") and word not in {*options, "--help"}]

    assert wrong == []


def test_each_make_command_in_the_documentation_has_its_target_and_variables() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE))
    assigned = set(re.findall(r"\$\((?:if \$\()?([A-Z_]+)\)", makefile))
    called = [
        (name, word)
        for name in PAGES
        for words in (*command_lines(name), *inline_make_commands(name))
        if words[0] == "make"
        for word in words[1:]
    ]

    assert called
    known = {*targets, *assigned}
    assert [(name, word) for name, word in called if word.partition("=")[0] not in known] == []


def inline_make_commands(name: str) -> Iterator[Sequence[str]]:
    return (words for span in page(name).spans if span.startswith("make") for words in commands_of(span))


# Metrics


def test_each_metric_stands_in_the_table_with_its_unit_and_dimensions_and_nothing_else_does() -> None:
    documented = {
        row["Metric"].strip("`"): (row["Unit"], tuple(row["Dimensions"].replace("`", "").split(", ")))
        for row in page("docs/observability.md").rows("Metric")
    }

    assert documented == METRICS


def test_each_alarm_is_on_a_metric_and_a_code_that_exist() -> None:
    for row in page("docs/observability.md").rows("Alarm"):
        metric, *rest = re.findall(r"`(\w+)`", row["Metric"])
        assert metric in METRICS
        assert set(rest) <= {"code", *ErrorCode}


# Columns, formats and figures


def test_each_column_stands_in_the_table_with_its_type_and_nothing_else_does() -> None:
    documented = [(row["Column"].strip("`"), row["Type"]) for row in page("docs/indexing.md").rows("Column")]

    assert documented == [(name, str(cast("Any", rows.SCHEMA).field(name).type)) for name in COLUMNS]


def test_the_columns_that_never_come_back_are_marked() -> None:
    never = [row["Column"].strip("`") for row in page("docs/indexing.md").rows("Column") if row["In a hit"] == "never"]

    assert set(never) == {*INTERNAL_COLUMNS, ORDINAL_COLUMN}


def test_each_suffix_with_a_reader_stands_in_the_table_and_nothing_else_does() -> None:
    listed = re.findall(r"`(\.\w+)`", " ".join(row["Suffix"] for row in page("docs/indexing.md").rows("Suffix")))

    assert sorted(listed) == sorted(formats.SUFFIXES)


def test_the_boosts_are_those_of_the_plan() -> None:
    stated = {row["Part"]: float(row["Boost"]) for row in page("docs/retrieval.md").rows("Part")}

    assert stated == {
        "Words": 1.0,
        "Identifiers": IDENTIFIER_BOOST,
        "Words of identifiers": PART_BOOST,
        "Words within identifiers": IDENTIFIER_BOOST,
        "Title": TITLE_BOOST,
        "Heading": HEADING_BOOST,
        "Phrases": 1.0,
    }


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("docs/indexing.md", f"about {chunks.TARGET_CHARS:,} characters and never more than {chunks.MAX_CHARS:,}"),
        ("docs/indexing.md", f"larger than {sources.MAX_FILE_BYTES // 1_000_000} MB"),
        ("docs/indexing.md", f"over {metadata.MAX_VALUE_CHARS:,} characters"),
        ("docs/indexing.md", f"At most {rows.MAX_OWN_COLUMNS} such columns"),
        ("docs/retrieval.md", f"At most {MAX_QUERY_CHARS:,} characters"),
        ("docs/retrieval.md", f"The first {MAX_TERMS} words"),
        ("docs/retrieval.md", f"at most {SNIPPET_CHARS} characters"),
        ("docs/errors.md", f"1 to {MAX_QUERY_CHARS:,} characters"),
        ("docs/errors.md", f"The limit is {MAX_COLUMNS}."),
        ("docs/observability.md", f"more than {MAX_REPLY_BYTES / 1e6:.1f} MB"),
        ("docs/tools.md", f"more than {MAX_COLUMNS} columns"),
        ("docs/tools.md", f"under {MAX_REPLY_CHARS:,} characters"),
    ],
)
def test_a_limit_in_the_documentation_is_the_one_in_the_code(name: str, sentence: str) -> None:
    assert sentence in " ".join(text_of(name).split())


# Budgets


def limit_of(name: str) -> object:
    """The value that `module:NAME` has in the code, or the default of `module:Model.field`."""
    module, _, constant = name.partition(":")
    model, _, field = constant.partition(".")
    found = getattr(importlib.import_module(module), model)
    return found.model_fields[field].default if field else found


def test_each_budget_is_the_one_in_the_code() -> None:
    budgets = page("docs/security.md").rows("Stage", "Budgets")
    stated = {row["In the code"].strip("`"): row["Limit"] for row in budgets}
    assert len(budgets) == len(stated) > 20
    assert {name: f"{limit_of(name):,.0f}" for name in stated} == stated


def test_what_lies_past_a_budget_is_a_code_that_there_is() -> None:
    past = [row["Past it"] for row in page("docs/security.md").rows("Stage", "Budgets")]
    codes = {code for text in past for code in re.findall(r"`([A-Z_]+)`", text)}
    assert codes - set(ErrorCode) == set()


# The pages themselves


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_each_relative_link_leads_to_a_file_and_a_heading(name: str) -> None:
    assert [
        link for link in page(name).links if not re.match(r"[a-z]+:", link) and not leads_somewhere(name, link)
    ] == []


def leads_somewhere(name: str, link: str) -> bool:
    place, _, anchor = link.partition("#")
    target = ((ROOT / name).parent / place).resolve() if place else ROOT / name
    if not target.exists() or not target.is_relative_to(ROOT):
        return False
    return not anchor or anchor in page(str(target.relative_to(ROOT))).anchors


@pytest.mark.parametrize("name", PAGES)
def test_no_two_headings_of_a_page_have_the_same_anchor(name: str) -> None:
    assert len(set(page(name).anchors)) == len(page(name).anchors)


def test_the_readme_leads_to_each_page() -> None:
    assert {f"docs/{name}" for name in DOCS} <= set(page("README.md").links)


@pytest.mark.parametrize("name", USER_PAGES)
def test_each_code_block_names_its_language(name: str) -> None:
    assert [fence.text for fence in page(name).fences if not fence.language] == []


@pytest.mark.parametrize("name", USER_PAGES)
def test_each_example_in_json_can_be_read(name: str) -> None:
    for fence in page(name).fences:
        if fence.language == "json":
            json.loads(fence.text)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_names_no_place_on_its_writers_machine(name: str) -> None:
    private = re.compile(rf"{re.escape(str(ROOT))}\b|(?<![\w.~])/(?:home|root|Users|mnt|tmp(?!/bedivere))/\w")

    assert private.findall(text_of(name)) == []
