"""The commands in the documentation against the program: its tables hold each option, and no other."""

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import cast

import pytest
import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from handler.cli import app
from tests.documentation import PAGES, ROOT, USER_PAGES, code, names, page

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
