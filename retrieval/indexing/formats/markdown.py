"""Markdown: CommonMark with GitHub's tables, front matter, and the admonitions of mkdocs.

A block's text is its lines as they stand in the source, so links, emphasis and code stay readable and searchable.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, Literal

import yaml
from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.token import Token

from retrieval.indexing.document import MAX_HEADING_CHARS, Block, BlockKind, ParsedDocument, Scalar
from retrieval.indexing.encoding import decode
from retrieval.indexing.metadata import collect

_FRONT_MATTER_CHARS: Final = 64 * 1024
_LONGEST_HEADING: Final = 1000

_ADMONITION: Final = re.compile(r"(?:!!!|\?\?\?\+?)[ \t]+[A-Za-z]|===[!+]?[ \t]+[\"']")
_ATTRIBUTES: Final = re.compile(r"[ \t]*\{:?[ \t]*([#.][^{}]*)\}[ \t]*$")
_ID_ATTRIBUTE: Final = re.compile(r"#([^\s{}#]+)")
_HTML_ID: Final = re.compile(r"<\w[^>]*?\s(?:name|id)\s*=\s*[\"']?([^\"'\s>]+)", re.IGNORECASE)
_YAML_ENTRY: Final = re.compile(r"(?P<key><<|[\w\"'][\w\"' .-]*):(?:\s|$)")
_TOML_ENTRY: Final = re.compile(r"(?P<key>[\w\"'][\w\"'.-]*)[ \t]*=")
_GOES_ON: Final = re.compile(r"[ \t\]}]|-(?:[ \t]|$)")
_BRACKET: Final = re.compile(r"[\[\]{}]")
_DEEPEST_YAML: Final = 32
_COMMENT: Final = re.compile(r"[ \t]#")

_PLAIN_NUMBER: Final = re.compile(r"[-+]?(?:0|[1-9]\d{0,14})(\.\d+)?")
_NO_VALUE: Final = "tag:yaml.org,2002:null"


def parse(data: bytes) -> ParsedDocument:
    """The document; its title is the front matter's, else the first heading of level 1."""
    text = decode(data)
    metadata, start = _front_matter(text)
    reader = _Reader(text[start:])
    blocks = tuple(reader.read())
    title = metadata.get("title")
    return ParsedDocument(str(title) if title is not None else reader.first_h1, blocks, metadata)


def slug(text: str) -> str:
    """The fragment GitHub gives a heading of this text."""
    kept = (char for char in text.lower() if char.isalnum() or char in "-_ " or unicodedata.category(char)[0] == "M")
    return "".join(kept).strip().replace(" ", "-")


