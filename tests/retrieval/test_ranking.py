"""The search of one table from question to ranked candidates: which arms run, in which rows, and what is said of it."""

# pyarrow and lancedb ship no types, or some.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import lancedb
import pyarrow as pa
import pytest
from lancedb.index import IvfFlat

from retrieval import embedding
from retrieval.circuit import THRESHOLD
from retrieval.errors import BedivereError
from retrieval.ranking import depth_for
from retrieval.types import Narrowing, SearchReply
from tests.embedding_server import DIMENSIONS, MODEL, EmbeddingServer, running_embedding_server
from tests.retrieval.asking import DATABASE, ask, ask_context, index, paths, retriever, vectors_of

if TYPE_CHECKING:
    from tests.conftest import TableMaker

DOCUMENTS = {
    "keys.md": (
        "# Keys\n\n## Rotation\n\nRotate the signing key every ninety days with `rotate_signing_key`.\n\n"
        "## Storage\n\nSigning keys live in the vault, where nobody reads them.\n"
    ),
    "backup.md": "# Backups\n\nA backup of the ledger runs every night and is kept for a year.\n",
    "boats.md": "# Boats\n\nThe red boat leaves the harbour at noon, whatever the weather.\n",
}
MEANING = ("vector", "hybrid", "auto")


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A database of DOCUMENTS with vectors; tests only read it."""
    with running_embedding_server() as server:
        yield index(tmp_path_factory.mktemp("embedded"), DOCUMENTS, server)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same without vectors."""
    return index(tmp_path_factory.mktemp("plain"), DOCUMENTS)


