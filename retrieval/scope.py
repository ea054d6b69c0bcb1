"""Which rows of a table a call is about: what it narrows the search to, in which versions, and what is outdated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from retrieval.catalog import Catalog
from retrieval.layout import Layout
from retrieval.notes import Advice, Nothing
from retrieval.search import filters, lifecycle, versions
from retrieval.search.filters import NOTHING, Where
from retrieval.search.text import nfc
from retrieval.table import Table
from retrieval.types import Narrowing


@dataclass(frozen=True, slots=True)
class Scope:
    """The rows that are searched, and those that would be, were they not outdated."""

    asked: Where | None
    """What the caller narrows the search to, outdated or not."""
    shown: Where | None
    hidden: Where | None
    versions: dict[str, str]
    unknown: bool
    """Whether the collection or version that is asked for is not there, which `note` says."""
    note: str | None


def meant(narrowing: Narrowing, words: Sequence[str]) -> Narrowing:
    """`narrowing`, with what is outdated where its filters ask for that by name."""
    asks = lifecycle.asks_for_outdated(narrowing.filters, words)
    return replace(narrowing, include_outdated=True) if asks else narrowing


async def catalog_for(table: Table, layout: Layout, narrowing: Narrowing) -> Catalog | None:
    """The documents, where anything hangs on what they say of themselves."""
    names = {column.name for column in table.columns if column.kind != "other"}
    asked = narrowing.collection is not None or narrowing.version is not None
    if layout.path is None:
        return Catalog.of_documents(()) if asked else None
    told = bool(names & {"status", "superseded_by", "collection", "version"})
    return await table.catalog(layout) if told or asked else None


def scope_of(
    table: Table, layout: Layout, catalog: Catalog | None, narrowing: Narrowing, words: Sequence[str]
) -> Scope:
    """The rows for `narrowing`; documents of a status among `words` are outdated. Raises INVALID_FILTER."""
    given = [
        filters.parse(narrowing.filters, table.columns, layout) if narrowing.filters else None,
        filters.under(nfc(narrowing.path_prefix), layout) if narrowing.path_prefix else None,
        filters.excluding([nfc(one) for one in narrowing.exclude], layout) if narrowing.exclude else None,
    ]
    if catalog is None:
        asked = filters.all_of(given)
        return Scope(asked, asked, None, {}, unknown=False, note=None)
    choice = versions.chosen(
        catalog,
        narrowing.collection,
        narrowing.version,
        asked=given[0],
        among=lambda field, asked: filters.among(field, asked, table.columns),
    )
    asked = filters.all_of([*given, choice.where])
    hiding = None if narrowing.include_outdated else lifecycle.hiding(catalog, words, layout)
    hidden = filters.all_of([asked, filters.Not(hiding)]) if hiding is not None else None
    return Scope(
        asked,
        filters.all_of([asked, hiding]),
        hidden,
        dict(choice.versions),
        unknown=choice.where == NOTHING,
        note=choice.note,
    )


async def why_nothing(table: Table, scope: Scope, narrowing: Narrowing) -> list[str]:
    """Why there is no hit, unless the note on the scope says it."""
    if scope.unknown:
        return []
    within = ""
    if replace(narrowing, include_outdated=False) != Narrowing():
        within = " among the documents that pass the filters"
        if scope.asked is not None and not await table.matching(scope.asked):
            return [f"{Nothing.PASSING}: {Advice.LOOK_AT_CATALOG}."]
    if scope.shown is not None and not await table.matching(scope.shown):
        return [f"{Nothing.CURRENT}{within}: {Advice.OUTDATED_TOO} to search them."]
    return [f"{Nothing.MATCHING}{within}."]