class _Reader:
    def __init__(self, text: str) -> None:
        self.first_h1: str | None = None
        self._text = text
        self._lines = text.split("\n")
        self._done = 0
        self._path: list[tuple[int, str]] = []
        self._anchor: str | None = None
        self._slugs: dict[str, int] = {}
        self._references: dict[str, object] = {}

    def read(self) -> Iterator[Block]:
        tokens = _BLOCKS.parse(self._text, self._references)
        place = 0
        while place < len(tokens):
            token = tokens[place]
            last = place
            if token.map is not None:
                start, end = token.map
                match token.type:
                    case "heading_open":
                        yield from self._between(start)
                        yield self._heading(token, tokens[place + 1].content, start, end)
                    case "fence":
                        yield from self._block("code", start, end)
                    case "code_block":
                        # Its indentation is what makes it code.
                        yield from self._block("code", start, end, dedent=False)
                    case "html_block":
                        yield from self._html(start, end)
                    case "list_item_open":
                        last = _close(tokens, place)
                        yield from self._block("list_item", start, end)
                    case "table_open":
                        last = _close(tokens, place)
                        yield from self._table(tokens[place:last], start, end)
                    case "admonition_open":
                        yield from self._block("paragraph", start, start + 1)
                    case "paragraph_open" | "blockquote_open" | "hr":
                        last = _close(tokens, place)
                        yield from self._block("paragraph", start, end)
                    case _:
                        pass
            place = last + 1
        yield from self._between(len(self._lines))

    def _between(self, end: int) -> Iterator[Block]:
        """Lines that no token covers, such as link reference definitions."""
        if self._done < end:
            text = self._source(self._done, end)
            self._done = end
            if text:
                yield self._made("paragraph", text)

    def _block(self, kind: BlockKind, start: int, end: int, *, dedent: bool = True) -> Iterator[Block]:
        yield from self._between(start)
        if text := self._source(start, end, dedent=dedent):
            yield self._made(kind, text)
        self._done = max(self._done, end)

    def _html(self, start: int, end: int) -> Iterator[Block]:
        yield from self._between(start)
        if text := _without_comments(self._source(start, end)).strip():
            yield self._made("paragraph", text)
        self._done = end

    def _table(self, tokens: list[Token], start: int, end: int) -> Iterator[Block]:
        rows = [token.map[0] for token in tokens if token.type == "tr_open" and token.map]
        # The first block is header, separator and first row: a separator alone says nothing.
        for first, following in pairwise([start, *rows[2:], end]):
            yield from self._block("table_row", first, following)

    def _heading(self, token: Token, content: str, start: int, end: int) -> Block:
        level = int(token.tag[1])
        text, anchor = self._heading_text(content)
        source = self._source(start, end)
        self._done = end
        if level == 1 and self.first_h1 is None:
            self.first_h1 = text or None
        if not 0 < len(text) <= MAX_HEADING_CHARS:
            return self._made("paragraph", source)
        while self._path and self._path[-1][0] >= level:
            self._path.pop()
        self._path.append((level, text))
        self._anchor = anchor or self._unique_slug(text)
        return self._made("heading", source)

    def _heading_text(self, content: str) -> tuple[str, str | None]:
        anchor: str | None = None
        if match := _ATTRIBUTES.search(content[-_LONGEST_HEADING:]):
            content = content[: len(content) - len(match[0])]
            if named := _ID_ATTRIBUTE.search(match[1]):
                anchor = named[1]
        if len(content) > _LONGEST_HEADING:
            return " ".join(content.split()), anchor
        words: list[str] = []
        for token in _INLINE.parseInline(content, self._references)[0].children or ():
            if token.type in ("softbreak", "hardbreak"):
                words.append(" ")
            elif token.type != "html_inline":
                words.append(token.content)
            elif anchor is None and (named := _HTML_ID.match(token.content)):
                anchor = named[1]
        return " ".join("".join(words).split()), anchor

    def _unique_slug(self, text: str) -> str | None:
        name = slug(text)
        count = self._slugs.get(name, 0)
        self._slugs[name] = count + 1
        return (f"{name}-{count}" if count else name) or None

    def _made(self, kind: BlockKind, text: str) -> Block:
        return Block(kind, text, tuple(text for _, text in self._path), self._anchor)

    def _source(self, start: int, end: int, *, dedent: bool = True) -> str:
        lines = self._lines[max(start, self._done) : end]
        return "\n".join(_dedented(lines) if dedent else lines).strip("\n").rstrip()


def _dedented(lines: list[str]) -> list[str]:
    """Lines without the indentation that all share: the body of an admonition is no code."""
    filled = [line for line in lines if line.strip()]
    margin = min((len(line) - len(line.lstrip(" ")) for line in filled), default=0)
    return [line[margin:] for line in lines] if margin else lines


def _close(tokens: list[Token], place: int) -> int:
    """The place of the token that closes the one at `place`."""
    token = tokens[place]
    if token.nesting == 0:
        return place
    return next(
        at for at in range(place + 1, len(tokens)) if tokens[at].nesting < 0 and tokens[at].level == token.level
    )


def _without_comments(html: str) -> str:
    kept: list[str] = []
    at = 0
    while (opened := html.find("<!--", at)) != -1:
        closed = html.find("-->", opened + 4)
        if closed == -1:
            # A comment that never ends is a slip, and what follows it is the rest of the document.
            break
        kept.append(html[at:opened])
        at = closed + 3
    kept.append(html[at:])
    return "".join(kept)


