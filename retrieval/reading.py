"""Reading a document by its place: a chunk with its neighbours, or all of it page by page, whole chunks only."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from retrieval.catalog import Catalog
from retrieval.errors import BedivereError, ErrorCode
from retrieval.layout import Layout
from retrieval.nearest import nearest, path_in, shown
from retrieval.search import cursor, lifecycle, versions
from retrieval.search.expand import SEPARATOR, text_of, touching
from retrieval.search.filters import Condition
from retrieval.search.text import nfc
from retrieval.table import Table
from retrieval.types import FetchRequest, Page, Row, Span

MAX_NEIGHBORS: Final = 50
"""Chunks before and after a chunk that may be fetched with it."""

MIN_PAGE_CHARS: Final = 1_000
MAX_PAGE_CHARS: Final = 100_000

MAX_NAME_CHARS: Final = 4_096
"""An id or a path that is longer is nobody's: file systems end there."""

MAX_HEADINGS: Final = 10
MAX_HEADING_CHARS: Final = 200

_MAX_DOCUMENT_CHUNKS: Final = 20_000
_MAX_SAME_ID: Final = 50

_LISTED_NAMES: Final = 12
_LISTED_HEADINGS: Final = 30

_ROW_ID: Final = re.compile(r"row:([0-9]{1,18})")


async def fetch(table: Table, layout: Layout, request: FetchRequest, words: Collection[str]) -> Page:
    """What `request` asks to read; `words` are the statuses of outdated documents.

    Raises `BedivereError`: INVALID_ARGUMENT, DOCUMENT_NOT_FOUND, COLUMN_NOT_FOUND where the table cannot be read so,
    INVALID_CURSOR or CURSOR_STALE.
    """
    _check(request)
    catalog = await table.catalog(layout) if layout.path else None
    reading = _Reading(table, layout, catalog, words, request.max_chars)
    if request.id is not None:
        return await reading.chunk(request.id, request)
    if request.path is not None:
        return await reading.document(request.path, request)
    return await reading.next_page(request.cursor or "")


def state(table: Table, catalog: Catalog) -> str:
    """What changes with the documents of `table` and is the same in every server that has a copy of it."""
    if table.provenance is not None:
        return f"{table.provenance.corpus_version} {table.provenance.built_at}"
    documents = [list(catalog.columns["path"]), list(catalog.columns["chunks"])]
    return hashlib.sha256(json.dumps(documents).encode()).hexdigest()


def told(row: Row, name: str) -> str | None:
    """What the document of `row` says of itself in column `name`, as text."""
    value = row.metadata.get(name)
    return str(value).lower() if isinstance(value, bool) else None if value is None else str(value)


def _check(request: FetchRequest) -> None:
    ways = [name for name in ("id", "path", "cursor") if getattr(request, name) is not None]
    if len(ways) != 1:
        given = f"not {' and '.join(ways)} together" if ways else "to say what to read"
        raise _misused(f"Pass exactly one of id, path and cursor, {given}.")
    if request.id is None and (request.before or request.after):
        raise _misused("before and after go with id: leave them out, or pass the id of a chunk.")
    if request.path is None and request.headings:
        raise _misused("headings goes with path: leave it out; a cursor remembers the headings it was made with.")
    if request.cursor is not None and (request.collection or request.version):
        raise _misused("A cursor remembers its document: leave collection and version out.")


def _misused(sentence: str) -> BedivereError:
    return BedivereError(ErrorCode.INVALID_ARGUMENT, sentence)


