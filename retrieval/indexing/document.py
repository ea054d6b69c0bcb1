"""The seam of reading documents: a source yields bytes, a format makes blocks of them, chunking knows blocks only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

Scalar = str | int | float | bool
"""What a metadata value may be; dates are ISO 8601 text."""

MAX_HEADING_CHARS: Final = 300
"""What is longer names no section: a heading that was never closed, or a paragraph that is marked as one."""

BlockKind = Literal["heading", "paragraph", "list_item", "table_row", "code"]


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a document that reads on its own, in document order.

    `heading_path` holds the headings the block stands under, outermost first; a heading block's own text is its
    path's last entry. `anchor` is the fragment that leads to the section on the published page, where one is known.
    """

    kind: BlockKind
    text: str
    heading_path: tuple[str, ...] = ()
    anchor: str | None = None
    page: int | None = None


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """A document as chunking sees it; `title` is None where the document names none."""

    title: str | None
    blocks: tuple[Block, ...]
    metadata: Mapping[str, Scalar] = field(default_factory=dict[str, Scalar])
    """snake_case keys, the document's own: front matter, mail-style headers, <meta>."""


class Unreadable(Exception):
    """The bytes are not a document of the format; the message is a reason for the person who indexes."""


class Format(Protocol):
    """Turns the bytes of one kind of file into a document. Raises `Unreadable`."""

    def __call__(self, data: bytes) -> ParsedDocument: ...
