"""The questions that tools put, over real tables of every origin."""

from __future__ import annotations

import asyncio
import shutil
import unicodedata
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from retrieval.errors import BedivereError, ErrorCode
from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options
from retrieval.retriever import MAX_REPLY_CHARS, Retriever
from retrieval.search.plan import MAX_QUERY_CHARS
from retrieval.settings import load_settings
from retrieval.types import Expansion, Narrowing, SearchReply, SearchRequest
from tests.retrieval.asking import status

if TYPE_CHECKING:
    from tests.conftest import TableMaker


def search(database: Path | str | None, query: str, *, limit: int = 5, **request: Any) -> SearchReply:
    retriever = Retriever(load_settings(database=str(database) if database else None))
    return asyncio.run(retriever.search(SearchRequest(query=query, limit=limit, **request)))


class TestSearchOfATableOfOurs:
    def test_the_passage_that_answers_is_first_with_all_that_a_citation_needs(self, handbook: Path) -> None:
        reply = search(handbook, "how often is the signing key rotated")
        best = reply.hits[0]
        assert (best.path, best.title, best.heading) == ("keys.md", "Keys", "Rotation")
        assert "ninety days" in best.snippet
        assert best.score_type == "bm25"
        assert best.metadata == {"status": "final", "owner": "platform", "priority": 2}
        assert reply.search_type == "text"
        assert reply.notes == []

    @pytest.mark.parametrize("query", ["rotate_signing_key", "rotateSigningKey", "VAULT_ADDR", "--from-snapshot"])
    def test_identifiers_find_their_passage(self, handbook: Path, query: str) -> None:
        expected = {"VAULT_ADDR": "Storage", "--from-snapshot": "Restore"}.get(query, "Rotation")
        assert search(handbook, query).hits[0].heading == expected

    def test_hits_come_in_the_order_of_score_and_id_each_time(self, handbook: Path) -> None:
        replies = [search(handbook, "turbines story", limit=4) for _ in range(3)]
        order = [(-hit.score, hit.id) for hit in replies[0].hits]
        assert order == sorted(order)
        assert replies[0] == replies[1] == replies[2]

    def test_a_smaller_limit_is_the_beginning_of_a_larger_one(self, handbook: Path) -> None:
        many = search(handbook, "turbines number story", limit=8).hits
        assert search(handbook, "turbines number story", limit=3).hits == many[:3]

    def test_only_paths_below_the_prefix_are_searched(self, handbook: Path) -> None:
        paths = {
            hit.path for hit in search(handbook, "the number of keys", narrowing=Narrowing(path_prefix="guides/")).hits
        }
        assert paths == {"guides/long.md"}

    @pytest.mark.parametrize("prefix", ["x' OR 1=1 --", '"', "100%", "'; DROP TABLE documents"])
    def test_a_prefix_is_never_read_as_code(self, handbook: Path, prefix: str) -> None:
        assert search(handbook, "keys", narrowing=Narrowing(path_prefix=prefix)).hits == []

    def test_nothing_that_matches_is_an_answer(self, handbook: Path) -> None:
        reply = search(handbook, "zeppelin")
        assert reply.hits == []
        assert reply.notes == ["Nothing in the table matches any word of the query."]

    @pytest.mark.parametrize("search_type", ["vector", "hybrid"])
    def test_text_answers_for_the_searches_that_are_not_there_and_says_so(
        self, handbook: Path, search_type: str
    ) -> None:
        reply = search(handbook, "backup", search_type=search_type)
        assert reply.search_type == "text"
        assert reply.hits
        assert "text search answered instead" in reply.notes[0]

    def test_decomposed_letters_find_composed_ones(self, make_table: TableMaker) -> None:
        database = make_table({"text": ["Le café est ouvert", "Das Haus"]}, fts=["text"])
        assert len(search(database, unicodedata.normalize("NFD", "café")).hits) == 1


ODD_QUERIES = [
    "Message: {0}, StackTrace: {1}",
    '"unbalanced',
    "text:rate",
    "+a -b",
    "AND",
    "a AND (b OR c",
    "日本語",
    "x' OR 1=1; --",
    "a\x00b",
    "../../etc/passwd",
    "🙂 keys",
    "‮keys",
    "key" * 1000,
]