@dataclass(frozen=True, slots=True)
class _Reading:
    """One call on one table."""

    table: Table
    layout: Layout
    catalog: Catalog | None
    words: Collection[str]
    max_chars: int

    async def chunk(self, name: str, request: FetchRequest) -> Page:
        rows = sorted(await self._called(name), key=_place)
        found = _of(rows, request.collection, request.version)
        if not found:
            raise self._no_chunk(name, rows, request)
        hit, notes = found[0], list[str]()
        if len(found) > 1:
            notes.append(f"Several chunks have this id: the first of {len(found)} is given.")
        around = [hit]
        if request.before or request.after:
            around, note = await self._around(hit, request)
            notes += [note] if note else []
        return await self._page(hit, around, chunks=self._chunks(hit), url=hit.url, notes=notes)

    async def document(self, path: str, request: FetchRequest) -> Page:
        notes = list[str]()
        meant = self._meant(path)
        if not path.endswith(meant.lstrip("./")):
            notes.append(f"This is the whole of {shown(meant)}: for one chunk of it, pass id.")
        path = meant
        rows = self._chosen(path, await self._chunks_at(path), request)
        others = sorted({version for row in rows.others if (version := told(row, "version"))}, key=versions.order)
        if others and request.version is None:
            there = ", ".join(reversed(others[-_LISTED_NAMES:]))
            version = told(rows.chunks[0], "version") or ""
            be = "is" if len(others) == 1 else "are"
            newest = "newest release" if versions.order(others[-1]) > versions.order(version) else "newest"
            notes.append(f"This is version {version}, the {newest}; there {be} also {there}.")
        return await self._turn(rows.chunks, 0, request.headings, notes)

    async def next_page(self, given: str) -> Page:
        catalog = self._needed()
        anchor = cursor.Anchor("fetch", self.table.name, state(self.table, catalog))
        match cursor.decode(anchor, given):
            case {"path": str(path), "document": str(document), "headings": list(), "next": int(start)} as position:
                rows = [row for row in await self._chunks_at(path) if _digest(row) == document]
            case _:
                raise cursor.invalid(anchor)
        headings = tuple(str(heading) for heading in position["headings"])
        if not 0 <= start < len(rows):
            raise cursor.invalid(anchor)
        return await self._turn(sorted(rows, key=_place), start, headings, [])

    async def _turn(self, chunks: Sequence[Row], start: int, headings: Sequence[str], notes: list[str]) -> Page:
        """The page of a document that begins at chunk `start`, by its index in `chunks`, all of them in order."""
        wanted = [index for index in range(start, len(chunks)) if _is_under(chunks[index], headings)]
        if headings and not wanted and not start:
            there = list(dict.fromkeys(row.heading for row in chunks if row.heading))
            more = f" and {len(there) - _LISTED_HEADINGS} more" if len(there) > _LISTED_HEADINGS else ""
            listed = "; ".join(shown(heading) for heading in there[:_LISTED_HEADINGS]) or "none"
            notes.append(f"No heading holds what headings asks for. The document's headings are: {listed}{more}.")
        taken = list[int]()
        spent = 0
        for index in wanted:
            spent += len(text_of(chunks[index])) + (len(SEPARATOR) if taken else 0)
            if taken and spent > self.max_chars:
                break
            taken.append(index)
        following = None
        if len(taken) < len(wanted):
            following = self._cursor(chunks[0], headings, wanted[len(taken)])
        rows = [chunks[index] for index in taken]
        document = self.catalog.of(chunks[0]) if self.catalog else None
        url = document.url if document else chunks[0].url
        return await self._page(chunks[0], rows, chunks=len(chunks), url=url, notes=notes, following=following)

    def _cursor(self, row: Row, headings: Sequence[str], start: int) -> str:
        anchor = cursor.Anchor("fetch", self.table.name, state(self.table, self._needed()))
        position = {"path": row.path, "document": _digest(row), "headings": list(headings), "next": start}
        return cursor.encode(anchor, position)

    async def _page(
        self,
        head: Row,
        rows: Sequence[Row],
        *,
        chunks: int | None,
        url: str | None,
        notes: list[str],
        following: str | None = None,
    ) -> Page:
        """`rows` as a page of the document that `head` is a chunk of."""
        document = self.catalog.of(head) if self.catalog else None
        outdated = None
        if document is not None and self.catalog is not None and lifecycle.outdated(document, self.words):
            # In a thread: the first successor of a large catalog takes a second or two.
            outdated = await asyncio.to_thread(lifecycle.label, document, self.catalog, self.words)
        return Page(
            table=self.table.name,
            path=head.path,
            title=head.title,
            url=url,
            version=told(head, "version"),
            collection=told(head, "collection"),
            status=told(head, "status"),
            outdated=outdated,
            ids=[row.id for row in rows],
            first=rows[0].ordinal if rows else None,
            chunks=chunks,
            headings=list(dict.fromkeys(row.heading for row in rows if row.heading)),
            text=SEPARATOR.join(text_of(row) for row in rows),
            cursor=following,
            notes=notes,
        )

    async def _called(self, name: str) -> list[Row]:
        """The rows whose id is `name`: one, unless somebody else gave it twice."""
        if not _is_text(name):
            return []
        if self.layout.id is not None:
            found = await self.table.select(Condition(self.layout.id, "eq", name), self.layout, limit=_MAX_SAME_ID)
            if found:
                return found
        number = _ROW_ID.fullmatch(name)
        if number is None:
            return []
        # A row without an id is called by its number in the table.
        found = await self.table.select(Condition("_rowid", "eq", int(number[1])), self.layout, limit=1)
        return [row for row in found if row.id == name]

    async def _around(self, hit: Row, request: FetchRequest) -> tuple[list[Row], str | None]:
        if hit.path is None or hit.ordinal is None:
            return [hit], f"{self._missing()}, so what stands around the chunk is not known."
        span = Span(hit.path, max(0, hit.ordinal - request.before), hit.ordinal + request.after)
        near = await self.table.chunks([span], self.layout)
        document = {row.ordinal: row for row in near if row.document == hit.document and row.ordinal is not None}
        rows = touching(hit, document, before=request.before, after=request.after, chars=self.max_chars)
        if len(rows) < len(document):
            return rows, "Not all neighbours fit the page: pass a larger maxChars, or fetch them by their ids."
        return rows, None

    async def _chunks_at(self, path: str) -> list[Row]:
        """Every row of every document at `path`.

        Raises `BedivereError` COLUMN_NOT_FOUND, DOCUMENT_NOT_FOUND or, of a table that is no table of passages,
        INVALID_ARGUMENT.
        """
        catalog = self._needed()
        where = Condition(str(self.layout.path), "in", tuple(dict.fromkeys((nfc(path), path))))
        rows = await self.table.select(where, self.layout, limit=_MAX_DOCUMENT_CHUNKS + 1) if _is_text(path) else []
        if not rows:
            raise BedivereError(
                ErrorCode.DOCUMENT_NOT_FOUND, f"There is no document {shown(path)}. {nearest(path, catalog)}"
            )
        if len(rows) > _MAX_DOCUMENT_CHUNKS:
            raise _misused(
                f"{shown(path)} has more than {_MAX_DOCUMENT_CHUNKS:,} chunks, too many to put together: "
                "fetch them by id, with before and after."
            )
        return rows

    def _meant(self, path: str) -> str:
        """The path of a document for one that is written otherwise: from the root, from here, or with an anchor.

        What is no other spelling of just one document is given back as it is.
        """
        catalog = self._needed()

        def there(written: str) -> bool:
            return bool(catalog.at(nfc(written)) or catalog.at(written))

        bare = path.rpartition("#")[0]
        for written in (path, bare):
            if not written or there(written):
                return written or path
            stem = written
            while stem.startswith(("./", "/")):
                stem = stem.removeprefix("./").removeprefix("/")
            found = [spelled for spelled in (stem, f"/{stem}", f"./{stem}") if stem and there(spelled)]
            if found:
                return found[0] if len(found) == 1 else path
        return path

    def _chosen(self, path: str, rows: Iterable[Row], request: FetchRequest) -> _Choice:
        """The one document among `rows`, all at `path`, that is asked for: the newest version where none is named."""
        documents: dict[object, list[Row]] = {}
        for row in rows:
            documents.setdefault(row.document, []).append(row)
        heads = [chunks[0] for chunks in documents.values()]
        asked = _of(heads, request.collection, request.version)
        if not asked:
            raise BedivereError(ErrorCode.DOCUMENT_NOT_FOUND, f"{shown(path)} is there, {_elsewhere(heads, request)}")
        if len({told(head, "collection") for head in asked}) > 1:
            raise _misused(f"{shown(path)} is in several collections: pass collection to say which: {_places(asked)}.")
        # Where the version is the same too, one was indexed under another name of its set: the id decides.
        newest = max(asked, key=lambda head: (versions.preference(told(head, "version") or ""), head.id))
        chunks = sorted(documents[newest.document], key=_place)
        return _Choice(chunks, [head for head in asked if head.document != newest.document])

    def _chunks(self, row: Row) -> int | None:
        document = self.catalog.of(row) if self.catalog else None
        return document.chunks if document else None

    def _needed(self) -> Catalog:
        """The catalog. Raises `BedivereError` COLUMN_NOT_FOUND where chunks cannot be put together to documents."""
        if self.catalog is None or self.layout.ordinal is None:
            raise BedivereError(
                ErrorCode.COLUMN_NOT_FOUND,
                f"{self._missing()}, so its chunks cannot be put together: fetch them by the ids that "
                "lancedb_search returns.",
            )
        return self.catalog

    def _missing(self) -> str:
        path = "no column that names the document of a chunk" if self.layout.path is None else None
        number = "no whole numbers in a column 'chunk'" if self.layout.ordinal is None else None
        return f"The table has {' and '.join(part for part in (path, number) if part) or 'no number for this chunk'}"

    def _no_chunk(self, name: str, rows: Sequence[Row], request: FetchRequest) -> BedivereError:
        if rows:
            return BedivereError(
                ErrorCode.DOCUMENT_NOT_FOUND, f"Chunk {shown(name)} is there, {_elsewhere(rows, request)}"
            )
        if self.catalog is None:
            there = "lancedb_search returns the ids there are."
        else:
            there = nearest(path_in(name), self.catalog)
        return BedivereError(ErrorCode.DOCUMENT_NOT_FOUND, f"There is no chunk {shown(name)}. {there}")