class TestWhatRuns:
    @pytest.mark.parametrize(
        ("asked", "ran"), [("text", "text"), ("vector", "vector"), ("hybrid", "hybrid"), ("auto", "hybrid")]
    )
    def test_each_type_is_the_search_it_is_called(
        self, embedded: Path, embedding_server: EmbeddingServer, asked: Any, ran: str
    ) -> None:
        reply = ask(retriever(embedded, embedding_server), "rotate the signing key", search_type=asked)
        assert (reply.search_type, reply.degraded, reply.notes) == (ran, False, [])
        assert reply.hits[0].heading == "Rotation"
        assert len(embedding_server.requests) == (asked != "text")

    @pytest.mark.parametrize("asked", ["vector", "hybrid"])
    def test_a_table_without_vectors_is_searched_by_words_and_the_reply_says_so(
        self, plain: Path, embedding_server: EmbeddingServer, asked: Any
    ) -> None:
        reply = ask(retriever(plain, embedding_server), "signing key", search_type=asked)
        assert (reply.search_type, reply.degraded) == ("text", True)
        assert reply.notes == ["The table has no vectors in column 'vector'; text search answered instead."]

    @pytest.mark.parametrize("asked", ["vector", "hybrid"])
    def test_without_a_provider_words_answer_and_the_reply_names_the_setting(self, embedded: Path, asked: Any) -> None:
        reply = ask(retriever(embedded), "signing key", search_type=asked)
        assert (reply.search_type, reply.degraded) == ("text", True)
        assert "OPENAI_API_KEY" in reply.notes[0]

    @pytest.mark.parametrize("asked", ["text", "auto"])
    def test_who_asks_for_no_more_than_there_is_hears_of_nothing_missing(
        self, embedded: Path, plain: Path, embedding_server: EmbeddingServer, asked: Any
    ) -> None:
        for asking in (retriever(embedded), retriever(plain, embedding_server)):
            reply = ask(asking, "signing key", search_type=asked)
            assert (reply.search_type, reply.degraded, reply.notes) == ("text", False, [])

    @pytest.mark.parametrize("asked", MEANING)
    def test_another_model_than_the_tables_is_not_asked_and_both_are_named(
        self, embedded: Path, embedding_server: EmbeddingServer, asked: Any
    ) -> None:
        other = retriever(embedded, embedding_server, embedding_model="other-model")
        reply = ask(other, "signing key", search_type=asked)
        assert (reply.search_type, reply.degraded) == ("text", True)
        assert f"{MODEL!r}" in reply.notes[0]
        assert "'other-model'" in reply.notes[0]
        assert embedding_server.requests == []
        assert ask(other, "signing key", search_type="text").notes == []

    @pytest.mark.parametrize("asked", MEANING)
    @pytest.mark.parametrize(
        ("failure", "words"),
        [
            ({"kind": "status", "status": 401}, "refused the key"),
            ({"kind": "status", "status": 429}, "status 429"),
            ({"kind": "status", "status": 500}, "status 500"),
            ({"kind": "nan"}, "finite"),
            ({"kind": "short"}, "15 numbers where 16"),
        ],
    )
    def test_where_the_provider_fails_words_answer_as_they_would_have(
        self, embedded: Path, embedding_server: EmbeddingServer, failure: dict[str, Any], words: str, asked: Any
    ) -> None:
        embedding_server.fail(**failure)
        asking = retriever(embedded, embedding_server)
        reply = ask(asking, "signing key", search_type=asked)
        assert (reply.search_type, reply.degraded, len(reply.notes)) == ("text", True, 1)
        assert words in reply.notes[0]
        assert reply.notes[0].endswith("; text search answered instead.")
        assert reply.hits == ask(asking, "signing key", search_type="text").hits

    def test_a_provider_that_does_not_answer_in_time_is_not_waited_for(
        self, embedded: Path, embedding_server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(embedding, "DEADLINE_SECONDS", 0.05)
        embedding_server.fail("hang")
        reply = ask(retriever(embedded, embedding_server), "signing key", search_type="hybrid")
        assert (reply.search_type, reply.degraded) == ("text", True)
        assert "did not answer within" in reply.notes[0]
        assert paths(reply)[0] == "keys.md"

    def test_a_provider_that_keeps_failing_is_left_alone_and_the_reply_says_for_how_long(
        self, embedded: Path, embedding_server: EmbeddingServer
    ) -> None:
        embedding_server.fail("status", status=503)
        asking = retriever(embedded, embedding_server)
        for _ in range(THRESHOLD):
            ask(asking, "signing key")
        reply = ask(asking, "signing key")
        assert len(embedding_server.requests) == THRESHOLD
        assert "status 503" in reply.notes[0]
        assert "asked again" in reply.notes[0]
        assert (reply.search_type, reply.degraded) == ("text", True)

    def test_a_column_of_vectors_that_is_not_there_is_named(
        self, embedded: Path, embedding_server: EmbeddingServer
    ) -> None:
        reply = ask(retriever(embedded, embedding_server), "signing key", vector_column="nope")
        assert (reply.search_type, reply.degraded) == ("text", True)
        assert "'nope'" in reply.notes[0]

    def test_a_context_block_falls_back_in_the_same_way(
        self, embedded: Path, embedding_server: EmbeddingServer
    ) -> None:
        asking = retriever(embedded, embedding_server)
        whole = ask_context(asking, "signing key", search_type="hybrid")
        assert (whole.search_type, whole.degraded) == ("hybrid", False)
        assert "Search: hybrid." in whole.context
        embedding_server.fail("status", status=500)
        words = ask_context(asking, "the signing key", search_type="hybrid")
        assert (words.search_type, words.degraded) == ("text", True)
        assert "Search: text." in words.context
        assert "status 500" in words.context


class TestVectorsOfUnknownOrigin:
    """Tables of others say nothing of the model that made their vectors."""

    TEXTS: ClassVar = ["the red boat", "the blue car", "a signing key"]

    @pytest.fixture
    def foreign(self, make_table: TableMaker) -> Path:
        return make_table({"path": ["a", "b", "c"], "text": self.TEXTS, "vector": vectors_of(self.TEXTS)}, fts=["text"])

    @pytest.mark.parametrize(("asked", "ran"), [("vector", "vector"), ("hybrid", "hybrid"), ("auto", "hybrid")])
    def test_the_owners_model_is_taken_on_trust_and_the_reply_says_so(
        self, foreign: Path, embedding_server: EmbeddingServer, asked: Any, ran: str
    ) -> None:
        reply = ask(retriever(foreign, embedding_server), "boat red", search_type=asked)
        assert (reply.search_type, reply.degraded) == (ran, False)
        assert reply.notes == [
            f"The table does not say which model made its vectors; {MODEL!r} is taken on trust.",
        ]
        assert paths(reply)[0] == "a"

    def test_a_search_by_words_says_nothing_of_it(self, foreign: Path, embedding_server: EmbeddingServer) -> None:
        assert ask(retriever(foreign, embedding_server), "boat", search_type="text").notes == []

    @pytest.mark.parametrize("asked", MEANING)
    def test_a_model_that_nobody_chose_is_not(
        self, foreign: Path, embedding_server: EmbeddingServer, asked: Any
    ) -> None:
        reply = ask(retriever(foreign, openai_base_url=embedding_server.url), "boat", search_type=asked)
        assert (reply.search_type, reply.degraded) == ("text", True)
        assert "set EMBEDDING_MODEL" in reply.notes[0]
        assert embedding_server.requests == []

    def test_vectors_of_another_length_than_the_models_are_not_used(
        self, make_table: TableMaker, embedding_server: EmbeddingServer
    ) -> None:
        short = pa.array([[0.1, 0.2]], pa.list_(pa.float32(), 2))
        database = make_table({"text": ["a boat"], "vector": short}, fts=["text"])
        reply = ask(retriever(database, embedding_server), "boat")
        assert (reply.search_type, reply.degraded) == ("text", True)
        assert "16 numbers where 2 are wanted" in reply.notes[0]

    @pytest.mark.parametrize("kind", [pa.float16(), pa.float64()])
    def test_vectors_of_any_kind_of_number_are_searched(
        self, make_table: TableMaker, embedding_server: EmbeddingServer, kind: Any
    ) -> None:
        vectors = vectors_of(self.TEXTS).cast(pa.list_(kind, DIMENSIONS))
        database = make_table({"path": ["a", "b", "c"], "text": self.TEXTS, "vector": vectors})
        reply = ask(retriever(database, embedding_server), "blue car", search_type="vector")
        assert (reply.search_type, paths(reply)[0]) == ("vector", "b")

    def test_an_index_by_another_distance_does_not_mislead(
        self, make_table: TableMaker, embedding_server: EmbeddingServer
    ) -> None:
        texts = [f"boat number {n}" for n in range(300)]
        database = make_table({"id": [f"{n:03}" for n in range(300)], "text": texts, "vector": vectors_of(texts)})
        lancedb.connect(database).open_table("documents").create_index(
            "vector", config=IvfFlat(distance_type="l2", num_partitions=2)
        )
        reply = ask(retriever(database, embedding_server), "boat number 77", search_type="vector")
        assert reply.hits[0].id == "077"
        assert reply.hits[0].score == pytest.approx(1, abs=1e-3)


class TestHowAHitExplainsItself:
    def test_by_words(self, embedded: Path) -> None:
        hit = ask(retriever(embedded), "boats in the harbour").hits[0]
        assert (hit.why, hit.score_type, hit.text_rank, hit.vector_rank) == ("text", "bm25", 1, None)
        assert hit.text_score == hit.score
        assert hit.vector_score is None
        assert hit.matched_words == ["boats", "harbour"]

    def test_by_meaning(self, embedded: Path, embedding_server: EmbeddingServer) -> None:
        hit = ask(retriever(embedded, embedding_server), "red boat leaves", search_type="vector").hits[0]
        assert (hit.path, hit.why, hit.score_type) == ("boats.md", "vector", "cosine")
        assert (hit.text_rank, hit.text_score, hit.vector_rank) == (None, None, 1)
        assert hit.vector_score == hit.score <= 1

    def test_by_both_with_the_ranks_that_make_the_fused_score(
        self, embedded: Path, embedding_server: EmbeddingServer
    ) -> None:
        hits = ask(retriever(embedded, embedding_server), "red boat leaves", search_type="hybrid").hits
        assert (hits[0].why, hits[0].score_type) == ("both", "rrf")
        assert {hit.why for hit in hits} == {"both", "vector"}
        for hit in hits:
            ranks = [rank for rank in (hit.text_rank, hit.vector_rank) if rank]
            assert hit.score == pytest.approx(sum(1 / (60 + rank) for rank in ranks), abs=1e-4)
            assert (hit.text_score is None) == (hit.text_rank is None)
            assert (hit.vector_score is None) == (hit.vector_rank is None)

    @pytest.mark.parametrize("asked", ["text", "vector", "hybrid"])
    @pytest.mark.parametrize("query", ["rotate_signing_key", '"red boat"'])
    def test_what_is_named_or_quoted_is_on_top_and_called_exact(
        self, embedded: Path, embedding_server: EmbeddingServer, query: str, asked: Any
    ) -> None:
        hits = ask(retriever(embedded, embedding_server), query, search_type=asked, min_score=0).hits
        assert hits[0].path == ("keys.md" if "_" in query else "boats.md")
        assert hits[0].why == "exact"
        assert all(hit.why != "exact" for hit in hits[1:])

    def test_stages_are_timed_only_where_that_is_asked_for(
        self, embedded: Path, embedding_server: EmbeddingServer
    ) -> None:
        asking = retriever(embedded, embedding_server)
        assert ask(asking, "boats").timings is None
        timings = ask(asking, "boats", explain=True).timings or {}
        assert {"text", "vector", "embed", "rank", "total"} <= timings.keys()
        assert timings["total"] >= timings["rank"]


class TestTies:
    ROWS = 400

    @pytest.mark.parametrize("asked", ["text", "vector", "hybrid"])
    @pytest.mark.parametrize("limit", [3, 200])
    def test_equal_scores_go_by_id_wherever_the_list_is_cut(
        self, make_table: TableMaker, embedding_server: EmbeddingServer, asked: Any, limit: int
    ) -> None:
        ids = [f"{n:04}" for n in reversed(range(self.ROWS))]
        texts = ["the same boat"] * self.ROWS
        database = make_table({"id": ids, "text": texts, "vector": vectors_of(texts)}, fts=["text"])
        reply = ask(retriever(database, embedding_server), "boat", search_type=asked, limit=limit, whole=True)
        assert reply.search_type == asked
        assert [hit.id for hit in reply.hits] == sorted(ids)[:limit]


class TestHowFarDownIsLooked:
    """One document of sixty holds fewest of the words that are asked for: by them it is the last."""

    ROWS = 60
    LAST = "guides/last.md"

    @pytest.fixture
    def sixty(self, make_table: TableMaker) -> Path:
        others = [f"the red boat heron 9 leaves {'again ' * (place + 1)}" for place in range(self.ROWS - 1)]
        last = f"a boat, called heron-9 {'and so on ' * self.ROWS}"
        paths = [*(f"notes/{place:02}.md" for place in range(self.ROWS - 1)), self.LAST]
        return make_table({"path": paths, "text": [*others, last]}, fts=["text"])

    def test_as_far_as_a_setting_may_bring_something_up(self, sixty: Path) -> None:
        assert self.LAST not in paths(ask(retriever(sixty), "red boat leaves", limit=20))
        boosted = retriever(sixty, path_boosts={"guides": 10.0})
        assert paths(ask(boosted, "red boat leaves", limit=20))[0] == self.LAST

    def test_as_far_as_a_name_may_stand(self, sixty: Path) -> None:
        assert paths(ask(retriever(sixty), "red boat heron-9 leaves", limit=1)) == [self.LAST]

    def test_as_far_as_more_than_stubs_are_found(self, tmp_path: Path) -> None:
        stubs = {f"moved/{place:02}.md": "# Tide gauge calibration\n\nSee [there](main.md).\n" for place in range(45)}
        page = "# Tide gauge calibration\n\n" + "Whoever reads the gauge waits for slack water and notes the mark. " * 9
        database = index(tmp_path, {**stubs, "main.md": page})
        assert paths(ask(retriever(database), "calibration of the tide gauge", limit=1)) == ["main.md"]

    def test_as_far_as_chunks_of_a_document_are_counted(self, make_table: TableMaker) -> None:
        texts = [f"the tide gauge {'again ' * place}" for place in range(self.ROWS)]
        database = make_table({"path": ["long.md"] * self.ROWS, "text": texts}, fts=["text"])
        counts = {
            ask(retriever(database), "tide gauge", limit=limit, collapse=True).hits[0].matching_chunk_count
            for limit in (1, 3, 10)
        }
        assert counts == {self.ROWS}

    def test_no_further_than_twice_what_is_wanted_where_nothing_can_rise(self) -> None:
        assert [depth_for(wanted, settled=True) for wanted in (1, 20, 30, 70, 200)] == [40, 40, 60, 100, 200]
        assert [depth_for(wanted, settled=False) for wanted in (1, 100, 200)] == [100, 100, 200]


class TestCorrections:
    @pytest.mark.parametrize("asked", ["text", "vector", "hybrid"])
    def test_both_arms_search_what_was_meant_and_the_reply_says_what_that_is(
        self, embedded: Path, embedding_server: EmbeddingServer, asked: Any
    ) -> None:
        reply = ask(retriever(embedded, embedding_server), "leaves the harbuor", search_type=asked)
        assert [(one.written, one.read) for one in reply.corrections] == [("harbuor", "harbour")]
        assert reply.hits[0].path == "boats.md"
        assert [request["input"] for request in embedding_server.requests] == (
            [] if asked == "text" else [["leaves the harbour"]]
        )
        if asked != "vector":
            assert "harbour" in reply.hits[0].matched_words

    def test_words_that_are_known_are_left_as_they_are(self, embedded: Path) -> None:
        assert ask(retriever(embedded), "boats leave").corrections == []


class TestNothingRelevant:
    UNKNOWN = "zeppelin turbine licence for the harbour"

    @pytest.mark.parametrize("asked", ["text", "vector", "hybrid"])
    def test_the_best_candidate_is_told_with_its_score_and_the_threshold(
        self, embedded: Path, embedding_server: EmbeddingServer, asked: Any
    ) -> None:
        asking = retriever(embedded, embedding_server)
        reply = ask(asking, self.UNKNOWN, search_type=asked)
        assert reply.hits == []
        assert reply.rejected is not None
        assert reply.rejected.score < reply.rejected.threshold
        shown = ask(asking, self.UNKNOWN, search_type=asked, min_score=0)
        assert reply.rejected.id == shown.hits[0].id
        assert reply.rejected.title == shown.hits[0].title
        assert shown.rejected is None
        assert "'zeppelin'" in reply.notes[-1]
        assert "minScore" in reply.notes[-1]

    def test_the_score_that_the_note_names_lets_the_candidate_through(self, embedded: Path) -> None:
        asking = retriever(embedded)
        named = ask(asking, self.UNKNOWN).notes[-1].partition("minScore ")[2].partition(" ")[0]
        assert ask(asking, self.UNKNOWN, min_score=float(named)).hits

    def test_a_threshold_of_the_callers_refuses_what_would_have_been_answered(self, embedded: Path) -> None:
        question = "zeppelin and the red boat that leaves the harbour at noon"
        assert ask(retriever(embedded), question).hits
        refused = ask(retriever(embedded), question, min_score=1)
        assert refused.hits == []
        assert refused.rejected is not None
        assert refused.rejected.threshold == 1


def test_a_search_of_everything_counts_what_was_cut(plain: Path) -> None:
    reply: SearchReply = ask(retriever(plain), "signing " * 70 + "key")
    assert any("Only the first 64 words" in note for note in reply.notes)


class TestAnOverview:
    """`lancedb_query` with warmStart keeps to what a search would be answered from."""

    def overview(self, tmp_path: Path, **narrowing: Any) -> str:
        index(tmp_path, {"install.md": "# Install old\n\nThe old way.\n"}, collection="docs", doc_version="2.9")
        index(tmp_path, {"install.md": "# Install new\n\nThe new way.\n"}, collection="docs", doc_version="2.10")
        gone = "---\nstatus: withdrawn\n---\n# Gone\n\nThis no longer holds.\n"
        index(tmp_path, {"install.md": "# Install it\n\nAs well.\n", "gone.md": gone}, collection="other")
        asked = retriever(tmp_path / DATABASE)
        return ask_context(asked, "", warm_start=True, narrowing=Narrowing(**narrowing)).context

    def test_lists_the_newest_version_of_each_collection_and_nothing_outdated(self, tmp_path: Path) -> None:
        context = self.overview(tmp_path)
        assert "Install new" in context
        assert "Install it" in context
        assert "Install old" not in context
        assert "Gone" not in context

    def test_of_an_older_version_lists_that(self, tmp_path: Path) -> None:
        context = self.overview(tmp_path, collection="docs", version="2.9")
        assert "Install old" in context
        assert "Install new" not in context

    def test_lists_what_is_outdated_where_it_is_asked_for(self, tmp_path: Path) -> None:
        assert "Gone" in self.overview(tmp_path, include_outdated=True, path_prefix="gone")

    def test_refuses_a_field_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(BedivereError, match="INVALID_FILTER"):
            self.overview(tmp_path, filters={"nofield": 1})