def _admonition(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A markdown-it rule: `!!! note`, `??? note` or `=== "Tab"` and the lines indented under it."""
    if state.is_code_block(start):
        return False
    if not _ADMONITION.match(state.src, state.bMarks[start] + state.tShift[start], state.eMarks[start]):
        return False
    if silent:
        return True
    indent = state.blkIndent + 4
    stop = line = start + 1
    while line < end and (state.isEmpty(line) or state.sCount[line] >= indent):
        line += 1
        if not state.isEmpty(line - 1):
            stop = line
    token = state.push("admonition_open", "div", 1)
    token.map = [start, stop]
    outer = state.blkIndent, state.lineMax, state.parentType
    state.blkIndent, state.lineMax, state.parentType = indent, stop, "admonition"
    state.md.block.tokenize(state, start + 1, stop)
    state.blkIndent, state.lineMax, state.parentType = outer
    state.push("admonition_close", "div", -1)
    state.line = stop
    return True


def _block_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark").enable("table")
    # Inline markup is of interest in headings only, and half the time of a parse.
    parser.disable(["inline", "text_join"])
    parser.block.ruler.before(
        "fence", "admonition", _admonition, {"alt": ["paragraph", "reference", "blockquote", "list"]}
    )
    return parser


_BLOCKS: Final = _block_parser()
_INLINE: Final = MarkdownIt("commonmark").enable("strikethrough")


def _front_matter(text: str) -> tuple[dict[str, Scalar], int]:
    """The metadata at the top of `text`, and where the text after it starts."""
    fence = text[:3]
    if fence not in ("---", "+++") or text[3 : text.find("\n")].strip():
        return {}, 0
    start = text.find("\n") + 1
    end_line = re.compile(r"^(?:---|\.\.\.)[ \t]*$" if fence == "---" else r"^\+\+\+[ \t]*$", re.MULTILINE)
    end = end_line.search(text, start, start + _FRONT_MATTER_CHARS) if start else None
    if end is None:
        return {}, 0
    source = text[start : end.start()]
    pairs = _yaml_pairs(source) if fence == "---" else _toml_pairs(source)
    if pairs is None:
        pairs = _salvaged(source, "yaml" if fence == "---" else "toml")
    if pairs is None:
        return {}, 0
    return collect(pairs), end.end()


def _salvaged(source: str, syntax: Literal["yaml", "toml"]) -> list[tuple[str, object]] | None:
    """What can be read of broken front matter, entry by entry; None where it is text between two rules.

    An entry that is broken itself, by a colon in its value or a quote left open, is taken by the word.
    """
    starts = _YAML_ENTRY if syntax == "yaml" else _TOML_ENTRY
    entries: list[tuple[re.Match[str], list[str]]] = []
    for line in source.split("\n"):
        if not line.strip() or line[0] == "#":
            continue
        if start := starts.match(line):
            entries.append((start, [line]))
        elif entries and syntax == "toml" and line[0] == "[":
            # What stands in a table is nested, and left out of sound front matter too.
            break
        elif entries and _GOES_ON.match(line):
            entries[-1][1].append(line)
        else:
            return None
    pairs: list[tuple[str, object]] = []
    for start, lines in entries:
        entry = "\n".join(lines)
        read = _yaml_pairs(entry) if syntax == "yaml" else _toml_pairs(entry)
        pairs += [(start["key"].strip("\"'"), _by_the_word(start, lines))] if read is None else read
    return pairs


def _by_the_word(start: re.Match[str], lines: list[str]) -> str | None:
    value = lines[0][start.end() :].strip()
    if not value:
        return None
    value = " ".join([value, *(line.strip() for line in lines[1:])])
    if value[0] in "\"'":
        return value[1:].rstrip().removesuffix(value[0])
    return _COMMENT.split(value, maxsplit=1)[0]


def _toml_pairs(source: str) -> list[tuple[str, object]] | None:
    try:
        return list(tomllib.loads(source).items())
    except (tomllib.TOMLDecodeError, RecursionError, ValueError):
        return None


def _yaml_pairs(source: str) -> list[tuple[str, object]] | None:
    """The top-level keys of a YAML mapping and their values; None where it is no mapping.

    Only the node tree is built: PyYAML's constructors would expand aliases and merges without bound, make 1.1 of
    `version: 1.10`, 90 of `1:30`, and False of `lang: no`.
    """
    if _nesting(source) > _DEEPEST_YAML:
        return None
    try:
        root = yaml.compose(source, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError, ValueError):
        return None
    if root is None:
        return []
    if not isinstance(root, yaml.MappingNode):
        return None
    pairs: list[tuple[str, object]] = []
    for name, node in root.value:
        if not isinstance(name, yaml.ScalarNode):
            continue
        if isinstance(node, yaml.ScalarNode):
            pairs.append((name.value, _yaml_scalar(node)))
        elif isinstance(node, yaml.SequenceNode) and all(isinstance(item, yaml.ScalarNode) for item in node.value):
            pairs.append((name.value, [item.value for item in node.value]))
    return pairs


def _nesting(source: str) -> int:
    """How deep the brackets are nested, roughly: PyYAML's scanner goes through all that are open with each token."""
    depth = deepest = 0
    for match in _BRACKET.finditer(source):
        depth = max(0, depth + (1 if match[0] in "[{" else -1))
        deepest = max(deepest, depth)
    return deepest


def _yaml_scalar(node: yaml.ScalarNode) -> object:
    text: str = node.value
    if node.style is not None:
        return text
    if node.tag == _NO_VALUE:
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if match := _PLAIN_NUMBER.fullmatch(text):
        if not match[1]:
            return int(text)
        # A float that is not written back as it was read is a version or a section number.
        return float(text) if str(float(text)) == text else text
    return text
