"""The documents of a table, by what they say of themselves: which there are, and what their chunks are called."""

# pyarrow ships no types: what comes out of it is checked here.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import json
from binascii import crc32
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, time
from decimal import Decimal
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from retrieval.search.references import References
from retrieval.types import Row

TEXT_COLUMNS: Final = (
    *("path", "prefix", "title", "url", "collection", "version", "status", "date", "superseded_by", "first_id"),
)
COUNT_COLUMN: Final = "chunks"
UNNAMED_KEY: Final = b"unnamed"
"""Key of `Catalog.unnamed` in the file's schema metadata, a JSON list."""
VERSION_KEY: Final = b"version"
"""Key of `Catalog.version` in the file's schema metadata, a number in decimal digits."""
NO_VERSION: Final = 0
"""In its place where the numbers of the rows do not say enough of them: LanceDB counts from 1."""
FRAGMENTS_KEY: Final = b"fragments"
"""Key of `RowNumbers.fragments` in the file's schema metadata, as pairs in a JSON list."""
FRAGMENT_BITS: Final = 32
"""See `RowNumbers.fragments`."""
PAGES_KEY: Final = b"pages"
"""Key of `RowNumbers.pages` in the file's schema metadata, a word of JSON."""
CORPUS_KEY: Final = b"corpus"
"""Key of `RowNumbers.corpus` in the file's schema metadata."""
CHECKSUM_KEY: Final = b"checksum"
"""Key of `checksum` in the file's schema metadata, in decimal digits; it is there where the version is."""
ROW_COLUMNS: Final = ("row_start", "row_place")
"""Columns of `RowNumbers`, int32, of as many rows as there are documents."""

_NEVER_NULL: Final = ("path", "prefix", "first_id", COUNT_COLUMN)

MAX_DOCUMENTS: Final = 5_000_000

_SAID: Final = ("url", "collection", "version", "status", "date", "superseded_by")
_OWN_WORDS: Final = ("collection", "version", "status", "superseded_by")
_ALIKE: Final = ("title", "collection", "version", "status", "date", "superseded_by")
"""What every row of a document that the indexer read says alike."""
_NOBODY: Final = frozenset(
    {"", "-", "–", "—", "~", "none", "n/a", "na", "nil", "null", "no", "nobody", "nothing", "false"}
)
"""What is written for `superseded_by` where there is no successor."""

Cell = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Document:
    """One document; `prefix` is what the ids of its collection and version begin with, empty where it has neither."""

    path: str
    prefix: str
    title: str | None
    url: str | None
    collection: str | None
    version: str | None
    status: str | None
    date: str | None
    superseded_by: str | None
    """Its successor as the author names it; None also where the author says that there is none."""
    chunks: int
    first_id: str

    @property
    def scoped_version(self) -> str | None:
        """The version that it was indexed under, which is not what it says of its own version."""
        _, at, version = self.prefix.removesuffix(":").partition("@")
        return version if at else None


_FIELDS: Final = tuple(Document.__dataclass_fields__)


@dataclass(frozen=True, eq=False, slots=True)
class RowNumbers:
    """Which row of a table is of which document, where each document's chunks follow each other in their order.

    Rows are counted from 0, as they lie in the table.
    """

    fragments: Mapping[int, int]
    """The row that each fragment of the table begins with: LanceDB's number of a row has that of its fragment above
    `FRAGMENT_BITS`, and its place in the fragment in these."""
    starts: Sequence[int]
    """The first row of each document, in the order of the rows."""
    places: Sequence[int]
    """Where `columns` has the document that begins there."""
    columns: Mapping[str, Sequence[Any]]
    """Those of the catalog of all rows."""
    pages: bool
    """Whether each row has the address of its document, without an anchor of its own."""
    corpus: str
    """The corpus version of the table: only one of the same documents has the same."""
    seen: frozenset[int] | None = None
    """The places of the documents that may be shown; None where all may."""


