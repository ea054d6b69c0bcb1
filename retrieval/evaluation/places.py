"""Whether what judgements name is in the table: documents by path, sections by heading. Figures over less would lie."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from retrieval.errors import BedivereError, ErrorCode
from retrieval.evaluation.judgements import Query, Section
from retrieval.indexing import state
from retrieval.indexing.formats import markdown
from retrieval.indexing.generation import STATE
from retrieval.indexing.rows import breadcrumb
from retrieval.layout import Layout
from retrieval.schema import BREADCRUMB_SEPARATOR
from retrieval.table import Table

_TOLD: Final = 3


@dataclass(frozen=True, slots=True)
class Resolved:
    """`documents` in the table; `empty` judged documents that the indexer read and found to have no text."""

    documents: int
    empty: int


async def resolve(queries: Collection[Query], table: Table, layout: Layout, folder: Path | None) -> Resolved:
    """Checks every document and section that `queries` name against the rows of `table`.

    A document without text has no rows: it resolves by the indexer's own record in `folder`, that of the table's
    generation, and counts as never found. Raises `BedivereError` JUDGEMENTS_INVALID where something does not resolve.
    """
    if layout.path is None:
        raise BedivereError(ErrorCode.JUDGEMENTS_INVALID, "The table has no column of paths to find documents by.")
    named = {path for query in queries for path in (*query.relevant, *query.outdated)}
    sections = {section for query in queries for section in query.sections}
    missing = _by_path(sections)
    found: set[object] = set()
    async for row in table.pages(layout, max(1, await table.count())):
        path = row["path"]
        found.add(path)
        if isinstance(path, str) and (open_sections := missing.get(path)):
            title, heading = row.get("title"), row.get("heading")
            missing[path] = {
                section for section in open_sections if not stands_under(_text(title), _text(heading), section.heading)
            }
    absent = named - found
    empty = absent & _without_text(folder) if absent else set[str]()
    if absent := sorted(absent - empty):
        raise _unresolved("document", absent)
    if headless := sorted(
        f"{section.path}: {section.heading}" for of_path in missing.values() for section in of_path if of_path
    ):
        raise _unresolved("section", headless)
    return Resolved(len(found), len(empty))


def stands_under(title: str, crumbs: str, heading: str) -> bool:
    """Whether a chunk of a document called `title`, with `crumbs` above it, is part of the section `heading`.

    `heading` is written as in the source: as the table shows it, or with the marks of Markdown.
    """
    above = f"{BREADCRUMB_SEPARATOR}{crumbs}{BREADCRUMB_SEPARATOR}"
    return any(
        title == name or f"{BREADCRUMB_SEPARATOR}{name}{BREADCRUMB_SEPARATOR}" in above for name in _names(heading)
    )


@cache
def _names(heading: str) -> tuple[str, ...]:
    """What the indexer may have made of a heading."""
    plain = markdown.parse(f"# {heading}\n".encode()).title or heading
    return tuple(dict.fromkeys(breadcrumb([name], "") or name for name in (heading, plain)))


def _by_path(sections: Iterable[Section]) -> dict[str, set[Section]]:
    found: dict[str, set[Section]] = {}
    for section in sections:
        found.setdefault(section.path, set()).add(section)
    return found


def _without_text(folder: Path | None) -> set[str]:
    known = state.load(folder / STATE) if folder else None
    scopes = known.scopes.values() if known else ()
    return {path for scope in scopes for path, record in scope.files.items() if not record.chunks}


def _unresolved(noun: str, names: list[str]) -> BedivereError:
    examples = ", ".join(name[:200] for name in names[:_TOLD]) + (", …" if len(names) > _TOLD else "")
    count = f"1 judged {noun} is" if len(names) == 1 else f"{len(names):,} judged {noun}s are"
    return BedivereError(ErrorCode.JUDGEMENTS_INVALID, f"{count} not in the table: {examples}. Is it another corpus?")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
