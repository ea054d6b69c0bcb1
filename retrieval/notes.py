"""What notes and errors say in the same words each time, for a reader that is no agent to be told it in his own.

Notes speak to an agent, which passes arguments; the command line has options instead, see `handler.cli.wording`.
"""

from __future__ import annotations

from enum import StrEnum


class Nothing(StrEnum):
    """How the note begins that says why there is no hit."""

    RELEVANT = "Nothing relevant was found"
    MATCHING = "Nothing in the table matches any word of the query"
    CURRENT = "All documents are outdated"
    PASSING = "No document passes the filters"


class Advice(StrEnum):
    """What the reader can do about it."""

    ASK_AGAIN = "Say so, ask in other words, or pass minScore"
    OUTDATED_TOO = "pass includeOutdated true"
    ANOTHER_VERSION = "pass version"
    WITHOUT_COLLECTION = "leave collection out"
    WITHOUT_VERSION = "leave version out"
    LOOK_AT_CATALOG = "lancedb_catalog lists the documents and what they say of themselves"
    SET_DATABASE = "set LANCEDB_PATH"
    SET_TEXT_COLUMN = "Set LANCEDB_TEXT_COLUMN, or pass textColumn in the call"


def counted(count: int, noun: str) -> str:
    """`count` of what a `noun` calls, which is regular: 1 hit, 1,200 hits."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
