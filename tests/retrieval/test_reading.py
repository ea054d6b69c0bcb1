"""Reading a document by its place, over tables of ours and of others."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from retrieval import reading
from retrieval.database import Database
from retrieval.errors import BedivereError, ErrorCode
from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options
from retrieval.reading import MAX_PAGE_CHARS, MIN_PAGE_CHARS
from retrieval.table import Table
from retrieval.types import FetchRequest, Page

if TYPE_CHECKING:
    from tests.conftest import TableMaker

WORDS = ("superseded", "draft")

LONG = "# Long\n\n" + "\n\n".join(
    f"## Part {part}\n\n" + " ".join(f"Sentence {n} of part {part} is here." for n in range(40)) for part in range(12)
)


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three versions of a handbook beside runbooks, which share a path; tests only read it."""
    folder = tmp_path_factory.mktemp("library")
    database = folder / "database"
    for version in ("2.9", "2.10", "1.0"):
        files = {"start.md": f"# Start\n\nThis is version {version}.\n", "shared.md": "# Shared\n\nOf the handbook.\n"}
        if version == "1.0":
            files["gone.md"] = "# Gone\n\nOnly in the first.\n"
        source = write(folder / version, files)
        build_table(Options(source=source, database=database, collection="handbook", doc_version=version))
    files = {
        "shared.md": "# Shared\n\nOf the runbooks.\n",
        "guides/long.md": LONG,
        "guides/größe.md": "# Größe\n\nHow large.\n",
        "policy.md": "---\nstatus: superseded\ndate: 2024-05-01\nsuperseded_by: policy-2.md\n---\n# Policy\n\nOld.\n",
        "policy-2.md": "---\nstatus: final\n---\n# Policy\n\nNew.\n",
    }
    build_table(Options(source=write(folder / "runbooks", files), database=database, collection="runbooks"))
    return database


def fetch(database: Path, **request: Any) -> Page:
    async def run() -> Page:
        async def ask(table: Table) -> Page:
            return await reading.fetch(table, table.layout("text"), FetchRequest(**request), WORDS)

        return await Database(str(database)).read("documents", ask)

    return asyncio.run(run())


def refusal(database: Path, **request: Any) -> tuple[ErrorCode, str]:
    with pytest.raises(BedivereError) as raised:
        fetch(database, **request)
    return raised.value.code, raised.value.sentence


def pages(database: Path, sizes: itertools.cycle[int], **request: Any) -> list[Page]:
    """All pages of a document, each with the next of `sizes`."""
    found = [fetch(database, max_chars=next(sizes), **request)]
    while found[-1].cursor is not None:
        found.append(fetch(database, max_chars=next(sizes), cursor=found[-1].cursor))
    return found


