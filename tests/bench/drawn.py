"""Tables of up to a million chunks, drawn rather than read: words as frequent as in prose, vectors that know topics.

No Markdown is parsed, so that a large table takes minutes; its columns, indexes and companion files are those that the
indexer writes. A smaller table is the beginning of a larger one.
"""

# pyarrow ships no types, lancedb in part.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
from __future__ import annotations

import hashlib
import itertools
import json
import random
import shutil
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import lancedb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from retrieval.catalog import Catalog
from retrieval.indexing import chunks, lance, vector_index
from retrieval.indexing.catalog import CatalogBuilder, numbered
from retrieval.indexing.rows import SCHEMA
from retrieval.indexing.vector_index import kind_for
from retrieval.schema import CATALOG_FILE, COMPANIONS, DEFAULT_TABLE, VECTOR_COLUMN, VOCABULARY_FILE, Provenance
from retrieval.search import text as lexicon
from retrieval.search.vocabulary import MAX_IDENTIFIERS, MAX_STEMS, stem, to_bytes

MODEL: Final = "drawn-words"
"""What the tables say made their vectors."""

COMMON: Final = tuple(
    "the of and to a in is that for it as with be by on not this are or from at you your can have an will which when "
    "if has all but more one other use no may new then so what there each into than only any we do must how".split()
)
"""The commonest words of English prose, the most frequent first."""

_SYLLABLES: Final = tuple(
    onset + vowel for onset in "b c d f g h j k l m n p r s t v w br dr st tr pl gr".split() for vowel in "aeiou"
)
_WORDS: Final = 120_000
# Zipf's law as Mandelbrot mended it: the weight of the word at a rank.
_EXPONENT: Final = 1.05
_OFFSET: Final = 2.7
# Of these ranks are the words of headings, names and questions: neither on every page nor on hardly any.
TELLING_RANKS: Final = (150, 8_000)

_CHUNKS_A_DOCUMENT: Final = 8
_WORDS_A_CHUNK: Final = 120
_WORDS_A_SENTENCE: Final = 15
_TOPICS: Final = 64
_OF_THE_TOPIC: Final = 0.35
"""Of a chunk's words, those that are changed for one as frequent that belongs to its document's topic."""

_BLOCK: Final = 20_000
_SAMPLED: Final = 64
"""Rows by which a kept table is known to be what would be drawn today."""
_EMBEDDED_WORDS: Final = 24
_TOPIC_SHARE: Final = 0.7

Ids = npt.NDArray[np.int64]
Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class DrawnTable:
    """A database folder whose one table holds `chunks` chunks, of which some are known."""

    folder: Path
    chunks: int
    dimensions: int | None
    """The length of its vectors; None where it has none."""

    @classmethod
    def at(cls, cache_folder: Path, size: int, dimensions: int | None = None) -> DrawnTable:
        """The table of `size` chunks, from `cache_folder` or made now; one with vectors is made of one without."""
        kept = cache_folder / f"drawn-{size}-{dimensions or 'text'}-{_fingerprint()}"
        record = kept / "built.json"
        if not record.is_file():
            for stale in cache_folder.glob(f"drawn-{size}-{dimensions or 'text'}-*"):
                shutil.rmtree(stale)
            kept.mkdir(parents=True)
            if dimensions is None:
                _make(kept, size)
            else:
                _embed(cls.at(cache_folder, size).folder, kept, dimensions)
            # Written last: a folder without it is what an interrupted run left.
            record.write_text(json.dumps({"chunks": size}), encoding="utf-8")
        elif Catalog.load(_catalog(kept).read_bytes()).version is None:
            # Kept from before there were any, and otherwise what would be drawn.
            _number(kept)
        return cls(kept, size, dimensions)


@dataclass(frozen=True, slots=True)
class Asking:
    """What is asked of drawn tables, whatever their size."""

    prose: tuple[str, ...]
    """Natural questions with three telling words each, of one heading and its topic."""
    identifiers: tuple[str, ...]
    paths: tuple[str, ...]


