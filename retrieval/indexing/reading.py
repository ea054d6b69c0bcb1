"""Reads some documents, from their places on the disk to the rows of the table: in this process, or in a worker."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from retrieval.indexing import rows, sources
from retrieval.indexing.document import Unreadable
from retrieval.indexing.formats import jsonl
from retrieval.indexing.rows import DocumentRows, Scope
from retrieval.indexing.sources import SourceFile, Stamp, Unavailable

EMPTY: Final = "empty"
"""The reason given for a document without text."""

_TASK_BYTES: Final = 256_000
_TASK_DOCUMENTS: Final = 64


@dataclass(frozen=True, slots=True)
class Wanted:
    """A document to read, and the SHA-256 that it had when its rows were made; None where there are none."""

    file: SourceFile
    known: str | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """Documents that are read one after the other, and what their rows say of where they belong."""

    documents: tuple[Wanted, ...]
    scope: Scope
    base_url: str | None

    @property
    def bytes(self) -> int:
        return sum(wanted.file.stamp.size for wanted in self.documents)


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """One document as it was read: `reason` says why it gave no rows, `metadata` is as in `DocumentRows`."""

    sha256: str
    stamp: Stamp
    unchanged: bool
    """It is the one that is known: nothing was parsed."""
    chunks: int = 0
    reason: str | None = None
    metadata: str = "{}"
    hidden: int = 0
    """As in `DocumentRows`."""


@dataclass(frozen=True, slots=True)
class Readings:
    """What came of a task: of each document in order, its reading or why it is not there, and the rows of all."""

    documents: tuple[ReadDocument | str, ...]
    batch: pa.RecordBatch | None


def tasks(documents: Iterable[Wanted], scope: Scope, base_url: str | None) -> Iterator[Task]:
    """The documents in order, by the task; the same tasks whoever works on them."""
    some: list[Wanted] = []
    size = 0
    for wanted in documents:
        if some and (size + wanted.file.stamp.size > _TASK_BYTES or len(some) == _TASK_DOCUMENTS):
            yield Task(tuple(some), scope, base_url)
            some, size = [], 0
        some.append(wanted)
        size += wanted.file.stamp.size
    if some:
        yield Task(tuple(some), scope, base_url)


def read(task: Task) -> Readings:
    """Reads the documents of `task`. What is wrong with one of them is said of it, and costs the others nothing."""
    documents: list[ReadDocument | str] = []
    batches: list[pa.RecordBatch] = []
    for wanted in task.documents:
        try:
            document, made = _read(wanted, task)
        except Unavailable as reason:
            documents.append(str(reason))
            continue
        documents.append(document)
        if made is not None:
            batches.append(made.batch)
    return Readings(tuple(documents), pa.concat_batches(batches) if batches else None)


def _read(wanted: Wanted, task: Task) -> tuple[ReadDocument, DocumentRows | None]:
    file = wanted.file
    content = sources.read(file)
    if content.sha256 == wanted.known:
        return ReadDocument(content.sha256, content.stamp, unchanged=True), None
    parsed = None
    reason = None
    try:
        by = None if file.offset is None else jsonl.parse
        parsed = rows.read_document(file.path, content.data, content.sha256, task.scope, task.base_url, by)
    except Unreadable as error:
        reason = str(error)
    except Exception as error:
        # One odd file must not cost the others their index; the reason names the fault for a report.
        reason = f"its reader failed ({type(error).__name__})"
    made = parsed if parsed and parsed.batch.num_rows else None
    document = ReadDocument(
        content.sha256,
        content.stamp,
        unchanged=False,
        chunks=made.batch.num_rows if made else 0,
        reason=reason if made or reason else EMPTY,
        metadata=made.metadata if made else "{}",
        hidden=parsed.hidden if parsed else 0,
    )
    return document, made
