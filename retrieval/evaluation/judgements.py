"""Judged queries and how they are read: one JSON object a line, or topics with relevance judgements beside them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from retrieval.errors import BedivereError, ErrorCode
from retrieval.evaluation import trec

UNANSWERABLE: Final = "noanswer"
LIFECYCLE: Final = "lifecycle"
JUDGED: Final = "judged"
"""The kind of a query that names none."""

_SHAPES: Final = {
    "id": "a text or a whole number",
    "text": "a text",
    "kind": "a text",
    "relevant": "a list of objects",
    "answerable": "true or false",
    "current": "a list of paths",
    "outdated": "a list of paths",
}
_LABEL_SHAPES: Final = {"path": "a text", "heading": "a text", "relevance": "a whole number"}
"""What each key of a line must be, and each key of an entry of its `relevant`."""

_QRELS: Final = "qrels.tsv"
_TOLD: Final = 3


@dataclass(frozen=True, slots=True)
class Section:
    """A passage that answers: the section of the document at `path` under `heading`, its subsections included."""

    path: str
    heading: str


@dataclass(frozen=True, slots=True)
class Query:
    """A question and what answers it: documents by path with their grade, at least 1, and sections where known.

    Where nothing answers it, `answerable` is False. `outdated` documents match its words and must stand below.
    """

    id: str
    text: str
    kind: str = JUDGED
    answerable: bool = True
    relevant: Mapping[str, int] = field(default_factory=dict[str, int])
    sections: tuple[Section, ...] = ()
    outdated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Judgements:
    """Queries that have judgements, in the order of their file; `left_out` counts those that have none."""

    queries: tuple[Query, ...]
    left_out: int = 0

    def fingerprint(self) -> str:
        """SHA-256 in hexadecimal over all that is judged: equal means that figures can be compared."""
        digest = hashlib.sha256()
        for query in sorted(self.queries, key=lambda query: query.id):
            sections = sorted((section.path, section.heading) for section in query.sections)
            relevant = sorted(query.relevant.items())
            judged = [query.id, query.text, query.kind, query.answerable, relevant, sections, sorted(query.outdated)]
            digest.update(json.dumps(judged).encode())
        return digest.hexdigest()


def read(queries: Path, qrels: Path | None = None) -> Judgements:
    """The judged queries of a file: .jsonl, TREC topics, or a text a line after its id and a tab.

    Topics, and lines of JSON without labels of their own, take their judgements from `qrels`, or from `qrels.tsv`
    beside the file. Raises `BedivereError` JUDGEMENTS_INVALID.
    """
    text = _text_of(queries)
    if queries.suffix.lower() in {".jsonl", ".ndjson"}:
        found = [_query(number, line) for number, line in _lines(text)]
    else:
        try:
            found = [(Query(name, asked), False) for name, asked in trec.topics(text)]
        except ValueError as error:
            raise _invalid(f"{queries.name} cannot be read: {error}.") from None
    _refuse_twins(query for query, _ in found)
    labelled = [query for query, has_labels in found if has_labels]
    bare = {query.id: query for query, has_labels in found if not has_labels}
    beside = queries.with_name(_QRELS)
    if qrels is None and bare and beside.is_file():
        qrels = beside
    if qrels is None and bare:
        count = "1 query has" if len(bare) == 1 else f"{len(bare):,} queries have"
        raise _invalid(f"{count} no judgements: name their file with --qrels.")
    judged = _graded(bare, qrels) if qrels is not None else {}
    kept = {query.id: query for query in labelled} | judged
    if not kept:
        raise _invalid(f"{queries.name} holds no judged query.")
    # In the order of the file, whichever way each was judged.
    ordered = tuple(kept[query.id] for query, _ in found if query.id in kept)
    return Judgements(ordered, len(bare) - len(judged))


def _graded(queries: Mapping[str, Query], qrels: Path) -> dict[str, Query]:
    """Those of `queries` for which the file of judgements names a relevant document."""
    try:
        grades = trec.qrels(_text_of(qrels))
    except ValueError as error:
        raise _invalid(f"{qrels.name} cannot be read: {error}.") from None
    if strangers := [name for name in grades if name not in queries]:
        count = "1 query that is" if len(strangers) == 1 else f"{len(strangers):,} queries that are"
        raise _invalid(f"{qrels.name} judges {count} not there: {_few(strangers)}.")
    relevant = {
        name: {document: grade for document, grade in documents.items() if grade > 0}
        for name, documents in grades.items()
    }
    return {name: replace(queries[name], relevant=documents) for name, documents in relevant.items() if documents}


class _Label(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")

    path: str
    heading: str | None = None
    relevance: int = 1


class _Line(BaseModel):
    """A line of a .jsonl file of queries."""

    model_config = ConfigDict(strict=True, extra="ignore")

    id: str
    text: str
    kind: str | None = None
    relevant: list[_Label] | None = None
    answerable: bool | None = None
    current: list[str] | None = None
    outdated: list[str] | None = None


def _query(number: int, line: str) -> tuple[Query, bool]:
    """The query of a line, and whether the line says itself what answers it."""
    try:
        record: Any = json.loads(line)
        if isinstance(record, dict) and isinstance(identifier := cast("dict[str, Any]", record).get("id"), int):
            record["id"] = str(identifier)
        read = _Line.model_validate(record)
    except (ValueError, RecursionError) as error:
        why = _why(error) if isinstance(error, ValidationError) else "is not JSON"
        raise _invalid(f"Line {number} of the queries {why}.") from None
    labels = [*(read.relevant or ()), *(_Label(path=path) for path in read.current or ())]
    relevant: dict[str, int] = {}
    for label in labels:
        relevant[label.path] = max(relevant.get(label.path, 0), label.relevance)
    answerable = bool(labels) if read.answerable is None else read.answerable
    has_labels = read.relevant is not None or read.current is not None or read.answerable is not None
    if has_labels and answerable and not relevant:
        raise _invalid(f"Query {read.id}: it is answerable, and no document that answers it is named.")
    if has_labels and not answerable and relevant:
        raise _invalid(f"Query {read.id}: it is not answerable, and documents that answer it are named.")
    if any(grade < 1 for grade in relevant.values()):
        raise _invalid(f"Query {read.id}: the relevance of a document that answers it is less than 1.")
    default = LIFECYCLE if read.current is not None else JUDGED if answerable or not has_labels else UNANSWERABLE
    query = Query(
        id=read.id,
        text=read.text,
        kind=read.kind or default,
        answerable=answerable or not has_labels,
        relevant=relevant,
        sections=tuple(Section(label.path, label.heading) for label in labels if label.heading),
        outdated=tuple(read.outdated or ()),
    )
    return query, has_labels


def _why(error: ValidationError) -> str:
    """What is wrong with a line, in our own words."""
    first = error.errors(include_url=False, include_input=False)[0]
    is_missing = first["type"] == "missing"
    match first["loc"]:
        case (str(key),):
            return f"has no {key!r}" if is_missing else f"is wrong: {key!r} must be {_SHAPES[key]}"
        case ("relevant", int(place), str(key)):
            what = f"of 'relevant', entry {place + 1}"
            return (
                f"is wrong: {what} has no {key!r}"
                if is_missing
                else (f"is wrong: {what}, {key!r} must be {_LABEL_SHAPES[key]}")
            )
        case (str(key), *_):
            return f"is wrong: {key!r} must be {_SHAPES[key]}"
        case _:
            return "is not an object"


def _refuse_twins(queries: Iterable[Query]) -> None:
    seen: set[str] = set()
    for query in queries:
        if query.id in seen:
            raise _invalid(f"Two queries have the id {query.id}.")
        if not query.text.strip():
            raise _invalid(f"Query {query.id} has no text.")
        seen.add(query.id)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    return ((number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip())


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise _invalid(f"{file.name} cannot be read: {(error.strerror or 'unknown reason').lower()}.") from None
    except UnicodeDecodeError:
        raise _invalid(f"{file.name} is not UTF-8.") from None


def _few(names: list[str]) -> str:
    return ", ".join(names[:_TOLD]) + (", …" if len(names) > _TOLD else "")


def _invalid(sentence: str) -> BedivereError:
    return BedivereError(ErrorCode.JUDGEMENTS_INVALID, sentence)
