"""Private collections: what is said to a caller who may not see them does not depend on what is in them.

Two databases differ in their private documents alone. Whatever a caller without the scope asks, both answer the same.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import cos, sin
from pathlib import Path
from typing import Any, Literal, cast
from unicodedata import normalize

import lancedb
import pyarrow as pa
import pytest
from lancedb.index import IvfFlat

from handler.contract import Service
from handler.tools import TOOLS
from retrieval.confinement import MAX_KEPT, ConfinedDatabase, ConfinedDataset, confine
from retrieval.database import Database
from retrieval.dataset import Dataset
from retrieval.errors import BedivereError, ErrorCode
from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options
from retrieval.look import DatasetState
from retrieval.retriever import Retriever
from retrieval.settings import Settings
from retrieval.types import SearchType
from tests.conftest import TableMaker
from tests.embedding_server import EmbeddingServer
from tests.retrieval.asking import ask, index, retriever

HIDDEN = frozenset({"hr"})
ALL = frozenset[str]()

PUBLIC = {
    "index.md": "# Handbook\n\nHow the ledger is run, and who runs it.\n",
    "keys.md": (
        "---\nstatus: final\nowner: platform\n---\n# Keys\n\n## Rotation\n\nRotate the signing key every ninety days.\n"
    ),
    "backup.md": "---\nsuperseded_by: restore.md\n---\n# Backups\n\nA backup of the ledger runs every night.\n",
    "restore.md": "# Restore\n\nA restored ledger is checked before the night ends.\n",
    "raise.md": "---\nsuperseded_by: pay/merger.md\n---\n# Raises\n\nThe ledger of raises was moved elsewhere.\n",
}

# Words, names, statuses, versions, columns and a path that the public documents do not have.
PRIVATE = {
    "index.md": "# Salaries of the zirconium team\n\nThe salaries and `ZRC-4711` of the quorvane.\n",
    "pay/merger.md": (
        "---\nstatus: embargoed\nclearance: topmost\nowner: quorvane\n---\n# Merger with Quorvane\n\n"
        "## Rotation of the zirconium key\n\nThe merger is signed with the zirconium key and call_quorvane().\n\n"
        f"{'Ledger ledger rotation rotation night night. ' * 40}\n\n## Terms\n\n"
        f"{'The terms of the quorvane are told here at some length. ' * 40}\n"
    ),
    "pay/old.md": "---\nstatus: superseded\nsuperseded_by: keys.md\n---\n# Old zirconium rotation\n\nRotate it.\n",
}
OTHER_PRIVATE = {"unlike.md": "# Unlike\n\nNothing of the kind.\n"}

MARKS = ("zirconium", "quorvane", "zrc-4711", "merger with", "embargoed", "clearance", "topmost", "pay/old", "hr")


@dataclass(frozen=True)
class Pair:
    """Two databases with one public part."""

    one: Path
    other: Path


def _write(folder: Path, documents: Mapping[str, str]) -> Path:
    for name, text in documents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def _database(folder: Path, private: Mapping[str, str], version: str, secret_table: str) -> Path:
    database = folder / "database"
    build_table(Options(_write(folder / "public", PUBLIC), database, collection="docs"))
    secret = _write(folder / "private", private)
    build_table(Options(secret, database, collection="hr", doc_version=version))
    build_table(Options(secret, database, table=secret_table, collection="hr"))
    return database


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    one, other = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("other")
    return Pair(
        _database(one, PRIVATE, "9.9", "payroll"),
        _database(other, OTHER_PRIVATE, "1.0", "elsewhere"),
    )


def answer(database: Path, tool: str, arguments: Mapping[str, Any], hidden: frozenset[str]) -> str:
    """What the tool says: its reply as JSON, or the text of its error."""
    settings = Settings(database=str(database))
    retriever = Retriever(settings)
    service = Service(settings, retriever.for_call(None, hidden))

    async def asked() -> str:
        try:
            parsed = TOOLS[tool].parse(arguments, settings)
            return (await TOOLS[tool].run(service, parsed)).model_dump_json(by_alias=True)
        except BedivereError as error:
            return str(error)

    return asyncio.run(asked())


def comparable(told: str) -> str:
    """`told` without what changes with any build: the corpus version, the time, and the tag within a cursor."""
    told = re.sub(r'"(corpusVersion|builtAt)":"[^"]*"', r'"\1":""', told)
    return re.sub(r'"cursor":"[^"]*"', '"cursor":""', told)


QUERIES = (
    "rotate the signing key",
    "zirconium",
    "zirconum",
    "the zirconum merger",
    "ZRC-4711",
    "call_quorvane",
    "call_quorvne",
    '"merger with Quorvane"',
    "zirconium night",
    "Salaries of the zirconium team",
    "the ledger of raises",
)

NARROWED: tuple[dict[str, Any], ...] = (
    {"collection": "hr"},
    {"collection": "HR"},
    {"version": "9.9"},
    {"collection": "docs", "version": "9.9"},
    {"pathPrefix": "pay/"},
    {"includeOutdated": True},
    {"filters": {"collection": "hr"}},
    {"filters": {"collection": {"neq": "docs"}}},
    {"filters": {"clearance": "topmost"}},
    {"filters": {"clearence": "topmost"}},
    {"filters": {"status": "embargoed"}},
    {"filters": {"owner": "quorvane"}},
    {"filters": {"id": {"prefix": "hr"}}},
    {"exclude": ["keys"]},
    {"table": "payroll"},
    {"table": "nothing"},
)

LISTED: dict[str, list[dict[str, Any]]] = {
    "lancedb_search": [
        *({"query": query} for query in QUERIES),
        *({"query": query, "minScore": 0} for query in QUERIES),
        *({"query": "rotation of the zirconium key", **narrowed} for narrowed in NARROWED),
        *({"query": "ledger", "textColumn": column} for column in ("title", "heading", "content_hash", "clearance")),
        {"query": "ledger", "collapse": "document", "expand": {"type": "section"}, "limit": 1},
        {"query": "ledger", "vectorColumn": "clearance"},
    ],
    "lancedb_query": [
        *({"question": query} for query in QUERIES),
        *({"question": query, "minScore": 0} for query in QUERIES),
        *({"question": "rotation of the zirconium key", **narrowed} for narrowed in NARROWED),
        *({"question": "", "warmStart": True, **narrowed} for narrowed in ({}, *NARROWED)),
    ],
    "lancedb_fetch": [
        {"path": "index.md"},
        {"path": "pay/merger.md"},
        {"path": "pay/mergr.md"},
        {"path": "pay/merger.md#1"},
        {"path": "/pay/merger.md"},
        {"path": "pay/merger.md", "collection": "hr", "version": "9.9"},
        {"path": "index.md", "collection": "hr"},
        {"path": "index.md", "version": "9.9"},
        {"path": "raise.md"},
        {"path": "backup.md"},
        {"id": "hr@9.9:pay/merger.md#0"},
        {"id": "hr@9.9:pay/merger.md#77"},
        {"id": "hr@9.9:pay/merger.md#0", "before": 2, "after": 2},
        {"id": "docs:keys.md#0", "before": 5, "after": 5},
        {"id": "row:0"},
        {"path": "index.md", "table": "payroll"},
        {"id": "hr:index.md#0", "table": "payroll"},
    ],
    "lancedb_catalog": [
        {},
        {"limit": 2},
        {"status": "embargoed"},
        {"ifCorpusVersion": "0"},
        {"fields": ["clearance"]},
        *NARROWED,
    ],
    "lancedb_status": [{}, {"verbose": True}],
    "lancedb_version": [{}],
}

PROBES = [(tool, arguments) for tool, asked in LISTED.items() for arguments in asked]


def ids() -> Iterator[str]:
    for tool, arguments in PROBES:
        yield f"{tool} {json.dumps(arguments)}"


def test_every_tool_is_tried() -> None:
    assert set(LISTED) == set(TOOLS)


@pytest.mark.parametrize(("tool", "arguments"), PROBES, ids=ids())
def test_what_is_said_does_not_depend_on_what_may_not_be_seen(pair: Pair, tool: str, arguments: dict[str, Any]) -> None:
    one, other = (answer(database, tool, arguments, HIDDEN) for database in (pair.one, pair.other))
    assert comparable(one) == comparable(other)
    asked = json.dumps(arguments).casefold()
    for mark in MARKS:
        assert mark in asked or not re.search(rf"\b{re.escape(mark)}\b", _of_the_public(one)), mark


def _of_the_public(told: str) -> str:
    """`told` without what a public document itself says of its successor."""
    return told.casefold().replace("pay/merger.md", "")


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("lancedb_search", {"query": "zirconium"}),
        ("lancedb_search", {"query": "zirconum"}),
        ("lancedb_query", {"question": "merger"}),
        ("lancedb_query", {"question": "", "warmStart": True}),
        ("lancedb_fetch", {"path": "pay/merger.md"}),
        ("lancedb_catalog", {}),
        ("lancedb_status", {"verbose": True}),
    ],
)
def test_who_may_see_all_is_told_all(pair: Pair, tool: str, arguments: dict[str, Any]) -> None:
    assert any(mark in answer(pair.one, tool, arguments, ALL).casefold() for mark in MARKS)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("lancedb_catalog", {"limit": 1}), ("lancedb_fetch", {"path": "pay/merger.md", "maxChars": 1000})],
)
def test_a_cursor_of_who_sees_all_leads_nobody_else_anywhere(pair: Pair, tool: str, arguments: dict[str, Any]) -> None:
    cursor = json.loads(answer(pair.one, tool, arguments, ALL))["cursor"]
    assert cursor
    asked = {**{name: value for name, value in arguments.items() if name == "limit"}, "cursor": cursor}
    assert answer(pair.one, tool, asked, HIDDEN).startswith(f"{ErrorCode.CURSOR_STALE}: ")


def test_whoever_sees_less_reads_on_by_a_cursor_of_their_own(pair: Pair) -> None:
    paths: list[str] = []
    asked: dict[str, Any] = {"limit": 2}
    while True:
        page = json.loads(answer(pair.one, "lancedb_catalog", asked, HIDDEN))
        paths += [document["path"] for document in page["documents"]]
        if page["cursor"] is None:
            break
        asked["cursor"] = page["cursor"]
    assert paths == sorted(PUBLIC)
    assert page["total"] == len(PUBLIC)


def test_counts_are_of_what_is_seen(pair: Pair) -> None:
    status = json.loads(answer(pair.one, "lancedb_status", {}, HIDDEN))
    table = status["tables"][0]
    assert [table["name"] for table in status["tables"]] == ["documents"]
    assert table["rows"] == 5
    assert {index["indexed"] for index in table["indexes"]} == {5}
    assert [collection["name"] for collection in table["collections"]] == ["docs"]
    assert table["provenance"]["files"] is None


def test_rare_words_may_change_places_and_never_which_hits_there_are(pair: Pair) -> None:
    asked = {"query": "ledger night rotation zirconium"}
    one, other = (json.loads(answer(database, "lancedb_search", asked, HIDDEN)) for database in (pair.one, pair.other))
    assert {hit["id"] for hit in one["hits"]} == {hit["id"] for hit in other["hits"]}


def test_scores_of_words_are_of_their_ranks_alone(pair: Pair) -> None:
    hits = json.loads(answer(pair.one, "lancedb_search", {"query": "ledger"}, HIDDEN))["hits"]
    assert [hit["score"] for hit in hits] == [round(1 / (60 + rank), 4) for rank in range(1, len(hits) + 1)]
    assert {hit["scoreType"] for hit in hits} == {"rrf"}
    assert {hit["textScore"] for hit in hits} == {None}


def test_where_nothing_private_lies_nothing_is_lost(pair: Pair) -> None:
    asked = {"query": "rotatte the signing key"}
    told = json.loads(answer(pair.one, "lancedb_search", asked, frozenset({"board"})))
    assert told["corrections"]
    assert told["hits"][0]["scoreType"] == "bm25"


def test_a_private_collection_is_private_in_any_spelling(pair: Pair) -> None:
    told = answer(pair.one, "lancedb_search", {"query": "zirconium"}, frozenset({"HR"}))
    assert json.loads(told)["hits"] == []


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_accents_are_the_same_as_letters_and_as_marks(make_table: TableMaker, form: Literal["NFC", "NFD"]) -> None:
    folder = make_table({"text": ["open", "secret"], "collection": ["docs", normalize(form, "Geh\u00e4lter 1")]})
    for written in ("NFC", "NFD"):
        hidden = frozenset({normalize(written, "geh\u00c4lter  1")})
        assert json.loads(answer(folder, "lancedb_search", {"query": "secret"}, hidden))["hits"] == []


def test_what_nobody_sees_in_a_name_tells_no_collection_from_another(make_table: TableMaker) -> None:
    folder = make_table({"text": ["open", "secret"], "collection": ["docs", "h\u200br"]})
    assert json.loads(answer(folder, "lancedb_search", {"query": "secret"}, HIDDEN))["hits"] == []


def test_how_much_was_fetched_is_told_to_who_may_see_it_all(pair: Pair) -> None:
    @dataclass(frozen=True)
    class Released:
        def state(self) -> DatasetState:
            return DatasetState(from_releases=True, release="r", sync_bytes=4711, sync_milliseconds=8)

    state = ConfinedDataset(cast("Dataset", Released()), Settings(), HIDDEN).state()
    assert (state.release, state.sync_bytes, state.sync_milliseconds) == ("r", None, None)


def test_an_index_that_ends_among_what_may_not_be_seen_is_walked_on(tmp_path: Path) -> None:
    # Of 64 parts of the index the nearest twenty are looked into, and the private rows are all that lie there.
    angles = [number / 2_000 for number in range(2_000)]
    columns: dict[str, Any] = {
        "text": ["ledger"] * 2_000,
        "collection": ["hr" if number < 1_800 else "docs" for number in range(2_000)],
        "vector": cast("Any", pa).array([[cos(angle), sin(angle)] for angle in angles], pa.list_(pa.float32(), 2)),
    }

    async def found() -> int:
        connection = await lancedb.connect_async(tmp_path)
        table = await connection.create_table("documents", cast("Any", pa.table(columns)))
        await table.create_index("vector", config=IvfFlat(distance_type="cosine", num_partitions=64))
        part = await confine(await Database(str(tmp_path)).table("documents"), HIDDEN, "text")
        assert not isinstance(part, str)
        return len(await part.search_vector([1.0, 0.0], "vector", part.layout("text"), 10))

    assert asyncio.run(found()) == 10


def test_a_table_of_others_is_confined_by_its_rows(make_table: TableMaker) -> None:
    folder = make_table(
        {
            "text": ["open word", "secret word", "plain word", "second secret"],
            "path": ["a.md", "a.md", "b.md", "c.md"],
            "chunk": [0, 1, 0, 0],
            "collection": ["docs", "hr", None, "Hr"],
            "grade": [None, "top", None, "top"],
        },
        fts=["text"],
    )
    told = json.loads(answer(folder, "lancedb_search", {"query": "word"}, HIDDEN))
    assert sorted(hit["snippet"] for hit in told["hits"]) == ["open word", "plain word"]
    listed = json.loads(answer(folder, "lancedb_catalog", {}, HIDDEN))
    assert [(one["path"], one["chunks"]) for one in listed["documents"]] == [("a.md", 1), ("b.md", 1)]
    assert "grade" not in answer(folder, "lancedb_status", {"verbose": True}, HIDDEN)


def test_a_table_whose_collections_are_no_text_is_there_for_nobody_who_may_not_see_all(make_table: TableMaker) -> None:
    folder = make_table({"text": ["one", "two"], "collection": [["hr"], ["docs"]]}, fts=["text"])
    assert answer(folder, "lancedb_search", {"query": "one"}, HIDDEN).startswith(f"{ErrorCode.TABLE_NOT_FOUND}: ")


def test_a_column_of_another_spelling_may_have_been_meant(make_table: TableMaker) -> None:
    folder = make_table({"text": ["one", "two"], "Collection": ["hr", "docs"]}, fts=["text"])
    assert answer(folder, "lancedb_search", {"query": "one"}, HIDDEN).startswith(f"{ErrorCode.TABLE_NOT_FOUND}: ")


def test_a_table_without_collections_has_nothing_private(make_table: TableMaker) -> None:
    folder = make_table({"text": ["one", "two"]}, fts=["text"])
    assert len(json.loads(answer(folder, "lancedb_search", {"query": "one"}, HIDDEN))["hits"]) == 1


def test_a_table_is_confined_once_for_all_calls(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Database(str(pair.one))
    made: list[object] = []

    async def count(*arguments: Any) -> object:
        made.append(arguments)
        return await confine(*arguments)

    monkeypatch.setattr("retrieval.confinement.confine", count)

    async def ask() -> None:
        first = await ConfinedDatabase(whole, HIDDEN, "text").table("documents")
        again = await ConfinedDatabase(whole, HIDDEN, "text").table("documents")
        assert first is again
        assert first is not await whole.table("documents")

    asyncio.run(ask())
    assert len(made) == 1


def test_however_many_sets_of_scopes_there_are_few_parts_of_a_table_are_kept(pair: Pair) -> None:
    whole = Database(str(pair.one))

    async def asked() -> int:
        for number in range(3 * MAX_KEPT):
            seen = await ConfinedDatabase(whole, frozenset({"hr", str(number)}), "text").table("documents")
            assert await seen.count() == len(PUBLIC)
        return len((await whole.table("documents")).confined)

    assert asyncio.run(asked()) == MAX_KEPT


@pytest.mark.parametrize("search_type", ["vector", "hybrid", "auto"])
def test_by_meaning_too_nothing_hangs_on_what_may_not_be_seen(
    tmp_path: Path, embedding_server: EmbeddingServer, search_type: SearchType
) -> None:
    told: list[str] = []
    for number, private in enumerate((PRIVATE, OTHER_PRIVATE)):
        folder = tmp_path / str(number)
        index(folder, PUBLIC, embedding_server, collection="docs")
        database = index(folder, private, embedding_server, collection="hr")
        seeing_less = retriever(database, embedding_server).for_call(None, HIDDEN)
        found = ask(seeing_less, "the zirconium key", search_type=search_type, min_score=0.0)
        assert found.search_type == ("hybrid" if search_type == "auto" else search_type)
        assert {hit.metadata["collection"] for hit in found.hits} == {"docs"}
        told.append(comparable(found.model_dump_json(by_alias=True)))
    assert told[0] == told[1]


def test_what_was_learnt_of_all_rows_is_not_told_of_some(make_table: TableMaker) -> None:
    folder = make_table(
        {
            "text": ["A ledger.", "A secret ledger."],
            "collection": ["docs", "hr"],
            "held": ["2026-01-02", "the day before"],
            "clearance": [None, "topmost"],
        }
    )

    async def told() -> tuple[list[str], list[str], tuple[str, ...]]:
        table = await Database(str(folder)).table("documents")
        before = await table.undated(["held"])
        assert "clearance" in table.layout("text").metadata
        part = await confine(table, HIDDEN, "text")
        assert not isinstance(part, str)
        return before, await part.undated(["held"]), part.layout("text").metadata

    before, after, columns = asyncio.run(told())
    assert len(before) == 1
    assert after == []
    assert "clearance" not in columns
