"""What a caller's values mean for a column: typed as the column is, or refused in a sentence that says what it takes.

What is refused raises `BedivereError` INVALID_FILTER, in which the column is called by the `name` that was written.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, Literal

from retrieval.errors import BedivereError, ErrorCode
from retrieval.layout import Column
from retrieval.search.text import nfc
from retrieval.types import Scalar

Value = Scalar | date | datetime
Cast = Literal["DOUBLE", "TIMESTAMP"]

MAX_VALUE_CHARS: Final = 1_000
NAME_CHARS: Final = 100
"""Characters of a caller's own words that a sentence repeats."""

_INT64: Final = range(-(2**63), 2**63)
_INTEGER_TYPE: Final = re.compile(r"(u?)int(8|16|32|64)$")
_NUMERAL: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?")
_YEARS: Final = range(1678, 2262)
"""Those that a time in nanoseconds can be in, through which LanceDB compares all of them."""

_UTC_NAMES: Final = frozenset({"UTC", "Etc/UTC", "GMT", "Z", "+00:00"})

KINDS: Final = {
    "text": "text",
    "integer": "whole numbers",
    "number": "numbers",
    "boolean": "true or false",
    "time": "times",
    "other": "values of another kind",
}
_COMPARABLE: Final = {
    "text": "text",
    "integer": "numbers",
    "number": "numbers",
    "boolean": "true and false",
    "time": "ISO 8601 dates and times",
    "other": "nothing: only exists can be asked",
}


_JSON_NAMES: Final = {
    "str": "other text",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "dict": "an object",
    "list": "a list",
    "tuple": "a list",
}


def held(column: Column) -> range:
    """The whole numbers that the column's type holds, as far as LanceDB can be asked for them."""
    match = _INTEGER_TYPE.match(column.type)
    bits, unsigned = (int(match[2]), bool(match[1])) if match else (64, False)
    least, most = (0, 2**bits) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    return range(max(least, _INT64.start), min(most, _INT64.stop))


def largest(column: Column) -> float:
    """The largest number of the column's type: what is beyond it, LanceDB compares as infinite."""
    return 3.4028234663852886e38 if column.type == "float" else 1.7976931348623157e308


def cast_of(column: Column) -> Cast | None:
    """What the column is read as to be compared: of its own type LanceDB has no literals, or none with a fraction."""
    if column.type.startswith(("decimal", "halffloat")):
        return "DOUBLE"
    zone = re.search(r"tz=([^\]]+)", column.type)
    return "TIMESTAMP" if zone is not None and zone[1] not in _UTC_NAMES else None


def comparable(column: Column, name: str) -> None:
    """Refuses a column of a type that LanceDB has no literals for."""
    if column.kind == "other" or column.type.startswith(("time32", "time64")):
        raise invalid(f"{shown(name)} is of type {column.type}, of which only exists can be asked.")


def as_text(column: Column, name: str, value: object) -> str:
    match value:
        case str():
            return text(value, name)
        case bool():
            return str(value).lower()
        case int() | float():
            return text(str(_finite(value, name)), name)
        case _:
            raise _mismatch(column, name, value)


def text(value: str, name: str, most: int = MAX_VALUE_CHARS) -> str:
    if len(value) > most:
        raise invalid(f"A value for {shown(name)} has {len(value):,} characters and at most {most:,} are taken.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise invalid(f"A value for {shown(name)} is no valid text.") from None
    return value


def forms(text: str) -> list[str]:
    """`text` as it stands and composed, which is how documents of ours are written."""
    return list(dict.fromkeys([text, nfc(text)]))


def as_number(column: Column, name: str, value: object) -> int | float:
    if isinstance(value, str) and len(value) <= MAX_VALUE_CHARS and _NUMERAL.fullmatch(value.strip()):
        written = value.strip()
        value = int(written) if re.fullmatch(r"[+-]?\d+", written) else float(written)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _mismatch(column, name, value)
    number = _finite(value, name)
    return number if column.kind == "integer" else float(number)


def _finite(value: int | float, name: str) -> int | float:
    try:
        if math.isfinite(value):
            return value
    except OverflowError:
        pass
    raise invalid(f"A value for {shown(name)} is no number that can be compared.")


def boolean(value: object) -> bool | None:
    """True, False or their names in text; None for anything else."""
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower())
    return value if isinstance(value, bool) else None


def as_boolean(column: Column, name: str, value: object) -> bool:
    found = boolean(value)
    if found is None:
        raise _mismatch(column, name, value)
    return found


def as_time(column: Column, name: str, value: object) -> tuple[Value, Value | None]:
    """The moment that `value` names; of a day, a month or a year, its beginning and the next one's.

    A day of a column of days is a moment. A value without a zone is in UTC, as a column without one is taken to be.
    """
    if not isinstance(value, str):
        raise _mismatch(column, name, value)
    written = text(value, name).strip()
    try:
        if re.fullmatch(r"\d{4}-\d\d-\d\d", written):
            day = date.fromisoformat(written)
            return (day, None) if column.type.startswith("date") else _span(column, name, day, day + timedelta(days=1))
        if re.fullmatch(r"\d{4}(-\d\d)?", written):
            year, month = int(written[:4]), int(written[5:] or 1)
            months = 1 if written[5:] else 12
            after = date(year + (month + months - 1) // 12, (month + months - 1) % 12 + 1, 1)
            return _span(column, name, date(year, month, 1), after)
        moment = datetime.fromisoformat(written)
        moment = moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    except (ValueError, OverflowError):
        raise _mismatch(column, name, value) from None
    _representable(moment.year, name)
    return moment, None


def _span(column: Column, name: str, first: date, after: date) -> tuple[Value, Value]:
    """Two days as the column holds them."""
    if column.type.startswith("date"):
        return first, after
    _representable(first.year, name)
    midnight = time()
    return datetime.combine(first, midnight), datetime.combine(after, midnight)


def _representable(year: int, name: str) -> None:
    if year not in _YEARS:
        raise invalid(f"A time for {shown(name)} must be in the years {_YEARS.start} to {_YEARS.stop - 1}.")


def _mismatch(column: Column, name: str, value: object) -> BedivereError:
    if value is None:
        given = 'null: {"exists": false} asks for what is not there'
    else:
        given = _JSON_NAMES.get(type(value).__name__, "a value of another kind")
    takes = f"holds {KINDS[column.kind]} and can be compared with {_COMPARABLE[column.kind]}"
    return invalid(f"{shown(name)} {takes}; it was given {given}.")


def shown(name: str) -> str:
    return repr(name[:NAME_CHARS])


def invalid(sentence: str) -> BedivereError:
    return BedivereError(ErrorCode.INVALID_FILTER, sentence)
