"""Other ways to find text, over the same rows: SQLite's FTS5, tantivy, bm25s, and a scan by LIKE.

Each is asked for the best twenty rows of the same questions and reads their texts, without ours' snippets, checks and
JSON. `make bench-warm` installs the
last two of the libraries into `PACKAGES`; where they are missing, they are left out.
"""

# None of the libraries ships types, and two are not in the environment that is checked.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
from __future__ import annotations

import asyncio
import importlib
import shutil
import sqlite3
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final

import lancedb

from retrieval.schema import DEFAULT_TABLE
from retrieval.search.text import telling, words

PACKAGES: Final = Path(__file__).parents[2] / "build" / "bench" / "rivals"
LIMIT: Final = 20
BM25S_MOST: Final = 100_000
"""Chunks that bm25s is asked for: it holds all of them in memory and takes minutes to read a million."""

_BATCH: Final = 5_000

Search = Callable[[str], list[str]]
"""The texts that a question finds, best first where there is a best."""


@contextmanager
def rivals(database: Path, kept: Path, chunks: int) -> Generator[dict[str, Search]]:
    """The ways there are over the rows of `database`, by name; what they need of their own is made once, in `kept`."""
    with ExitStack() as stack:
        yield _all(stack, database, kept, chunks)


def _all(stack: ExitStack, database: Path, kept: Path, chunks: int) -> dict[str, Search]:
    found: dict[str, Search] = {"SQLite FTS5": _fts5(stack, database, kept)}
    found["SQLite FTS5, all words"] = found["SQLite FTS5"]
    for name, make in (("tantivy", _tantivy), ("bm25s", _bm25s)):
        if name == "bm25s" and chunks > BM25S_MOST:
            continue
        library = _library(name)
        if library is not None:
            found[name] = make(library, database, kept)
    found |= _scans(stack, database)
    fts5 = found["SQLite FTS5"]
    found["SQLite FTS5"] = lambda question: fts5(telling(question))
    return found


def _library(name: str) -> Any | None:
    if PACKAGES.is_dir() and str(PACKAGES) not in sys.path:
        # Last, so that nothing of ours is taken from there.
        sys.path.append(str(PACKAGES))
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _rows(database: Path) -> Iterator[list[str]]:
    table = lancedb.connect(database).open_table(DEFAULT_TABLE)
    for batch in table.search().select(["search_text"]).to_batches(batch_size=_BATCH):
        yield batch.column("search_text").to_pylist()


def _once(kept: Path, name: str, make: Callable[[Path], None]) -> Path:
    """What `make` makes at the path it is given, unless it was made before."""
    place, half = kept / name, kept / f"{name}.half"
    if not place.exists():
        if half.is_dir():
            shutil.rmtree(half)
        half.unlink(missing_ok=True)
        make(half)
        half.rename(place)
    return place


def _fts5(stack: ExitStack, database: Path, kept: Path) -> Search:
    def make(place: Path) -> None:
        connection = sqlite3.connect(place)
        connection.execute("CREATE VIRTUAL TABLE documents USING fts5(text, tokenize = 'porter unicode61')")
        for texts in _rows(database):
            connection.executemany("INSERT INTO documents VALUES (?)", ((text,) for text in texts))
        connection.execute("INSERT INTO documents(documents) VALUES ('optimize')")
        connection.commit()
        connection.close()

    connection = stack.enter_context(closing(sqlite3.connect(_once(kept, "fts5.sqlite", make))))
    sql = "SELECT text FROM documents WHERE documents MATCH ? ORDER BY rank LIMIT ?"

    def search(question: str) -> list[str]:
        terms = " OR ".join(f'"{word}"' for word in words(question))
        return [text for (text,) in connection.execute(sql, (terms, LIMIT))]

    return search


def _tantivy(tantivy: Any, database: Path, kept: Path) -> Search:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", stored=True, tokenizer_name="en_stem")
    schema = builder.build()

    def make(place: Path) -> None:
        place.mkdir()
        writer = tantivy.Index(schema, path=str(place)).writer()
        for texts in _rows(database):
            for text in texts:
                writer.add_document(tantivy.Document(text=text))
        writer.commit()
        writer.wait_merging_threads()

    index = tantivy.Index(schema, path=str(_once(kept, "tantivy", make)))
    index.reload()
    searcher = index.searcher()

    def search(question: str) -> list[str]:
        query = index.parse_query(" ".join(words(telling(question))), ["text"])
        return [searcher.doc(address)["text"][0] for _, address in searcher.search(query, LIMIT).hits]

    return search


def _bm25s(bm25s: Any, database: Path, kept: Path) -> Search:
    del kept
    texts = [text for batch in _rows(database) for text in batch]
    retriever = bm25s.BM25()
    retriever.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)

    def search(question: str) -> list[str]:
        asked = bm25s.tokenize([telling(question)], show_progress=False)
        places, _ = retriever.retrieve(asked, k=min(LIMIT, len(texts)), show_progress=False)
        return [texts[place] for place in places[0].tolist()]

    return search


def _scans(stack: ExitStack, database: Path) -> dict[str, Search]:
    """What a server without an index asks. A scan cannot rank: it is over with all rows, or with the first it meets."""
    loop, place = stack.enter_context(closing(asyncio.new_event_loop())), str(database.absolute())

    async def opened() -> lancedb.AsyncTable:
        return await (await lancedb.connect_async(place)).open_table(DEFAULT_TABLE)

    table = loop.run_until_complete(opened())

    async def first(question: str) -> list[str]:
        query = table.query().where(_holds_any(question)).limit(LIMIT).select(["search_text"])
        return [record["search_text"] for record in await query.to_list()]

    async def all_rows(question: str) -> list[str]:
        await table.count_rows(_holds_any(question))
        return []

    return {
        "LIKE scan": lambda question: loop.run_until_complete(all_rows(question)),
        "LIKE scan, first 20": lambda question: loop.run_until_complete(first(question)),
    }


def _holds_any(question: str) -> str:
    return " OR ".join(f"search_text LIKE '%{word}%'" for word in words(telling(question)))
