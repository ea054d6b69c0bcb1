"""The regular expressions of the project, and texts made to cost each of them the most.

The method is the usual one of attacks: whatever a repeat takes is pumped, after what leads to the repeat and before
what fails after it. The texts are derived from the parsed expression, so that a new one is attacked unasked.
"""

# `re._parser` has no types of its own.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportAttributeAccessIssue=false, reportPrivateUsage=false, reportUnknownParameterType=false
from __future__ import annotations

import ast
import importlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import thread_time
from typing import Any, Final, cast

ROOT: Final = Path(__file__).resolve().parents[2]

# What fails after a repeat that ran: nothing, what no expression takes, and what many end with.
_ENDS: Final = ("", "\0", "!", "\n", " ", "x", "<", "\n\n")
_MOST_PUMPS: Final = 40


@dataclass(frozen=True)
class Expression:
    """An expression, and whether it is looked for all through a text or tried at one place of it."""

    name: str
    pattern: re.Pattern[Any]
    searches: bool

    def seconds(self, text: str) -> float:
        """The processor's time to ask `text` for it."""
        subject = text.encode("utf-8", "replace") if isinstance(self.pattern.pattern, bytes) else text
        began = thread_time()
        if self.searches:
            for _ in self.pattern.finditer(subject):
                pass
        else:
            self.pattern.match(subject)
            self.pattern.fullmatch(subject)
        return thread_time() - began


def expressions() -> list[Expression]:
    """Every expression that is a constant of a module or written out in a call."""
    found: dict[str, Expression] = {}
    for package in ("handler", "retrieval"):
        for file in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            # These two do something when they are imported.
            if name in {"handler.cli.__main__", "handler.main"}:
                continue
            tree = ast.parse(file.read_bytes())
            asked = _asked(tree)
            for constant, value in vars(importlib.import_module(name)).items():
                # One that is handed to a function, or used elsewhere, is taken for one that is searched for.
                if isinstance(value, re.Pattern):
                    pattern = cast("re.Pattern[Any]", value)
                    searches = not asked.get(constant, {""}) <= _ANCHORED
                    found[f"{name}.{constant}"] = Expression(f"{name}.{constant}", pattern, searches)
            for line, method, text in _written(tree):
                found[f"{name}:{line}"] = Expression(f"{name}:{line}", re.compile(text), method not in _ANCHORED)
    return list(found.values())


_ANCHORED: Final = frozenset({"match", "fullmatch"})


def _asked(tree: ast.Module) -> dict[str, set[str]]:
    """By name, the methods that are called on it; "" where it is handed on."""
    called: dict[str, set[str]] = {}
    named: Counter[str] = Counter()
    methods: Counter[str] = Counter()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=method):
                called.setdefault(name, set()).add(method)
                methods[name] += 1
            case ast.Name(id=name, ctx=ast.Load()):
                named[name] += 1
            case _:
                pass
    for name in named:
        if named[name] > methods[name]:
            called.setdefault(name, set()).add("")
    return called


def _written(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(
                    value=ast.Name(id="re"), attr="match" | "search" | "sub" | "fullmatch" | "split" as method
                ),
                args=[ast.Constant(value=str(text)), *_],
            ):
                yield node.lineno, method, text
            case _:
                pass


def attacks(pattern: re.Pattern[Any]) -> Iterator[tuple[str, str, str]]:
    """A beginning, what to repeat, and an end, for each repeat of `pattern` and each pair that follow each other."""
    source = pattern.pattern.decode("latin-1") if isinstance(pattern.pattern, bytes) else pattern.pattern
    flags = pattern.flags & ~re.UNICODE if isinstance(pattern.pattern, bytes) else pattern.flags
    tree = re._parser.parse(source, flags)  # type: ignore[attr-defined]
    pumps = list(dict.fromkeys(_pumps(tree.data, "")))[:_MOST_PUMPS]
    bodies = list(dict.fromkeys(body for _, body in pumps if body))
    for before, body in pumps:
        for end in _ENDS:
            yield before, body, end
        yield f"x{before}", body, "x"
        # What is looked for may begin again and again, and end never.
        for start in {before, before + body} - {""}:
            yield "", start, "\0"
            yield "", f"{start}\n", "\0"
    for one in bodies[:6]:
        for other in bodies[:6]:
            if one != other:
                yield "", one + other, "\0"
                yield "", f"{one}\n{other}", "\0"


