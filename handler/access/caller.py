"""Who is calling, and what a caller may do: a scope for each kind of tool, and any others for private collections."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from retrieval.errors import BedivereError, ErrorCode

TOOL_SCOPES: Final[Mapping[str, str]] = {
    "lancedb_search": "search",
    "lancedb_query": "search",
    "lancedb_fetch": "fetch",
    "lancedb_catalog": "catalog",
    "lancedb_status": "status",
}
"""The scope that a tool takes; lancedb_version takes none."""

EVERY_TOOL: Final = tuple(dict.fromkeys(TOOL_SCOPES.values()))
"""Scopes for every tool, in the order in which they are shown."""

_SCOPE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}")
_MAX_SCOPES: Final = 50


@dataclass(frozen=True, slots=True)
class Caller:
    """One authenticated caller. `name` may be logged: it is the name of a key, or a token's subject made readable."""

    name: str
    scopes: frozenset[str]
    limit: str | None = None
    """Calls in a time, such as `60/min`, where the caller has a limit of its own."""
    all_collections: bool = False
    """Whether no collection is private to this caller: it was let in by other means than scopes."""


def checked_scopes(given: Iterable[str]) -> tuple[str, ...]:
    """`given` without repeats. Raises `BedivereError` INVALID_ARGUMENT for what is no scope, or for too many."""
    scopes = tuple(dict.fromkeys(given))
    wrong = next((scope for scope in scopes if not _SCOPE.fullmatch(scope)), None)
    if wrong is not None or not scopes or len(scopes) > _MAX_SCOPES:
        raise BedivereError(
            ErrorCode.INVALID_ARGUMENT,
            f"Scopes are 1 to {_MAX_SCOPES} words of letters, digits and . _ : / -, separated by commas, such as "
            f"{','.join(EVERY_TOOL)}.",
        )
    return scopes


def missing_scope(scopes: Collection[str], tool: object) -> str | None:
    """The scope that a call of `tool` takes and `scopes` lacks; None where there is none."""
    needed = TOOL_SCOPES.get(tool) if isinstance(tool, str) else None
    return needed if needed is not None and needed not in scopes else None