@pytest.mark.parametrize("query", ODD_QUERIES)
def test_free_text_is_never_a_syntax_error(handbook: Path, query: str) -> None:
    assert search(handbook, query).search_type == "text"


@pytest.mark.parametrize("query", ["", "   ", "\n\t", "x" * (MAX_QUERY_CHARS + 1), "?!", "*?~^", "\\"])
def test_a_query_that_cannot_be_searched_says_why(handbook: Path, query: str) -> None:
    with pytest.raises(BedivereError) as raised:
        search(handbook, query)
    assert raised.value.code is ErrorCode.INVALID_QUERY


def test_a_query_of_many_words_is_searched_in_part_and_says_so(handbook: Path) -> None:
    assert "Only the first 64 words" in search(handbook, "key " * 100).notes[0]


@pytest.mark.parametrize(
    ("word", "query"),
    [("résumé", "resume"), ("resume", "résumé"), ("fiancé", "fiance"), ("Größe", "grosse"), ("İstanbul", "istanbul")],
)
def test_accents_do_not_count_in_a_table_of_ours(tmp_path: Path, word: str, query: str) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text(f"A {word} here.\n")
    build_table(Options(source=tmp_path / "docs", database=tmp_path / "db"))
    assert len(search(tmp_path / "db", query).hits) == 1


