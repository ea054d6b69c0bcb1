"""Builds a table from a folder of documents: reads what changed, copies the rows of what did not, swaps the whole in.

Rows wait in a spool on disk, because a table's columns and their types are known only once the last document was
read: memory holds a batch of rows and a short record of every file, whatever the size of the corpus.
"""

# pyarrow ships no types: what comes out of it is checked where it enters our own types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import errno
import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from typing import Any, Final

import pyarrow as pa

from retrieval.errors import BedivereError, ErrorCode
from retrieval.indexing import (
    calibration,
    chunks,
    companions,
    formats,
    lance,
    reading,
    rows,
    sources,
    state,
    vector_index,
)
from retrieval.indexing.formats import jsonl
from retrieval.indexing.generation import STATE, TableFolder
from retrieval.indexing.job import Calibrated, Hidden, Options, Progress, Quiet, SkippedGroup, Summary
from retrieval.indexing.lance import OldTable, OldTableUnreadableError
from retrieval.indexing.memory import limit_arenas
from retrieval.indexing.provenance import describe
from retrieval.indexing.reading import ReadDocument, Wanted
from retrieval.indexing.rows import Scope
from retrieval.indexing.sources import SourceFile
from retrieval.indexing.spool import Spool, SpooledDocument
from retrieval.indexing.state import FileRecord, ScopeState, State
from retrieval.indexing.table_vectors import CACHE_SUFFIX, TableVectors, planned
from retrieval.indexing.workers import Call, WorkerLostError, Workers, usable_cores
from retrieval.schema import FORMAT, VOCABULARY_FILE, Provenance

_EXAMPLES: Final = 3
_SCOPE_NAME: Final = re.compile(r"(?!\s)[^@:#\x00-\x1f\x7f]{1,128}(?<!\s)")


def build_table(options: Options, progress: Progress | None = None) -> Summary:
    """Brings the table up to date with the source folder and says what was done.

    Raises `BedivereError` with one of SOURCE_NOT_FOUND, INVALID_ARGUMENT, INDEX_LOCKED, TABLE_NOT_OURS,
    NOTHING_INDEXED and BUILD_FAILED. Whatever is raised, and whenever the process dies, the table is the old one or
    the new one, whole.
    """
    started = time.monotonic()
    _check(options)
    # Before LanceDB starts its threads.
    limit_arenas(usable_cores())
    folder = TableFolder(options.database, options.table)
    if not options.source.is_dir() and not options.holds_lines:
        is_file = options.source.is_file()
        what = "is a file: name its folder, and pass --include" if is_file else "does not exist: check its path"
        raise BedivereError(ErrorCode.SOURCE_NOT_FOUND, f"The folder to index {what}.")
    with folder.locked():
        try:
            summary = _build(options, folder, progress or Quiet())
        except BedivereError:
            raise
        except Exception as error:
            raise BedivereError(ErrorCode.BUILD_FAILED, _failure(error)) from error
        finally:
            with suppress(OSError):
                folder.clear()
    return replace(summary, seconds=round(time.monotonic() - started, 3))


def _check(options: Options) -> None:
    for name, value in (("collection", options.collection), ("doc-version", options.doc_version)):
        if value is not None and not _SCOPE_NAME.fullmatch(value):
            raise BedivereError(
                ErrorCode.INVALID_ARGUMENT, f"--{name} must be 1 to 128 characters, none of them '@', ':' or '#'."
            )
    if options.base_url is not None and not re.fullmatch(r"https?://[^\s?#]+", options.base_url):
        raise BedivereError(
            ErrorCode.INVALID_ARGUMENT, "--base-url must be an http or https address without query and fragment."
        )


def _failure(error: Exception) -> str:
    """Why a build failed, without the paths that a library's own text would show."""
    kept = "the old table, if any, is untouched."
    # By its text, because LanceDB makes an error of its own of it.
    if any(os.strerror(code) in str(error) for code in (errno.ENOSPC, errno.EDQUOT)):
        return f"The disk is full; {kept}"
    if isinstance(error, WorkerLostError):
        return f"A process that reads documents was ended from outside, or ran out of memory; {kept}"
    why = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
    return f"The new table could not be written ({why}); {kept}"