class TestAChunk:
    def test_a_chunk_is_read_whole_with_all_that_a_citation_needs(self, library: Path) -> None:
        page = fetch(library, id="runbooks:policy-2.md#0")
        assert page.model_dump(exclude_none=True) == {
            "table": "documents",
            "path": "policy-2.md",
            "title": "Policy",
            "collection": "runbooks",
            "status": "final",
            "ids": ["runbooks:policy-2.md#0"],
            "first": 0,
            "chunks": 1,
            "headings": [],
            "text": "# Policy\n\nNew.",
            "notes": [],
        }

    def test_neighbours_come_in_document_order(self, library: Path) -> None:
        page = fetch(library, id="runbooks:guides/long.md#5", before=1, after=2)
        assert page.ids == [f"runbooks:guides/long.md#{n}" for n in (4, 5, 6, 7)]
        assert page.first == 4
        assert page.text.index("of part 4 ") < page.text.index("of part 5 ") < page.text.index("of part 7 ")
        assert page.headings == ["Part 4", "Part 5", "Part 6", "Part 7"]

    def test_neighbours_end_where_the_document_does(self, library: Path) -> None:
        page = fetch(library, id="runbooks:guides/long.md#0", before=50, after=50)
        assert len(page.ids) == page.chunks == 12

    def test_neighbours_that_do_not_fit_are_left_out_whole_and_told(self, library: Path) -> None:
        page = fetch(library, id="runbooks:guides/long.md#5", before=3, after=3, max_chars=4_000)
        assert page.ids == [f"runbooks:guides/long.md#{n}" for n in (4, 5, 6)]
        assert len(page.text) <= 4_000
        assert "Not all neighbours fit" in page.notes[0]

    def test_a_chunk_that_is_longer_than_a_page_comes_whole(self, library: Path) -> None:
        page = fetch(library, id="runbooks:guides/long.md#5", after=1, max_chars=MIN_PAGE_CHARS)
        assert page.ids == ["runbooks:guides/long.md#5"]
        assert len(page.text) > MIN_PAGE_CHARS

    def test_collection_and_version_that_are_the_chunks_own_do_no_harm(self, library: Path) -> None:
        page = fetch(library, id="handbook@2.9:start.md#0", collection="handbook", version="2.9")
        assert page.text.endswith("This is version 2.9.")

    def test_a_chunk_of_another_version_is_not_found_and_its_own_is_told(self, library: Path) -> None:
        code, sentence = refusal(library, id="handbook@2.9:start.md#0", version="2.10")
        assert code is ErrorCode.DOCUMENT_NOT_FOUND
        assert "only as collection 'handbook' version '2.9'" in sentence

    def test_an_unknown_chunk_of_a_known_document_names_the_document(self, library: Path) -> None:
        code, sentence = refusal(library, id="runbooks:guides/größe.md#99")
        assert code is ErrorCode.DOCUMENT_NOT_FOUND
        assert "Its document is 'guides/größe.md'" in sentence

    def test_an_unknown_chunk_names_the_nearest_documents(self, library: Path) -> None:
        assert "Nearest: 'guides/long.md'" in refusal(library, id="guide/long.md#0")[1]

    @pytest.mark.parametrize("hostile", ["x' OR '1'='1", "x'; DROP TABLE documents; --", '"', "\x00", "`", "\ud800"])
    def test_an_id_is_a_value_and_never_code(self, library: Path, hostile: str) -> None:
        assert refusal(library, id=hostile)[0] is ErrorCode.DOCUMENT_NOT_FOUND


