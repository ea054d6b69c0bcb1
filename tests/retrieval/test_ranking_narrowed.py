"""Which rows of a table a question is asked of: filters, folders, statuses, and versions side by side."""

# pyarrow and lancedb ship no types, or some.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lancedb
import pytest
from lancedb.index import HnswSq

from retrieval.errors import BedivereError, ErrorCode
from retrieval.types import CatalogRequest, Expansion, FetchRequest, Narrowing
from tests.embedding_server import EmbeddingServer, running_embedding_server
from tests.retrieval.asking import DATABASE, ask, ask_context, index, paths, retriever, vectors_of

if TYPE_CHECKING:
    from tests.conftest import TableMaker


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of no collection and no version."""
    return index(tmp_path_factory.mktemp("plain"), {"keys.md": "# Keys\n\nRotate the signing key every ninety days.\n"})


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One page that says little of turbines among more than a hundred that say much; tests only read it."""
    folder = tmp_path_factory.mktemp("crowded")
    crowd = {
        f"crowd/page{n:03}.md": f"---\nowner: many\n---\n# Turbine {n}\n\nTurbine turbine blades, turbine {n}.\n"
        for n in range(130)
    }
    alone = (
        "---\nowner: one\nrank: 7\n---\n# Gardens\n\nRoses, lawns, hedges, ponds, paths, walls, gates, sheds, "
        "benches, and somewhere far behind them all an old turbine that nobody has looked at for years.\n"
    )
    with running_embedding_server() as server:
        index(folder, crowd, server)
        return index(folder, {"alone/garden.md": alone}, server, collection="gardens", doc_version="1.0")


