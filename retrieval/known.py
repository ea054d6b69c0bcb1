"""What of a table's rows is known before they are read: what their documents say, which the catalog holds.

LanceDB reads each column of each row by itself. What a row has in common with all rows of its document need not be read
a hundred times a call: the row's number, which a search has anyway, says which document it is of, and which chunk.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from retrieval.catalog import FRAGMENT_BITS, Catalog, RowNumbers
from retrieval.layout import Layout
from retrieval.schema import ORDINAL_COLUMN

_DOCUMENTS: Final = ("path", "title", "url", "collection", "version", "status", "date", "superseded_by")
"""Columns that mostly say the same in each row of a document, and in its entry in the catalog."""

_WITHIN: Final = (1 << FRAGMENT_BITS) - 1
_ID: Final = "id"
_TEXT: Final = "text"


class UnknownRowError(Exception):
    """A row that the catalog has no number of: what was asked has to be read whole."""


@dataclass(frozen=True, eq=False, slots=True)
class Known:
    """Columns that need not be read of the rows of a table."""

    every_row: bool = False
    """Whether the catalog knows of each row, so that each has an id."""
    unsaid: frozenset[str] = frozenset()
    """Columns in which no row says anything."""
    rows: RowNumbers | None = None
    """Where it is there, `told`, the ids and the ordinals need not be read."""
    told: tuple[str, ...] = ()
    """Columns that say of each row what the catalog says of its document."""

    @classmethod
    def of(cls, catalog: Catalog, rows: int, version: int, corpus: str) -> Known:
        """Of a table of ours that has `rows` rows of the corpus version `corpus`, and is read in LanceDB's `version`.

        Whoever changes rows by way of LanceDB leaves another version than the indexer did. Where that is not on record,
        the number of rows has to do, and only what no document says is taken as known.
        """
        if catalog.version not in {None, version} or sum(catalog.columns["chunks"]) != rows:
            return cls()
        if catalog.rows is not None and catalog.rows.corpus != corpus:
            # The catalog of another table, as large and changed as often.
            return cls()
        unsaid = catalog.unsaid
        # Rows have words of their own for that nothing supersedes them, and anchors of their own on their page.
        own = {"superseded_by"} if catalog.unnamed else set[str]()
        own |= set[str]() if catalog.rows is not None and catalog.rows.pages else {"url"}
        told = tuple(name for name in _DOCUMENTS if name not in unsaid | own)
        return cls(every_row=True, unsaid=unsaid, rows=catalog.rows, told=told)

    def unread(self, layout: Layout) -> frozenset[str]:
        """The columns of `layout` that need not be read."""
        return self.unsaid | {_ID, *self.told, ORDINAL_COLUMN} if self.tells(layout) else self.unsaid

    def tells(self, layout: Layout) -> bool:
        """Whether `columns` has what rows of `layout` lack."""
        return self.rows is not None and layout.text == _TEXT and layout.id == _ID

    def columns(self, numbers: Sequence[int]) -> Mapping[str, Sequence[str | int | None]]:
        """What was not read of the rows that LanceDB calls `numbers`. Raises `UnknownRowError`."""
        rows = self.rows
        if rows is None:
            raise UnknownRowError
        said, starts, fragments = rows.columns, rows.starts, rows.fragments
        first_ids, chunks, all_places = said["first_id"], said["chunks"], rows.places
        documents, seen = len(chunks), rows.seen
        ids: list[str] = []
        places: list[int] = []
        ordinals: list[int] = []
        for number in numbers:
            begins = fragments.get(number >> FRAGMENT_BITS)
            if begins is None:
                raise UnknownRowError
            row = begins + (number & _WITHIN)
            before = bisect_right(starts, row) - 1
            ordinal = row - starts[before]
            place = all_places[before]
            # Of a file that is not what it was, neither need be of any document.
            if not 0 <= place < documents or not 0 <= ordinal < chunks[place]:
                raise UnknownRowError
            if seen is not None and place not in seen:
                raise UnknownRowError
            # The first id ends in the ordinal 0.
            ids.append(f"{first_ids[place][:-1]}{ordinal}")
            places.append(place)
            ordinals.append(ordinal)
        columns: dict[str, Sequence[str | int | None]] = {_ID: ids, ORDINAL_COLUMN: ordinals}
        for name in self.told:
            values = said[name]
            columns[name] = [values[place] for place in places]
        return columns
