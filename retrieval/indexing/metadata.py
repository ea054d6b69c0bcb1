"""What documents say about themselves, under one set of names: front matter, mail-style headers, <meta> elements.

Every key becomes snake_case; `date` and `superseded_by` are found under the names that writers give them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time
from typing import Final, cast

from retrieval.indexing.document import Scalar
from retrieval.search.text import nfc

MAX_VALUE_CHARS: Final = 4000
"""A longer value is content, not metadata, and is left out."""

_DATE_KEYS: Final = (
    *("date", "updated", "last_modified", "last_updated", "modified", "lastmod", "dc_date", "dcterms_modified"),
    *("article_modified_time", "article_published_time", "published", "publish_date", "created"),
)
"""Where a document's date is looked for: how fresh the text is matters more than when it was begun."""

_ALIASES: Final = {"supersededby": "superseded_by", "obsoleted_by": "superseded_by", "replaced_by": "superseded_by"}

_TEXT_KEYS: Final = frozenset({"title", "status", "date", "superseded_by", "replaces", "version", "url"})
"""Read by search itself, so they are text whatever a document makes of them: `superseded_by: 3` is "3"."""

_MONTHS: Final = {
    name: number
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), start=1
    )
}
_ISO_DATE: Final = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)")
_DAY_FIRST: Final = re.compile(r"(?:[A-Za-z]{3,9},\s*)?(\d{1,2})[-\s]([A-Za-z]{3,9})\.?,?[-\s](\d{4})(?!\d)")
_MONTH_FIRST: Final = re.compile(r"([A-Za-z]{3,9})\.?\s+(\d{1,2})(?:st|nd|rd|th)?,?\s+(\d{4})(?!\d)")

_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NOT_IN_KEY: Final = re.compile(r"[^a-z0-9]+")
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
"""What an escape in front matter may smuggle in and no table of UTF-8 can hold."""


def key(name: str) -> str | None:
    """`name` in snake_case, `[a-z0-9_]+`; None where nothing is left of it."""
    plain = unicodedata.normalize("NFKD", nfc(name))
    plain = _NOT_IN_KEY.sub("_", _CAMEL.sub("_", plain.encode("ascii", "ignore").decode()).lower()).strip("_")
    return _ALIASES.get(plain, plain) or None


def value(raw: object) -> Scalar | None:
    """`raw` as a scalar: dates as ISO 8601 text, a list of scalars joined by ", "; None for anything else."""
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, int | float):
        # Neither a column of numbers nor JSON holds the others.
        return raw if -(2**63) <= raw < 2**63 else None
    if isinstance(raw, datetime | date | time):
        return raw.isoformat()
    if isinstance(raw, str):
        text = " ".join(nfc(_UNSTORABLE.sub("", raw)).split())
        return text if 0 < len(text) <= MAX_VALUE_CHARS else None
    if isinstance(raw, list | tuple):
        items = [value(item) for item in cast("list[object]", raw) if not isinstance(item, list | tuple | Mapping)]
        if items and len(items) == len(cast("list[object]", raw)):
            return value(", ".join(str(item) for item in items if item is not None))
    return None


def collect(pairs: Iterable[tuple[str, object]]) -> dict[str, Scalar]:
    """The metadata of a document from its own names and values; where two names become one, the first counts."""
    found: dict[str, Scalar] = {}
    for name, raw in pairs:
        if (normal := key(name)) is not None and (scalar := value(raw)) is not None:
            found.setdefault(normal, str(scalar) if normal in _TEXT_KEYS else scalar)
    for name in _DATE_KEYS:
        if name in found:
            found["date"] = iso_date(str(found[name]))
            break
    return found


def iso_date(text: str) -> str:
    """`text` as an ISO 8601 date where it is one in a common notation, otherwise as it stands."""
    if re.match(r"\d{4}-\d\d-\d\d", text):
        return text
    if match := _ISO_DATE.match(text):
        year, month, day = (int(part) for part in match.groups())
    elif match := _DAY_FIRST.match(text):
        year, month, day = int(match[3]), _MONTHS.get(match[2][:3].lower(), 0), int(match[1])
    elif match := _MONTH_FIRST.match(text):
        year, month, day = int(match[3]), _MONTHS.get(match[1][:3].lower(), 0), int(match[2])
    else:
        return text
    try:
        return date(year, month, day).isoformat()
    except ValueError:
        return text