class TestADocument:
    def test_a_short_document_is_one_page(self, library: Path) -> None:
        page = fetch(library, path="policy-2.md")
        assert (page.text, page.cursor, page.first, page.chunks) == ("# Policy\n\nNew.", None, 0, 1)

    @pytest.mark.parametrize("sizes", [[1_000], [3_000, 1_000, 20_000], [5_000], [MAX_PAGE_CHARS]])
    def test_pages_of_any_sizes_hold_every_chunk_once_and_in_order(self, library: Path, sizes: list[int]) -> None:
        found = pages(library, itertools.cycle(sizes), path="guides/long.md")
        assert [one for page in found for one in page.ids] == [f"runbooks:guides/long.md#{n}" for n in range(12)]
        whole = fetch(library, path="guides/long.md", max_chars=MAX_PAGE_CHARS)
        assert "\n\n".join(page.text for page in found) == whole.text

    def test_no_page_is_longer_than_asked_unless_one_chunk_is(self, library: Path) -> None:
        for page in pages(library, itertools.cycle([4_000, 2_000]), path="guides/long.md"):
            assert len(page.text) <= 4_000 or len(page.ids) == 1

    def test_the_newest_version_is_read_and_the_others_are_told(self, library: Path) -> None:
        page = fetch(library, path="start.md")
        assert page.version == "2.10"
        assert page.text.endswith("This is version 2.10.")
        assert page.notes == ["This is version 2.10, the newest; there are also 2.9, 1.0."]

    def test_a_version_that_is_asked_for_is_read_without_a_note(self, library: Path) -> None:
        page = fetch(library, path="start.md", version="1.0")
        assert page.text.endswith("This is version 1.0.")
        assert page.notes == []

    @pytest.mark.parametrize("spelled", ["v2.9", "2.9.0", "V2.9"])
    def test_a_version_may_be_spelled_otherwise(self, library: Path, spelled: str) -> None:
        assert fetch(library, path="start.md", version=spelled).version == "2.9"
        assert fetch(library, id="handbook@2.9:start.md#0", version=spelled).version == "2.9"

    def test_a_version_that_is_not_there_is_refused_with_those_that_are(self, library: Path) -> None:
        code, sentence = refusal(library, path="start.md", version="3")
        assert code is ErrorCode.DOCUMENT_NOT_FOUND
        assert all(f"version {version!r}" in sentence for version in ("1.0", "2.9", "2.10"))

    @pytest.mark.parametrize(
        ("asked", "told"),
        [
            ({"version": "1"}, "but has no version: leave version out."),
            ({"collection": "x"}, "but only as collection 'runbooks': pass one of these."),
            ({"collection": "runbooks", "version": "1"}, "but has no version: leave version out."),
        ],
    )
    def test_a_version_or_collection_that_a_document_has_not_is_refused_with_what_to_pass(
        self, library: Path, asked: dict[str, str], told: str
    ) -> None:
        code, sentence = refusal(library, path="policy.md", **asked)
        assert (code, sentence) == (ErrorCode.DOCUMENT_NOT_FOUND, f"'policy.md' is there, {told}")
        code, sentence = refusal(library, id="runbooks:policy.md#0", **asked)
        assert (code, sentence) == (ErrorCode.DOCUMENT_NOT_FOUND, f"Chunk 'runbooks:policy.md#0' is there, {told}")

    def test_a_document_without_either_says_to_leave_both_out(self, make_table: TableMaker) -> None:
        database = make_table({"text": ["one"], "path": ["faq.md"], "chunk": pa.array([0], pa.int32())})
        assert refusal(database, path="faq.md", version="1", collection="x")[1] == (
            "'faq.md' is there, but has no collection and no version: leave collection and version out."
        )

    @pytest.mark.parametrize("path", ["/policy.md", "./policy.md", "./guides/long.md", "/guides/größe.md"])
    def test_a_path_may_be_written_from_the_root_or_from_here(self, library: Path, path: str) -> None:
        page = fetch(library, path=path)
        assert (page.path, page.notes) == (path.lstrip("./"), [])

    @pytest.mark.parametrize("path", ["guides/long.md#5", "/guides/long.md#part-5", "./guides/long.md#"])
    def test_a_path_with_an_anchor_is_its_document_and_says_so(self, library: Path, path: str) -> None:
        page = fetch(library, path=path, max_chars=MAX_PAGE_CHARS)
        assert (page.path, page.first, len(page.ids)) == ("guides/long.md", 0, 12)
        assert page.notes == ["This is the whole of 'guides/long.md': for one chunk of it, pass id."]

    def test_a_path_that_may_be_two_documents_is_not_guessed(self, make_table: TableMaker) -> None:
        rows: dict[str, object] = {
            "text": ["one", "two", "three"],
            "path": ["a.md", "/a.md", "x#1"],
            "chunk": pa.array([0, 0, 0], pa.int32()),
        }
        database = make_table(rows)
        assert refusal(database, path="./a.md")[0] is ErrorCode.DOCUMENT_NOT_FOUND
        assert (fetch(database, path="/a.md").text, fetch(database, path="a.md").text) == ("two", "one")
        assert (fetch(database, path="/x#1").text, fetch(database, path="/x#1").notes) == ("three", [])

    def test_a_release_is_read_before_a_newer_pre_release(self, make_table: TableMaker) -> None:
        versions = ["2.9", "3.0-beta", "2.10"]
        rows: dict[str, object] = {"text": versions, "path": ["a.md"] * 3, "version": versions}
        page = fetch(make_table({**rows, "chunk": pa.array([0, 0, 0], pa.int32())}), path="a.md")
        assert page.version == "2.10"
        assert page.notes == ["This is version 2.10, the newest release; there are also 3.0-beta, 2.9."]

    def test_a_path_in_several_collections_is_refused_with_their_names(self, library: Path) -> None:
        code, sentence = refusal(library, path="shared.md")
        assert code is ErrorCode.INVALID_ARGUMENT
        assert "'handbook'" in sentence
        assert "'runbooks'" in sentence

    @pytest.mark.parametrize(
        ("collection", "text"), [("handbook", "Of the handbook."), ("runbooks", "Of the runbooks.")]
    )
    def test_the_collection_that_is_asked_for_is_read(self, library: Path, collection: str, text: str) -> None:
        assert fetch(library, path="shared.md", collection=collection).text.endswith(text)

    def test_a_document_of_an_older_version_alone_is_read(self, library: Path) -> None:
        assert fetch(library, path="gone.md").version == "1.0"

    def test_an_outdated_document_is_read_and_labelled(self, library: Path) -> None:
        page = fetch(library, path="policy.md")
        assert page.text.endswith("Old.")
        assert page.status == "superseded"
        assert page.outdated is not None
        assert "policy-2.md" in page.outdated
        assert fetch(library, path="policy-2.md").outdated is None

    def test_a_path_may_be_decomposed(self, library: Path) -> None:
        assert fetch(library, path="guides/gro\u0308ße.md").path == "guides/größe.md"

    def test_an_unknown_path_names_the_nearest(self, library: Path) -> None:
        code, sentence = refusal(library, path="guide/lng.md")
        assert code is ErrorCode.DOCUMENT_NOT_FOUND
        assert sentence.startswith("There is no document 'guide/lng.md'. Nearest: 'guides/long.md', ")

    def test_the_same_name_in_another_folder_is_near(self, library: Path) -> None:
        assert "Nearest: 'guides/long.md'" in refusal(library, path="somewhere/else/entirely/LONG.md")[1]

    def test_a_path_like_none_is_sent_to_the_catalog(self, library: Path) -> None:
        assert refusal(library, path="zzz")[1].endswith("lancedb_catalog lists the documents there are.")

    def test_a_long_path_is_not_repeated_whole(self, library: Path) -> None:
        assert len(refusal(library, path="x" * 4_096)[1]) < 400

    @pytest.mark.parametrize("hostile", ["../../etc/passwd", "x' OR '1'='1", "%", "*", "\x00", "guides/", "\ud800"])
    def test_a_path_is_a_value_and_never_code_or_a_file(self, library: Path, hostile: str) -> None:
        assert refusal(library, path=hostile)[0] is ErrorCode.DOCUMENT_NOT_FOUND