class TestTablesThatOthersWrote:
    def test_only_text(self, make_table: TableMaker) -> None:
        reply = search(make_table({"text": ["a red boat", "a blue car"]}, fts=["text"]), "boat")
        assert [hit.snippet for hit in reply.hits] == ["a red boat"]
        assert reply.hits[0].id == "row:0"
        assert any("cannot be cited" in note for note in reply.notes)

    def test_without_a_full_text_index_every_row_is_scanned_and_the_reply_says_so(self, make_table: TableMaker) -> None:
        reply = search(make_table({"text": ["a red boat", "a blue car"]}), '"red boat"')
        assert [hit.snippet for hit in reply.hits] == ["a red boat"]
        assert any("no full-text index" in note for note in reply.notes)

    def test_id_path_title_text(self, make_table: TableMaker) -> None:
        rows: dict[str, object] = {"id": ["7"], "path": ["a/b.md"], "title": ["Boats"], "text": ["a red boat"]}
        hit = search(make_table(rows, fts=["text"]), "boat").hits[0]
        assert (hit.id, hit.path, hit.title) == ("7", "a/b.md", "Boats")

    def test_anythingllm(self, make_table: TableMaker) -> None:
        rows: dict[str, object] = {
            "vector": pa.array([[0.1, 0.2], [0.3, 0.4]], pa.list_(pa.float32(), 2)),
            "id": ["u1", "u2"],
            "url": ["file:///docs/boats.txt", "file:///docs/cars.txt"],
            "title": ["boats.txt", "cars.txt"],
            "docAuthor": ["Ann", "Bob"],
            "docSource": ["a folder", "a folder"],
            "chunkSource": ["boats.txt", ""],
            "published": ["1/1/2026", "1/1/2026"],
            "wordCount": [3, 3],
            "text": ["a red boat", "a blue car"],
        }
        hit = search(make_table(rows), "boat").hits[0]
        assert (hit.path, hit.title, hit.url) == ("boats.txt", "boats.txt", "file:///docs/boats.txt")
        assert hit.metadata == {"docAuthor": "Ann", "docSource": "a folder", "published": "1/1/2026", "wordCount": 3}

    def test_odd_column_names(self, make_table: TableMaker) -> None:
        rows: dict[str, object] = {"Text Body": ["a red boat"], "q'uote": ["it's"], "select": [True], 'ünïcode"': ["x"]}
        hit = search(make_table(rows), "boat", text_column="Text Body").hits[0]
        assert hit.metadata == {"q'uote": "it's", "select": True, 'ünïcode"': "x"}

    def test_every_kind_of_scalar_comes_back_as_json_can_carry_it(self, make_table: TableMaker) -> None:
        rows: dict[str, object] = {
            "text": ["a red boat"],
            "at": pa.array([datetime(2026, 1, 2, tzinfo=UTC)], pa.timestamp("us", "UTC")),
            "price": pa.array([Decimal("1.50")], pa.decimal128(6, 2)),
            "ratio": [float("nan")],
            "weight": [1.5],
            "none": pa.array([None], pa.string()),
            "tags": [["a", "b"]],
            "blob": [b"x"],
        }
        hit = search(make_table(rows), "boat").hits[0]
        assert hit.metadata == {"at": "2026-01-02T00:00:00+00:00", "price": "1.50", "weight": 1.5}

    def test_ten_thousand_columns_are_refused_politely(self, make_table: TableMaker) -> None:
        database = make_table({"text": ["a"]} | {f"c{n}": [n] for n in range(10_000)})
        with pytest.raises(BedivereError) as raised:
            search(database, "a")
        assert raised.value.code is ErrorCode.TOO_MANY_COLUMNS
        assert status(database).tables[0].problem == str(raised.value)

    def test_times_that_python_does_not_have_come_back_as_text(self, make_table: TableMaker) -> None:
        rows: dict[str, object] = {
            "text": ["a red boat"],
            "nano": pa.array([1_000_000_007], pa.timestamp("ns")),
            "zone": pa.array([1], pa.timestamp("us", "Mars/Base")),
            "clock": pa.array([7], pa.time64("ns")),
            "far": pa.array([10**11], pa.timestamp("s")),
        }
        metadata = search(make_table(rows), "boat").hits[0].metadata
        assert metadata["nano"] == "1970-01-01 00:00:01.000000007"
        assert metadata["zone"] == "1970-01-01 00:00:00.000001"
        assert metadata["clock"] == "00:00:00.000000007"
        assert "far" in metadata

    def test_dictionary_encoded_text_is_as_good_as_plain(self, make_table: TableMaker) -> None:
        rows: dict[str, object] = {
            "text": ["a red boat"],
            "path": pa.array(["a.md"]).dictionary_encode(),
            "status": pa.array(["final"]).dictionary_encode(),
        }
        hit = search(make_table(rows), "boat").hits[0]
        assert (hit.path, hit.metadata) == ("a.md", {"status": "final"})

    def test_dictionary_encoded_text_cannot_be_searched_and_says_so(self, make_table: TableMaker) -> None:
        with pytest.raises(BedivereError, match="dictionary-encoded") as raised:
            search(make_table({"text": pa.array(["a boat"]).dictionary_encode()}), "boat")
        assert raised.value.code is ErrorCode.COLUMN_NOT_FOUND

    def test_columns_named_as_lancedb_names_its_own_figures(self, make_table: TableMaker) -> None:
        assert search(make_table({"text": ["boat"], "_distance": [1], "ba`ck": [1]}), "boat").hits[0].metadata == {}
        with pytest.raises(BedivereError, match="'_score'"):
            search(make_table({"text": ["boat"], "_score": [1]}), "boat")

    def test_long_titles_and_many_columns_are_cut(self, make_table: TableMaker) -> None:
        rows = {"text": ["boat"], "title": ["x" * 100_000], **{f"m{n}": ["y" * 300] for n in range(500)}}
        reply = search(make_table(rows), "boat")
        assert len(reply.hits) == 1
        assert len(reply.model_dump_json()) < MAX_REPLY_CHARS

    def test_long_metadata_is_cut(self, make_table: TableMaker) -> None:
        hit = search(make_table({"text": ["boat"], "summary": ["x" * 5000]}), "boat").hits[0]
        assert len(str(hit.metadata["summary"])) == 300

    def test_a_table_called_db_is_no_cloud_database(
        self, make_table: TableMaker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        database = make_table({"text": ["boat"]})
        monkeypatch.chdir(database.parent)
        Path("db-local").symlink_to(database)
        assert search("db-local", "boat").hits


def test_equal_scores_are_ordered_by_id_even_where_the_list_is_cut(make_table: TableMaker) -> None:
    rows: dict[str, object] = {"id": [f"{n:04}" for n in reversed(range(500))], "text": ["the same boat"] * 500}
    database = make_table(rows, fts=["text"])
    assert [hit.id for hit in search(database, "boat", limit=5).hits] == ["0000", "0001", "0002", "0003", "0004"]


def test_a_reply_too_large_for_a_model_is_cut_at_whole_hits_and_says_so(make_table: TableMaker) -> None:
    rows: dict[str, object] = {"text": ["boat"] * 200, **{f"m{n}": ["y" * 300] * 200 for n in range(5)}}
    reply = search(make_table(rows), "boat", limit=200)
    assert reply.truncated
    assert len(reply.model_dump_json(exclude_none=True)) < MAX_REPLY_CHARS * 1.1
    assert any("were left out" in note for note in reply.notes)


class TestWhatIsMissing:
    @pytest.mark.parametrize("table", ["none", "../documents", "documents.lance", "", "documents/../documents"])
    def test_a_table_that_is_not_there_lists_those_that_are(self, handbook: Path, table: str) -> None:
        if not table:
            assert search(handbook, "keys", table=table).table == "documents"
            return
        with pytest.raises(BedivereError, match="'documents'") as raised:
            search(handbook, "keys", table=table)
        assert raised.value.code is ErrorCode.TABLE_NOT_FOUND

    def test_no_database_is_set(self) -> None:
        with pytest.raises(BedivereError) as raised:
            search(None, "keys")
        assert raised.value.code is ErrorCode.DATABASE_NOT_SET

    def test_a_database_that_is_not_there_is_neither_found_nor_created(self, tmp_path: Path) -> None:
        with pytest.raises(BedivereError) as raised:
            search(tmp_path / "none", "keys")
        assert raised.value.code is ErrorCode.DATABASE_NOT_FOUND
        assert str(tmp_path) not in str(raised.value)
        assert not (tmp_path / "none").exists()

    def test_a_file_is_no_database(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        with pytest.raises(BedivereError) as raised:
            search(tmp_path / "file", "keys")
        assert raised.value.code is ErrorCode.DATABASE_NOT_FOUND

    def test_another_text_column_that_is_not_there(self, handbook: Path) -> None:
        with pytest.raises(BedivereError) as raised:
            search(handbook, "keys", text_column="nope")
        assert raised.value.code is ErrorCode.COLUMN_NOT_FOUND

    def test_a_table_without_the_configured_text_column(self, make_table: TableMaker) -> None:
        database = make_table({"body": ["boat"], "idents": ["x"]})
        with pytest.raises(BedivereError, match="Its columns of text are 'body'\\.") as raised:
            search(database, "boat")
        assert raised.value.code is ErrorCode.TEXT_COLUMN_MISSING

    def test_a_vector_column_that_is_not_there_is_only_noted(self, handbook: Path) -> None:
        assert any("'nope'" in note for note in search(handbook, "keys", vector_column="nope").notes)

    def test_paths_cannot_be_filtered_where_there_are_none(self, make_table: TableMaker) -> None:
        with pytest.raises(BedivereError) as raised:
            search(make_table({"text": ["boat"]}), "boat", narrowing=Narrowing(path_prefix="a/"))
        assert raised.value.code is ErrorCode.COLUMN_NOT_FOUND

    @pytest.mark.parametrize("damage", ["data", "_versions", "_indices"])
    def test_damaged_files_are_told_without_a_path_or_a_librarys_text(
        self, handbook: Path, tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        database = tmp_path / "copy"
        shutil.copytree(handbook, database, symlinks=True)
        for file in (database / "documents.lance" / damage).rglob("*"):
            if file.is_file():
                file.write_bytes(b"garbage" * 10)
        with pytest.raises(BedivereError) as raised:
            search(database, "ledger")
        assert raised.value.code is ErrorCode.TABLE_UNREADABLE
        assert "/" not in str(raised.value)
        assert "ledger" not in caplog.text
        assert status(database).tables[0].name == "documents"

    def test_what_cannot_be_collapsed_or_expanded_is_noted(self, make_table: TableMaker) -> None:
        database = make_table({"text": ["boat"]})
        plain = search(database, "boat").notes
        reply = search(database, "boat", collapse=True, expand=Expansion("section"))
        added = [note for note in reply.notes if note not in plain]
        assert [note.rpartition(", ")[2] for note in added] == [
            "so hits are not collapsed.",
            "so hits are not expanded.",
        ]

    def test_an_empty_table_answers_with_nothing(self, make_table: TableMaker) -> None:
        assert search(make_table({"text": pa.array([], pa.string())}), "boat").hits == []