@dataclass(frozen=True, eq=False)
class Catalog:
    """All documents of a table, in the order of their paths.

    They are kept by the column, and made when they are asked for: 100,000 of them take a third of a second.
    """

    columns: Mapping[str, Sequence[Any]]
    """A column of equal length for each field of `Document`."""
    textual: frozenset[str] = frozenset(_OWN_WORDS)
    """Which of `collection`, `version`, `status` and `superseded_by` hold text, to be compared with text."""
    unnamed: frozenset[str] = frozenset()
    """What stands in `superseded_by` of rows that name no successor with it."""
    version: int | None = None
    """LanceDB's version of the table as the indexer left it; `NO_VERSION` without `rows`, None where it did not say."""
    rows: RowNumbers | None = None
    """Which rows are of which document in that version, where each row says what its document says here."""

    @classmethod
    def load(cls, data: bytes) -> Catalog:
        """From the file that the indexer wrote. Raises `ValueError` where it is damaged."""
        try:
            with pa.ipc.open_file(pa.BufferReader(data)) as reader:
                return _read(reader)
        except (pa.ArrowException, KeyError, OSError, OverflowError, RecursionError, TypeError, ValueError) as error:
            raise ValueError("not a catalog") from error

    @classmethod
    def of_documents(cls, documents: Iterable[Document]) -> Catalog:
        ordered = sorted(documents, key=lambda one: (one.path, one.prefix, one.collection or "", one.version or ""))
        return cls({name: [getattr(one, name) for one in ordered] for name in _FIELDS})

    @classmethod
    def of_rows(cls, rows: Iterable[Mapping[str, object]]) -> Catalog:
        """From the chunks themselves: `path`, and as far as there are any `id`, `chunk` and the document's columns.

        What a document says of itself is what its first chunk says; chunks without a path belong to no document.
        """
        gathered = Gathered()
        for row in rows:
            gathered.add(row)
        return gathered.catalog()

    @cached_property
    def documents(self) -> tuple[Document, ...]:
        return tuple(map(Document, *(self.columns[name] for name in _FIELDS)))

    def of(self, row: Row) -> Document | None:
        """The document that a chunk is of."""
        if row.path is None:
            return None
        there = self.at(row.path)
        if len(there) == 1:
            return there[0]
        prefix = prefix_of(row.id, row.path, row.ordinal)
        if prefix is not None:
            return next((one for one in there if one.prefix == prefix), None)
        scope = tuple(_text(row.metadata.get(name)) for name in ("collection", "version"))
        return next((one for one in there if (one.collection, one.version) == scope), None)

    def at(self, path: str) -> tuple[Document, ...]:
        """The documents of that path: one of each collection and version."""
        places = self._places.get(path, ())
        return tuple(map(self.document, places))

    def document(self, place: int) -> Document:
        """The document at `place` of the columns."""
        return Document(*(self.columns[name][place] for name in _FIELDS))

    @property
    def unsaid(self) -> frozenset[str]:
        """Which of the columns that documents speak of themselves in hold nothing, in any of their rows."""
        said = {name for name in _SAID if any(self.columns[name])}
        return frozenset(_SAID) - said - (frozenset({"superseded_by"}) if self.unnamed else frozenset())

    @cached_property
    def _places(self) -> dict[str, range]:
        """Where the documents of a path stand: they are in the order of their paths."""
        places: dict[str, range] = {}
        for place, path in enumerate(self.columns["path"]):
            before = places.get(path)
            places[path] = range(place if before is None else before.start, place + 1)
        return places

    def named(self, written: str, by: Document) -> list[Document]:
        """The documents that the author of `by` means by `written`, in its order: see `retrieval.search.references`."""
        return [self.document(place) for place in self._references.find(written, by)]

    def called(self, question: str, is_odd: Callable[[str], bool]) -> dict[str, list[Document]]:
        """The names in a reader's `question`, in lower case, and the documents they call: see `References.names_in`."""
        names = self._references.names_in(question, is_odd)
        return {name: [self.document(place) for place in places] for name, places in names.items()}

    def names_itself(self, written: str, by: Document) -> bool:
        """Whether the author of `by` means `by` by `written`, which names no other document that is there."""
        return self._references.leads_back(written, by)

    @property
    def has_gathered_names(self) -> bool:
        """Whether `called` answers at once: the first time, or while another gathers names, it may have to wait."""
        return "_references" in self.__dict__ and self._references.answers_at_once

    @cached_property
    def _references(self) -> References:
        return References(self.columns)

    @cached_property
    def statuses(self) -> frozenset[str]:
        """What documents write as their status, as they write it."""
        return frozenset(status for status in set(self.columns["status"]) if status)

    @cached_property
    def has_successors(self) -> bool:
        """Whether any document names a successor."""
        return any(self.columns["superseded_by"])

    @cached_property
    def prefixes(self) -> frozenset[str]:
        """What the ids of the documents begin with, "" being those that were indexed without collection and version."""
        return frozenset(self.columns["prefix"])

    @cached_property
    def _told(self) -> frozenset[tuple[str | None, str | None]]:
        return frozenset(zip(self.columns["collection"], self.columns["version"], strict=True))

    def collections(self) -> frozenset[str]:
        """The names in the column `collection`."""
        return frozenset(collection for collection, _ in self._told if collection)

    def versions(self, collection: str | None = None) -> frozenset[str]:
        """What stands in the column `version`, of the documents of `collection` where it is given."""
        return frozenset(
            version for its, version in self._told if version and (collection is None or its == collection)
        )


