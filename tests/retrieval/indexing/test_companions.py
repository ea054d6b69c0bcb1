"""The files beside a table's data: the same for the same rows, part of a release, and not needed for an answer."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import logging
import shutil
from pathlib import Path

import lancedb
import pytest

from retrieval.catalog import Catalog, Document
from retrieval.indexing import companions
from retrieval.indexing.build import build_table
from retrieval.indexing.catalog import numbered
from retrieval.indexing.companions import Companions
from retrieval.indexing.job import Options, Summary
from retrieval.release.publish import publish
from retrieval.release.store import open_store
from retrieval.retriever import Retriever
from retrieval.schema import CATALOG_FILE, COMPANIONS, VOCABULARY_FILE
from retrieval.search.vocabulary import Vocabulary
from retrieval.settings import load_settings
from retrieval.types import Narrowing
from tests.retrieval.asking import DATABASE, ask, index, paths, retriever

FILES = (VOCABULARY_FILE, CATALOG_FILE)
DOCUMENTS = {
    "old.md": (
        "---\nstatus: superseded\nsuperseded_by: new.md\n---\n# Old\n\n"
        "The ferry leaves the harbour at noon, and it waits for nobody at all.\n"
    ),
    "new.md": "# New\n\nThe ferry leaves the harbour every hour. Set `FERRY_INTERVAL` for another.\n",
    "food.md": "# Food\n\nLunch is served on deck.\n",
}


def place_of(database: Path) -> Path:
    """The folder of the table that stands now."""
    return (database / "documents.lance").resolve()


def again(folder: Path) -> Summary:
    """Another run of the indexer over the same documents."""
    return build_table(Options(folder / "docs", folder / DATABASE))


class TestTheFiles:
    def test_they_hold_the_words_and_the_documents_of_the_table(self, tmp_path: Path) -> None:
        found = companions.files(place_of(index(tmp_path, DOCUMENTS)))
        assert found.keys() == set(FILES)
        vocabulary, catalog = Vocabulary.load(found[VOCABULARY_FILE]), Catalog.load(found[CATALOG_FILE])
        assert (vocabulary.chunks, vocabulary.frequency("ferries"), vocabulary.frequency("zeppelin")) == (3, 2, 0)
        assert vocabulary.holds_identifier("FERRY_INTERVAL")
        assert [document.path for document in catalog.documents] == sorted(DOCUMENTS)

    def test_equal_rows_make_equal_bytes_in_whatever_order_and_batches(self, tmp_path: Path) -> None:
        database = index(tmp_path, DOCUMENTS)
        opened = lancedb.connect(place_of(database).parent).open_table("documents")
        rows = opened.to_arrow()
        backwards = rows.take(list(reversed(range(rows.num_rows))))
        made = [Companions.of(table.to_batches(max_chunksize=size)) for table in (rows, backwards) for size in (1, 9)]
        assert len({(one.vocabulary, one.catalog) for one in made}) == 1
        assert all(one.alike for one in made)
        # What the rows do not say is where they lie.
        catalog = numbered(made[0].catalog, opened, alike=True)
        assert {VOCABULARY_FILE: made[0].vocabulary, CATALOG_FILE: catalog} == companions.files(place_of(database))

    def test_they_are_of_all_that_stands_side_by_side(self, tmp_path: Path) -> None:
        index(tmp_path, {"a.md": "# A\n\nZebras.\n"}, doc_version="1")
        found = companions.files(place_of(index(tmp_path, {"a.md": "# A\n\nQuokkas.\n"}, doc_version="2")))
        vocabulary = Vocabulary.load(found[VOCABULARY_FILE])
        assert vocabulary.frequency("zebra")
        assert vocabulary.frequency("quokka")
        assert Catalog.load(found[CATALOG_FILE]).prefixes == {"@1:", "@2:"}


def told(database: Path) -> tuple[bytes, tuple[Document, ...], bool]:
    """What the files say: of the same rows the same, in whatever table they lie."""
    found = companions.files(place_of(database))
    catalog = Catalog.load(found[CATALOG_FILE])
    return found[VOCABULARY_FILE], catalog.documents, catalog.rows is not None


class TestATableThatLacksThem:
    """Built before there were any, or damaged since."""

    @pytest.fixture
    def database(self, tmp_path: Path) -> Path:
        return index(tmp_path, DOCUMENTS)

    @pytest.mark.parametrize("name", FILES)
    @pytest.mark.parametrize("damage", ["missing", "garbage", "cut", "empty", "a folder"])
    def test_it_answers_all_the_same_and_the_log_says_what_is_amiss(
        self, database: Path, name: str, damage: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        whole = ask(retriever(database), "when does the ferry leave")
        file = place_of(database) / COMPANIONS / name
        content = file.read_bytes()
        file.unlink()
        match damage:
            case "garbage":
                file.write_bytes(b"\xff\x00garbage" * 50)
            case "cut":
                file.write_bytes(content[: len(content) // 2])
            case "empty":
                file.write_bytes(b"")
            case "a folder":
                file.mkdir()
            case _:
                pass
        with caplog.at_level(logging.WARNING):
            asking = retriever(database)
            reply = ask(asking, "when does the ferry leave")
            ask(asking, "when does the ferry leave")
        assert paths(reply) == paths(whole) == ["new.md"]
        assert reply.notes == whole.notes
        assert len(caplog.messages) == 1
        assert "'documents'" in caplog.messages[0]
        assert str(database) not in caplog.text

    def test_without_words_nothing_is_corrected_and_without_a_catalog_the_rows_say_what_is_outdated(
        self, database: Path
    ) -> None:
        assert ask(retriever(database), "the harbuor").corrections
        shutil.rmtree(place_of(database) / COMPANIONS)
        assert ask(retriever(database), "the harbuor ferry").corrections == []
        shown = ask(retriever(database), "ferry at noon", narrowing=Narrowing(include_outdated=True))
        assert shown.hits[0].outdated == "superseded; replaced by New (new.md)"

    @pytest.mark.parametrize("damage", ["missing", "garbage"])
    @pytest.mark.parametrize("name", FILES)
    def test_the_next_run_of_the_indexer_mends_it(self, database: Path, name: str, damage: str) -> None:
        before = told(database)
        assert again(database.parent).unchanged
        file = place_of(database) / COMPANIONS / name
        file.unlink()
        if damage == "garbage":
            file.write_bytes(b"garbage")
        summary = again(database.parent)
        assert not summary.unchanged
        assert told(database) == before
        assert again(database.parent).unchanged


def test_a_release_carries_them_and_who_serves_it_reads_them(tmp_path: Path) -> None:
    database = index(tmp_path, DOCUMENTS)
    (tmp_path / "store").mkdir()
    address = (tmp_path / "store").as_uri()
    publish(database, open_store(address))
    settings = load_settings(database=address, sync_folder=str(tmp_path / "synced"), dataset_wait_seconds=25)
    asking = Retriever(settings)
    reply = ask(asking, "does the ferry leave the harbuor at noon")
    assert [one.read for one in reply.corrections] == ["harbour"]
    assert (paths(reply), reply.hits[0].stands_for) == (["new.md"], "old.md")
    synced = {file.name: file.read_bytes() for file in (tmp_path / "synced").rglob(f"documents.lance/{COMPANIONS}/*")}
    assert synced == companions.files(place_of(database))
    # Nor does a table change on the way: what is known of its rows is known there too.
    place = next((tmp_path / "synced").rglob("documents.lance"))
    assert Catalog.load(synced[CATALOG_FILE]).version == lancedb.connect(place.parent).open_table("documents").version
