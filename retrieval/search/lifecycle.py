"""Which documents no longer hold, by what they say of themselves, and which has taken the place of each."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from retrieval.catalog import Catalog, Document
from retrieval.layout import Layout
from retrieval.notes import Advice
from retrieval.search import values
from retrieval.search.filters import NOTHING, AllOf, Condition, Not, Where, folded
from retrieval.settings import OUTDATED_STATUSES

_NOT_WORDS: Final = re.compile(r"[\W_]+")
_MAX_STATUS_CHARS: Final = 200
_MAX_NAME_CHARS: Final = 200
_LISTED: Final = 5
_MAX_CHAIN: Final = 64
"""Documents that are looked at for one successor: a longer chain is a mistake, or a trap."""

_TOLD_IN_STATUS: Final = re.compile(r"\b(?:superseded|replaced|obsoleted|deprecated)\s+by\b[\s:]*(.+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Succession:
    """What has taken a document's place: `document` where it is indexed and holds, `name` as far as it is known."""

    document: Document | None = None
    name: str | None = None
    circle: tuple[str, ...] = ()
    """Where successors lead back to where they came from: those that do, in their order; one names itself."""


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
    of the first ends in: a name as it is written, the title of a document that is outdated itself, or, for `circle`,
    none.
    """
    return _follow((document,), catalog, words, {_key(document)})


def _follow(
    line: tuple[Document, ...], catalog: Catalog, words: Collection[str], seen: set[tuple[str, str]]
) -> Succession:
    """What the last document of `line` ends in; each other document of it has named the one after it."""
    document = line[-1]
    written = _named(document)
    if written is None:
        return Succession()
    found = catalog.named(written, document)
    if not found:
        if catalog.names_itself(written, document):
            return Succession(circle=(_title(document),))
        return Succession(None, written[:_MAX_NAME_CHARS])
    ends: Succession | None = None
    for following in found:
        if following in line:
            ends = ends or Succession(circle=tuple(map(_title, line[line.index(following) :])))
        if _key(following) in seen or len(seen) > _MAX_CHAIN:
            continue
        seen.add(_key(following))
        if not outdated(following, words):
            return Succession(following, _title(following))
        further = _follow((*line, following), catalog, words, seen)
        if further.document is not None:
            return further
        ends = ends or (further if further.name or further.circle else Succession(None, _title(following)))
    return ends or Succession()


def _key(document: Document) -> tuple[str, str]:
    return (document.prefix, document.path)


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
    dated = f" ({document.date[:_MAX_NAME_CHARS]})" if document.date else ""
    told = f"{_standing(document, words) or 'Superseded'}{dated}"
    following = succession(document, catalog, words)
    if following.document is not None:
        return f"{told}; replaced by {_shown(following.document)}"
    if following.circle:
        return f"{told}; {_going_round(document, following.circle)}"
    return f"{told}; replaced by {following.name}" if following.name else told


def note(
    document: Document,
    catalog: Catalog,
    words: Collection[str] = OUTDATED_STATUSES,
    *,
    passes: bool = True,
) -> str:
    """One sentence on an outdated document that was left out: its status, its successor, and how to see it.

    `passes` says whether its successor, where it is indexed, is one that the call may find.
    """
    following = succession(document, catalog, words)
    told = f"{_shown(document)} is outdated ({_standing(document, words) or 'superseded'}) and left out"
    if following.document is not None:
        unseen = "" if passes else ", and does not pass the filters"
        told += f": {_shown(following.document)} has taken its place{unseen}"
    elif following.circle:
        told += f": {_going_round(document, following.circle)}"
    elif following.name:
        told += f": its successor, {following.name}, is not among the current documents"
    return f"{told}; {Advice.OUTDATED_TOO} to see it."


def asks_for_outdated(filters: Mapping[str, object], words: Collection[str] = OUTDATED_STATUSES) -> bool:
    """Whether a caller's `filters`, as they are written, name what hides a document: a status or a successor.

    To be answered with nothing, for want of `includeOutdated`, is not what was asked for.
    """
    for name, asked in filters.items():
        field = folded(name.removeprefix("metadata."))
        comparisons = cast("Mapping[str, object]", asked) if isinstance(asked, Mapping) else {"in": asked}
        for op, value in comparisons.items():
            if op not in {"eq", "in", "prefix", "exists"}:
                continue
            named = cast("Sequence[object]", value) if isinstance(value, list | tuple) else [value]
            if field == "status" and any(isinstance(one, str) and hides(one, words) for one in named):
                return True
            if field == "supersededby" and not any(values.boolean(one) is False for one in named):
                return True
    return False


def _standing(document: Document, words: Collection[str]) -> str | None:
    """Its status where that hides it: a successor counts whatever the status says."""
    status = document.status
    return status[:_MAX_STATUS_CHARS] if status and hides(status, words) else None


def _shown(document: Document) -> str:
    return f"{document.title[:_MAX_NAME_CHARS]} ({document.path})" if document.title else document.path


def _going_round(document: Document, circle: Sequence[str]) -> str:
    if len(circle) > 1:
        listed = ", ".join(circle[:_LISTED]) + (f" and {len(circle) - _LISTED} more" if len(circle) > _LISTED else "")
        return f"its successors lead round in a circle: {listed}"
    if circle[0] == _title(document):
        return "it names itself as its successor"
    return f"its successor, {circle[0]}, names itself as its own"
