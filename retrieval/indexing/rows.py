"""From a document's bytes to the rows of the table: a pure function, so that a worker process may call it."""

# pyarrow ships no types: what comes out of it is checked where it enters our own types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any, Final, cast
from urllib.parse import quote

import pyarrow as pa

from retrieval.indexing import chunks, formats
from retrieval.indexing.chunks import Chunk
from retrieval.indexing.document import Format, ParsedDocument, Scalar
from retrieval.schema import BREADCRUMB_SEPARATOR, COLUMNS, FORMAT, ORDINAL_COLUMN, VECTOR_COLUMN
from retrieval.search.text import fold, identifier_terms, nfc
from retrieval.search.visible import counted

SCHEMA: Final = pa.schema(
    [pa.field(name, pa.int32() if name == ORDINAL_COLUMN else pa.string()) for name in COLUMNS],
)
"""The columns that every table has; a document's own keys come after them."""

MAX_OWN_COLUMNS: Final = 64
"""Columns made of the documents' own keys; a folder of pages with odd <meta> tags must not make thousands."""

MAX_TITLE_CHARS: Final = 300
MAX_BREADCRUMB_CHARS: Final = 600
_MAX_CRUMB_CHARS: Final = 200

_RESERVED: Final = frozenset({*COLUMNS, VECTOR_COLUMN})
_MAX_NAME: Final = 64
_NOT_ROWS: Final = frozenset(
    "build calibration catalog companions embedder generation job lance provenance reading sources spool state "
    "table_vectors vector_index vectors vocabulary whole worker workers".split()
)
"""Modules of this package that find, keep and place rows, but do not make them."""

_INT64: Final = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True)
class Scope:
    """The rows that one run replaces: those of one collection and version, either of which may be absent."""

    collection: str | None = None
    version: str | None = None

    @property
    def prefix(self) -> str:
        """What the ids of the scope's rows begin with."""
        at_version = f"@{self.version}" if self.version else ""
        return f"{self.collection or ''}{at_version}:" if self.collection or self.version else ""


def row_id(prefix: str, path: str, ordinal: int) -> str:
    """A row's id. A colon ends the prefix, so one in the path is percent-encoded, and the percent sign with it."""
    return f"{prefix}{_id_path(path)}#{ordinal}"


def prefix_of(row_id: str, path: str, ordinal: int) -> str:
    """The prefix of the scope that a row was written in: the column `version` may be the document's own."""
    return row_id.removesuffix(f"{_id_path(path)}#{ordinal}")


def _id_path(path: str) -> str:
    return path.replace("%", "%25").replace(":", "%3A")


@dataclass(frozen=True, slots=True)
class DocumentRows:
    """A document's rows, of `SCHEMA`, and its own keys by column name as JSON text; no rows where it has no text."""

    batch: pa.RecordBatch
    metadata: str
    hidden: int = 0
    """Characters that nobody sees, which were taken out of its text, its title and its metadata."""


def read_document(
    path: str, data: bytes, content_hash: str, scope: Scope, base_url: str | None, read: Format | None = None
) -> DocumentRows:
    """The rows of the document in `data`, read by `read` or as its suffix says.

    Raises `Unreadable` where the bytes are no document of its format.
    """
    parsed, hidden = _seen(read(data) if read else formats.parse(path, data))
    own = dict(parsed.metadata)
    title = shortened(_clean(parsed.title or ""), MAX_TITLE_CHARS) or readable(path)
    if _clean(str(own.get("title", ""))).strip() == title:
        del own["title"]
    given = None if scope.version else _taken(own, "version")
    page = _page(own, path, base_url)
    shared: dict[str, str | None] = {
        "path": path,
        "title": title,
        "collection": scope.collection,
        "version": scope.version or given,
        "status": _taken(own, "status"),
        "date": _taken(own, "date"),
        "superseded_by": _taken(own, "superseded_by"),
        "content_hash": content_hash,
    }
    prefix = scope.prefix
    split = _split(parsed)
    columns: dict[str, list[Any]] = {name: [value] * len(split) for name, value in shared.items()}
    for name in COLUMNS:
        columns.setdefault(name, [])
    for ordinal, chunk in enumerate(split):
        heading = breadcrumb(chunk.heading_path, title)
        text = _clean(chunk.text)
        searched = searched_text(title, heading, text)
        columns["id"].append(row_id(prefix, path, ordinal))
        columns["heading"].append(heading)
        columns["text"].append(text)
        columns["url"].append(_at_anchor(page, chunk.anchor))
        columns["idents"].append(identifier_terms(searched, path))
        columns["search_text"].append(fold(f"{title}\n{searched}" if _names(title) else searched))
        columns[ORDINAL_COLUMN].append(ordinal)
    return DocumentRows(pa.RecordBatch.from_pydict(columns, schema=SCHEMA), _own_keys(own), hidden)


