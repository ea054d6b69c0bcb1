"""The block of context for a question, and what limits a search, over real tables of every origin."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from retrieval.errors import BedivereError, ErrorCode
from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options
from retrieval.retriever import Retriever
from retrieval.settings import load_settings
from retrieval.types import ContextReply, ContextRequest, Narrowing
from tests.retrieval.asking import status

if TYPE_CHECKING:
    from tests.conftest import TableMaker


def context(database: Path, question: str, *, budget: int = 8000, limit: int = 20, **request: Any) -> ContextReply:
    retriever = Retriever(load_settings(database=str(database)))
    return asyncio.run(retriever.context(ContextRequest(question=question, budget=budget, limit=limit, **request)))


class TestContext:
    def test_a_section_a_passage_with_title_breadcrumb_and_source(self, handbook: Path) -> None:
        reply = context(handbook, "how often is the signing key rotated", budget=700)
        assert "## 1. Keys\nSection: Rotation\nStatus: final\nSource: keys.md (keys.md#0" in reply.context
        assert "ninety days" in reply.context
        assert reply.sources[0].path == "keys.md"
        assert reply.context.startswith("# Context for: how often is the signing key rotated\nMode: query.")

    @pytest.mark.parametrize("budget", [500, 1000, 3000, 8000, 100_000])
    def test_the_block_keeps_to_its_budget_in_whole_chunks(self, handbook: Path, budget: int) -> None:
        reply = context(handbook, "turbines story number", budget=budget)
        assert len(reply.context) <= budget
        for line in reply.context.splitlines():
            if line.startswith("Paragraph"):
                assert line.rstrip().endswith(".")

    def test_neighbours_in_the_section_are_joined_in_document_order_and_never_repeated(self, handbook: Path) -> None:
        reply = context(handbook, "turbines number 4", budget=20_000, limit=1)
        passage = reply.sources[0]
        ordinals = [int(chunk.rpartition("#")[2]) for chunk in passage.ids]
        assert len(ordinals) == 3
        assert ordinals == list(range(ordinals[0], ordinals[0] + 3))
        paragraphs = [line for line in reply.context.splitlines() if line.startswith("Paragraph")]
        assert len(paragraphs) == len(set(paragraphs))

    def test_what_was_left_out_is_counted_with_the_way_to_it(self, handbook: Path) -> None:
        reply = context(handbook, "turbines number story", budget=2500)
        assert reply.left_out > 0
        assert f"Left out: {reply.left_out} of the " in reply.context
        assert "contextBudget 5000" in reply.context

    def test_a_budget_below_the_best_chunk_is_answered_with_one_that_holds_it(self, make_table: TableMaker) -> None:
        database = make_table({"text": ["boat " * 400]})
        small = context(database, "boat", budget=500)
        assert small.sources == []
        needed = int(small.context.rpartition("contextBudget ")[2].partition(",")[0])
        assert len(context(database, "boat", budget=needed).sources) == 1

    def test_a_passage_says_what_its_document_says_of_its_own_standing(self, make_table: TableMaker) -> None:
        rows: dict[str, object] = {
            "path": ["old.md", "new.md"],
            "text": ["the old boat", "the new boat"],
            "status": ["Superseded", None],
            "superseded_by": ["new.md", None],
            "date": ["2020-01-02", "2026-01-02"],
        }
        block = context(make_table(rows), "boat", narrowing=Narrowing(include_outdated=True)).context
        assert "\nStatus: Superseded (2020-01-02); replaced by new.md\nSource: old.md" in block
        assert block.count("Status: ") == 1

    def test_with_room_enough_nothing_is_left_out(self, handbook: Path) -> None:
        reply = context(handbook, "turbines number story", budget=100_000, limit=200)
        assert reply.left_out == 0
        assert "Left out" not in reply.context

    def test_nothing_that_matches_is_said_in_the_block(self, handbook: Path) -> None:
        reply = context(handbook, "zeppelin")
        assert "Nothing in the table matches" in reply.context
        assert reply.sources == []

    def test_an_empty_question_is_refused_unless_an_overview_is_asked(self, handbook: Path) -> None:
        with pytest.raises(BedivereError) as raised:
            context(handbook, " ")
        assert raised.value.code is ErrorCode.INVALID_QUERY
        assert context(handbook, "", warm_start=True).mode == "warmStart"

    def test_a_warm_start_shows_tables_documents_and_headings_within_the_budget(self, handbook: Path) -> None:
        reply = context(handbook, "", warm_start=True, budget=2000)
        assert "Tables: documents (" in reply.context
        assert reply.context.index("Handbook (index.md)") < reply.context.index("Long (guides/long.md)")
        assert "Rotation · Storage" in reply.context
        assert reply.left_out == 0

    def test_a_large_corpus_is_shown_in_part_and_counted(self, make_table: TableMaker) -> None:
        rows: dict[str, object] = {"path": [f"page{n}.md" for n in range(300)], "text": ["boat"] * 300}
        reply = context(make_table(rows), "", warm_start=True, budget=600)
        assert len(reply.context) <= 600
        assert 0 < reply.left_out < 300
        assert f"and {reply.left_out} more documents" in reply.context

    def test_a_table_with_only_text_has_a_warm_start_too(self, make_table: TableMaker) -> None:
        reply = context(make_table({"text": ["boat"]}), "", warm_start=True)
        assert "Tables: documents (1 chunk)" in reply.context

    def test_chunks_whose_ids_repeat_are_all_told(self, make_table: TableMaker) -> None:
        rows = {"id": ["doc"] * 6, "text": [f"boat number {n}" for n in range(6)]}
        reply = context(make_table(rows), "boat")
        assert [reply.context.count(f"boat number {n}") for n in range(6)] == [1] * 6

    @pytest.mark.parametrize("extra", [{}, {"path": [None] * 3}, {"url": ["u1", "u2", "u3"]}])
    def test_chunks_that_name_no_document_are_never_joined(
        self, make_table: TableMaker, extra: dict[str, object]
    ) -> None:
        rows = {"text": ["boat a", "boat b", "boat c"], "title": ["A", "B", "C"], "chunk": [0, 1, 2], **extra}
        columns: dict[str, object] = {
            name: pa.array(values, pa.string() if name == "path" else None) for name, values in rows.items()
        }
        assert len(context(make_table(columns), "boat").sources) == 3

    def test_two_sets_of_documents_under_one_path_are_never_spliced(self, tmp_path: Path) -> None:
        for name, front in (("v1", "---\nversion: 2.1\n---\n"), ("v2", "")):
            (tmp_path / name).mkdir()
            text = "\n\n".join(f"Boat {name} paragraph {n}. " + "More words of it. " * 60 for n in range(4))
            (tmp_path / name / "g.md").write_text(f"{front}# Guide\n\n{text}\n")
        build_table(Options(source=tmp_path / "v1", database=tmp_path / "db"))
        build_table(Options(source=tmp_path / "v2", database=tmp_path / "db", doc_version="2.1"))
        for source in context(tmp_path / "db", "boat", budget=50_000).sources:
            assert len({chunk.startswith("@2.1:") for chunk in source.ids}) == 1

    def test_a_chunk_between_two_passages_makes_one_of_them(self, make_table: TableMaker) -> None:
        texts = ["boat boat boat", "a boat", "boat boat boat"]
        rows: dict[str, object] = {"path": ["a"] * 3, "chunk": [0, 1, 2], "text": texts}
        assert [source.ids for source in context(make_table(rows), "boat").sources] == [["row:0", "row:1", "row:2"]]

    def test_passages_of_a_table_without_ordinals_stand_alone(self, make_table: TableMaker) -> None:
        rows: dict[str, object] = {"path": ["a", "a"], "text": ["a red boat", "a blue boat"]}
        assert [source.ids for source in context(make_table(rows), "boat").sources] == [["row:0"], ["row:1"]]


class TestStatus:
    def test_a_whole_table_shows_its_indexes_and_where_it_comes_from(self, handbook: Path) -> None:
        reply = status(handbook)
        table = reply.tables[0]
        assert (reply.connected, reply.problem, table.name, table.problem) == (True, None, "documents", None)
        assert {(index.column, index.unindexed) for index in table.indexes} == {
            ("search_text", 0),
            ("idents", 0),
            ("title", 0),
            ("heading", 0),
        }
        assert table.provenance is not None
        assert table.provenance.files == 4
        assert table.columns is None

    def test_names_that_are_no_text_are_passed_over(self, make_table: TableMaker) -> None:
        database = make_table({"text": ["boat"]})
        (database / os.fsdecode(b"\xff.lance")).mkdir()
        assert [table.name for table in status(database).tables] == ["documents"]

    def test_the_reply_stays_readable_however_many_columns_and_tables_there_are(self, make_table: TableMaker) -> None:
        wide = {"text": ["boat"], **{f"c{n}": [n] for n in range(250)}}
        database, *_ = (make_table(wide, name=f"t{number}") for number in range(4))
        tables = status(database, verbose=True).tables
        assert [table.columns is None for table in tables] == [False, False, True, True]
        assert "251 columns are left out" in tables[3].notes[-1]

    @pytest.mark.parametrize("database", ["~nosuchuser/db", "a\0b", "/dev/null"])
    def test_a_folder_that_cannot_be_one_is_not_found(self, database: str) -> None:
        assert (status(database).problem or "").startswith("DATABASE_NOT_FOUND")

    def test_verbose_adds_the_columns(self, handbook: Path) -> None:
        columns = status(handbook, verbose=True).tables[0].columns or []
        assert ("chunk", "int32") in {(column.name, column.type) for column in columns}

    def test_embeddings_say_why_they_are_not_available(self, handbook: Path) -> None:
        embeddings = status(handbook).embeddings
        assert not embeddings.available
        assert embeddings.reason

    def test_without_a_database_the_answer_says_what_to_do(self) -> None:
        reply = status(None)
        assert not reply.connected
        assert reply.problem is not None
        assert reply.problem.startswith("DATABASE_NOT_SET")

    def test_an_empty_database_has_no_tables_and_names_the_missing_default(self, tmp_path: Path) -> None:
        reply = status(tmp_path)
        assert (reply.connected, reply.tables) == (True, [])
        assert reply.problem is not None
        assert reply.problem.startswith("TABLE_NOT_FOUND")

    def test_a_damaged_table_is_listed_beside_a_whole_one(self, make_table: TableMaker) -> None:
        make_table({"text": ["boat"]}, name="broken")
        database = make_table({"text": ["boat"]})
        shutil.rmtree(database / "broken.lance" / "_versions")
        tables = {table.name: table for table in status(database).tables}
        assert tables["documents"].rows == 1
        assert (tables["broken"].problem or "").startswith("TABLE_UNREADABLE")
