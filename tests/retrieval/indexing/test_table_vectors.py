"""`index --embed` as a whole: which tables get vectors, what is paid for, and that no table ever holds a mixture."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import lancedb
import pyarrow as pa
import pytest

from retrieval import schema
from retrieval.errors import BedivereError, ErrorCode
from retrieval.indexing import embedder, lance, table_vectors, vector_index
from retrieval.indexing.build import build_table
from retrieval.indexing.calibration import FOREIGN_QUESTIONS
from retrieval.indexing.job import Options
from retrieval.indexing.whole import NotWholeError, examine
from retrieval.provider import Endpoint
from retrieval.schema import Provenance
from retrieval.settings import load_settings
from tests.embedding_server import DIMENSIONS, MODEL, EmbeddingServer, cosine, vector_of

DOCUMENTS = {
    "keys.md": "# Keys\n\n## Rotation\n\nRotate the key with résumé.\n\n## Storage\n\nKeys live in the vault.\n",
    "backup.md": "# Backups\n\nA backup of the ledger runs every night.\n",
}


def endpoint(server: EmbeddingServer, **settings: Any) -> Endpoint:
    return Endpoint(load_settings(**({"openai_base_url": server.url, "embedding_model": MODEL} | settings)))


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setattr(embedder, "FIRST_WAIT_SECONDS", 0.0001)


@pytest.fixture(autouse=True)
def _no_questions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    """What is paid for the documents alone is counted here, but for the tests of the questions themselves."""
    if request.cls is not TestCalibration:

        def none(*_: object) -> None:
            return None

        monkeypatch.setattr(table_vectors.TableVectors, "questions", none)


@pytest.fixture
def options(tmp_path: Path, embedding_server: EmbeddingServer) -> Options:
    options = Options(tmp_path / "docs", tmp_path / "db", embed=True, endpoint=endpoint(embedding_server))
    options.source.mkdir()
    for name, text in DOCUMENTS.items():
        (options.source / name).write_text(text, encoding="utf-8")
    return options


def table_of(options: Options) -> Any:
    return cast("Any", lancedb.connect(options.database).open_table(options.table))


def rows_of(options: Options) -> list[dict[str, Any]]:
    return table_of(options).search().select(["title", "heading", "text", "vector"]).to_list()


def record_of(options: Options) -> dict[str, Any] | None:
    provenance = Provenance.from_metadata(table_of(options).schema.metadata)
    assert provenance is not None
    return provenance.embedding


def place_of(options: Options) -> Path:
    return (options.database / "documents.lance").resolve()


def refusal(options: Options) -> BedivereError:
    """What the run is refused with; the table must be as it was."""
    before = place_of(options) if (options.database / "documents.lance").exists() else None
    with pytest.raises(BedivereError) as caught:
        build_table(options)
    after = place_of(options) if (options.database / "documents.lance").exists() else None
    assert before == after
    return caught.value


class TestAFirstRun:
    def test_every_row_has_the_vector_of_its_title_breadcrumb_and_text(self, options: Options) -> None:
        build_table(options)
        rows = rows_of(options)
        assert len(rows) == 3
        for row in rows:
            text = "\n".join(part for part in (row["title"], row["heading"], row["text"]) if part)
            assert cosine(row["vector"], vector_of(text)) == pytest.approx(1, abs=1e-6)

    def test_the_model_and_what_made_the_vectors_are_recorded(self, options: Options) -> None:
        summary = build_table(options)
        assert record_of(options) == {
            "model": MODEL,
            "dimensions": DIMENSIONS,
            "document_prefix": "",
            "index": "flat",
        }
        assert summary.vectors is not None
        assert (summary.vectors.texts, summary.vectors.model) == (3, MODEL)
        assert summary.vectors.tokens > 0

    def test_what_is_published_is_whole(self, options: Options) -> None:
        build_table(options)
        assert examine(place_of(options)).rows == 3

    def test_equal_chunks_are_paid_for_once(self, options: Options, embedding_server: EmbeddingServer) -> None:
        for name in ("one", "two"):
            folder = options.source / name
            folder.mkdir()
            (folder / "same.md").write_text("# Same\n\nThe same words.\n")
        build_table(options)
        assert len(embedding_server.answered) == len(set(embedding_server.answered)) == 4

    def test_without_a_provider_nothing_is_built(self, options: Options) -> None:
        error = refusal(replace(options, endpoint=Endpoint(load_settings())))
        assert error.code is ErrorCode.EMBEDDING_NOT_SET
        assert "OPENAI_API_KEY" in error.sentence

    def test_a_failure_says_what_is_kept_and_makes_no_table(
        self, options: Options, embedding_server: EmbeddingServer
    ) -> None:
        embedding_server.fail("status", status=401)
        error = refusal(options)
        assert error.code is ErrorCode.EMBEDDING_FAILED
        assert "status 401" in error.sentence
        assert "sk-secret" not in error.sentence
        assert error.__cause__ is None
        assert not (options.database / "documents.lance").exists()

    def test_a_failure_keeps_the_providers_own_words_to_itself(
        self, options: Options, embedding_server: EmbeddingServer
    ) -> None:
        embedding_server.fail("status", status=404, message="Rotate the key", code="model_not_found")
        error = refusal(options)
        assert "status 404" in error.sentence
        assert "The provider calls it model_not_found. Nothing was embedded; " in error.sentence
        assert "Rotate" not in error.sentence
        assert error.__cause__ is None

    def test_without_embed_there_are_no_vectors_and_nobody_is_asked(
        self, options: Options, embedding_server: EmbeddingServer
    ) -> None:
        summary = build_table(replace(options, embed=None))
        assert summary.vectors is None
        assert record_of(options) is None
        assert embedding_server.requests == []


class TestALaterRun:
    def test_nothing_changed_writes_nothing_and_asks_nobody(
        self, options: Options, embedding_server: EmbeddingServer
    ) -> None:
        build_table(options)
        before, asked = place_of(options), len(embedding_server.requests)
        assert build_table(options).unchanged
        assert (place_of(options), len(embedding_server.requests)) == (before, asked)

    def test_only_what_changed_is_embedded(self, options: Options, embedding_server: EmbeddingServer) -> None:
        build_table(options)
        (options.source / "keys.md").write_text(DOCUMENTS["keys.md"].replace("the vault", "the new vault"))
        embedding_server.answered.clear()
        summary = build_table(options)
        assert [text.splitlines()[-1] for text in embedding_server.answered] == ["Keys live in the new vault."]
        assert summary.vectors is not None
        assert summary.vectors.texts == 1
        assert all(row["vector"] for row in rows_of(options))

    @pytest.mark.parametrize("embed", [None, True])
    def test_a_table_that_has_vectors_keeps_them(self, options: Options, embed: bool | None) -> None:
        build_table(options)
        (options.source / "more.md").write_text("# More\n\nMore words.\n")
        build_table(replace(options, embed=embed))
        assert len(rows_of(options)) == 4
        assert record_of(options) is not None

    def test_a_provider_is_needed_only_for_what_has_no_vector_yet(self, options: Options) -> None:
        build_table(options)
        silent = replace(options, embed=None, endpoint=Endpoint(load_settings(embedding_model=MODEL)))
        (options.source / "backup.md").unlink()
        assert len(rows_of(options)) == 3
        build_table(silent)
        assert len(rows_of(options)) == 2
        (options.source / "more.md").write_text("# More\n\nMore words.\n")
        error = refusal(silent)
        assert error.code is ErrorCode.EMBEDDING_NOT_SET
        assert "1 chunk has no vector yet" in error.sentence
        assert "--no-embed" in error.sentence

    def test_no_embed_drops_the_vectors_and_a_change_of_mind_costs_nothing(
        self, options: Options, embedding_server: EmbeddingServer
    ) -> None:
        build_table(options)
        build_table(replace(options, embed=False))
        assert record_of(options) is None
        assert "vector" not in table_of(options).schema.names
        asked = len(embedding_server.requests)
        build_table(options)
        assert len(embedding_server.requests) == asked
        assert len(rows_of(options)[0]["vector"]) == DIMENSIONS

    def test_a_rebuild_pays_for_nothing_twice(self, options: Options, embedding_server: EmbeddingServer) -> None:
        build_table(options)
        asked = len(embedding_server.requests)
        summary = build_table(replace(options, rebuild=True))
        assert not summary.unchanged
        assert len(embedding_server.requests) == asked

    def test_the_table_itself_gives_the_vectors_where_the_cache_is_lost(
        self, options: Options, embedding_server: EmbeddingServer
    ) -> None:
        build_table(options)
        before = {row["text"]: row["vector"] for row in rows_of(options)}
        (cache,) = (options.database / ".bedivere" / "documents.vectors").iterdir()
        cache.unlink()
        (options.source / "more.md").write_text("# More\n\nMore words.\n")
        embedding_server.answered.clear()
        build_table(options)
        assert embedding_server.answered == ["More\n# More\n\nMore words."]
        assert before.items() <= {row["text"]: row["vector"] for row in rows_of(options)}.items()

    def test_another_prefix_embeds_everything_anew(self, options: Options, embedding_server: EmbeddingServer) -> None:
        build_table(options)
        embedding_server.answered.clear()
        prefixed = endpoint(embedding_server, embedding_document_prefix="passage: ")
        summary = build_table(replace(options, endpoint=prefixed))
        assert summary.vectors is not None
        assert summary.vectors.texts == 3
        assert all(text.startswith("passage: ") for text in embedding_server.answered)
        assert (record_of(options) or {})["document_prefix"] == "passage: "

    def test_a_failure_leaves_the_old_table_and_keeps_what_was_paid_for(
        self, options: Options, embedding_server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(embedder, "MAX_TEXTS", 1)
        monkeypatch.setattr(embedder, "CONCURRENCY", 1)
        build_table(options)
        for number in range(5):
            (options.source / f"new{number}.md").write_text(f"# New {number}\n\nText {number}.\n")
        embedding_server.answered.clear()
        embedding_server.refuse_after = len(embedding_server.requests) + 3
        error = refusal(options)
        assert error.code is ErrorCode.EMBEDDING_FAILED
        assert "6 vectors are kept" in error.sentence
        assert len(rows_of(options)) == 3
        paid = list(embedding_server.answered)
        embedding_server.heal()
        build_table(options)
        assert len(paid) == 3
        assert len(embedding_server.answered) == len(set(embedding_server.answered)) == 5


class TestAnotherModel:
    @pytest.mark.parametrize("embed", [None, True])
    def test_it_is_refused_with_both_names(
        self, options: Options, embedding_server: EmbeddingServer, embed: bool | None
    ) -> None:
        build_table(options)
        other = replace(options, embed=embed, endpoint=endpoint(embedding_server, embedding_model="other-model"))
        error = refusal(other)
        assert error.code is ErrorCode.EMBEDDING_MISMATCH
        assert f"'{MODEL}'" in error.sentence
        assert "'other-model'" in error.sentence

    def test_no_provider_is_not_taken_for_another_model(self, options: Options) -> None:
        build_table(options)
        error = refusal(replace(options, embed=None, endpoint=Endpoint(load_settings())))
        assert error.code is ErrorCode.EMBEDDING_NOT_SET
        assert "No embeddings provider is configured" in error.sentence
        assert f"with EMBEDDING_MODEL={MODEL}; or pass --no-embed" in error.sentence

    def test_another_length_is_refused(self, options: Options, embedding_server: EmbeddingServer) -> None:
        build_table(options)
        shorter = replace(options, endpoint=endpoint(embedding_server, embedding_dimensions=8))
        assert refusal(shorter).code is ErrorCode.EMBEDDING_MISMATCH

    def test_a_rebuild_alone_does_not_change_the_model(
        self, options: Options, embedding_server: EmbeddingServer
    ) -> None:
        build_table(options)
        other = endpoint(embedding_server, embedding_model="other-model")
        rebuilt = replace(options, embed=None, rebuild=True, endpoint=other)
        assert refusal(rebuilt).code is ErrorCode.EMBEDDING_MISMATCH

    def test_embed_and_rebuild_together_embed_all_of_the_table_anew(
        self, options: Options, embedding_server: EmbeddingServer
    ) -> None:
        build_table(replace(options, collection="first"))
        build_table(replace(options, collection="second"))
        other = endpoint(embedding_server, embedding_model="other-model", embedding_dimensions=8)
        embedding_server.answered.clear()
        build_table(replace(options, collection="second", endpoint=other, rebuild=True))
        assert {len(row["vector"]) for row in rows_of(options)} == {8}
        assert len(rows_of(options)) == 6
        assert (record_of(options) or {})["model"] == "other-model"


class TestCollectionsSideBySide:
    def test_rows_of_another_collection_keep_their_vectors(
        self, options: Options, embedding_server: EmbeddingServer
    ) -> None:
        build_table(replace(options, collection="first"))
        embedding_server.answered.clear()
        (options.source / "keys.md").unlink()
        build_table(replace(options, collection="second"))
        assert embedding_server.answered == []
        assert len(rows_of(options)) == 4
        assert all(len(row["vector"]) == DIMENSIONS for row in rows_of(options))

    def test_rows_of_another_collection_without_vectors_get_them(self, options: Options) -> None:
        build_table(replace(options, collection="first", embed=None))
        build_table(replace(options, collection="second"))
        assert len(rows_of(options)) == 6
        assert all(len(row["vector"]) == DIMENSIONS for row in rows_of(options))


class TestTheIndexOfVectors:
    @pytest.fixture(autouse=True)
    def _small(self, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
        monkeypatch.setattr(vector_index, "FLAT_ROWS", 99)

    @pytest.fixture
    def many(self, options: Options) -> Options:
        for number in range(120):
            words = " ".join(f"word{(number * step) % 97}" for step in range(1, 9))
            (options.source / f"{number}.md").write_text(f"# Page {number}\n\n{words}\n")
        return options

    def test_many_rows_are_indexed_and_its_recall_is_measured_and_kept(self, many: Options) -> None:
        vectors = build_table(many).vectors
        assert vectors is not None
        assert vectors.index == "HNSW_SQ"
        assert vectors.recall_at_10 is not None
        assert 0.8 < vectors.recall_at_10 <= 1
        provenance = lance.measured_provenance(table_of(many))
        assert provenance is not None
        assert provenance.embedding is not None
        assert provenance.embedding["recall_at_10"] == vectors.recall_at_10
        assert provenance.embedding["recall_sampled"] == 123

    def test_the_index_covers_every_row_by_cosine(self, many: Options) -> None:
        build_table(many)
        (stats,) = (
            table_of(many).index_stats(index.name)
            for index in table_of(many).list_indices()
            if index.columns == ["vector"]
        )
        assert (stats.num_indexed_rows, stats.num_unindexed_rows) == (123, 0)
        assert stats.distance_type == "cosine"

    def test_an_unchanged_run_says_what_was_measured_before(self, many: Options) -> None:
        first, second = build_table(many), build_table(many)
        assert second.unchanged
        assert first.vectors is not None
        assert second.vectors is not None
        assert second.vectors.recall_at_10 == first.vectors.recall_at_10

    def test_a_table_whose_index_is_lost_is_built_again_and_not_published(self, many: Options) -> None:
        build_table(many)
        table_of(many).drop_index("vector_idx")
        with pytest.raises(NotWholeError, match="'vector'"):
            examine(place_of(many))
        assert not build_table(many).unchanged
        assert examine(place_of(many)).indexed["vector"] == 123

    def test_the_same_rows_have_the_same_digest_whatever_the_recall(
        self, many: Options, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        build_table(many)
        before = examine(place_of(many)).digest

        def measured(_table: object) -> vector_index.Recall:
            return vector_index.Recall(0.5, 3)

        monkeypatch.setattr(vector_index, "measure", measured)
        vectors = build_table(replace(many, rebuild=True)).vectors
        assert vectors is not None
        assert vectors.recall_at_10 == 0.5
        assert examine(place_of(many)).digest == before


def test_a_row_without_a_vector_is_not_published(tmp_path: Path) -> None:
    record = Provenance("1", "1", "2026-11-29T18:15:00Z", {}, {}, "0" * 64, {"model": "m", "dimensions": 2})
    schema = pa.schema(
        [
            pa.field("id", pa.string()),
            *(pa.field(name, pa.string()) for name in lance.FULL_TEXT),
            pa.field("vector", pa.list_(pa.float32(), 2)),
        ],
        record.to_metadata(),
    )
    row = {"id": "a", **dict.fromkeys(lance.FULL_TEXT, "text")}
    rows = pa.Table.from_pylist([{**row, "vector": [1.0, 0.0]}, {**row, "vector": None}], schema=schema)
    table = lancedb.connect(tmp_path).create_table("documents", rows, on_bad_vectors="null")
    for column, config in lance.FULL_TEXT.items():
        table.create_index(column, config=config)
    with pytest.raises(NotWholeError, match="usable vector"):
        examine(tmp_path / "documents.lance")


def test_a_lost_table_that_had_vectors_is_told(options: Options) -> None:
    build_table(options)
    for file in place_of(options).rglob("*.manifest"):
        file.write_bytes(b"damaged")
    summary = build_table(replace(options, embed=None))
    assert any("--embed" in note for note in summary.notes)
    assert table_vectors.CACHE_SUFFIX == ".vectors"


class TestCalibration:
    def test_how_near_questions_come_is_measured_and_kept_with_the_vectors(
        self, options: Options, embedding_server: EmbeddingServer
    ) -> None:
        for number in range(6):
            (options.source / f"{number}.md").write_text(f"# Number {number} page\n\nPage {number} says little.\n")
        build_table(options)
        measured = schema.measured(table_of(options).schema.field("vector").metadata)["calibration"]
        assert measured["foreign_questions"] == len(FOREIGN_QUESTIONS)
        assert -1 <= measured["noise"] < measured["signal"] <= 1
        assert set(FOREIGN_QUESTIONS) <= set(embedding_server.answered)

    def test_questions_are_paid_for_once(self, options: Options, embedding_server: EmbeddingServer) -> None:
        build_table(options)
        embedding_server.answered.clear()
        (options.source / "more.md").write_text("# More\n\nMore words.\n")
        build_table(options)
        assert not set(FOREIGN_QUESTIONS) & set(embedding_server.answered)

    def test_a_provider_that_fails_at_the_questions_costs_the_calibration_and_not_the_table(
        self, options: Options, embedding_server: EmbeddingServer
    ) -> None:
        embedding_server.refuse_after = len(embedding_server.requests) + 1
        build_table(options)
        assert "calibration" not in schema.measured(table_of(options).schema.field("vector").metadata)
        assert len(rows_of(options)) == 3
