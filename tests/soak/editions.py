"""The documents that the soak publishes, in editions: each section carries a mark that says which one it is of."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options
from retrieval.provider import Endpoint
from retrieval.settings import Settings

EDITIONS: Final = 4
SUBJECTS: Final = (
    "anchor barrel candle drawbridge engine fountain gallery harbour island jetty kettle lantern mirror needle "
    "orchard pulley quarry rudder saddle tunnel umbrella viaduct windmill yardarm zeppelin"
).split()
"""What the pages are about, in their order; an edition has the first of them."""

_MARK: Final = re.compile(r"\be(\d+)p(\d+)s(\d+)\b")
_SENTENCES: Final = 12


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """Which edition, page and section a text is of."""

    edition: int
    page: int
    section: int


def marks(text: str) -> list[Mark]:
    """The marks in a text in their order, each once."""
    found = (Mark(*map(int, match)) for match in _MARK.findall(text))
    return list(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class Edition:
    """What is in one edition. Editions differ in every section, and in how many pages and sections they have."""

    number: int

    @property
    def pages(self) -> int:
        return 16 + 2 * self.number

    @property
    def sections(self) -> int:
        return 3 + self.number % 2

    @property
    def paths(self) -> list[str]:
        return [path_of(page) for page in range(self.pages)]

    def page(self, number: int) -> list[Mark]:
        """The marks of a page from its beginning to its end."""
        return [Mark(self.number, number, section) for section in range(self.sections)]

    def build(self, folder: Path, settings: Settings) -> Path:
        """Indexes the edition with vectors; the database."""
        source = folder / f"docs-{self.number}"
        source.mkdir(parents=True)
        for page, path in enumerate(self.paths):
            sections = [f"## Part {mark.section}\n\n{_prose(SUBJECTS[page], mark)}\n" for mark in self.page(page)]
            text = f"# The {SUBJECTS[page]}\n\n" + "\n".join(sections)
            (source / path).write_text(text, encoding="utf-8")
        database = folder / f"database-{self.number}"
        build_table(Options(source, database, embed=True, endpoint=Endpoint(settings)))
        return database


def path_of(page: int) -> str:
    return f"page-{page:02}.md"


def _prose(subject: str, mark: Mark) -> str:
    name = f"e{mark.edition}p{mark.page}s{mark.section}"
    return " ".join(f"The {subject} of watch {watch} is kept at {name}." for watch in range(_SENTENCES))
