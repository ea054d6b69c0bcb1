"""Which documents no longer hold, by what they say of themselves, and which has taken the place of each."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from retrieval.catalog import Catalog, Document
from retrieval.layout import Layout
from retrieval.search.filters import NOTHING, AllOf, Condition, Not, Where
from retrieval.settings import OUTDATED_STATUSES

_NOT_WORDS: Final = re.compile(r"[\W_]+")
_MAX_STATUS_CHARS: Final = 200
_MAX_NAME_CHARS: Final = 200
_MAX_CHAIN: Final = 64
"""Documents that are looked at for one successor: a longer chain is a mistake, or a trap."""

_TOLD_IN_STATUS: Final = re.compile(r"\b(?:superseded|replaced|obsoleted|deprecated)\s+by\b[\s:]*(.+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Succession:
    """What has taken a document's place: `document` where it is indexed and holds, `name` as far as it is known."""

    document: Document | None = None
    name: str | None = None


def outdated(document: Document, words: Collection[str]) -> bool:
    """Whether `document` names a successor, or has a status that begins with one of `words`."""
    return document.superseded_by is not None or hides(document.status, words)


def hides(status: str | None, words: Collection[str]) -> bool:
    """Whether `status` begins with one of `words`: `**Superseded** by ADR-12` and `status: superseded` do so."""
    said = _plain(status or "").removeprefix("status ")
    return any(said == word or said.startswith(f"{word} ") for word in map(_plain, words) if word)


def _plain(text: str) -> str:
    return _NOT_WORDS.sub(" ", text[:_MAX_STATUS_CHARS].casefold()).strip()


def hiding(catalog: Catalog, words: Collection[str], layout: Layout) -> Where | None:
    """The condition that leaves outdated documents out; None where there are none.

    Statuses are compared with those that the documents have, letter by letter, so that it means what `outdated` does.
    """
    columns = {*layout.metadata, layout.title, layout.url}
    parts: list[Where] = []
    hidden = tuple(sorted(status for status in catalog.statuses if hides(status, words)))
    if hidden and "status" in columns & catalog.textual:
        parts.append(Not(Condition("status", "in", hidden)))
    if catalog.has_successors and "superseded_by" in columns:
        named: Where = Condition("superseded_by", "exists", True)
        if catalog.unnamed:
            named = AllOf((named, Not(Condition("superseded_by", "in", tuple(sorted(catalog.unnamed))))))
        parts.append(Not(named))
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else AllOf(tuple(parts))


def among_outdated(catalog: Catalog, words: Collection[str], layout: Layout) -> Where:
    """The condition that lets only outdated documents through: the contrary of `hiding`."""
    current = hiding(catalog, words, layout)
    return NOTHING if current is None else Not(current)


def successor(document: Document, catalog: Catalog, words: Collection[str] = OUTDATED_STATUSES) -> Document | None:
    """The indexed document that holds in place of `document`."""
    return succession(document, catalog, words).document


def succession(document: Document, catalog: Catalog, words: Collection[str] = OUTDATED_STATUSES) -> Succession:
    """Follows what documents name as their successors to one that holds.

    Of several successors the first counts whose line ends in such a document. Where none does, `name` is what the line
    of the first ends in: a name as it is written, or the title of a document that is outdated itself.
    """
    seen = {(document.prefix, document.path)}
    return _follow(document, catalog, words, seen)


def _follow(document: Document, catalog: Catalog, words: Collection[str], seen: set[tuple[str, str]]) -> Succession:
    written = _named(document)
    if written is None:
        return Succession()
    ends: str | None = None
    found = catalog.named(written, document)
    for following in found:
        key = (following.prefix, following.path)
        if key in seen or len(seen) > _MAX_CHAIN:
            continue
        seen.add(key)
        if not outdated(following, words):
            return Succession(following, _title(following))
        further = _follow(following, catalog, words, seen)
        if further.document is not None:
            return further
        ends = ends or further.name or _title(following)
    return Succession(None, ends if found else written[:_MAX_NAME_CHARS])


def _named(document: Document) -> str | None:
    """The successor as the document writes it, in its own field or within its status."""
    if document.superseded_by:
        return document.superseded_by
    told = _TOLD_IN_STATUS.search(document.status or "")
    return told[1].strip() if told else None


def _title(document: Document) -> str:
    return (document.title or document.path)[:_MAX_NAME_CHARS]


def label(document: Document, catalog: Catalog, words: Collection[str] = OUTDATED_STATUSES) -> str:
    """The state of an outdated document in words: its status, date and successor."""
    status = document.status if hides(document.status, words) else "Superseded"
    dated = f" ({document.date[:_MAX_NAME_CHARS]})" if document.date else ""
    told = f"{(status or 'Superseded')[:_MAX_STATUS_CHARS]}{dated}"
    following = succession(document, catalog, words)
    if following.document is not None:
        return f"{told}; replaced by {following.name} ({following.document.path})"
    return f"{told}; replaced by {following.name}" if following.name else told
