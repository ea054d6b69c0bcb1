"""The files of the Text REtrieval Conference: topics, and qrels, which say how relevant a document is to a topic.

Both are text. Each reader raises `ValueError`, whose message says what is wrong with which line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_TOPIC: Final = re.compile(r"<top>((?:(?!</?top>).)*+)</top>", re.DOTALL | re.IGNORECASE)
_FIELD: Final = re.compile(r"<(\w++)>([^<]*)")
_LABEL: Final = re.compile(r"(?:Number|Topic|Description|Narrative)\s*:\s*", re.IGNORECASE)
_HEADER: Final = frozenset({"query_id", "query-id", "qid", "topic"})


def topics(text: str) -> Iterator[tuple[str, str]]:
    """Id and text of each topic: the `<title>` of each `<top>`, or what stands after the id and a tab on each line."""
    if _TOPIC.search(text):
        for number, block in enumerate(_TOPIC.findall(text), start=1):
            fields = {name.lower(): _LABEL.sub("", value.strip(), count=1) for name, value in _FIELD.findall(block)}
            asked = " ".join((fields.get("title") or fields.get("query") or fields.get("desc") or "").split())
            if not fields.get("num") or not asked:
                raise ValueError(f"topic {number} has no <num> or no <title>")
            yield fields["num"].strip(), asked
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        name, tab, asked = line.partition("\t")
        if number == 1 and name.strip().lower() in _HEADER:
            continue
        if not tab or not name.strip() or not asked.strip():
            raise ValueError(f"line {number} is not an id, a tab and a text")
        yield name.strip(), asked.strip()


def qrels(text: str) -> dict[str, dict[str, int]]:
    """Grades by topic and document: lines of topic, iteration, document and grade, or of topic, document and grade.

    Columns are parted by tabs where a line has one, and by white space otherwise. A first line of names is passed over.
    """
    grades: dict[str, dict[str, int]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        columns = [column.strip() for column in line.split("\t")] if "\t" in line else line.split()
        if number == 1 and columns[0].lower() in _HEADER:
            continue
        match columns:
            case [topic, document, grade] | [topic, _, document, grade] if re.fullmatch(r"[+-]?\d+", grade):
                of_topic = grades.setdefault(topic, {})
                if of_topic.setdefault(document, int(grade)) != int(grade):
                    raise ValueError(f"line {number} judges a document again, otherwise")
            case _:
                raise ValueError(f"line {number} is not a topic, a document and a whole number")
    return grades
