"""HTML pages: headings, paragraphs, lists, tables and code, without scripts, menus and what is hidden.

The parser's events are read as they come. No tree is built: libxml2 drops what a tree nests deeper than 2,048
elements, and unclosed tags nest deeper than that.
"""

from __future__ import annotations

import re
from typing import Any, Final, cast

from lxml import etree

from retrieval.indexing.document import Block, ParsedDocument
from retrieval.indexing.encoding import decode
from retrieval.indexing.formats.html_page import Page, Piece
from retrieval.indexing.metadata import collect

_MOST_OF_PAGE: Final = 0.5
"""The part of a page's text that <main> or <article> must hold to stand for the page."""

_COMMENT: Final = re.compile(rb"<!--.*?-->", re.DOTALL)
_META_CHARSET: Final = re.compile(rb"<meta\b[^>]*?\bcharset\s*=\s*[\"']?\s*([\w.:+-]+)", re.IGNORECASE)
_XML_ENCODING: Final = re.compile(rb"^\s*<\?xml\b[^>]*?\bencoding\s*=\s*[\"']([\w.:+-]+)")
_HEAD_BYTES: Final = 4096

_PERMALINK: Final = " ¶§#🔗\N{VARIATION SELECTOR-16}"


def parse(data: bytes) -> ParsedDocument:
    """The page; its title is that of its head, else its first heading of level 1. Menus alone make no blocks."""
    page = Page()
    # The text is encoded again so that libxml2 asks neither the page nor the bytes what they are.
    # A target needs no more methods than these, whatever lxml's stubs say.
    parser = etree.HTMLParser(target=cast("Any", page), encoding="utf-8")
    parser.feed(decode(data, declared_charset(data)).encode("utf-8"))
    parser.close()
    blocks, first_h1 = _with_paths(_content(page.pieces))
    title = " ".join("".join(page.title).split()) or first_h1
    return ParsedDocument(title, blocks, collect(page.meta))


def declared_charset(data: bytes) -> str | None:
    """The charset that a page's own <meta> or XML declaration names."""
    head = _COMMENT.sub(b"", data[:_HEAD_BYTES])
    match = _XML_ENCODING.search(head) or _META_CHARSET.search(head)
    return match[1].decode("ascii", "replace") if match else None


def _content(pieces: list[Piece]) -> list[Piece]:
    """The pieces that are the page's own: of its main part where that holds most of the text, and no navigation."""
    pieces = [piece for piece in pieces if not any(region.is_navigation for region in piece.regions)]
    everything = sum(len(piece.text) for piece in pieces)
    for parts in (("main",), ("main", "article")):
        inside = [piece for piece in pieces if piece.part in parts]
        if inside and sum(len(piece.text) for piece in inside) > _MOST_OF_PAGE * everything:
            titled = any(piece.level == 1 for piece in inside)
            return [piece for piece in pieces if piece.part in parts or (piece.level == 1 and not titled)]
    return pieces


def _with_paths(pieces: list[Piece]) -> tuple[tuple[Block, ...], str | None]:
    blocks: list[Block] = []
    path: list[tuple[int, str]] = []
    anchor: str | None = None
    first_h1: str | None = None
    for piece in pieces:
        name = piece.text.rstrip(_PERMALINK) or piece.text
        if piece.level == 1 and first_h1 is None:
            first_h1 = name
        if piece.kind == "heading":
            while path and path[-1][0] >= piece.level:
                path.pop()
            path.append((piece.level, name))
            anchor = piece.anchor
        blocks.append(Block(piece.kind, piece.text, tuple(text for _, text in path), anchor))
    return tuple(blocks), first_h1
