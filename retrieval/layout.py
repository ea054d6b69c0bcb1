"""Which column of a table plays which part, so that tables that others wrote serve as well as ours.

Only text is required. `title` and the first of `path`, `chunkSource`, `docSource` (the AnythingLLM and Lancelot
layouts) are recognised by name; every other scalar column comes back as metadata.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from retrieval.errors import BedivereError, ErrorCode
from retrieval.notes import Advice, counted
from retrieval.schema import INTERNAL_COLUMNS, ORDINAL_COLUMN
from retrieval.search.plan import Searchable

MAX_COLUMNS: Final = 512
"""A wider table is an export gone wrong: its metadata would drown every answer."""

_SOURCES: Final = ("path", "chunkSource", "docSource", "source")
_LISTED_NAMES: Final = 12
_RESERVED: Final = frozenset({"_score", "_distance", "_relevance_score", "_rowid", "_rowaddr"})
"""Names under which LanceDB returns figures of its own."""

Kind = Literal["text", "integer", "number", "boolean", "time", "other"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; `type` is Arrow's name for what it holds, `kind` what can be done with it."""

    name: str
    type: str
    kind: Kind
    dictionary: bool = False
    """Whether its values are dictionary-encoded: as good as plain ones to read, and not searchable."""


@dataclass(frozen=True, slots=True)
class Index:
    """An index over one column; counts are rows."""

    column: str
    type: str
    positions: bool
    indexed: int
    unindexed: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The parts that a table's columns play; None where it has no such column."""

    text: str
    searchable: Searchable
    id: str | None
    title: str | None
    heading: str | None
    path: str | None
    url: str | None
    ordinal: str | None
    metadata: tuple[str, ...]

    @property
    def selected(self) -> list[str]:
        """The columns that make a passage, without those that only serve search."""
        parts = (self.id, self.text, self.title, self.heading, self.path, self.url, self.ordinal)
        return list(dict.fromkeys([*(part for part in parts if part), *self.metadata]))


def lay_out(columns: Sequence[Column], indexes: Sequence[Index], text_column: str) -> Layout:
    """The layout of a table whose text is in `text_column`.

    Raises `BedivereError`: TOO_MANY_COLUMNS, TEXT_COLUMN_MISSING or, for a column of another kind, COLUMN_NOT_FOUND.
    """
    if len(columns) > MAX_COLUMNS:
        raise BedivereError(
            ErrorCode.TOO_MANY_COLUMNS,
            f"The table has {len(columns):,} columns and at most {MAX_COLUMNS:,} can be served: "
            "drop the columns that are not needed, or index the documents with bedivere index.",
        )
    kinds = {column.name: column.kind for column in columns}
    if text_column not in kinds:
        raise BedivereError(
            ErrorCode.TEXT_COLUMN_MISSING,
            f"The table has no column {text_column!r}. {_text_columns(columns)} {Advice.SET_TEXT_COLUMN}.",
        )
    if "_score" in kinds:
        raise BedivereError(
            ErrorCode.TABLE_UNREADABLE,
            "The table has a column '_score', a name that LanceDB gives its own scores, so it cannot be searched: "
            "rename the column.",
        )
    encoded = next((column for column in columns if column.name == text_column and column.dictionary), None)
    if encoded:
        raise BedivereError(
            ErrorCode.COLUMN_NOT_FOUND,
            f"Column {text_column!r} holds dictionary-encoded text, which LanceDB cannot search: "
            "write it as plain strings.",
        )
    if kinds[text_column] != "text":
        raise BedivereError(
            ErrorCode.COLUMN_NOT_FOUND, f"Column {text_column!r} does not hold text. {_text_columns(columns)}"
        )

    def text_named(*names: str) -> str | None:
        return next((name for name in names if kinds.get(name) == "text" and name != text_column), None)

    title, heading, path = text_named("title"), text_named("heading"), text_named(*_SOURCES)
    url, identifier = text_named("url"), text_named("id")
    ordinal = ORDINAL_COLUMN if kinds.get(ORDINAL_COLUMN) == "integer" else None
    # Of a table of ours the prepared column is searched, unless the caller chose another.
    prepared = text_named("search_text") if text_column == "text" and "idents" in kinds else None
    indexed = {index.column: index for index in indexes if index.type == "FTS"}
    searched = prepared or text_column
    played = {text_column, title, heading, path, url, identifier, ordinal}
    hidden = INTERNAL_COLUMNS if prepared else frozenset[str]()
    return Layout(
        text=text_column,
        searchable=Searchable(
            text=searched,
            title=title if title in indexed else None,
            heading=heading if heading in indexed else None,
            identifiers="idents" if prepared and "idents" in indexed else None,
            folded=prepared is not None,
            # Without an index LanceDB scans, and a scan knows every position.
            phrases=searched not in indexed or indexed[searched].positions,
        ),
        id=identifier,
        title=title,
        heading=heading,
        path=path,
        url=url,
        ordinal=ordinal,
        metadata=tuple(
            column.name
            for column in columns
            if column.kind != "other" and column.name not in played | hidden | _RESERVED and "`" not in column.name
        ),
    )


def missing_parts(layout: Layout, indexes: Sequence[Index]) -> list[str]:
    """What limits a search of the table, a sentence each."""
    covering = next(
        (index for index in indexes if index.column == layout.searchable.text and index.type == "FTS"), None
    )
    notes: list[str] = []
    if covering is None:
        notes.append(
            f"Column {layout.searchable.text!r} has no full-text index, so every row is scanned; "
            "bedivere index builds one."
        )
    elif covering.unindexed:
        notes.append(
            f"{counted(covering.unindexed, 'row')} {'is' if covering.unindexed == 1 else 'are'} not in the full-text "
            "index yet, so scanned; optimize the table."
        )
    if layout.path is None and layout.url is None:
        notes.append("The table has no column that names a source, so hits cannot be cited.")
    return notes


def _text_columns(columns: Sequence[Column]) -> str:
    names = [column.name for column in columns if column.kind == "text" and column.name not in INTERNAL_COLUMNS]
    if not names:
        return "It has no column of text at all."
    listed = ", ".join(repr(name) for name in names[:_LISTED_NAMES])
    more = f" and {len(names) - _LISTED_NAMES} more" if len(names) > _LISTED_NAMES else ""
    return f"Its columns of text are {listed}{more}."
