"""Plain text: a paragraph is what stands between empty lines."""

from __future__ import annotations

import re
from typing import Final

from retrieval.indexing.document import Block, ParsedDocument
from retrieval.indexing.encoding import decode

_EMPTY_LINES: Final = re.compile(r"\n(?:[^\S\n]*\n)+|\f")


def parse(data: bytes) -> ParsedDocument:
    """The paragraphs of a text file; it has no title and no headings, for any guess at them would often be wrong."""
    return ParsedDocument(title=None, blocks=paragraphs(decode(data)))


def paragraphs(text: str) -> tuple[Block, ...]:
    """`text` as blocks, in order, without what is empty."""
    return tuple(Block("paragraph", part.strip("\n")) for part in _EMPTY_LINES.split(text) if part.strip())
