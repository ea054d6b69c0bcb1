"""A page as its parser's events tell it: pieces of text in order, each with what it is and where it stood.

What of it is the page's own is for the HTML format to say.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from retrieval.indexing.document import MAX_HEADING_CHARS, BlockKind

_SKIPPED: Final = frozenset(
    {
        *("script", "style", "template", "noscript", "nav", "svg", "iframe", "object", "canvas", "audio", "video"),
        *("select", "datalist"),
    }
)
_HEADINGS: Final = {f"h{level}": level for level in range(1, 7)}
_CONTROLS: Final = frozenset({"button", "textarea"})
_COPY_BUTTON: Final = re.compile("copy|clipboard", re.IGNORECASE)
_PREFORMATTED: Final = frozenset({"pre", "listing", "xmp"})
_LISTS: Final = frozenset({"ul", "ol", "menu", "dir"})
_BLOCKS: Final = frozenset(
    {
        *("address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "dialog", "div"),
        *("dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "head", "header", "hgroup", "hr", "html"),
        *("legend", "li", "main", "p", "search", "section", "summary", "table", "tbody", "td", "tfoot", "th", "thead"),
        *("tr", "optgroup", "option"),
        *_LISTS,
    }
)
_ENDING: Final = frozenset({"dl", "tr", "table", "hr"})
_PAGE_PARTS: Final = frozenset({"article", "main", "section", "blockquote", "td"})
"""A header or footer inside one of these belongs to it and not to the site."""

_NAVIGATION_NAMES: Final = frozenset(
    {
        *("menu", "mainmenu", "submenu", "nav", "navbar", "navigation", "breadcrumb", "breadcrumbs", "path"),
        *("pager", "pagination", "prev-next", "related", "sidebar", "toc", "table-of-contents"),
    }
)
_SET_APART_NAMES: Final = frozenset({"nosearch", "no-search", "noindex", "page-header", "site-header", "masthead"})
_SKIP_LINK_NAMES: Final = frozenset({"skip-link", "skiplink", "skip-to-content"})
_NO_NAMES: Final[frozenset[str]] = frozenset()
_ANCHORED: Final = frozenset({"a", "span", "div", "section", "article", "p"})
"""Whose `id` may stand for the heading that follows at once."""

_MOSTLY_LINKS: Final = 0.7
_MOST_REGIONS: Final = 8

_LONG_TEXT: Final = 800
"""A cell or an item with more than this before its next paragraph is laid out, not listed."""

_UNTOLD_META: Final = re.compile(
    r"viewport|generator|charset|robots|googlebot|referrer|theme-color|color-scheme|format-detection|rating|"
    r"progid|originator|content-type|x-ua-compatible|.*verif.*|csrf.*|msapplication.*|msvalidate.*|apple-.*|"
    r"(?:og|fb|twitter|al|mobile-web-app|application-name)\b.*",
    re.IGNORECASE,
)

_INVISIBLE: Final = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)\b", re.IGNORECASE)
_INDENT: Final = "\0"
"""One level of a nested item until white space is folded; a NUL is in no text."""
_DEEPEST_INDENT: Final = 8
_WHITE_SPACE: Final = re.compile(r"\s+")
_AROUND_BREAK: Final = re.compile(r" ?\n ?")
_BREAKS: Final = re.compile(r"\n{3,}")


@dataclass(slots=True)
class Region:
    """A part of the page that may turn out to be navigation."""

    set_apart: bool
    """The site's header, or marked as not to be searched: dropped unless it holds a heading."""
    has_heading: bool = False
    chars: int = 0
    link_chars: int = 0

    @property
    def is_navigation(self) -> bool:
        if self.set_apart:
            return not self.has_heading
        return self.link_chars >= _MOSTLY_LINKS * self.chars


@dataclass(slots=True)
class Piece:
    kind: BlockKind
    text: str
    level: int
    """Of a heading, and of text that is too long for the heading it was marked as; 0 of all else."""
    anchor: str | None
    part: str | None
    """"main" or "article" where it stands in one."""
    regions: tuple[Region, ...]


@dataclass(slots=True)
class _Open:
    """An open element, and what was so outside of it."""

    tag: str
    part: str | None
    regions: tuple[Region, ...]
    numbering: int | None = None


