"""The pages of the documentation, read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import cast

from markdown_it import MarkdownIt
from markdown_it.token import Token

from retrieval.indexing.formats.markdown import slug

ROOT = Path(__file__).parents[1]
DOCS = sorted(path.name for path in (ROOT / "docs").glob("*.md"))
PAGES = ("README.md", "CONTRIBUTING.md", *(f"docs/{name}" for name in DOCS))
USER_PAGES = tuple(page for page in PAGES if page != "CONTRIBUTING.md")


@dataclass(frozen=True)
class Table:
    """A table of a page; cells are Markdown as it stands in the source."""

    columns: Sequence[str]
    rows: Sequence[Mapping[str, str]]


@dataclass(frozen=True)
class Fence:
    """A code block; `language` is empty where none is given or the block is indented."""

    language: str
    text: str


@dataclass(frozen=True)
class Page:
    """A parsed page of the documentation."""

    name: str
    tokens: Sequence[Token]

    @cached_property
    def headings(self) -> Sequence[str]:
        titles = [self.tokens[at + 1] for at, token in enumerate(self.tokens) if token.type == "heading_open"]
        return ["".join(part.content for part in title.children or ()) for title in titles]

    @cached_property
    def anchors(self) -> Sequence[str]:
        return [slug(heading) for heading in self.headings]

    @cached_property
    def links(self) -> Sequence[str]:
        inner = (part for token in self.tokens for part in token.children or ())
        return [str(part.attrs["href"]) for part in inner if part.type == "link_open"]

    @cached_property
    def spans(self) -> Sequence[str]:
        inner = (part for token in self.tokens for part in token.children or ())
        return [part.content for part in inner if part.type == "code_inline"]

    @cached_property
    def fences(self) -> Sequence[Fence]:
        return [Fence(token.info, token.content) for token in self.tokens if token.type in {"fence", "code_block"}]

    def tables(self, under: str | None = None) -> Sequence[Table]:
        """The tables of the page, or those below the heading `under` and before the next."""
        found: list[Table] = []
        heading = ""
        cells: list[list[str]] = []
        for at, token in enumerate(self.tokens):
            match token.type:
                case "heading_open":
                    heading = self.tokens[at + 1].content
                case "table_open":
                    cells = []
                case "tr_open":
                    cells.append([])
                case "th_open" | "td_open":
                    cells[-1].append(self.tokens[at + 1].content)
                case "table_close" if under in {None, heading}:
                    head, *body = cells
                    found.append(Table(head, [dict(zip(head, row, strict=True)) for row in body]))
                case _:
                    pass
        return found

    def rows(self, column: str, under: str | None = None) -> Sequence[Mapping[str, str]]:
        """The rows of all tables whose first column is `column`."""
        return [row for table in self.tables(under) if table.columns[0] == column for row in table.rows]


@cache
def page(name: str) -> Page:
    parser = MarkdownIt("commonmark").enable("table")
    return Page(name, parser.parse((ROOT / name).read_text(encoding="utf-8")))


def names(rows: Sequence[Mapping[str, str]], column: str) -> list[str]:
    """The cells of a column, without the marks of code."""
    return [row[column].replace("`", "") for row in rows]


def code(value: object) -> str:
    if isinstance(value, tuple):
        value = ", ".join(
            str(part) for part in cast("tuple[object, ...]", value)
        )  # as it is written in the environment
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")
