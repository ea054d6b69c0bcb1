"""More judged queries out of those there are: with typing errors, and with the pages that answer them taken away.

    python -m tests.corpus.variants typos QUERIES > typos.jsonl
    python -m tests.corpus.variants removal QUERIES > removed.jsonl

`typos` asks each answerable query with an error in one word. `removal` makes half of the answerable queries
unanswerable, and prints on standard error the `--exclude` options with which to index the documents for that.
"""

from __future__ import annotations

import json
import random
import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from retrieval.search.text import identifiers

Record = dict[str, Any]

_SEED: Final = 7
_WORD: Final = re.compile(r"[^\W\d_]{5,}")
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"


def typos(records: Iterable[Record], seed: int = _SEED) -> list[Record]:
    """Each answerable query once, one of its words misspelt; those without a word of five letters are left out."""
    draws = random.Random(seed)
    found: list[Record] = []
    for record in records:
        if not _is_answerable(record):
            continue
        names = identifiers(record["text"])
        words = [word for word in _WORD.finditer(record["text"]) if not any(word[0] in name for name in names)]
        if words:
            word = draws.choice(words)
            text = record["text"]
            wrong = text[: word.start()] + misspelt(word[0], draws) + text[word.end() :]
            found.append({**record, "text": wrong, "kind": "typo"})
    return found


def misspelt(word: str, draws: random.Random) -> str:
    """`word` with one slip of the fingers behind its first letter: letters swapped, missing, doubled or wrong."""
    while True:
        at = draws.randrange(1, len(word) - 1)
        before, letter, following, rest = word[:at], word[at], word[at + 1], word[at + 2 :]
        slip = draws.choice(
            (
                before + following + letter + rest,
                before + following + rest,
                before + letter + letter + following + rest,
                before + draws.choice(_LETTERS) + following + rest,
            )
        )
        if slip != word:
            return slip


def removal(records: Sequence[Record], seed: int = _SEED) -> tuple[list[Record], list[str]]:
    """The queries as they are judged once the pages that are returned beside them are gone.

    The pages are those that answer every other answerable query. Of the rest, queries that lost a page are left out.
    """
    answerable = [record for record in records if _is_answerable(record)]
    chosen = {id(record) for record in random.Random(seed).sample(answerable, len(answerable) // 2)}
    gone = {path for record in answerable if id(record) in chosen for path in _paths(record)}
    kept: list[Record] = []
    for record in records:
        if id(record) in chosen:
            kept.append(
                {"id": record["id"], "kind": "removed", "text": record["text"], "relevant": [], "answerable": False}
            )
        elif gone.isdisjoint(_paths(record)):
            kept.append(record)
    return kept, sorted(gone)


def _is_answerable(record: Record) -> bool:
    return bool(record.get("relevant"))


def _paths(record: Record) -> list[str]:
    return [label["path"] for label in record.get("relevant", ())] + record.get("outdated", [])


def main(arguments: Sequence[str]) -> None:
    if len(arguments) != 2 or arguments[0] not in {"typos", "removal"}:
        sys.exit(__doc__)
    lines = Path(arguments[1]).read_text(encoding="utf-8").splitlines()
    records: list[Record] = [json.loads(line) for line in lines if line.strip()]
    if arguments[0] == "typos":
        made = typos(records)
    else:
        made, gone = removal(records)
        sys.stderr.write(" ".join(f"--exclude {shlex.quote(f'/{path}')}" for path in gone) + "\n")
    for record in made:
        sys.stdout.write(json.dumps(record, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
