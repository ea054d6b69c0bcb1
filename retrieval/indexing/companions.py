"""What the indexer learns of a whole table and search needs: its words and its documents, in files beside the data."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from retrieval.catalog import Catalog
from retrieval.indexing.catalog import CatalogBuilder
from retrieval.indexing.vocabulary import VocabularyBuilder
from retrieval.schema import CATALOG_FILE, COMPANIONS, VOCABULARY_FILE
from retrieval.search.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Companions:
    """The files, by their content."""

    vocabulary: bytes
    catalog: bytes

    @classmethod
    def of(cls, batches: Iterable[pa.RecordBatch]) -> Companions:
        """Those of the rows in `batches`, of `rows.SCHEMA`: the same for the same rows."""
        words, documents = VocabularyBuilder(), CatalogBuilder()
        for batch in batches:
            texts, names = batch.column("search_text").to_pylist(), batch.column("idents").to_pylist()
            for text, idents in zip(texts, names, strict=True):
                words.add(text or "", idents or "")
            documents.add(batch)
        return cls(words.to_bytes(), documents.to_bytes())

    def save(self, place: Path) -> None:
        """Writes them into the folder of the table, `place`, which nobody reads yet."""
        folder = place / COMPANIONS
        folder.mkdir()
        (folder / VOCABULARY_FILE).write_bytes(self.vocabulary)
        (folder / CATALOG_FILE).write_bytes(self.catalog)


def files(place: Path) -> dict[str, bytes]:
    """The files of the table whose folder is `place`, by name; those that are missing are left out."""
    found: dict[str, bytes] = {}
    for name in (VOCABULARY_FILE, CATALOG_FILE):
        with suppress(FileNotFoundError):
            found[name] = (place / COMPANIONS / name).read_bytes()
    return found


def are_whole(place: Path) -> bool:
    """Whether the table whose folder is `place` has all its files, and a search can read them."""
    found = files(place)
    try:
        Vocabulary.load(found[VOCABULARY_FILE])
        Catalog.load(found[CATALOG_FILE])
    except (KeyError, ValueError):
        return False
    return True