def _build(options: Options, folder: TableFolder, progress: Progress) -> Summary:
    folder.clear()
    if folder.is_foreign() and not options.rebuild:
        raise BedivereError(
            ErrorCode.TABLE_NOT_OURS,
            f"A table '{options.table}' that `bedivere index` did not build stands there: "
            "choose another --table, or pass --rebuild to replace it.",
        )
    generation = folder.current()
    old = OldTable.open(generation, options.table) if generation else None
    if generation and old is None:
        return _Run(options, folder, progress, None, [_LOST]).run()
    try:
        return _Run(options, folder, progress, old, []).run()
    except OldTableUnreadableError:
        return _Run(options, folder, progress, None, [_LOST]).run()


_LOST: Final = (
    "The old table could not be read, so everything was read anew; other collections it held must be indexed again."
)


@dataclass(slots=True)
class _Run:
    """One run: `old` is the table to build upon, None where there is none or it is of no use."""

    options: Options
    folder: TableFolder
    progress: Progress
    old: OldTable | None
    notes: list[str]
    workers: Workers = field(init=False)
    scope: Scope = field(init=False)
    known: ScopeState | None = field(init=False)
    records: dict[str, FileRecord] = field(default_factory=dict[str, FileRecord])
    reused: set[str] = field(default_factory=set[str])
    skipped: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    spool: Spool | None = None
    vectors: TableVectors | None = field(init=False)

    def __post_init__(self) -> None:
        self.workers = Workers(self.options.workers or usable_cores())
        self.scope = Scope(self.options.collection, self.options.doc_version)
        self.known = None if self.options.rebuild else self._reusable()
        cache = self.folder.generations.with_name(f"{self.options.table}{CACHE_SUFFIX}")
        self.vectors = planned(self.options, cache, self.old.provenance.embedding if self.old else None)
        if _LOST in self.notes and self.options.embed is None and cache.is_dir():
            self.notes.append("The new table has no vectors: pass --embed, which pays only for what has changed.")

    def run(self) -> Summary:
        read_at_ns = time.time_ns()
        try:
            with self.workers:
                self._read_source()
                self._check_read()
                if self.old and self._is_unchanged(self.old):
                    return self._summary(unchanged=True, total=self.old.rows, provenance=self.old.provenance)
                return self._write(read_at_ns)
        finally:
            if self.spool:
                self.spool.close()
            if self.vectors:
                self.vectors.close()

    def _reusable(self) -> ScopeState | None:
        """The record of the scope's files, if their rows are the rows that would be made now."""
        if self.old is None or self.old.provenance.chunker != chunks.PARAMETERS:
            return None
        known = self.old.state.scopes.get(self.scope.prefix)
        now = (rows.fingerprint(), self.options.base_url)
        return known if known and (known.fingerprint, known.base_url) == now else None

    def _read_source(self) -> None:
        self.progress.stage("Looking for documents")
        found = self._find()
        for skipped in found.skipped:
            self._skip(skipped.path, skipped.reason)
        if found.alike:
            more = ", …" if len(found.alike) > _EXAMPLES else ""
            self.notes.append(f"Names differ in upper and lower case only: {', '.join(found.alike[:_EXAMPLES])}{more}")
        self.progress.found(len(found.files))
        self.progress.stage("Reading documents")
        stands = {
            file.path: record
            for file in found.files
            if self.known and (record := self.known.unchanged(file.path, file.stamp)) is not None
        }
        read = self._read([file for file in found.files if file.path not in stands])
        for file in found.files:
            record = stands.get(file.path)
            size, reused = 0, True
            if record is None:
                document = next(read)
                if isinstance(document, str):
                    self._skip(file.path, document)
                    self.progress.read(file.path, 0)
                    continue
                record = self._recorded(file.path, document)
                size, reused = record.size, document.unchanged
            self.records[file.path] = record
            if record.chunks and reused:
                self.reused.add(file.path)
            if record.reason:
                self._skip(file.path, record.reason)
            self.progress.read(file.path, size)

    def _check_read(self) -> None:
        if any(record.chunks for record in self.records.values()):
            return
        skipped = sum(len(paths) for paths in self.skipped.values())
        if self.options.include and not self.records and not skipped:
            raise BedivereError(
                ErrorCode.NOTHING_INDEXED,
                f"No {self.options.noun} matches --include; the old table, if any, is untouched.",
            )
        raise BedivereError(
            ErrorCode.NOTHING_INDEXED,
            f"No document with text was found ({self._counted(skipped)} skipped); "
            "the old table, if any, is untouched."
            + "".join(f" {self._counted(group.files)}: {group.reason}." for group in self._skipped_groups()[:3]),
        )

    def _find(self) -> sources.Found:
        options = self.options
        if options.holds_lines:
            return sources.find_lines(options.source, jsonl.identify, include=options.include, exclude=options.exclude)
        return sources.find(
            options.source,
            suffixes=formats.SUFFIXES,
            include=options.include,
            exclude=options.exclude,
            database=options.database,
        )

    def _read(self, files: Sequence[SourceFile]) -> Iterator[ReadDocument | str]:
        """Each of `files` in order as it was read, or why it is not there; the rows go to the spool on the way."""
        wanted = (Wanted(file, before.sha256 if (before := self._before(file.path)) else None) for file in files)
        calls = (Call(task, task.bytes) for task in reading.tasks(wanted, self.scope, self.options.base_url))
        total = sum(file.stamp.size for file in files)
        paths = iter(files)
        for readings in self.workers.map(reading.read, calls, total):
            made = {
                (self.scope.prefix, file.path): SpooledDocument(document.sha256, document.metadata)
                # Documents first: what ends first must not take a path that belongs to the next task.
                for document, file in zip(readings.documents, paths, strict=False)
                if not isinstance(document, str) and document.chunks
            }
            if readings.batch is not None:
                self._spool().add(readings.batch, made)
                self.progress.wrote(readings.batch.num_rows)
            yield from readings.documents

    def _recorded(self, path: str, document: ReadDocument) -> FileRecord:
        before = self._before(path)
        if before is not None and document.unchanged:
            return replace(before, **asdict(document.stamp))
        return FileRecord(
            sha256=document.sha256,
            chunks=document.chunks,
            reason=document.reason,
            metadata=document.metadata,
            hidden=document.hidden,
            **asdict(document.stamp),
        )

    def _before(self, path: str) -> FileRecord | None:
        return self.known.files.get(path) if self.known else None

    def _spool(self) -> Spool:
        """Opened with the first row, so that a run that changes nothing writes nothing."""
        if self.spool is None:
            self.spool = Spool(self.folder.create() / "rows.arrow")
        return self.spool

    def _is_unchanged(self, old: OldTable) -> bool:
        if self.known is None or _contents(self.known.files) != _contents(self.records):
            return False
        embedding = old.provenance.embedding
        as_wished = self.vectors.are_those_of(embedding) if self.vectors else embedding is None
        if not as_wished:
            return False
        made_by = (old.provenance.format, old.provenance.lancedb_version)
        current = self.folder.current()
        complete = current is not None and companions.are_whole(current / self.folder.link.name)
        return made_by == (FORMAT, version("lancedb")) and complete and old.is_whole()

    def _write(self, read_at_ns: int) -> Summary:
        spool = self._spool()
        generation = spool.file.parent
        if self.old is not None:
            self.progress.stage("Copying unchanged rows")
        others = self._carry_over(spool)
        spool.finish()
        own_columns = spool.own_columns()
        scopes = {
            **(self.old.state.scopes if self.old else {}),
            self.scope.prefix: ScopeState(rows.fingerprint(), self.options.base_url, read_at_ns, self.records),
        }
        embedding = self.vectors.fill(spool, self.old, self.progress) if self.vectors else None
        provenance = describe(self.options.source, spool.documents, scopes, embedding)
        schema = pa.schema([*rows.SCHEMA, *own_columns.fields()], provenance.to_metadata())
        batches, questions = spool.batches(schema), None
        if self.vectors:
            questions = self.vectors.questions(spool, self.progress)
            schema, batches = self.vectors.attached(schema, batches)
        self.progress.stage("Writing the table")
        with companions.gathering(spool, self.workers) as gathered:

            def stage(name: str) -> None:
                self.progress.stage(name)
                # Indexing takes the most memory of all: what counts the words is through, and its processes gone.
                gathered.result()

            table = lance.write(generation, self.folder.table, batches, schema, stage, questions)
            lance.check(table, spool.rows, provenance)
            gathered.result().save(generation / self.folder.link.name, table)
        spool.file.unlink()
        state.save(generation / STATE, State(scopes))
        self.progress.stage("Swapping it in")
        self.folder.place(generation)
        if self.vectors:
            # The table stands: what cannot be cleared now is cleared by a later run.
            with suppress(OSError):
                self.vectors.sweep()
        if dropped := own_columns.dropped():
            keys = "1 rarer key" if len(dropped) == 1 else f"{len(dropped):,} rarer keys"
            more = ", …" if len(dropped) > _EXAMPLES else ""
            self.notes.append(f"{keys} of the documents did not become columns: {', '.join(dropped[:_EXAMPLES])}{more}")
        if any(scope.fingerprint != rows.fingerprint() for scope in scopes.values()):
            self.notes.append("Other collections or versions were read by another release: index them again.")
        written = lance.measured_provenance(table) or provenance
        return self._summary(unchanged=False, total=spool.rows, provenance=written, other_rows=others)

    def _carry_over(self, spool: Spool) -> int:
        """Copies what stays of the old table; the number of rows of other scopes among it."""
        if self.old is None:
            return 0
        own = self.scope.prefix
        copied: Counter[str] = Counter()
        others = 0
        for batch, documents in self.old.kept(lambda key: key[0] != own or key[1] in self.reused):
            spool.add(batch, documents)
            for prefix, path in lance.keys_of(batch):
                if prefix == own:
                    copied[path] += 1
                else:
                    others += 1
        if any(copied[path] != self.records[path].chunks for path in self.reused):
            raise OldTableUnreadableError
        self.progress.wrote(copied.total() + others)
        return others

    def _counted(self, documents: int) -> str:
        return f"{documents:,} {self.options.noun}{'' if documents == 1 else 's'}"

    def _skip(self, path: str, reason: str) -> None:
        self.skipped.setdefault(reason, []).append(path)

    def _skipped_groups(self) -> tuple[SkippedGroup, ...]:
        groups = (
            SkippedGroup(reason, len(paths), tuple(sorted(paths)[:_EXAMPLES])) for reason, paths in self.skipped.items()
        )
        return tuple(sorted(groups, key=lambda group: (-group.files, group.reason)))

    def _summary(
        self, *, unchanged: bool, total: int, provenance: Provenance, other_rows: int | None = None
    ) -> Summary:
        indexed = [record for record in self.records.values() if record.chunks]
        own = sum(record.chunks for record in indexed)
        before = self.old.state.scopes.get(self.scope.prefix) if self.old else None
        gone = _contents(before.files).keys() - _contents(self.records).keys() if before else ()
        return Summary(
            table=self.options.table,
            unchanged=unchanged,
            files=len(indexed),
            chunks=own,
            bytes=sum(record.size for record in indexed),
            reused=len(self.reused),
            removed=len(gone),
            skipped=self._skipped_groups(),
            other_rows=total - own if other_rows is None else other_rows,
            total_rows=total,
            corpus_version=provenance.corpus_version,
            notes=tuple(self.notes),
            vectors=self.vectors.summary(provenance.embedding) if self.vectors and provenance.embedding else None,
            calibration=self._calibrated(provenance.embedding),
            hidden=self._hidden(),
        )

    def _hidden(self) -> Hidden | None:
        hiding = {path: record.hidden for path, record in sorted(self.records.items()) if record.hidden}
        return Hidden(sum(hiding.values()), len(hiding), tuple(hiding)[:_EXAMPLES]) if hiding else None

    def _calibrated(self, embedding: Mapping[str, Any] | None) -> Calibrated | None:
        """What is stored with the table in its place, whose record of vectors is `embedding`."""
        generation = self.folder.current()
        if generation is None:
            return None
        words = companions.files(generation / self.folder.link.name)[VOCABULARY_FILE]
        record = (embedding or {}).get(vector_index.CALIBRATION)
        return calibration.stored(words, record, embedded=embedding is not None)


def _contents(files: Mapping[str, FileRecord]) -> dict[str, str]:
    return {path: record.sha256 for path, record in files.items() if record.chunks}
