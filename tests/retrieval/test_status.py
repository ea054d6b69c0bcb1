"""What the status says of a dataset: what can be searched, how, and what limits it."""

# pyarrow and lancedb ship no types, or some.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lancedb
import pyarrow as pa
import pytest
from lancedb.index import IvfFlat

from retrieval.indexing import vector_index
from retrieval.status_reply import StatusReply, TableStatus
from tests.embedding_server import DIMENSIONS, MODEL, EmbeddingServer, vector_of
from tests.retrieval.asking import DATABASE, index, retriever

if TYPE_CHECKING:
    from tests.conftest import TableMaker

DOCUMENTS = {f"page{n}.md": f"# Page {n}\n\n## The harbour\n\nThe ferry number {n} leaves at noon.\n" for n in range(8)}


def status(database: Path, server: EmbeddingServer | None = None, **settings: Any) -> StatusReply:
    return asyncio.run(retriever(database, server, **settings).status(verbose=False))


def table_of(database: Path, server: EmbeddingServer | None = None, **settings: Any) -> TableStatus:
    return status(database, server, **settings).tables[0]


def words_of(texts: list[str]) -> dict[str, object]:
    return {"text": texts, "vector": pa.array([vector_of(text) for text in texts], pa.list_(pa.float32(), DIMENSIONS))}


class TestEmbeddings:
    def test_they_are_available_where_table_and_provider_fit(
        self, tmp_path: Path, embedding_server: EmbeddingServer
    ) -> None:
        embeddings = status(index(tmp_path, DOCUMENTS, embedding_server), embedding_server).embeddings
        assert (embeddings.available, embeddings.reason, embeddings.model) == (True, None, MODEL)

    def test_why_they_are_not_is_the_reason_that_a_search_gives(
        self, tmp_path: Path, embedding_server: EmbeddingServer
    ) -> None:
        database = index(tmp_path, DOCUMENTS, embedding_server)
        reasons = [
            status(database).embeddings.reason,
            status(database, embedding_server, embedding_model="other-model").embeddings.reason,
            status(database, embedding_server, vector_column="nope").embeddings.reason,
        ]
        for reason, words in zip(reasons, ("OPENAI_API_KEY", "'other-model'", "'nope'"), strict=True):
            assert words in (reason or "")
            assert (reason or "").endswith(".")

    def test_a_table_whose_vectors_are_not_used_says_so(
        self, tmp_path: Path, embedding_server: EmbeddingServer
    ) -> None:
        database = index(tmp_path, DOCUMENTS, embedding_server)
        (unset,) = table_of(database).notes
        (another,) = table_of(database, embedding_server, embedding_model="other-model").notes
        assert "OPENAI_BASE_URL" in unset
        assert f"EMBEDDING_MODEL to {MODEL!r}" in unset
        assert another.startswith("The table's vectors are not used. The table was embedded with model")
        assert table_of(database, embedding_server).notes == []

    def test_no_provider_is_asked_for_a_status(self, tmp_path: Path, embedding_server: EmbeddingServer) -> None:
        database = index(tmp_path, DOCUMENTS, embedding_server)
        embedding_server.requests.clear()
        status(database, embedding_server)
        assert embedding_server.requests == []


class TestVectors:
    def test_a_small_table_is_scanned_and_calibrated(self, tmp_path: Path, embedding_server: EmbeddingServer) -> None:
        table = table_of(index(tmp_path, DOCUMENTS, embedding_server), embedding_server)
        vectors = table.vectors[0]
        assert (vectors.column, vectors.dimensions, vectors.index) == ("vector", DIMENSIONS, "flat")
        assert (vectors.recall_at_10, vectors.calibrated) == (None, True)
        assert table.provenance is not None
        assert table.provenance.embedding_model == MODEL

    def test_a_large_one_says_what_its_index_finds(
        self, tmp_path: Path, embedding_server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(vector_index, "FLAT_ROWS", 4)
        vectors = table_of(index(tmp_path, DOCUMENTS, embedding_server)).vectors[0]
        assert vectors.index == "HNSW_SQ"
        assert vectors.recall_at_10 == 1.0

    def test_a_table_without_them_has_none(self, tmp_path: Path) -> None:
        assert table_of(index(tmp_path, DOCUMENTS)).vectors == []

    def test_of_a_table_of_others_there_is_what_lancedb_says(
        self, make_table: TableMaker, embedding_server: EmbeddingServer
    ) -> None:
        database = make_table(words_of([f"boat {n}" for n in range(20)]))
        lancedb.connect(database).open_table("documents").create_index("vector", config=IvfFlat(num_partitions=1))
        table = table_of(database, embedding_server)
        vectors = table.vectors[0]
        assert (vectors.dimensions, vectors.index) == (DIMENSIONS, "IvfFlat")
        assert (vectors.recall_at_10, vectors.calibrated) == (None, False)
        assert any("taken on trust" in note for note in table.notes)

    def test_trust_is_not_spoken_of_where_no_vector_is_used(self, make_table: TableMaker) -> None:
        table = table_of(make_table(words_of(["a boat"]), fts=["text"]), embedding_model=MODEL)
        assert not any("trust" in note for note in table.notes)


class TestCollections:
    def test_each_has_its_documents_and_versions_newest_first(self, tmp_path: Path) -> None:
        page = {"a.md": "# A\n\nSomething.\n"}
        for version in ("1.9", "1.10"):
            index(tmp_path, {**page, "b.md": "# B\n\nMore.\n"}, collection="sea", doc_version=version)
        index(tmp_path, page, collection="land")
        index(tmp_path, page)
        found = table_of(tmp_path / DATABASE).collections
        assert [(one.name, one.documents, one.versions) for one in found] == [
            (None, 1, []),
            ("land", 1, []),
            ("sea", 4, ["1.10", "1.9"]),
        ]

    def test_of_a_table_of_others_not_all_rows_are_read_for_them(self, make_table: TableMaker) -> None:
        assert table_of(make_table({"path": ["a"], "text": ["boat"], "collection": ["sea"]})).collections == []