def _seen(parsed: ParsedDocument) -> tuple[ParsedDocument, int]:
    """The document without characters that nobody sees, and how many it had."""
    hidden = 0

    def seen(text: str, *, again: bool = False) -> str:
        nonlocal hidden
        shown, removed = counted(text)
        hidden += 0 if again else removed
        return shown

    blocks = tuple(
        replace(
            block,
            text=seen(block.text),
            # These stand in the text of a block of their own.
            heading_path=tuple(seen(heading, again=True) for heading in block.heading_path),
            anchor=block.anchor and seen(block.anchor, again=True),
        )
        for block in parsed.blocks
    )
    metadata = {key: seen(value) if isinstance(value, str) else value for key, value in parsed.metadata.items()}
    told = {parsed.metadata.get("title"), *(heading for block in parsed.blocks for heading in block.heading_path)}
    title = parsed.title and seen(parsed.title, again=parsed.title in told)
    return ParsedDocument(title, blocks, metadata), hidden


def searched_text(title: str | None, heading: str | None, text: str | None) -> str:
    """What of a chunk is embedded, and searched with its title once more: where it stands says much of its meaning."""
    return "\n".join(part for part in (title if _names(title) else None, heading, text) if part)


def _names(title: str | None) -> bool:
    """Whether it names anything: a title without a letter, such as a number for a file's name, is but a word that
    others may ask for."""
    return title is not None and any(character.isalpha() for character in title)


def shortened(text: str, most: int) -> str:
    """`text` in at most `most` characters, on one line, cut at a space where there is one."""
    text = " ".join(text.split())
    if len(text) <= most:
        return text
    start = text[: most - 1]
    words = start if text[most - 1] == " " else start.rpartition(" ")[0]
    # Where the only space is far ahead, a word is cut rather than most of the text.
    return f"{(words if len(words) > most // 2 else start).rstrip()}…"


def _split(parsed: ParsedDocument) -> list[Chunk]:
    return [chunk for chunk in chunks.split(parsed) if chunk.text.strip()]


def _clean(text: str) -> str:
    """Composed, and without lone surrogates, which an escape in front matter can make and UTF-8 cannot hold."""
    return nfc(text.encode("utf-8", "replace").decode())


def readable(path: str) -> str:
    """A title for a document that names none: the file's stem, in words."""
    stem = PurePosixPath(path).stem
    words = re.sub(r"[-_\s]+", " ", stem).strip() or stem
    return words[0].upper() + words[1:]


def breadcrumb(heading_path: Iterable[str], title: str) -> str | None:
    """The headings that a chunk stands under, outermost first, without a first one that only repeats the title.

    Long ones are shortened, and where there are too many the innermost are kept: they say most of the chunk.
    """
    headings = [_clean(heading) for heading in heading_path]
    if headings and shortened(headings[0], MAX_TITLE_CHARS).casefold() == " ".join(title.split()).casefold():
        del headings[0]
    names = [name for heading in headings if (name := shortened(heading, _MAX_CRUMB_CHARS))]
    while len(crumb := BREADCRUMB_SEPARATOR.join(names)) > MAX_BREADCRUMB_CHARS:
        names = ["…", *names[2 if names[0] == "…" else 1 :]]
    return crumb or None


def _taken(own: dict[str, Scalar], key: str) -> str | None:
    """The value of one of the document's keys that a column of ours holds."""
    value = own.pop(key, None)
    return None if value is None else (_clean(_as_text(value)).strip() or None)


