"""Secrets that tests hand to what they start, and the search for them, and for what was asked, in all that it wrote.

They are made up anew in each process, so that none is found by chance.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast


def _made_up(what: str) -> str:
    return f"planted-{what}-{secrets.token_hex(12)}"


AWS_SECRET: Final = _made_up("aws")
AWS_TOKEN: Final = _made_up("session")
EMBEDDING_KEY: Final = _made_up("embedding")
PLANTED: Final = {
    "the secret key of AWS": AWS_SECRET,
    "the session token of AWS": AWS_TOKEN,
    "the key of the embedding provider": EMBEDDING_KEY,
}

_ASKED: Final = frozenset({"query", "question", "filters", "exclude", "pathPrefix", "path", "id", "ids", "cursor"})
"""Arguments that hold a caller's own words; others are names of tables, columns and kinds of search."""
_SHORTEST: Final = 6
"""A shorter text is in any log by chance."""
_BEGINNING: Final = 40
"""Of a longer text its beginning is looked for, so that an excerpt is found too."""


def asked(body: bytes) -> Iterator[str]:
    """The texts that a JSON-RPC request asks by; none where it is no such request."""
    try:
        message: Any = json.loads(body)
        arguments: Any = message["params"]["arguments"]
    except (ValueError, LookupError, TypeError):
        return
    yield from questions(arguments)


def questions(arguments: object) -> Iterator[str]:
    """The texts that the arguments of a tool ask by."""
    if isinstance(arguments, dict):
        for name, value in cast("dict[str, Any]", arguments).items():
            if name in _ASKED:
                yield from _texts(value)


def spilt(written: str, questions: Iterable[str] = (), secrets: Mapping[str, str] = PLANTED) -> list[str]:
    """What of the secrets, and of `questions`, stands in `written`; nothing is quoted but the questions."""
    found = [name for name, secret in secrets.items() if secret in written]
    for question in dict.fromkeys(question[:_BEGINNING].strip() for question in questions):
        if len(question) >= _SHORTEST and (question in written or json.dumps(question)[1:-1] in written):
            found.append(f"the question {question!r}")
    return found


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in cast("Mapping[str, Any]", value).values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in cast("list[Any]", value):
            yield from _texts(each)
