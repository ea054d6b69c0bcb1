"""What text can be a bound for other text: words, and dates and times in ISO 8601, whose letters sort as they do.

Numbers and other spellings of dates sort otherwise than they read (`10` before `9`, `05.01.2024` before `2023`): an
answer would be wrong and not look it.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Final

from retrieval.layout import Column
from retrieval.search import values

_DAY: Final = r"[12]\d{3}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?"
_CLOCK: Final = r"[T ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d([.,]\d{1,9})?)?"
DATED: Final = rf"^({_DAY}|{_DAY}{_CLOCK}(Z|\+00:00)?)$"
"""Years, months, days and times in UTC in ISO 8601, for Python's and for LanceDB's regular expressions."""

_DATED: Final = re.compile(DATED, re.ASCII)
_ZONED: Final = re.compile(rf"{_DAY}{_CLOCK}[+-]\d\d(:?\d\d)?", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?[.,]?\d+([.,]\d+)*%?", re.ASCII)
_YEAR: Final = r"\d{2}(\d{2})?"
_OTHERWISE: Final = re.compile(
    rf"({_YEAR}([-./ ])\d\d?(\3\d\d?)?|\d\d?([-./ ])\d\d?\5{_YEAR}|\d\d?([-./ ]\s?)[^\W\d]{{3,}}\.?([-./, ]\s?){_YEAR}"
    rf"|[^\W\d]{{3,}}\.? (\d\d?,? ?)?\d{{4}})([T ]\d\d?:\d\d.*)?"
)
_DATES: Final = "date"
_IN_WORDS: Final = re.compile(
    r"now|today|yesterday|tomorrow|(last|this|next|past) ([a-z]+|\d{1,9} [a-z]+)|\d{1,9} [a-z]+ ago", re.IGNORECASE
)

_SHORTEST_DATE: Final = 3


def is_dated(text: str) -> bool:
    """Whether `text` is a year, a month, a day or a time in UTC, in ISO 8601."""
    return _DATED.match(text) is not None


def as_bound(column: Column, name: str, value: object) -> str:
    """`value` as a bound for a column of text.

    Raises `BedivereError` INVALID_FILTER for a number, for a date that is not in ISO 8601, that no calendar has or that
    is in another zone, and for one in words (`yesterday`) where documents say their dates.
    """
    text = values.as_text(column, name, value)
    written = text.strip()
    if is_dated(written):
        _be_a_day(name, written)
        return written
    if _ZONED.fullmatch(written):
        raise values.invalid(
            f"{values.shown(name)} holds text, which is compared letter by letter: write {values.shown(written)} in "
            "UTC, as 2024-01-05T09:00:00Z."
        )
    otherwise = len(written) > _SHORTEST_DATE and _OTHERWISE.fullmatch(written) and not _is_version(written)
    if otherwise or (column.name == _DATES and _IN_WORDS.fullmatch(written)):
        raise values.invalid(
            f"{values.shown(name)} holds text, which is compared letter by letter, and {values.shown(written)} is no "
            "date in ISO 8601: write 2024-01-05, or 2024-01 for the month."
        )
    if _NUMBER.fullmatch(written):
        raise values.invalid(
            f"{values.shown(name)} holds text, of which '10' comes before '9', so that {values.shown(written)} is no "
            'bound for it: bounds are words or dates in ISO 8601. List the values that you want, as in ["1.9", "1.10"].'
        )
    return text


def _be_a_day(name: str, written: str) -> None:
    """Refuses a day that no month has."""
    day = written[: len("2024-01-05")]
    try:
        date.fromisoformat((day + "-01-01")[: len("2024-01-05")] if len(day) < len("2024-01-05") else day)
    except ValueError:
        raise values.invalid(f"{values.shown(name)}: there is no day {values.shown(day)}.") from None


def _is_version(written: str) -> bool:
    """Whether `written` is rather a number of parts, such as 10.2 or 2.10.1, than a date."""
    parts = written.split(".")
    return all(part.isdigit() for part in parts) and not any(len(part) == len("2024") for part in parts)