def _read(reader: Any) -> Catalog:  # noqa: ANN401 - pyarrow's reader of a file
    if any(reader.schema.field(name).type != pa.string() for name in TEXT_COLUMNS):
        raise ValueError("columns of another kind")
    metadata = reader.schema.metadata or {}
    unnamed = json.loads(metadata[UNNAMED_KEY])
    version = int(metadata[VERSION_KEY]) if VERSION_KEY in metadata else None
    table = reader.read_all()
    # Bytes that are not what they say would otherwise be read wherever they point to.
    table.validate(full=True)
    if version is not None and int(metadata[CHECKSUM_KEY]) != checksum(table, metadata):
        raise ValueError("damaged")
    if table.num_rows > MAX_DOCUMENTS or any(table.column(name).null_count for name in _NEVER_NULL):
        raise ValueError("too many documents, or some without a name")
    columns = {name: table.column(name).to_pylist() for name in _FIELDS}
    if not all(isinstance(count, int) for count in columns[COUNT_COLUMN]):
        raise ValueError("counts of another kind")
    if not isinstance(unnamed, list) or not all(isinstance(name, str) for name in unnamed):
        raise ValueError("names of another kind")
    rows = _row_numbers(table, metadata, columns) if version else None
    return Catalog(columns, unnamed=frozenset(unnamed), version=version, rows=rows)


def checksum(table: Any, metadata: Mapping[bytes, bytes]) -> int:  # noqa: ANN401 - one of pyarrow's
    """CRC-32 of what was read of a file, `table`, and of its schema's `metadata` but for the checksum itself.

    A title that was damaged would be told of every row of its document.
    """
    total = 0
    for key in sorted(metadata):
        if key != CHECKSUM_KEY:
            total = crc32(metadata[key], crc32(key, total))
    for column in table.columns:
        for chunk in column.chunks:
            for buffer in chunk.buffers():
                total = crc32(buffer or b"", total)
    return total


def _row_numbers(table: Any, metadata: Mapping[bytes, bytes], columns: Mapping[str, Sequence[Any]]) -> RowNumbers:  # noqa: ANN401 - one of pyarrow's
    starts, places = (_integers(table.column(name)) for name in ROW_COLUMNS)
    fragments = {int(fragment): int(row) for fragment, row in json.loads(metadata[FRAGMENTS_KEY])}
    pages = json.loads(metadata[PAGES_KEY]) is True
    return RowNumbers(fragments, starts, places, columns, pages, metadata[CORPUS_KEY].decode())


def _integers(column: Any) -> Sequence[int]:  # noqa: ANN401 - one of pyarrow's
    """The column's numbers, which are not made before they are asked for: a search needs few of them."""
    if column.type != pa.int32() or column.null_count or column.num_chunks > 1:
        raise ValueError("numbers of another kind")
    if not column.num_chunks:
        return ()
    chunk = column.chunk(0)
    first, last = (4 * place for place in (chunk.offset, chunk.offset + len(chunk)))
    # A copy: the column's own bytes are those of the whole file.
    return memoryview(bytes(memoryview(chunk.buffers()[1])[first:last])).cast("i")


