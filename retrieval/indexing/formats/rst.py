"""reStructuredText: sections, mail-style headers, field lists, and every block's text as it stands in the source.

A scanner of our own, for docutils drops what it cannot resolve: the directives and roles of Sphinx, and of a
project's own extensions, which hold much of a documentation's text.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from itertools import chain, pairwise
from typing import Final

from retrieval.indexing.document import MAX_HEADING_CHARS, Block, BlockKind, ParsedDocument
from retrieval.indexing.encoding import decode
from retrieval.indexing.metadata import collect

_ADORNMENT: Final = re.compile(r"([!-/:-@\[-`{-~])\1+[ \t]*$")
_HEADER_FIELD: Final = re.compile(r"([A-Za-z][\w-]*):(?:[ \t]+(.*))?$")
_FIELD: Final = re.compile(r"[ \t]*:((?![ \t:])(?:\\.|[^:\\\n])+):(?:[ \t]+(.*))?$")
_DIRECTIVE: Final = re.compile(r"\.\.[ \t]+(?:\|[^|\n]+\|[ \t]+)?([A-Za-z][\w:.+-]*?)[ \t]?::(?:[ \t]|$)")
_LABEL: Final = re.compile(r"\.\.[ \t]+_(`[^`]+`|(?:\\.|[^:`\\])+):[ \t]*$")
_TARGET: Final = re.compile(r"\.\.[ \t]+(?:_|\[)|__[ \t]")
_ITEM: Final = re.compile(r"(?:[*+\-•‣⁃]|\(?(?:\d+|#|[A-Za-z]|[ivxlcdmIVXLCDM]+)[.)])(?=[ \t]+\S|$)")
_SIMPLE_BORDER: Final = re.compile(r"[ \t]*=+(?:[ \t]+=+)+[ \t]*$")
_GRID_BORDER: Final = re.compile(r"[ \t]*\+(?:[-=]+\+)+[ \t]*$")

_CODE: Final = frozenset(
    {
        *("code", "code-block", "sourcecode", "parsed-literal", "highlight", "math", "raw", "productionlist"),
        *("doctest", "testcode", "testoutput", "testsetup", "ipython", "prompt", "console", "graphviz", "mermaid"),
    }
)
_SILENT: Final = frozenset({"toctree", "contents", "sectnum", "index", "default-role", "highlightlang", "meta"})
"""Directives that hold no text of the page: navigation, and settings of the processor."""

_LONGEST_TITLE: Final = 1000
"""Of a title with its inline markup."""

_ROLE_OR_LINK: Final = re.compile(r"(?:(?<![\w:+.-]):[\w:+.-]+:)?(`{1,2})([^`]+)\1_{0,2}")
_LINK_TARGET: Final = re.compile(r"[ \t]*<[^<>]+>$")
_EMPHASIS: Final = re.compile(r"(?<!\w)(\*{1,2})(?=\S)([^*]+)(?<=\S)\1(?!\w)")


def parse(data: bytes) -> ParsedDocument:
    """The document; its title is that of its header or field list, else its first top section's."""
    reader = _Reader(decode(data).split("\n"))
    blocks = tuple(reader.read())
    metadata = collect(reader.fields)
    title = metadata.get("title")
    return ParsedDocument(str(title) if title is not None else reader.first_title, blocks, metadata)