def _page(own: dict[str, Scalar], path: str, base_url: str | None) -> str | None:
    """Where the document is published: below `base_url`, else where it says itself."""
    if base_url:
        return f"{base_url.rstrip('/')}/{quote(path)}"
    said = str(own.get("url", ""))
    return _taken(own, "url") if re.match(r"https?://", said) else None


def _at_anchor(page: str | None, anchor: str | None) -> str | None:
    if page is None or not anchor or "#" in page:
        return page
    return f"{page}#{quote(_clean(anchor), safe='!$&()*+,;=:@/?%-._~')}"


def _as_text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _own_keys(own: Mapping[str, Scalar]) -> str:
    """The document's own keys as JSON text by column name; of two keys that make the same name, the first counts."""
    named: dict[str, Scalar] = {}
    for key, value in own.items():
        name = column_name(key)
        if name:
            named.setdefault(name, _clean(value) if isinstance(value, str) else value)
    return json.dumps(named, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def column_name(key: str) -> str:
    """A key as a column name: `[a-z][a-z0-9_]*`, apart from our own columns; empty where nothing is left of it."""
    name = re.sub(r"[^a-z0-9]+", "_", key.lower()).strip("_")[: _MAX_NAME - len("meta_")].strip("_")
    return f"meta_{name}" if name and (name in _RESERVED or name[0].isdigit()) else name


@dataclass(slots=True)
class OwnColumns:
    """Counts the documents' own keys and decides which of them become columns, and of which type."""

    _documents: Counter[str] = field(default_factory=Counter[str])
    _kinds: dict[str, set[str]] = field(default_factory=dict[str, set[str]])

    def count(self, own: str) -> None:
        """Takes the keys of one document in, as `DocumentRows.metadata` holds them."""
        for name, value in decoded(own).items():
            self._documents[name] += 1
            self._kinds.setdefault(name, set()).add(_kind(value))

    def fields(self) -> list[pa.Field[Any]]:
        """The columns, by name: the most frequent keys where there are more than `MAX_OWN_COLUMNS`."""
        kept = sorted(self._documents, key=lambda name: (-self._documents[name], name))[:MAX_OWN_COLUMNS]
        return [pa.field(name, _arrow_type(self._kinds[name])) for name in sorted(kept)]

    def dropped(self) -> tuple[str, ...]:
        """Keys that did not become columns."""
        kept = {column.name for column in self.fields()}
        return tuple(sorted(set(self._documents) - kept))


def decoded(own: str) -> dict[str, Scalar]:
    return cast("dict[str, Scalar]", json.loads(own))


def as_type(value: Scalar | None, arrow_type: pa.DataType) -> Scalar | None:
    """`value` as a column of `arrow_type` holds it."""
    if value is None:
        return None
    if pa.types.is_string(arrow_type):
        return _as_text(value)
    return float(value) if pa.types.is_floating(arrow_type) else value


def _kind(value: Scalar) -> str:
    match value:
        case bool():
            return "bool"
        case int():
            return "int" if value in _INT64 else "str"
        case float():
            return "float"
        case str():
            return "str"


def _arrow_type(kinds: set[str]) -> pa.DataType:
    if kinds == {"bool"}:
        return pa.bool_()
    if kinds == {"int"}:
        return pa.int64()
    # Whole numbers beside fractions are still numbers; everything else that is mixed is text.
    return pa.float64() if kinds <= {"int", "float"} else pa.string()


def fingerprint() -> str:
    """Covers all that makes rows other than a file and the options: rows of another fingerprint are not reused."""
    parts = {"format": FORMAT, "chunker": chunks.PARAMETERS, "code": _code()}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@cache
def _code() -> str:
    """A hash of the modules that turn bytes into rows, and of their parsers' versions.

    A number to raise by hand would be forgotten once, and the rows of an old reader kept for good.
    """
    digest = hashlib.sha256()
    package = Path(__file__).parent
    modules = [module for module in sorted(package.rglob("*.py")) if module.stem not in _NOT_ROWS]
    search = package.parent / "search"
    for module in (*modules, search / "text.py", search / "visible.py"):
        digest.update(f"{module.relative_to(package.parent)}\0".encode() + module.read_bytes())
    for parser in ("charset-normalizer", "lxml", "markdown-it-py", "pyyaml"):
        digest.update(f"{parser} {version(parser)}\0".encode())
    return digest.hexdigest()