@dataclass(frozen=True, slots=True)
class _Choice:
    """The chunks of one document, in order, and a chunk of each other one that was asked for as well."""

    chunks: list[Row]
    others: list[Row]


def _is_text(name: str) -> bool:
    """Whether a column of text can hold `name`: JSON can say what UTF-8 cannot."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _place(row: Row) -> tuple[bool, int, str]:
    return (row.ordinal is None, row.ordinal or 0, row.id)


def _digest(row: Row) -> str:
    """What tells the document of `row` from others at its path, in a few letters."""
    return hashlib.sha256(json.dumps(row.document, default=str).encode()).hexdigest()[:16]


def _of(rows: Iterable[Row], collection: str | None, version: str | None) -> list[Row]:
    """Those of `rows` that are of `collection` and `version`, in another spelling of it where none is in this one."""
    its = [row for row in rows if collection is None or told(row, "collection") == collection]
    if version is None:
        return its
    spelled = {there for row in its if (there := told(row, "version")) is not None}
    meant = {version} & spelled or {there for there in spelled if versions.same(there, version)}
    return [row for row in its if told(row, "version") in meant]


def _is_under(row: Row, headings: Sequence[str]) -> bool:
    if not headings:
        return True
    heading = (row.heading or "").casefold()
    return any(nfc(wanted).casefold() in heading for wanted in headings)


def _elsewhere(rows: Sequence[Row], request: FetchRequest) -> str:
    """Of what is there and is not of the collection and version that are asked for: what to pass instead."""
    asked = {"collection": request.collection, "version": request.version}
    absent = [
        name for name, value in asked.items() if value is not None and all(told(row, name) is None for row in rows)
    ]
    if absent:
        return f"but has no {' and no '.join(absent)}: leave {' and '.join(absent)} out."
    return f"but only as {_places(rows)}: pass one of these."


def _places(rows: Iterable[Row]) -> str:
    """The collections and versions of `rows`, as a caller would pass them; of those without either, nothing."""
    places = {
        " ".join(
            f"{name} {shown(value)}" for name in ("collection", "version") if (value := told(row, name)) is not None
        )
        for row in rows
    }
    listed = sorted(places - {""})
    more = f" and {len(listed) - _LISTED_NAMES} more" if len(listed) > _LISTED_NAMES else ""
    return f"{'; '.join(listed[:_LISTED_NAMES])}{more}"