def asking(count: int, chunks_there: int) -> Asking:
    """`count` questions of each kind, to which the first `chunks_there` chunks hold the answers."""
    dice = random.Random("bedivere questions")
    drawn = Block(0)
    there = min(chunks_there, _BLOCK)
    prose: list[str] = []
    for _ in range(count):
        place = dice.randrange(there)
        heading, title = (words()[one] for one in dice.sample([*drawn.headings[place]], 2)), drawn.titles[place][0]
        prose.append("How do I {} the {} of a {}?".format(*heading, words()[title]))
    named = [place for place in range(there) if place % 4 == 3]
    identifiers = [drawn.identifier(dice.choice(named)) for _ in range(count)]
    paths = [_path(dice.randrange(there) // _CHUNKS_A_DOCUMENT) for _ in range(count)]
    return Asking(tuple(prose), tuple(identifiers), tuple(paths))


@cache
def words() -> tuple[str, ...]:
    """Every word that is drawn, the most frequent first."""
    dice = random.Random("bedivere words")
    made = dice.sample([*map("".join, itertools.product(_SYLLABLES, repeat=3))], _WORDS)
    endings = ("", "", "", *"n r s ng rs st ring rable rment".split())
    return (*COMMON, *dict.fromkeys(word + dice.choice(endings) for word in made))[:_WORDS]


def vector_of(question: str, dimensions: int) -> list[float]:
    """The vector of a question: the mean of its words', each weighed by how rare it is, of length 1."""
    places = _places()
    ids = [places[word] for word in lexicon.words(question) if word in places]
    vectors, weights = _word_vectors(dimensions), _rarity()
    total = (vectors[ids] * weights[ids, None]).sum(axis=0) + vectors[-1] * 1e-3
    return (total / np.linalg.norm(total)).astype(np.float32).tolist()


class Block:
    """`_BLOCK` chunks: the ids of their words, by which everything else is made."""

    def __init__(self, number: int) -> None:
        dice = np.random.default_rng([1, number])
        self.first: Final = number * _BLOCK
        documents = _BLOCK // _CHUNKS_A_DOCUMENT
        topics = dice.integers(0, _TOPICS, documents)
        topic = np.repeat(topics, _CHUNKS_A_DOCUMENT)
        self.titles: Final = np.repeat(_of_topic(_rare(dice, (documents, 3)), topics), _CHUNKS_A_DOCUMENT, axis=0)
        self.headings: Final = _of_topic(_rare(dice, (_BLOCK, 3)), topic)
        body = np.searchsorted(_cumulative(), dice.random((_BLOCK, _WORDS_A_CHUNK)))
        moved = (dice.random(body.shape) < _OF_THE_TOPIC) & (body >= _TOPICS * 2)
        self.body: Final = np.where(moved, _of_topic(body, topic), body)

    def batch(self, rows: int) -> pa.RecordBatch:
        """The first `rows` chunks, of `rows.SCHEMA`."""
        numbers = range(self.first, self.first + rows)
        paths = [_path(number // _CHUNKS_A_DOCUMENT) for number in numbers]
        titles, headings = (_joined(ids[:rows], " ") for ids in (self.titles, self.headings))
        titles, headings = [one.capitalize() for one in titles], [one.capitalize() for one in headings]
        texts = _joined(_as_sentences(self.body[:rows]), " ")
        idents: list[str] = []
        for place, path in enumerate(paths):
            code = f"{self.identifier(place)} --{words()[self.headings[place][0]]}-now" if place % 4 == 3 else ""
            fence = f"\n\n```sh\n{code}\n```" if code else ""
            texts[place] = f"## {headings[place]}\n\n{texts[place]}.{fence}"
            idents.append(lexicon.identifier_terms(code, path))
        ordinals = [number % _CHUNKS_A_DOCUMENT for number in numbers]
        nothing = [None] * rows
        columns: dict[str, Sequence[Any]] = dict.fromkeys(SCHEMA.names, nothing)
        columns |= {
            "id": [f"{path}#{ordinal}" for path, ordinal in zip(paths, ordinals, strict=True)],
            "path": paths,
            "title": titles,
            "heading": headings,
            "text": texts,
            "date": [f"2026-{number // _CHUNKS_A_DOCUMENT % 12 + 1:02}-01" for number in numbers],
            "content_hash": [hashlib.sha256(path.encode()).hexdigest() for path in paths],
            "idents": idents,
            "search_text": ["\n".join(parts) for parts in zip(titles, titles, headings, texts, strict=True)],
            "chunk": ordinals,
        }
        return pa.RecordBatch.from_pydict(columns, schema=SCHEMA)

    def identifier(self, place: int) -> str:
        """A name that stands in the chunk at `place` and in hardly another."""
        number = (self.first + place) // _CHUNKS_A_DOCUMENT
        return "_".join([*(words()[one] for one in self.headings[place][1:]), str(number)])

    def counted(self, rows: int) -> Ids:
        """In how many of the first `rows` chunks each word stands."""
        every = np.sort(np.concatenate([self.titles, self.headings, self.body], axis=1)[:rows], axis=1)
        first = np.ones(every.shape, bool)
        first[:, 1:] = every[:, 1:] != every[:, :-1]
        return np.bincount(every[first], minlength=len(words()))

    def vectors(self, rows: int, dimensions: int) -> Vectors:
        """Of each chunk the mean of its first words' vectors, title and heading among them, of length 1."""
        ids = np.concatenate([self.titles, self.headings, self.body], axis=1)[:rows, :_EMBEDDED_WORDS]
        of_words, weights = _word_vectors(dimensions), _rarity()
        made = np.empty((rows, dimensions), np.float32)
        for start in range(0, rows, 1_000):
            part = ids[start : start + 1_000]
            np.einsum("rwd,rw->rd", of_words[part], weights[part], out=made[start : start + 1_000])
        return made / np.linalg.norm(made, axis=1, keepdims=True)


def blocks(size: int) -> Iterator[tuple[Block, int]]:
    """The blocks of a table of `size` chunks, and how many chunks of each are its."""
    for number in range(-(-size // _BLOCK)):
        yield Block(number), min(_BLOCK, size - number * _BLOCK)


@dataclass(slots=True)
class _Counts:
    """What the companion files are made of, as the rows go by."""

    words: Ids = field(default_factory=lambda: np.zeros(len(words()), np.int64))
    identifiers: list[str] = field(default_factory=list[str])
    documents: CatalogBuilder = field(default_factory=CatalogBuilder)

    def take(self, block: Block, batch: pa.RecordBatch) -> None:
        """The first rows of `block`, as `batch` has them."""
        self.words += block.counted(batch.num_rows)
        self.identifiers += [block.identifier(place) for place in range(3, batch.num_rows, 4)]
        self.documents.add(batch)

    def save(self, place: Path, size: int) -> None:
        folder = place / COMPANIONS
        folder.mkdir()
        (folder / CATALOG_FILE).write_bytes(self.catalog())
        (folder / VOCABULARY_FILE).write_bytes(self.vocabulary(size))

    def catalog(self) -> bytes:
        return self.documents.to_bytes()

    def vocabulary(self, size: int) -> bytes:
        # The builder's format; of a stem's forms the sum stands for the chunks that hold any of them.
        forms: dict[str, list[tuple[str, int]]] = {}
        for word, count in zip(words(), self.words.tolist(), strict=True):
            if count:
                forms.setdefault(stem(word), []).append((word, count))
        assert len(forms) <= MAX_STEMS
        names = sorted(set(self.identifiers[:MAX_IDENTIFIERS]))
        lines: list[str] = []
        for name, written in sorted(forms.items()):
            total = min(size, sum(count for _, count in written))
            lines.append("\t".join((name, str(total), *(f"{word} {count}" for word, count in written))))
        return to_bytes(size, 0, lines, [f"{name}\t1" for name in names])


def _catalog(folder: Path) -> Path:
    return folder / f"{DEFAULT_TABLE}.lance" / COMPANIONS / CATALOG_FILE


def _number(folder: Path) -> None:
    """Puts the numbers of the rows into the catalog of the table in `folder`, which is finished."""
    file = _catalog(folder)
    fresh = file.with_suffix(".fresh")
    table = lancedb.connect(folder).open_table(DEFAULT_TABLE)
    fresh.write_bytes(numbered(file.read_bytes(), table, alike=True))
    fresh.replace(file)


def _make(folder: Path, size: int) -> None:
    counts = _Counts()

    def batches() -> Generator[pa.RecordBatch]:
        for block, rows in blocks(size):
            batch = block.batch(rows)
            counts.take(block, batch)
            yield batch

    _write(folder, batches(), SCHEMA, _provenance(size, None))
    counts.save(folder / f"{DEFAULT_TABLE}.lance", size)
    _number(folder)


def _embed(source: Path, folder: Path, dimensions: int) -> None:
    table = lancedb.connect(source).open_table(DEFAULT_TABLE)
    size = table.count_rows()
    schema = SCHEMA.append(pa.field(VECTOR_COLUMN, pa.list_(pa.float32(), dimensions)))

    def batches() -> Generator[pa.RecordBatch]:
        for block, rows in blocks(size):
            values = pa.array(block.vectors(rows, dimensions).reshape(-1), pa.float32())
            vectors = pa.FixedSizeListArray.from_arrays(values, dimensions)
            batch = block.batch(rows)
            yield pa.RecordBatch.from_arrays([*batch.columns, vectors], schema=schema)

    # Not on record as indexed, or its recall would be measured by two hundred scans of all vectors.
    record = {"model": MODEL, "dimensions": dimensions}
    _write(folder, batches(), schema, _provenance(size, record))
    if kind_for(size) != "flat":
        made = lancedb.connect(folder).open_table(DEFAULT_TABLE)
        vector_index.create(made)
    place = Path(f"{DEFAULT_TABLE}.lance", COMPANIONS)
    shutil.copytree(source / place, folder / place)
    # The numbers in there are those of another table.
    _number(folder)


def _write(folder: Path, batches: Iterator[pa.RecordBatch], schema: pa.Schema, provenance: Provenance) -> None:
    lance.write(folder, DEFAULT_TABLE, batches, schema.with_metadata(provenance.to_metadata()), lambda _: None)


def _provenance(size: int, embedding: dict[str, Any] | None) -> Provenance:
    return Provenance(
        tool_version=version("bedivere"),
        lancedb_version=version("lancedb"),
        built_at="2026-01-01T00:00:00Z",
        source={"files": -(-size // _CHUNKS_A_DOCUMENT), "bytes": 0, "revision": None},
        chunker=dict[str, Any](chunks.PARAMETERS),
        corpus_version=hashlib.sha256(f"{size} {embedding}".encode()).hexdigest(),
        embedding=embedding,
    )


def _path(document: int) -> str:
    return f"part-{document // 200:03}/page-{document:06}.md"


def _joined(ids: Ids, between: str) -> list[str]:
    spelt = _spelt()
    return [between.join(row) for row in spelt[ids].tolist()]


def _as_sentences(ids: Ids) -> Ids:
    """`ids` with other ones for the first word of a sentence and for the last."""
    changed = ids.copy()
    changed[:, ::_WORDS_A_SENTENCE] += len(words())
    changed[:, _WORDS_A_SENTENCE - 1 : -1 : _WORDS_A_SENTENCE] += 2 * len(words())
    return changed


@cache
def _spelt() -> npt.NDArray[np.object_]:
    plain = words()
    return np.array([*plain, *(word.capitalize() for word in plain), *(f"{word}." for word in plain)], object)


@cache
def _places() -> Mapping[str, int]:
    return {word: place for place, word in enumerate(words())}


@cache
def _weights() -> npt.NDArray[np.float64]:
    weights = (np.arange(1, len(words()) + 1) + _OFFSET) ** -_EXPONENT
    return weights / weights.sum()


@cache
def _cumulative() -> npt.NDArray[np.float64]:
    cumulative = np.cumsum(_weights())
    cumulative[-1] = 1.0
    return cumulative


@cache
def _rarity() -> Vectors:
    # What is in every chunk weighs next to nothing, as in models of words.
    return np.log1p(1 / (_weights() * _WORDS_A_CHUNK)).astype(np.float32)


@cache
def _word_vectors(dimensions: int) -> Vectors:
    """A vector a word: one of its topic's and one of its own, so that words of a topic are near each other."""
    dice = np.random.default_rng([2, dimensions])
    topics = dice.standard_normal((_TOPICS, dimensions), np.float32)
    own = dice.standard_normal((len(words()), dimensions), np.float32)
    return _TOPIC_SHARE * topics[np.arange(len(words())) % _TOPICS] + own


def _rare(dice: np.random.Generator, shape: tuple[int, int]) -> Ids:
    # Evenly over the logarithm of the rank, so that there are as many pages about frequent things as about rare ones.
    low, high = TELLING_RANKS
    return (low * (high / low) ** dice.random(shape)).astype(np.int64)


def _of_topic(ids: Ids, topics: Ids) -> Ids:
    """`ids` moved to the nearest rank whose word is of the topic of its row."""
    return np.minimum(ids // _TOPICS * _TOPICS + topics[:, None], len(words()) - 1)


@cache
def _fingerprint() -> str:
    """Changes whenever the same size would give other rows or indexes: known by a few rows and what is made of them."""
    block, counts = Block(0), _Counts()
    batch = block.batch(_SAMPLED)
    counts.take(block, batch)
    digest = hashlib.sha256(repr((version("lancedb"), lance.FULL_TEXT)).encode())
    for part in (
        batch.serialize(),
        block.vectors(_SAMPLED, 16).tobytes(),
        counts.vocabulary(_SAMPLED),
        counts.catalog(),
    ):
        digest.update(part)
    return digest.hexdigest()[:12]
