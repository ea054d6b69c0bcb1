"""Which format reads which file: a new format is one new module and its suffixes here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Final

from retrieval.indexing.document import Format, ParsedDocument, Unreadable
from retrieval.indexing.formats.html import parse as _html
from retrieval.indexing.formats.markdown import parse as _markdown
from retrieval.indexing.formats.plain import parse as _plain
from retrieval.indexing.formats.rst import parse as _rst

SUFFIXES: Final[Mapping[str, Format]] = {
    ".htm": _html,
    ".html": _html,
    ".markdown": _markdown,
    ".md": _markdown,
    ".mdx": _markdown,
    ".rst": _rst,
    ".txt": _plain,
}
"""Lower-case file name suffixes and what reads them."""


def parse(name: str, data: bytes) -> ParsedDocument:
    """The document in `data`, read as the suffix of `name` says, whatever its case. Raises `Unreadable`."""
    suffix = PurePosixPath(name).suffix.lower()
    read = SUFFIXES.get(suffix)
    if read is None:
        raise Unreadable(f"no reader for {suffix} files" if suffix else "no reader for files without a suffix")
    return read(data)