class TestNarrowing:
    @pytest.mark.parametrize("asked", ["text", "vector", "hybrid"])
    @pytest.mark.parametrize(
        "narrowing",
        [
            Narrowing(filters={"owner": "one"}),
            Narrowing(filters={"rank": {"gte": 7}}),
            Narrowing(path_prefix="alone/"),
            Narrowing(exclude=("crowd",)),
            Narrowing(collection="gardens"),
            Narrowing(version="1.0"),
        ],
        ids=["value", "number", "prefix", "exclude", "collection", "version"],
    )
    def test_rows_are_narrowed_before_they_are_ranked(
        self, crowded: Path, embedding_server: EmbeddingServer, narrowing: Narrowing, asked: Any
    ) -> None:
        asking = retriever(crowded, embedding_server)
        everything = ask(asking, "turbine", search_type=asked, limit=100, whole=True)
        assert "alone/garden.md" not in paths(everything)
        reply = ask(asking, "turbine", search_type=asked, limit=1, narrowing=narrowing)
        assert reply.search_type == asked
        assert paths(reply) == ["alone/garden.md"]

    def test_all_that_is_asked_must_hold_together(self, crowded: Path) -> None:
        narrowing = Narrowing(filters={"owner": "many"}, path_prefix="alone/")
        reply = ask(retriever(crowded), "turbine", narrowing=narrowing)
        assert reply.hits == []
        assert reply.notes == [
            "No document passes the filters: lancedb_catalog lists the documents and what they say of themselves."
        ]

    def test_words_that_are_not_where_was_looked_are_told_from_filters_that_nothing_passes(self, crowded: Path) -> None:
        reply = ask(retriever(crowded), "blades", narrowing=Narrowing(path_prefix="alone/"))
        assert reply.notes == [
            "Nothing in the table matches any word of the query among the documents that pass the filters."
        ]

    @pytest.mark.parametrize("asked", ["vector", "hybrid"])
    @pytest.mark.parametrize("query", ["blades", "blads"])
    def test_what_lies_nearest_where_was_looked_is_no_answer_to_words_that_stand_elsewhere(
        self, crowded: Path, embedding_server: EmbeddingServer, query: str, asked: Any
    ) -> None:
        narrowing = Narrowing(path_prefix="alone/")
        reply = ask(retriever(crowded, embedding_server), query, search_type=asked, narrowing=narrowing)
        assert reply.hits == []
        assert reply.rejected is not None
        assert reply.rejected.id is not None
        assert "no document that was searched holds 'blades'" in reply.notes[0]

    def test_an_unknown_field_is_refused_with_those_there_are(self, crowded: Path) -> None:
        with pytest.raises(BedivereError, match="owner") as raised:
            ask(retriever(crowded), "turbine", narrowing=Narrowing(filters={"ownr": "one"}))
        assert raised.value.code is ErrorCode.INVALID_FILTER

    @pytest.mark.parametrize(
        ("narrowing", "words"),
        [
            (Narrowing(collection="parks"), "There is no collection 'parks'; there is only gardens."),
            (Narrowing(version="9"), "There is no version '9'; there is only 1.0."),
            (Narrowing(version="9", filters={"owner": "one"}), "There is no version '9'; there is only 1.0."),
        ],
    )
    def test_an_unknown_collection_or_version_finds_nothing_and_those_there_are_are_named(
        self, crowded: Path, narrowing: Narrowing, words: str
    ) -> None:
        reply = ask(retriever(crowded), "turbine", narrowing=narrowing)
        assert (reply.hits, reply.notes) == ([], [words])

    @pytest.mark.parametrize("narrowing", [Narrowing(collection="c"), Narrowing(version="1")])
    def test_where_nothing_has_a_collection_or_a_version_none_is_found(
        self, plain: Path, make_table: TableMaker, narrowing: Narrowing
    ) -> None:
        foreign = make_table({"path": ["a"], "text": ["the signing key"]}, fts=["text"])
        pathless = make_table({"text": ["the signing key"]}, name="pathless", fts=["text"])
        assert pathless == foreign
        replies = [
            ask(retriever(plain), "signing key", narrowing=narrowing),
            ask(retriever(foreign), "signing key", narrowing=narrowing),
            ask(retriever(foreign), "signing key", narrowing=narrowing, table="pathless"),
        ]
        for reply in replies:
            assert reply.hits == []
            assert "The documents have no" in reply.notes[-1]

    def test_a_strict_filter_is_not_lost_in_a_graph_of_vectors(
        self, make_table: TableMaker, embedding_server: EmbeddingServer
    ) -> None:
        texts = [f"turbine {n}" for n in range(5_200)]
        texts[4_321] = "roses lawns hedges ponds"
        owners = ["many"] * len(texts)
        owners[4_321] = "one"
        database = make_table(
            {"id": [f"{n:04}" for n in range(len(texts))], "text": texts, "owner": owners, "vector": vectors_of(texts)}
        )
        lancedb.connect(database).open_table("documents").create_index("vector", config=HnswSq(distance_type="cosine"))
        reply = ask(
            retriever(database, embedding_server),
            "turbine 17",
            search_type="vector",
            limit=1,
            narrowing=Narrowing(filters={"owner": "one"}),
        )
        assert (reply.search_type, [hit.id for hit in reply.hits]) == ("vector", ["4321"])


