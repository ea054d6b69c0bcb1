"""One line of a .jsonl file: an object with `id` and `text`, a `title` where there is one, and further scalars.

Belongs to no suffix: a file is found as one document, and a .jsonl file holds many, which `sources.find_lines` finds.
"""

from __future__ import annotations

import json
import re
from typing import Final, cast

from retrieval.indexing.document import ParsedDocument, Unreadable
from retrieval.indexing.formats import plain
from retrieval.indexing.metadata import collect
from retrieval.search.text import nfc

MAX_ID_CHARS: Final = 1_000

_UNPRINTABLE: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def parse(data: bytes) -> ParsedDocument:
    """The document of one line: the paragraphs of its `text`, which is read as plain text. Raises `Unreadable`."""
    record = _record(data)
    text, title = record.pop("text", None), record.pop("title", None)
    if not isinstance(text, str):
        raise Unreadable("no text: `text` must be a string")
    del record["id"]
    named = title.strip() if isinstance(title, str) else ""
    return ParsedDocument(
        title=named or None, blocks=plain.paragraphs(text.replace("\0", " ")), metadata=collect(record.items())
    )


def identify(data: bytes) -> str:
    """The id of the document of one line, by which it is cited and judged. Raises `Unreadable`."""
    return str(_record(data)["id"])


def _record(data: bytes) -> dict[str, object]:
    try:
        record: object = json.loads(data)
    except UnicodeDecodeError:
        raise Unreadable("not UTF-8") from None
    except (ValueError, RecursionError):
        raise Unreadable("not JSON") from None
    if not isinstance(record, dict):
        raise Unreadable("not a JSON object")
    found = cast("dict[str, object]", record)
    given = found.get("id")
    name = nfc(str(given)).strip() if isinstance(given, str | int) and not isinstance(given, bool) else ""
    if not name:
        raise Unreadable("no id: `id` must be a string or a whole number")
    if len(name) > MAX_ID_CHARS or _UNPRINTABLE.search(name):
        raise Unreadable(f"its id is longer than {MAX_ID_CHARS:,} characters or holds control characters")
    return {**found, "id": name}
