"""What replies and errors tell an agent to pass, in the words of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from retrieval.notes import Advice

OWN_WORDS: Final[Mapping[Advice, str]] = {
    Advice.ASK_AGAIN: "Ask in other words, or pass --min-score",
    Advice.OUTDATED_TOO: "pass --include-outdated",
    Advice.ANOTHER_VERSION: "pass --version",
    Advice.WITHOUT_COLLECTION: "leave --collection out",
    Advice.WITHOUT_VERSION: "leave --version out",
    Advice.LOOK_AT_CATALOG: "check --filter, --path-prefix, --exclude, --collection and --version",
    Advice.SET_DATABASE: "run bedivere init, pass --db, or set LANCEDB_PATH",
    Advice.SET_TEXT_COLUMN: "Set LANCEDB_TEXT_COLUMN",
}


def in_own_words(text: str) -> str:
    """A note or the sentence of an error, with the options that a person at a terminal has."""
    for advice, own in OWN_WORDS.items():
        text = text.replace(advice, own)
    # Whoever sits at this terminal is the one that an agent would have to turn to.
    return text.replace("for the server's owner: ", "")