@pytest.fixture(scope="module")
def versioned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents of the same names in two versions, of which the newer one is the lesser text; tests only read it."""
    folder = tmp_path_factory.mktemp("versioned")
    with running_embedding_server() as server:
        for version in ("1.9", "1.10"):
            steps = "\n\n".join(f"Step {n} of {version}. " * 80 for n in range(4))
            started = f"Release {version} starts with `ledger up` and needs the harbour key."
            documents = {
                "start.md": f"# Start\n\n{started}\n\n{steps}\n",
                f"only-{version}.md": f"# Only in {version}\n\nThe harbour of {version}.\n",
            }
            index(folder, documents, server, doc_version=version)
    return folder / DATABASE


def of_one_version(ids: list[str], version: str) -> bool:
    return bool(ids) and all(one.startswith(f"@{version}:") for one in ids)


class TestVersionsSideBySide:
    @pytest.mark.parametrize("asked", ["text", "vector", "hybrid"])
    @pytest.mark.parametrize("collapse", [False, True])
    def test_the_newest_is_searched_and_named(
        self, versioned: Path, embedding_server: EmbeddingServer, asked: Any, collapse: bool
    ) -> None:
        asking = retriever(versioned, embedding_server)
        reply = ask(asking, "harbour key", search_type=asked, collapse=collapse, min_score=0)
        assert of_one_version([hit.id for hit in reply.hits], "1.10")
        assert reply.versions == {"": "1.10"}
        assert reply.notes == ["Searched in the newest version, 1.10; pass version for another: 1.9."]

    @pytest.mark.parametrize("asked", ["text", "vector", "hybrid"])
    def test_another_is_searched_where_it_is_asked_for(
        self, versioned: Path, embedding_server: EmbeddingServer, asked: Any
    ) -> None:
        asking = retriever(versioned, embedding_server)
        reply = ask(asking, "harbour key", search_type=asked, narrowing=Narrowing(version="v1.9"), min_score=0)
        assert of_one_version([hit.id for hit in reply.hits], "1.9")
        assert (reply.versions, reply.notes) == ({"": "1.9"}, [])

    @pytest.mark.parametrize("asked", ["1.9", ["1.9"], {"prefix": "1.9"}, {"neq": "1.10"}])
    def test_who_filters_by_version_is_answered_from_it(self, versioned: Path, asked: object) -> None:
        reply = ask(retriever(versioned), "harbour key", narrowing=Narrowing(filters={"version": asked}), min_score=0)
        assert of_one_version([hit.id for hit in reply.hits], "1.9")
        assert reply.notes == []

    @pytest.mark.parametrize("version", ["1.9", "1.10"])
    @pytest.mark.parametrize("kind", ["neighbors", "section"])
    def test_what_stands_around_a_hit_is_of_its_version(self, versioned: Path, version: str, kind: Any) -> None:
        reply = ask(
            retriever(versioned),
            "ledger up",
            narrowing=Narrowing(version=version),
            expand=Expansion(kind, before=5, after=5),
            limit=1,
        )
        context = reply.hits[0].context or ""
        other = "1.10" if version == "1.9" else "1.9"
        assert f"Step 0 of {version}." in context
        assert f"of {other}." not in context

    @pytest.mark.parametrize("version", ["1.9", "1.10"])
    def test_a_context_block_is_of_one_version(self, versioned: Path, version: str) -> None:
        narrowing = Narrowing(version=version if version == "1.9" else None)
        reply = ask_context(retriever(versioned), "harbour ledger up step", narrowing=narrowing, budget=20_000)
        assert of_one_version([one for source in reply.sources for one in source.ids], version)

    def test_a_fetch_by_path_is_of_the_newest_and_a_catalog_of_the_one_that_is_asked_for(self, versioned: Path) -> None:
        asking = retriever(versioned)
        fetched = asyncio.run(asking.fetch(FetchRequest(path="start.md")))
        assert of_one_version(fetched.ids, "1.10")
        assert any("1.9" in note for note in fetched.notes)
        listed = asyncio.run(asking.catalog(CatalogRequest(narrowing=Narrowing(version="1.9"))))
        assert {document.version for document in listed.documents} == {"1.9"}


def test_a_filter_that_names_a_hiding_status_brings_what_it_hides_back_labelled(tmp_path: Path) -> None:
    gone = "---\nstatus: superseded\n---\n# Gone rule\n\nThe rule of the boat.\n"
    index(tmp_path, {"gone.md": gone, "now.md": "# Rule\n\nThe rule of the boat today.\n"})
    reply = ask(retriever(tmp_path / DATABASE), "rule boat", narrowing=Narrowing(filters={"status": "superseded"}))
    assert paths(reply) == ["gone.md"]
    assert reply.hits[0].outdated == "superseded"