class TestHeadings:
    def test_only_sections_under_a_heading_are_read_in_any_case(self, library: Path) -> None:
        page = fetch(library, path="guides/long.md", headings=("PART 3", "part 11"))
        assert page.headings == ["Part 3", "Part 11"]
        assert page.chunks == 12

    def test_pages_keep_to_the_headings(self, library: Path) -> None:
        found = pages(library, itertools.cycle([1_000, 2_000]), path="guides/long.md", headings=("part 1",))
        assert [heading for page in found for heading in page.headings] == ["Part 1", "Part 10", "Part 11"]

    def test_headings_that_the_document_has_not_are_answered_with_those_it_has(self, library: Path) -> None:
        page = fetch(library, path="guides/long.md", headings=("appendix",))
        assert (page.ids, page.text, page.cursor, page.title) == ([], "", None, "Long")
        assert "'Part 0'; 'Part 1'" in page.notes[0]


class TestMisuse:
    @pytest.mark.parametrize(
        "request_",
        [{}, {"id": "a#0", "path": "a"}, {"path": "a", "cursor": "x"}, {"id": "a#0", "path": "a", "cursor": "x"}],
    )
    def test_exactly_one_way_to_say_what_to_read_is_taken(self, library: Path, request_: dict[str, str]) -> None:
        code, sentence = refusal(library, **request_)
        assert code is ErrorCode.INVALID_ARGUMENT
        assert "exactly one of id, path and cursor" in sentence

    @pytest.mark.parametrize(
        ("request_", "named"),
        [
            ({"path": "policy.md", "before": 1}, "before and after"),
            ({"path": "policy.md", "after": 1}, "before and after"),
            ({"cursor": "x", "after": 1}, "before and after"),
            ({"id": "a#0", "headings": ("x",)}, "headings"),
            ({"cursor": "x", "headings": ("x",)}, "headings"),
            ({"cursor": "x", "version": "1"}, "collection and version"),
        ],
    )
    def test_what_does_not_go_together_is_refused(self, library: Path, request_: dict[str, Any], named: str) -> None:
        code, sentence = refusal(library, **request_)
        assert code is ErrorCode.INVALID_ARGUMENT
        assert named in sentence


class TestACursor:
    def test_an_altered_cursor_is_refused(self, library: Path) -> None:
        cursor = fetch(library, path="guides/long.md", max_chars=1_000).cursor
        assert cursor is not None
        for at in range(0, len(cursor), 7):
            altered = f"{cursor[:at]}{'A' if cursor[at] != 'A' else 'B'}{cursor[at + 1 :]}"
            assert refusal(library, cursor=altered)[0] is ErrorCode.INVALID_CURSOR

    def test_a_cursor_outlives_a_restart_but_not_another_build(self, tmp_path: Path) -> None:
        source, database = write(tmp_path / "docs", {"long.md": LONG}), tmp_path / "database"
        build_table(Options(source=source, database=database))
        cursor = fetch(database, path="long.md", max_chars=1_000).cursor
        assert fetch(database, cursor=cursor, max_chars=1_000).first == 1
        write(source, {"other.md": "# Other\n"})
        build_table(Options(source=source, database=database))
        assert refusal(database, cursor=cursor)[0] is ErrorCode.CURSOR_STALE

    def test_a_cursor_of_another_database_is_stale(self, library: Path, handbook: Path) -> None:
        cursor = fetch(library, path="guides/long.md", max_chars=1_000).cursor
        assert refusal(handbook, cursor=cursor)[0] is ErrorCode.CURSOR_STALE


