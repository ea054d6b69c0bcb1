"""The documentation against the code: its tables hold each name that the code has, and no other."""

import ast
import asyncio
import json
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
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
from tests.documentation import PAGES, ROOT, USER_PAGES, code, names, page, text_of

EXAMPLE = ("/CONTRIBUTING.md", "/SECURITY.md")


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
