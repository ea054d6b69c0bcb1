"""What the indexer learns of a whole table and search needs: its words and its documents, in files beside the data."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from retrieval.catalog import Catalog
from retrieval.indexing.catalog import CatalogBuilder, numbered
from retrieval.indexing.spool import Spool, batch_of
from retrieval.indexing.vocabulary import VocabularyBuilder
from retrieval.indexing.workers import Call, Workers
from retrieval.schema import CATALOG_FILE, COMPANIONS, VOCABULARY_FILE
from retrieval.search.vocabulary import Vocabulary

if TYPE_CHECKING:
    # Processes that count words load this too, and have no use for LanceDB.
    from lancedb.table import Table

_WORDS: Final = ("search_text", "idents")

_CHUNK_BYTES: Final = 1_000
"""What a chunk is taken for when work is weighed: a bit less than they are on average."""


class _Stopped(Exception):
    """The table cannot be written: nobody waits for its companions."""


@dataclass(frozen=True, slots=True)
class Companions:
    """The files, by their content."""

    vocabulary: bytes
    catalog: bytes
    alike: bool
    """Whether the rows say what the catalog says of their documents."""

    @classmethod
    def of(cls, batches: Iterable[pa.RecordBatch]) -> Companions:
        """Those of the rows in `batches`, of `rows.SCHEMA`: the same for the same rows."""
        words, documents = VocabularyBuilder(), CatalogBuilder()
        for batch in batches:
            _count(words, batch)
            documents.add(batch)
        return cls(words.to_bytes(), documents.to_bytes(), documents.alike)

    def save(self, place: Path, table: Table) -> None:
        """Writes them into the folder of `table`, `place`, which is finished and which nobody reads yet."""
        folder = place / COMPANIONS
        folder.mkdir()
        (folder / VOCABULARY_FILE).write_bytes(self.vocabulary)
        (folder / CATALOG_FILE).write_bytes(numbered(self.catalog, table, alike=self.alike))


@contextmanager
def gathering(spool: Spool, workers: Workers) -> Generator[Future[Companions]]:
    """Makes those of the rows in `spool`, finished, while the block does something else; given up where that fails."""
    stop = Event()

    def unless_stopped(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if stop.is_set():
                raise _Stopped
            yield batch

    def gather() -> Companions:
        if not workers.useful(spool.rows * _CHUNK_BYTES):
            return Companions.of(unless_stopped(spool.read()))
        words, documents = VocabularyBuilder(), CatalogBuilder()
        calls = [
            Call((spool.file, number), spool.rows * _CHUNK_BYTES // spool.batch_count)
            for number in range(spool.batch_count)
        ]
        counted = workers.map(counted_words, calls, spool.rows * _CHUNK_BYTES)
        for batch, some in zip(unless_stopped(spool.read()), counted, strict=True):
            words.merge(some)
            documents.add(batch)
        # They have no more to do, and their memory is wanted elsewhere.
        workers.close()
        return Companions(words.to_bytes(), documents.to_bytes(), documents.alike)

    with ThreadPoolExecutor(1, "bedivere-companions") as thread:
        try:
            yield thread.submit(gather)
        finally:
            stop.set()


def counted_words(place: tuple[Path, int]) -> VocabularyBuilder:
    """The words of one batch of a spool, by its file and the number of the batch."""
    words = VocabularyBuilder()
    _count(words, batch_of(*place, _WORDS))
    return words


def _count(words: VocabularyBuilder, batch: pa.RecordBatch) -> None:
    for text, idents in zip(*(batch.column(name).to_pylist() for name in _WORDS), strict=True):
        words.add(text or "", idents or "")


def files(place: Path) -> dict[str, bytes]:
    """The files of the table whose folder is `place`, by name; those that are missing are left out."""
    found: dict[str, bytes] = {}
    for name in (VOCABULARY_FILE, CATALOG_FILE):
        with suppress(FileNotFoundError):
            found[name] = (place / COMPANIONS / name).read_bytes()
    return found


def are_whole(place: Path) -> bool:
    """Whether the table whose folder is `place` has all its files, and a search can read all that it reads today."""
    found = files(place)
    try:
        Vocabulary.load(found[VOCABULARY_FILE])
        return Catalog.load(found[CATALOG_FILE]).version is not None
    except (KeyError, ValueError):
        return False