class TestTablesOfOthers:
    def test_a_chunk_is_read_by_its_id_where_chunks_are_not_numbered(self, make_table: TableMaker) -> None:
        database = make_table({"id": ["a", "b"], "text": ["one", "two"], "chunkSource": ["x.txt", "x.txt"]})
        page = fetch(database, id="b", before=1)
        assert (page.text, page.path, page.ids) == ("two", "x.txt", ["b"])
        assert "column 'chunk'" in page.notes[0]

    def test_a_document_is_refused_where_chunks_are_not_numbered(self, make_table: TableMaker) -> None:
        code, sentence = refusal(make_table({"text": ["one"], "chunkSource": ["x.txt"]}), path="x.txt")
        assert code is ErrorCode.COLUMN_NOT_FOUND
        assert "column 'chunk'" in sentence

    def test_a_table_that_names_no_documents_is_read_by_the_number_of_the_row(self, make_table: TableMaker) -> None:
        database = make_table({"text": ["one", "two", "three"]})
        assert fetch(database, id="row:1").text == "two"
        assert refusal(database, path="x.txt")[0] is ErrorCode.COLUMN_NOT_FOUND

    @pytest.mark.parametrize("name", ["row:3", "row:-1", "row:01", "row:9999999999999999999", "row:1 OR 1=1"])
    def test_a_row_that_is_not_there_is_not_found(self, make_table: TableMaker, name: str) -> None:
        assert refusal(make_table({"text": ["one", "two", "three"]}), id=name)[0] is ErrorCode.DOCUMENT_NOT_FOUND

    def test_an_id_that_was_given_twice_is_told(self, make_table: TableMaker) -> None:
        page = fetch(make_table({"id": ["a", "a"], "text": ["one", "two"]}), id="a")
        assert page.ids == ["a"]
        assert "first of 2" in page.notes[0]

    def test_a_numbered_table_is_read_page_by_page(self, make_table: TableMaker) -> None:
        count = 20
        database = make_table(
            {
                "id": [f"{n:02}" for n in range(count)],
                "text": [f"{n} " * 300 for n in range(count)],
                "path": ["x.txt"] * count,
                # Neither in order nor without gaps.
                "chunk": pa.array([(7 * n) % count * 10 for n in range(count)], pa.int64()),
            }
        )
        found = pages(database, itertools.cycle([1_000, 3_000]), path="x.txt")
        assert [one for page in found for one in page.ids] == sorted(
            (f"{n:02}" for n in range(count)), key=lambda name: (7 * int(name)) % count
        )

    def test_versions_of_others_are_told_apart_by_their_columns(self, make_table: TableMaker) -> None:
        database = make_table(
            {
                "text": ["old", "new"],
                "path": ["x.txt", "x.txt"],
                "chunk": pa.array([0, 0], pa.int32()),
                "version": ["v1.9", "v1.10"],
            }
        )
        assert fetch(database, path="x.txt").text == "new"
        assert fetch(database, path="x.txt", version="v1.9").text == "old"

    def test_a_document_of_too_many_chunks_is_refused(
        self, make_table: TableMaker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(reading, "_MAX_DOCUMENT_CHUNKS", 2)
        rows: dict[str, object] = {"text": ["x"] * 3, "path": ["x.txt"] * 3, "chunk": pa.array([0, 1, 2], pa.int32())}
        code, sentence = refusal(make_table(rows), path="x.txt")
        assert code is ErrorCode.INVALID_ARGUMENT
        assert "fetch them by id" in sentence

    def test_a_chunk_of_a_whole_book_comes_whole(self, make_table: TableMaker) -> None:
        database = make_table({"id": ["a"], "text": ["x" * 500_000]})
        assert len(fetch(database, id="a").text) == 500_000