class Page:
    """What the parser tells of a page: pieces in order, the title, names and contents of <meta>."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.title: list[str] = []
        self.meta: list[tuple[str, object]] = []
        self._open: list[_Open] = []
        self._skipped_from: int | None = None
        self._in_title = False
        self._titled = False
        self._part: str | None = None
        self._regions: tuple[Region, ...] = ()
        self._page_parts = 0
        self._links = 0
        self._pre = 0
        self._items = 0
        self._definitions = 0
        self._cells = 0
        self._heading = 0
        self._heading_anchor: str | None = None
        self._pending_anchor: str | None = None
        self._text: list[str] = []
        self._chars = 0
        self._line_is_new = True
        self._due_bullet = ""
        self._row: list[str] = []

    # What lxml calls, in the order of the page.

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._open.append(_Open(tag, self._part, self._regions))
        if self._skipped_from is not None:
            return
        if tag == "title" and not self._titled:
            self._in_title = True
            return
        if tag == "meta" or tag == "link":
            self._told(tag, attributes)
            return
        if (
            tag in _SKIPPED
            or (attributes and self._is_left_out(attributes))
            or self._is_site_footer(tag, attributes)
            or (tag == "button" and self._is_of_code(attributes))
        ):
            self._skipped_from = len(self._open)
            if tag in _BLOCKS or tag == "nav":
                self._boundary(tag)
            return
        if tag in _BLOCKS or tag in _HEADINGS or tag in _PREFORMATTED:
            self._boundary(tag)
            self._enter(tag, attributes)
        elif tag == "br":
            self._text.append("\n")
        elif tag == "a":
            self._links += 1
        elif tag in _CONTROLS:
            # It looks apart from the words around it, and among links it is one of them.
            self._text.append(" ")
            self._links += 1
        if attributes:
            self._named(tag, attributes)

    def end(self, tag: str) -> None:
        opened = self._open.pop()
        if self._skipped_from is not None:
            if len(self._open) < self._skipped_from:
                self._skipped_from = None
            return
        if tag == "title" and self._in_title:
            self._in_title, self._titled = False, True
        elif tag == "a":
            self._links -= 1
        elif tag in _CONTROLS:
            self._text.append(" ")
            self._links -= 1
        elif tag in _BLOCKS or tag in _HEADINGS or tag in _PREFORMATTED:
            self._leave(tag)
        self._part, self._regions = opened.part, opened.regions

    def data(self, data: str) -> None:
        if self._skipped_from is not None:
            return
        if self._in_title:
            self.title.append(data)
            return
        if self._due_bullet and not (self._pre or self._heading or data.isspace()):
            self._text.append(self._due_bullet)
            self._due_bullet = ""
        self._text.append(data if self._pre else _WHITE_SPACE.sub(" ", data))
        self._chars += len(data)
        if not data.isspace():
            self._line_is_new = False
            if not self._heading:
                self._pending_anchor = None
            for region in self._regions:
                # What stands between links, such as "|" and "»", tells nothing.
                count = len(data) if self._links or any(map(str.isalnum, data)) else 0
                region.chars += count
                region.link_chars += count if self._links else 0

    def close(self) -> None:
        self._flush()

    # Elements

    def _is_left_out(self, attributes: dict[str, str]) -> bool:
        if "hidden" in attributes and attributes["hidden"].lower() != "until-found":
            return True
        return (
            attributes.get("aria-hidden", "").lower() == "true"
            or attributes.get("role", "").lower() in ("navigation", "search", "menu", "menubar")
            or bool(_INVISIBLE.search(attributes.get("style", "")))
            or not _SKIP_LINK_NAMES.isdisjoint(attributes.get("class", "").lower().split())
        )

    def _is_site_footer(self, tag: str, attributes: dict[str, str]) -> bool:
        if self._page_parts or tag not in ("footer", "div"):
            return False
        return tag == "footer" or "footer" in _names(attributes) or attributes.get("role") == "contentinfo"

    def _is_of_code(self, attributes: dict[str, str]) -> bool:
        """Whether a button copies the code beside it, and would stand between its lines."""
        return bool(self._pre) or _COPY_BUTTON.search(attributes.get("class", "")) is not None

    def _told(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "meta":
            name = attributes.get("name") or attributes.get("property")
            if name and not _UNTOLD_META.fullmatch(name.strip()):
                self.meta.append((name, attributes.get("content")))
        elif "canonical" in attributes.get("rel", "").lower().split():
            url = attributes.get("href", "").strip()
            if url.startswith(("https://", "http://")):
                self.meta.append(("url", url))

    def _named(self, tag: str, attributes: dict[str, str]) -> None:
        name = attributes.get("id") or (attributes.get("name") if tag == "a" else None)
        if self._heading:
            if name is None and attributes.get("href", "").startswith("#"):
                name = attributes["href"][1:]
            if name and self._heading_anchor is None:
                self._heading_anchor = name
        elif name and tag in _ANCHORED:
            self._pending_anchor = name

    def _enter(self, tag: str, attributes: dict[str, str]) -> None:
        here = self._open[-1]
        if tag in _HEADINGS:
            self._heading = _HEADINGS[tag]
            self._heading_anchor = None
            for region in self._regions:
                region.has_heading = True
        elif tag in _PREFORMATTED:
            self._pre += 1
        elif tag in _LISTS:
            here.numbering = _start_number(attributes) if tag == "ol" else None
        elif tag == "li":
            self._items += 1
            self._due_bullet = self._bullet()
        elif tag in ("td", "th"):
            self._cells += 1
        elif tag == "dl":
            self._definitions += 1
        if tag in _PAGE_PARTS:
            self._page_parts += 1
        if tag == "main" or attributes.get("role") == "main":
            self._part = "main"
        elif tag == "article" and self._part is None:
            self._part = "article"
        names = _names(attributes) if attributes else _NO_NAMES
        set_apart = (tag == "header" and not self._page_parts) or not _SET_APART_NAMES.isdisjoint(names)
        if set_apart or not _NAVIGATION_NAMES.isdisjoint(names):
            self._regions = (*self._regions[-_MOST_REGIONS:], Region(set_apart))

    def _leave(self, tag: str) -> None:
        if tag in _HEADINGS or tag in _PREFORMATTED:
            self._flush()
            self._heading = 0
            self._pre -= tag in _PREFORMATTED
        else:
            self._boundary(tag, leaving=True)
        if tag == "li":
            self._items -= 1
            self._due_bullet = ""
        elif tag in ("td", "th"):
            self._cells -= 1
        elif tag == "dl":
            self._definitions -= 1
        if tag in _PAGE_PARTS:
            self._page_parts -= 1

    def _boundary(self, tag: str, *, leaving: bool = False) -> None:
        """Where a block element starts or ends: a block of text ends, or at least its line."""
        if self._heading and not leaving and not self._line_is_new and tag not in _HEADINGS:
            # A heading may lie within a block, but a block that follows its words is no part of it.
            self._flush()
            self._heading = 0
        if self._pre and tag not in _PREFORMATTED:
            if self._text and not self._text[-1].endswith("\n"):
                self._text.append("\n")
        elif self._heading and tag not in _HEADINGS:
            self._text.append(" ")
        elif tag in ("td", "th"):
            if leaving:
                self._row.append(_prose(self._text))
                self._text, self._chars = [], 0
                self._line_is_new = True
            elif not self._row:
                self._flush()
        elif tag == "li":
            outermost = self._items == (1 if leaving else 0)
            self._end_line(flush=outermost or self._cells > 0)
        elif tag in ("dd", "dt"):
            self._end_line(flush=tag == "dt" and not leaving)
        elif tag in _LISTS:
            self._end_line(flush=not self._items or self._cells > 0)
        elif tag in _ENDING or tag in _HEADINGS or tag in _PREFORMATTED:
            self._flush()
        else:
            inside = self._items or self._cells or self._definitions
            self._end_line(flush=not inside or self._chars >= _LONG_TEXT)

    def _end_line(self, *, flush: bool) -> None:
        if flush:
            self._flush()
        elif not self._line_is_new:
            self._text.append("\n")
            self._line_is_new = True

    def _bullet(self) -> str:
        around = next((element for element in reversed(self._open[-8:-1]) if element.tag in _LISTS), None)
        if around is None or around.numbering is None:
            mark = "- "
        else:
            mark = f"{around.numbering}. "
            around.numbering += 1
        return _INDENT * min(self._items - 1, _DEEPEST_INDENT) + mark

    def _flush(self) -> None:
        """The text so far becomes a piece, if there is any."""
        parts, self._text, self._chars = self._text, [], 0
        self._line_is_new = True
        row, self._row = (self._row if any(self._row) else []), []
        if not parts and not row:
            return
        kind: BlockKind = "list_item" if self._items or self._definitions else "paragraph"
        level = self._heading
        if level and len(text := _prose(parts)) <= MAX_HEADING_CHARS:
            kind, text = "heading", text.replace("\n", " ")
        elif self._pre:
            kind, text = "code", "".join(parts).strip("\n").rstrip()
        elif len(cells := [*row, last] if (last := _prose(parts)) else row) > 1:
            kind, text = "table_row", " | ".join(cell.replace("\n", " ") for cell in cells)
        else:
            text = cells[0] if cells else ""
        if not text.strip():
            return
        anchor = None
        if kind == "heading":
            anchor = self._heading_anchor or self._pending_anchor
            self._pending_anchor = None
        text = text.lstrip(_INDENT).replace(_INDENT, "  ")
        self.pieces.append(Piece(kind, text, level, anchor, self._part, self._regions))


def _names(attributes: dict[str, str]) -> frozenset[str]:
    return frozenset({*attributes.get("class", "").lower().split(), attributes.get("id", "").lower()})


def _start_number(attributes: dict[str, str]) -> int:
    start = attributes.get("start", "1")
    return int(start) if re.fullmatch(r"-?\d{1,6}", start) else 1


def _prose(parts: list[str]) -> str:
    text = _AROUND_BREAK.sub("\n", re.sub(" +", " ", "".join(parts)))
    return _BREAKS.sub("\n\n", text).strip()