class Gathered:
    """Makes documents of chunks, one chunk after the other; keeps one entry a document."""

    def __init__(self) -> None:
        self.alike = True
        """Whether each chunk has an id as the indexer makes them, and says what the others of its document say."""
        self._entries: dict[tuple[str, str, str, str], _Entry] = {}
        self._textual: set[str] = set()
        self._other: set[str] = set()
        self._unnamed: set[str] = set()

    def add(self, row: Mapping[str, object]) -> None:
        """Takes in a chunk: its `path`, and as far as there are any `id`, `chunk` and the document's columns."""
        path, ordinal = row.get("path"), row.get("chunk")
        if not isinstance(path, str) or not path:
            return
        for name in _OWN_WORDS:
            value = row.get(name)
            if value is not None:
                (self._textual if isinstance(value, str) else self._other).add(name)
        named = row.get("superseded_by")
        if isinstance(named, str) and not names_a_successor(named):
            self._unnamed.add(named)
        url = row.get("url")
        page = _page(_text(url))
        alike = (page, *(row.get(name) for name in _ALIKE))
        prefix = prefix_of(row.get("id"), path, ordinal)
        key = (path, prefix or "", "", "")
        if prefix is None:
            key = (path, "", _text(row.get("collection")) or "", _text(row.get("version")) or "")
        place = ordinal if isinstance(ordinal, int) else None
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(place, _document(row, path, prefix or ""), alike)
        elif place is not None and (entry.place is None or place < entry.place):
            entry.place, entry.first = place, _document(row, path, prefix or "")
        entry.chunks += 1
        # An address that is an anchor and nothing else is on no page.
        if alike != entry.alike or prefix is None or place is None or (url and page is None):
            self.alike = False

    def catalog(self) -> Catalog:
        entries = [self._entries[key] for key in sorted(self._entries)]
        columns: dict[str, Sequence[Any]] = {
            name: [getattr(entry.first, name) for entry in entries] for name in _FIELDS
        }
        columns[COUNT_COLUMN] = [entry.chunks for entry in entries]
        return Catalog(columns, frozenset(self._textual - self._other), frozenset(self._unnamed))


@dataclass(slots=True)
class _Entry:
    place: int | None
    first: Document
    alike: tuple[object, ...]
    chunks: int = field(default=0)


def prefix_of(row_id: object, path: str, ordinal: object) -> str | None:
    """What the ids of the chunk's collection and version begin with; None for an id that the indexer did not make."""
    if not isinstance(row_id, str):
        return None
    # As the indexer writes it: a colon ends the prefix, so one in the path is percent-encoded.
    place = f"{path.replace('%', '%25').replace(':', '%3A')}#{ordinal}"
    prefix = row_id.removesuffix(place)
    if prefix == row_id:
        return None
    return prefix if prefix == "" or prefix.endswith(":") else None


def _document(row: Mapping[str, object], path: str, prefix: str) -> Document:
    named = row.get("superseded_by")
    return Document(
        path=path,
        prefix=prefix,
        title=_text(row.get("title")),
        url=_page(_text(row.get("url"))),
        collection=_text(row.get("collection")),
        version=_text(row.get("version")),
        status=_text(row.get("status")),
        date=_text(row.get("date")),
        # A truth value or a fraction names no document.
        superseded_by=None
        if isinstance(named, bool | float) or not names_a_successor(str(named or ""))
        else _text(named),
        chunks=0,
        first_id=_text(row.get("id")) or "",
    )


def names_a_successor(written: str) -> bool:
    """Whether what stands in `superseded_by` names a successor."""
    return written.strip().casefold() not in _NOBODY


def _text(value: object) -> str | None:
    """A cell as a reply shows it; None for nothing, an empty text and what is no scalar."""
    match value:
        case str():
            return value or None
        case bool():
            return str(value).lower()
        case int() | float() | Decimal():
            return str(value) if value == value else None
        case date() | time():
            return value.isoformat()
        case _:
            return None


def _page(url: str | None) -> str | None:
    """The address of the page without the chunk's own anchor; `#/` and `#!` are the paths of some sites."""
    if url is None:
        return None
    page, _, anchor = url.partition("#")
    return url if anchor.startswith(("/", "!")) else page or None