class _Reader:
    """Goes through the lines once. Indented bodies are read where they stand, so that nesting costs no stack."""

    def __init__(self, lines: list[str]) -> None:
        self.fields: list[tuple[str, object]] = []
        self.first_title: str | None = None
        self._lines = lines
        self._indents = [len(line) - len(line.lstrip()) if line.strip() else None for line in lines]
        self._closings = [
            at
            for at, line in enumerate(lines)
            if _SIMPLE_BORDER.match(line) and self._indents[at + 1 : at + 2] in ([None], [])
        ]
        self._at = 0
        self._outdented = 0
        self._styles: list[tuple[str, bool]] = []
        self._path: list[tuple[int, str]] = []
        self._anchor: str | None = None
        self._label: str | None = None
        self._anchors: set[str] = set()

    def read(self) -> Iterator[Block]:
        self._header()
        fields_are_metadata = True
        while self._at < len(self._lines):
            indent = self._indents[self._at]
            if indent is None:
                self._at += 1
                continue
            line = self._lines[self._at].rstrip()
            body = line[indent:]
            if indent == 0 and (block := self._section()):
                yield block
            elif body.startswith("..") and (body == ".." or body[2].isspace()):
                yield from self._explicit(body, indent)
            elif indent == 0 and fields_are_metadata and _FIELD.match(line):
                self._docinfo()
            else:
                fields_are_metadata = False
                yield from self._body(line, body, indent)

    def _header(self) -> None:
        """Mail-style fields at the very top, up to the first empty line."""
        found: list[tuple[str, object]] = []
        start = next((at for at, indent in enumerate(self._indents) if indent is not None), None)
        if start is None:
            return
        end = self._paragraph_end(start)
        for line in self._lines[start:end]:
            if line[0].isspace() and found:
                name, text = found[-1]
                found[-1] = (name, f"{text} {line.strip()}")
            elif match := _HEADER_FIELD.match(line):
                found.append((match[1], match[2] or ""))
            else:
                return
        if len(found) > 1 or [name.lower() for name, _ in found] == ["title"]:
            self.fields += found
            self._at = end

    def _docinfo(self) -> None:
        while self._at < len(self._lines) and (match := _FIELD.match(self._lines[self._at])):
            end = self._body_end(self._at, self._indents[self._at] or 0)
            parts = [match[2] or "", *(line.strip() for line in self._lines[self._at + 1 : end])]
            self.fields.append((match[1], " ".join(parts)))
            self._at = end

    def _section(self) -> Block | None:
        at = self._at
        first, second, third = ([*self._lines[at : at + 3], "", ""])[:3]
        mark = _ADORNMENT.match(first)
        if mark and second.strip() and third.rstrip() == first.rstrip() and _width(second) <= len(first.rstrip()):
            title, style, lines = second, (mark[1], True), 3
        elif (mark := _ADORNMENT.match(second)) and len(second.rstrip()) >= min(4, _width(first)):
            if _ADORNMENT.match(first):
                return None
            title, style, lines = first, (mark[1], False), 2
        else:
            return None
        text = _plain(title) if len(title) <= _LONGEST_TITLE else title.strip()
        if style not in self._styles:
            self._styles.append(style)
        level = self._styles.index(style) + 1
        if level == 1 and self.first_title is None:
            self.first_title = text
        if len(text) > MAX_HEADING_CHARS:
            self._at += lines
            return self._made("paragraph", at)
        while self._path and self._path[-1][0] >= level:
            self._path.pop()
        self._path.append((level, text))
        self._anchor = self._section_anchor(text)
        self._at += lines
        return self._made("heading", at)

    def _section_anchor(self, text: str) -> str | None:
        label, self._label = self._label, None
        anchor = label or _identifier(text)
        if anchor is None or anchor in self._anchors:
            # docutils numbers such sections through the whole page: no guess is better than a wrong one.
            return None
        self._anchors.add(anchor)
        return anchor

    def _explicit(self, body: str, indent: int) -> Iterator[Block]:
        """What starts with `..`: a directive, a target, a footnote or a comment."""
        start = self._at
        if match := _DIRECTIVE.match(body):
            yield from self._directive(match[1].lower(), indent)
        elif match := _LABEL.match(body):
            self._label = _identifier(match[1])
            self._at += 1
        elif _TARGET.match(body):
            self._at = self._paragraph_end(start, indent)
            yield self._made("paragraph", start)
        elif body == ".." and self._indents[start + 1 : start + 2] in ([None], []):
            # An empty comment ends what came before, and does not reach over the empty line.
            self._at += 1
        else:
            self._at = self._body_end(start, indent)

    def _directive(self, name: str, indent: int) -> Iterator[Block]:
        start = self._at
        if name in _CODE or name in _SILENT:
            self._at = self._body_end(start, indent)
            if name in _CODE:
                yield self._made("code", start)
            elif name == "meta":
                self.fields += [
                    (match[1], match[2]) for line in self._lines[start + 1 : self._at] if (match := _FIELD.match(line))
                ]
        else:
            # The line itself with its arguments and options; the body is read on as text.
            self._at = self._paragraph_end(start, indent)
            yield self._made("paragraph", start)
            yield from self._literal(start)

    def _body(self, line: str, body: str, indent: int) -> Iterator[Block]:
        start = self._at
        if _GRID_BORDER.match(line):
            yield from self._grid()
        elif _SIMPLE_BORDER.match(line) and (end := self._simple_end()) is not None:
            yield from self._simple(end)
        elif self._is_item(body, indent) or _FIELD.match(line):
            self._at = self._body_end(start, indent)
            yield self._made("list_item", start)
        elif body.startswith(">>>"):
            self._at = self._paragraph_end(start)
            yield self._made("code", start)
        else:
            self._at = self._paragraph_end(start)
            yield self._made("paragraph", start)
            yield from self._literal(start)

    def _literal(self, start: int) -> Iterator[Block]:
        """The indented block after a paragraph that ends in `::`."""
        last = self._at - 1
        if not self._lines[last].rstrip().endswith("::") or _DIRECTIVE.match(self._lines[last].lstrip()):
            return
        margin = min(indent for indent in self._indents[start : self._at] if indent is not None)
        end = self._body_end(last, self._indents[last] or 0)
        if end == self._at:
            end = self._body_end(last, margin)
        if end > self._at:
            code, self._at = self._at, end
            yield self._made("code", code)

    def _is_item(self, body: str, indent: int) -> bool:
        match = _ITEM.match(body)
        if match is None:
            return False
        # "A. Author wrote" at the start of a paragraph is no list: its next line is not indented.
        after = self._indents[self._at + 1] if self._at + 1 < len(self._lines) else None
        if after != indent or match[0] in "*+-•‣⁃":
            return True
        return bool(_ITEM.match(self._lines[self._at + 1][indent:]))

    def _grid(self) -> Iterator[Block]:
        start = self._at
        end = self._paragraph_end(start)
        borders = [at for at in range(start, end) if _GRID_BORDER.match(self._lines[at])]
        headed = next((place for place, at in enumerate(borders) if "=" in self._lines[at]), 0)
        yield from self._rows([start, *(at + 1 for at in borders[headed + 1 :]), end])

    def _simple_end(self) -> int | None:
        """One past the last border of a simple table: the border that an empty line follows."""
        place = bisect_right(self._closings, self._at)
        if place == len(self._closings):
            return None
        end = self._closings[place] + 1
        margin = self._indents[self._at] or 0
        # The line that ruled out the last candidate mostly rules out this one too.
        for at in chain((self._outdented,), range(self._at, end)) if margin else ():
            indent = self._indents[at]
            if self._at < at < end and indent is not None and indent < margin:
                self._outdented = at
                return None
        return end

    def _simple(self, end: int) -> Iterator[Block]:
        start = self._at
        borders = [at for at in range(start, end) if _SIMPLE_BORDER.match(self._lines[at])]
        body = borders[1] + 1 if len(borders) > 2 else start + 1
        # A line with an empty first column goes on with the row above it.
        margin = self._indents[start]
        rows = [at for at in range(body + 1, end - 1) if self._indents[at] == margin]
        yield from self._rows([start, *rows, end])

    def _rows(self, starts: list[int]) -> Iterator[Block]:
        for start, end in pairwise(starts):
            if end > start:
                self._at = end
                yield self._made("table_row", start)

    def _paragraph_end(self, start: int, indent: int | None = None) -> int:
        """One past the last line before an empty one or, given `indent`, before one that is indented no deeper."""
        end = start + 1
        while end < len(self._lines):
            inner = self._indents[end]
            if inner is None or (indent is not None and inner <= indent):
                break
            end += 1
        return min(end, len(self._lines))

    def _body_end(self, start: int, indent: int) -> int:
        """One past the last line, after the one at `start`, of what is indented deeper than `indent`."""
        end = start + 1
        for at in range(start + 1, len(self._lines)):
            inner = self._indents[at]
            if inner is not None:
                if inner <= indent:
                    break
                end = at + 1
        return end

    def _made(self, kind: BlockKind, start: int) -> Block:
        """The block of the lines from `start` up to where the reader is."""
        lines = self._lines[start : self._at]
        text = "\n".join(lines).strip("\n").rstrip()
        return Block(kind, text, tuple(text for _, text in self._path), self._anchor)


def _width(line: str) -> int:
    return len(line.strip())


def _plain(title: str) -> str:
    """A title without inline markup."""
    text = _ROLE_OR_LINK.sub(lambda match: _LINK_TARGET.sub("", match[2]) or match[2], title)
    return " ".join(_EMPHASIS.sub(r"\2", text).replace("\\", "").split())


def _identifier(text: str) -> str | None:
    """The fragment that docutils and Sphinx give a section or a label of this text."""
    ascii_text = unicodedata.normalize("NFKD", text.lower()).encode("ascii", "ignore").decode()
    return re.sub(r"^[-0-9]+|-+$", "", re.sub(r"[^a-z0-9]+", "-", ascii_text)) or None