def _pumps(items: list[Any], before: str) -> Iterator[tuple[str, str]]:
    for operator, argument in items:
        name = str(operator)
        if name in {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}:
            least, _, body = argument
            for text in _texts(body.data):
                yield before, text
            yield from _pumps(body.data, before)
            before += _example(body.data) * least
            continue
        for inner in _inner(name, argument):
            yield from _pumps(inner.data, before)
        before += _example([(operator, argument)])


def _inner(name: str, argument: Any) -> list[Any]:
    match name:
        case "SUBPATTERN":
            return [argument[-1]]
        case "ATOMIC_GROUP":
            return [argument]
        case "BRANCH":
            return list(argument[1])
        case "ASSERT" | "ASSERT_NOT":
            return [argument[1]]
        case _:
            return []


def _texts(items: list[Any]) -> list[str]:
    """Texts that `items` take: one by its first choices, and one for each other choice of its only part."""
    texts = [_example(items)]
    if len(items) == 1:
        operator, argument = items[0]
        match str(operator):
            case "IN":
                texts += [char for one in argument for char in _chars(one)]
                texts += [char for char in "a0 _.-/:\n\t<>\"'" if _takes(argument, char)]
            case "SUBPATTERN":
                texts += _texts(argument[-1].data)
            case "BRANCH":
                texts += [text for branch in argument[1] for text in _texts(branch.data)]
            case "ANY":
                texts += ["a", " ", "<", "-"]
            case _:
                pass
    return [text for text in dict.fromkeys(texts) if text]


def _takes(argument: list[Any], char: str) -> bool:
    negated = str(argument[0][0]) == "NEGATE"
    held = any(char in _chars(one) or _in_range(one, char) for one in argument if str(one[0]) != "NEGATE")
    return held is not negated


def _in_range(one: tuple[Any, Any], char: str) -> bool:
    operator, argument = one
    match str(operator):
        case "RANGE":
            return argument[0] <= ord(char) <= argument[1]
        case "LITERAL":
            return ord(char) == argument
        case "CATEGORY":
            return _of_category(str(argument), char)
        case _:
            return False


def _of_category(category: str, char: str) -> bool:
    kinds = {"SPACE": char.isspace(), "DIGIT": char.isdigit(), "WORD": char.isalnum() or char == "_"}
    held = next((value for kind, value in kinds.items() if category.endswith(kind)), False)
    return held is not ("_NOT_" in category)


def _chars(one: tuple[Any, Any]) -> list[str]:
    operator, argument = one
    match str(operator):
        case "LITERAL":
            return [chr(argument)]
        case "RANGE":
            return [chr(argument[0]), chr(argument[1])]
        case "CATEGORY":
            return [char for char in ("a", "0", " ", "_", "\n", "-") if _of_category(str(argument), char)]
        case _:
            return []


def _example(items: list[Any]) -> str:
    """One text that `items` take, or nearly."""
    text = ""
    for operator, argument in items:
        match str(operator):
            case "LITERAL":
                text += chr(argument)
            case "NOT_LITERAL":
                text += "a" if argument != ord("a") else "b"
            case "ANY":
                text += "a"
            case "IN":
                negated = str(argument[0][0]) == "NEGATE"
                known = [char for one in argument for char in _chars(one)]
                text += next((c for c in "a0 _.~" if _takes(argument, c)), "a") if negated else (known or ["a"])[0]
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                text += _example(argument[2].data) * max(1, min(argument[0], 64))
            case "SUBPATTERN":
                text += _example(argument[-1].data)
            case "ATOMIC_GROUP":
                text += _example(argument.data)
            case "BRANCH":
                text += _example(argument[1][0].data)
            case _:
                pass
    return text
