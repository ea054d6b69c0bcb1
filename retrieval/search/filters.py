"""What a caller narrows a search to: checked against the table's columns, typed, and never read as code.

A condition is data until `to_sql` writes it, with columns and values quoted by whoever runs it. It is true or false of
a row, never unknown: an empty cell equals nothing, so that `neq` and `Not` let it through.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, cast

from retrieval.errors import BedivereError, ErrorCode
from retrieval.layout import Column, Layout
from retrieval.search import bounds, values
from retrieval.search.text import nfc
from retrieval.search.values import Cast, Value

MAX_CONDITIONS: Final = 20
MAX_VALUES: Final = 100
"""Values of one list."""

MAX_PATH_CHARS: Final = 4_096

OPERATORS: Final = ("eq", "neq", "in", "exists", "gte", "lte", "prefix")
"""What a caller may write."""

Op = Literal["eq", "neq", "in", "exists", "gte", "lte", "prefix", "contains", "matches"]

_LISTED_FIELDS: Final = 30
_BETWEEN_WORDS: Final = re.compile(r"[-_ ]")


@dataclass(frozen=True, slots=True)
class Condition:
    """One column compared with one value; with `in`, with each of several; with `exists`, whether it holds anything."""

    column: str
    op: Op
    value: Value | tuple[Value, ...]
    cast: Cast | None = None
    """What the column is read as, where LanceDB cannot compare it as it is."""


@dataclass(frozen=True, slots=True)
class AllOf:
    """All of `parts` hold; with none, everything does."""

    parts: tuple[Where, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of `parts` holds; with none, nothing does."""

    parts: tuple[Where, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """`part` does not hold."""

    part: Where


Where = Condition | AllOf | AnyOf | Not

_ROOTED: Final = re.compile(r"\.?/")

NOTHING: Final = AnyOf(())
"""Lets no row through."""


def all_of(parts: Sequence[Where | None]) -> Where | None:
    """What lets through the rows that each of `parts` does; None, which lets everything through, where all are None."""
    given = tuple(part for part in parts if part is not None)
    return given[0] if len(given) == 1 else AllOf(given) if given else None


def parse(filters: Mapping[str, object], columns: Sequence[Column], layout: Layout) -> Where | None:
    """The condition that a caller wrote as `{field: value | [values] | {operator: value}}`; None where it says nothing.

    A field is named as its column is or as a reply names it. Raises `BedivereError` INVALID_FILTER, whose sentence
    lists the fields there are, nearest first, or says what the field can be compared with or which limit was passed.
    """
    fields = _Fields.of(columns, layout)
    parts: list[Where] = []
    for name, asked in filters.items():
        column = fields.named(name)
        for op, value in _comparisons(name, asked):
            parts.append(_condition(column, name, op, value))
            if len(parts) > MAX_CONDITIONS:
                raise values.invalid(f"There are more than {MAX_CONDITIONS} conditions: ask with fewer.")
    return all_of(parts)


def among(field: str, asked: Sequence[str], columns: Sequence[Column]) -> Where:
    """The rows whose `field`, a column that is there, holds one of `asked`, each as a reply writes it.

    Raises `BedivereError` INVALID_FILTER where the column cannot be compared.
    """
    return _equal(next(column for column in columns if column.name == field), field, asked)


def under(path_prefix: str, layout: Layout) -> Where:
    """Documents whose path begins with `path_prefix`, also where that begins with `/` or `./` and paths do not.

    Raises `BedivereError` COLUMN_NOT_FOUND where the table has no paths, INVALID_FILTER for too long a prefix.
    """
    written = values.text(path_prefix, "pathPrefix", MAX_PATH_CHARS)
    spellings = dict.fromkeys(
        (written, written.removeprefix(".").removeprefix("/") if _ROOTED.match(written) else written)
    )
    return _any_of([Condition(_path(layout), "prefix", one) for one in spellings])


def excluding(fragments: Sequence[str], layout: Layout) -> Where | None:
    """Documents whose path holds none of `fragments`, upper and lower case told apart; None where there are none.

    Raises what `under` does, and INVALID_FILTER for too many fragments.
    """
    given = [values.text(fragment, "exclude", MAX_PATH_CHARS) for fragment in dict.fromkeys(fragments) if fragment]
    if not given:
        return None
    if len(given) > MAX_VALUES:
        raise values.invalid(f"exclude has {len(given)} fragments and at most {MAX_VALUES} are taken.")
    path = _path(layout)
    return Not(AnyOf(tuple(Condition(path, "contains", fragment) for fragment in given)))


def dated(where: Where | None) -> frozenset[str]:
    """The columns of text that `where` bounds by a date."""
    match where:
        case AllOf(parts) | AnyOf(parts):
            return frozenset(column for part in parts for column in dated(part))
        case Not(part):
            return dated(part)
        case Condition(column, "gte" | "lte", str(value)) if bounds.is_dated(value):
            return frozenset({column})
        case _:
            return frozenset()


def undated(column: str) -> Where:
    """Rows whose `column` holds text that is no date in ISO 8601."""
    there = (Condition(column, "exists", True), Condition(column, "neq", ""))
    return AllOf((*there, Not(Condition(column, "matches", bounds.DATED))))


def to_sql(where: Where, quote_column: Callable[[str], str], quote_value: Callable[[Value], str]) -> str:
    """`where` in the SQL of LanceDB's filters. No part of a column's name or of a value gets there unquoted.

    A Not is carried in to the comparisons: NOT of an unknown is unknown there, and LanceDB's parser takes twice the
    time with every parenthesis that stands within a NOT. Text is quoted here and only other values by `quote_value`:
    what LanceDB's `lit` makes of a quote after a backslash, or of two side by side, ends the text too early.
    """
    return _Writer(quote_column, quote_value).write(where, negated=False)


@dataclass(frozen=True, slots=True)
class _Writer:
    column: Callable[[str], str]
    other: Callable[[Value], str]

    def value(self, value: Value) -> str:
        # In LanceDB's SQL a quote is the one character of a text that has to be written otherwise.
        return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else self.other(value)

    def write(self, where: Where, *, negated: bool) -> str:
        match where:
            case Condition():
                return self._comparison(where, negated=negated)
            case Not(part):
                return self.write(part, negated=not negated)
            case AllOf(parts) | AnyOf(parts):
                every = isinstance(where, AllOf) is not negated
                if not parts:
                    return "true" if every else "false"
                written = [self.write(part, negated=negated) for part in parts]
                return written[0] if len(written) == 1 else f"({(' AND ' if every else ' OR ').join(written)})"

    def _comparison(self, condition: Condition, *, negated: bool) -> str:
        column, op, value = self.column(condition.column), condition.op, condition.value
        if op == "exists":
            return f"{column} IS {'NOT ' if bool(value) is not negated else ''}NULL"
        if condition.cast is not None:
            column = f"CAST({column} AS {condition.cast})"
        if op == "neq":
            op, negated = "eq", not negated
        if isinstance(value, tuple):
            if not value:
                return "true" if negated else "false"
            listed = ", ".join(self.value(one) for one in value)
            return self._either(column, f"IN ({listed})", f"NOT IN ({listed})", negated=negated)
        if op == "prefix":
            return self._prefix(column, str(value), negated=negated)
        quoted = self.value(value)
        match op:
            case "gte":
                return self._either(column, f">= {quoted}", f"< {quoted}", negated=negated)
            case "lte":
                return self._either(column, f"<= {quoted}", f"> {quoted}", negated=negated)
            case "contains" | "matches":
                found = f"{'contains' if op == 'contains' else 'regexp_like'}({column}, {quoted})"
                return f"({column} IS NULL OR {found} = false)" if negated else found
            case _:
                return self._either(column, f"= {quoted}", f"<> {quoted}", negated=negated)

    def _either(self, column: str, positive: str, negative: str, *, negated: bool) -> str:
        # Without a NOT around it, a comparison with an empty cell may stay unknown: no row passes by it.
        return f"({column} IS NULL OR {column} {negative})" if negated else f"{column} {positive}"

    def _prefix(self, column: str, prefix: str, *, negated: bool) -> str:
        # Text compares by its UTF-8 bytes, and so what begins alike is a half-open range.
        after = _after(prefix)
        first = f">= {self.value(prefix)}"
        if negated:
            beyond = f" OR {column} >= {self.value(after)}" if after is not None else ""
            return f"({column} IS NULL OR {column} < {self.value(prefix)}{beyond})"
        return f"({column} {first} AND {column} < {self.value(after)})" if after is not None else f"{column} {first}"


def _after(prefix: str) -> str | None:
    """The least text that is greater than all that begin with `prefix`; None where there is none."""
    kept = prefix.rstrip("\U0010ffff")
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    # Surrogates are no characters: what follows U+D7FF is U+E000.
    return kept[:-1] + chr(0xE000 if following == 0xD800 else following)


@dataclass(frozen=True, slots=True)
class _Fields:
    """The columns that may be asked for: those that a reply shows."""

    columns: Mapping[str, Column]
    roles: Mapping[str, str]
    """Replies call some parts by another name than a table of others does."""

    @classmethod
    def of(cls, columns: Sequence[Column], layout: Layout) -> _Fields:
        shown = set(layout.selected)
        known = {column.name: column for column in columns if column.name in shown and "`" not in column.name}
        parts = {
            "id": layout.id,
            "path": layout.path,
            "title": layout.title,
            "heading": layout.heading,
            "url": layout.url,
            "chunk": layout.ordinal,
        }
        return cls(known, {part: column for part, column in parts.items() if column in known})

    def named(self, name: str) -> Column:
        for written in (name, name.removeprefix("metadata.")):
            if written in self.columns:
                return self.columns[written]
            if written in self.roles:
                return self.columns[self.roles[written]]
            alike = [known for known in self.columns if folded(known) == folded(written)]
            if len(alike) == 1:
                return self.columns[alike[0]]
        raise values.invalid(f"There is no field {values.shown(name)}; {self._listed(name)}.")

    def _listed(self, name: str) -> str:
        if not self.columns:
            return "the table has no field to filter by"
        wanted = folded(name[: values.NAME_CHARS])
        by_likeness = sorted(
            self.columns, key=lambda known: (-difflib.SequenceMatcher(None, wanted, folded(known)).ratio(), known)
        )
        more = f" and {len(by_likeness) - _LISTED_FIELDS} more" if len(by_likeness) > _LISTED_FIELDS else ""
        return f"the fields are, nearest first, {', '.join(by_likeness[:_LISTED_FIELDS])}{more}"


def folded(name: str) -> str:
    """A field's name for comparing: `supersededBy`, `superseded_by`, `Superseded-By` and `superseded by` alike."""
    return _BETWEEN_WORDS.sub("", name.casefold())


def _comparisons(name: str, asked: object) -> list[tuple[str, object]]:
    if not isinstance(asked, Mapping):
        return [("in" if isinstance(asked, list | tuple) else "eq", asked)]
    operators = {str(op): value for op, value in cast("Mapping[object, object]", asked).items()}
    for op in operators:
        if op not in OPERATORS:
            raise values.invalid(
                f"Filter {values.shown(name)} has no operator {values.shown(op)}; there are {', '.join(OPERATORS)}."
            )
    if not operators:
        raise values.invalid(f"Filter {values.shown(name)} compares with nothing; there are {', '.join(OPERATORS)}.")
    return list(operators.items())


def _condition(column: Column, name: str, op: str, value: object) -> Where:
    match op:
        case "exists":
            return _existing(column, name, value)
        case "in":
            listed = cast("Sequence[object]", value) if isinstance(value, list | tuple) else [value]
            if not 0 < len(listed) <= MAX_VALUES:
                raise values.invalid(
                    f"Filter {values.shown(name)}: a list has 1 to {MAX_VALUES} values, and this one {len(listed):,}."
                )
            return _equal(column, name, listed)
        case "eq":
            return _equal(column, name, [value])
        case "neq":
            return Not(_equal(column, name, [value]))
        case "prefix":
            if column.kind != "text":
                raise values.invalid(
                    f"Filter {values.shown(name)}: only text has a prefix, and it holds {values.KINDS[column.kind]}."
                )
            return _any_of([Condition(column.name, "prefix", it) for it in values.forms(_text(column, name, value))])
        case _:
            return _bounded(column, name, "gte" if op == "gte" else "lte", value)


def _text(column: Column, name: str, value: object) -> str:
    return values.as_text(column, name, value)


def _existing(column: Column, name: str, value: object) -> Where:
    wanted = values.boolean(value)
    if wanted is None:
        raise values.invalid(f"Filter {values.shown(name)}: exists is true or false.")
    # A reply leaves an empty text, NaN and what is infinite out as it does an empty cell.
    if column.kind == "text":
        there = AllOf((Condition(column.name, "exists", True), Condition(column.name, "neq", "")))
    elif column.kind == "number" and not column.type.startswith("decimal"):
        most = values.largest(column)
        there = AllOf((_compared(column, "gte", -most), _compared(column, "lte", most)))
    else:
        return Condition(column.name, "exists", wanted)
    return there if wanted else Not(there)


def _equal(column: Column, name: str, asked: Iterable[object]) -> Where:
    values.comparable(column, name)
    exact: list[Value] = []
    parts: list[Where] = []
    for value in asked:
        match column.kind:
            case "text":
                exact += values.forms(_text(column, name, value))
            case "boolean":
                exact.append(values.as_boolean(column, name, value))
            case "integer":
                number = values.as_number(column, name, value)
                # A whole number equals neither a fraction nor what its type cannot hold.
                if number == int(number) and int(number) in values.held(column):
                    exact.append(int(number))
            case "number":
                exact.append(values.as_number(column, name, value))
            case _:
                parts.append(_during(column, *values.as_time(column, name, value)))
    unique = tuple(dict.fromkeys(exact))
    if unique:
        single = len(unique) == 1
        parts.append(_compared(column, "eq", unique[0]) if single else _compared(column, "in", unique))
    return _any_of(parts)


def _bounded(column: Column, name: str, op: Literal["gte", "lte"], value: object) -> Where:
    values.comparable(column, name)
    match column.kind:
        case "text":
            return _bounded_text(column, op, nfc(bounds.as_bound(column, name, value)))
        case "integer":
            return _bounded_integer(column, op, values.as_number(column, name, value))
        case "number":
            bound = _compared(column, op, values.as_number(column, name, value))
            # LanceDB orders NaN above every number, or below where its sign is set; a reply takes it for nothing.
            if op == "gte":
                return AllOf((bound, _compared(column, "lte", values.largest(column))))
            return AllOf((bound, _compared(column, "gte", -values.largest(column))))
        case "boolean":
            raise values.invalid(f"Filter {values.shown(name)}: true and false have no order; use eq, neq or exists.")
        case _:
            first, after = values.as_time(column, name, value)
            if op == "gte" or after is None:
                return _compared(column, op, first)
            return AllOf((Condition(column.name, "exists", True), Not(_compared(column, "gte", after))))


def _bounded_text(column: Column, op: Literal["gte", "lte"], text: str) -> Where:
    bound = Condition(column.name, op, text)
    if op == "gte" or not bounds.is_dated(text) or len(text) > len("2026-01-01"):
        return bound
    # Up to a day, a month or a year is up to its end.
    within = ("T", " ") if len(text) == len("2026-01-01") else ("-",)
    return AnyOf((bound, *(Condition(column.name, "prefix", text + mark) for mark in within)))


def _bounded_integer(column: Column, op: Literal["gte", "lte"], number: int | float) -> Where:
    bound = math.ceil(number) if op == "gte" else math.floor(number)
    held = values.held(column)
    if bound in held:
        return Condition(column.name, op, bound)
    # LanceDB refuses a number that the column's type cannot hold.
    all_pass = (bound < held.start) is (op == "gte")
    return Condition(column.name, "exists", True) if all_pass else NOTHING


def _during(column: Column, first: Value, after: Value | None) -> Where:
    if after is None:
        return _compared(column, "eq", first)
    return AllOf((_compared(column, "gte", first), Not(_compared(column, "gte", after))))


def _compared(column: Column, op: Op, value: Value | tuple[Value, ...]) -> Condition:
    return Condition(column.name, op, value, values.cast_of(column))


def _any_of(parts: Sequence[Where]) -> Where:
    return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))


def _path(layout: Layout) -> str:
    if layout.path is None:
        raise BedivereError(ErrorCode.COLUMN_NOT_FOUND, "The table has no column of paths to filter by.")
    return layout.path
