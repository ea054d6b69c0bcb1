"""Which column plays which part, in tables of ours and of others."""

from __future__ import annotations

import pytest

from retrieval.errors import BedivereError, ErrorCode
from retrieval.layout import MAX_COLUMNS, Column, Index, Kind, lay_out, missing_parts


def columns(**kinds: Kind) -> list[Column]:
    return [Column(name, kind, kind) for name, kind in kinds.items()]


def fts(column: str, *, positions: bool = True, unindexed: int = 0) -> Index:
    return Index(column, "FTS", positions, indexed=10, unindexed=unindexed)


OURS = columns(
    id="text",
    path="text",
    title="text",
    heading="text",
    text="text",
    url="text",
    chunk="integer",
    status="text",
    content_hash="text",
    idents="text",
    search_text="text",
)


def test_a_table_with_only_text_is_served() -> None:
    layout = lay_out(columns(text="text"), [], "text")
    assert layout.selected == ["text"]
    assert (layout.id, layout.title, layout.path) == (None, None, None)


def test_a_table_of_ours_is_searched_in_its_prepared_column_and_hides_what_only_serves_search() -> None:
    layout = lay_out(OURS, [fts("search_text"), fts("idents"), fts("title"), fts("heading")], "text")
    assert layout.searchable.text == "search_text"
    assert layout.searchable.identifiers == "idents"
    assert layout.metadata == ("status",)
    assert "search_text" not in layout.selected


def test_another_text_column_is_searched_itself() -> None:
    layout = lay_out(OURS, [fts("search_text")], "title")
    assert layout.searchable.text == "title"
    assert layout.searchable.identifiers is None


def test_the_layouts_of_lancelot_and_anythingllm_name_their_source() -> None:
    assert lay_out(columns(text="text", docSource="text"), [], "text").path == "docSource"
    assert lay_out(columns(text="text", docSource="text", chunkSource="text"), [], "text").path == "chunkSource"
    assert lay_out(columns(text="text", chunkSource="text", path="text"), [], "text").path == "path"


def test_every_other_scalar_column_is_metadata_and_vectors_are_not() -> None:
    layout = lay_out(columns(text="text", vector="other", pages="integer", draft="boolean", at="time"), [], "text")
    assert layout.metadata == ("pages", "draft", "at")


def test_only_indexed_titles_and_headings_are_searched() -> None:
    layout = lay_out(columns(text="text", title="text", heading="text"), [fts("title")], "text")
    assert (layout.searchable.title, layout.searchable.heading) == ("title", None)


def test_an_index_without_positions_serves_no_phrases_and_no_index_does() -> None:
    assert not lay_out(columns(text="text"), [fts("text", positions=False)], "text").searchable.phrases
    assert lay_out(columns(text="text"), [], "text").searchable.phrases


def test_a_table_without_the_text_column_says_which_columns_hold_text() -> None:
    with pytest.raises(BedivereError, match="'body', 'title'") as raised:
        lay_out(columns(body="text", title="text", n="integer"), [], "text")
    assert raised.value.code is ErrorCode.TEXT_COLUMN_MISSING
    assert "LANCEDB_TEXT_COLUMN" in raised.value.sentence


def test_a_column_of_numbers_is_no_text_column() -> None:
    with pytest.raises(BedivereError, match="no column of text at all") as raised:
        lay_out(columns(text="integer"), [], "text")
    assert raised.value.code is ErrorCode.COLUMN_NOT_FOUND


def test_ten_thousand_columns_are_refused_and_the_limit_is_named() -> None:
    with pytest.raises(BedivereError, match=f"at most {MAX_COLUMNS}") as raised:
        lay_out([Column(f"c{n}", "text", "text") for n in range(10_000)], [], "text")
    assert raised.value.code is ErrorCode.TOO_MANY_COLUMNS


def test_many_text_columns_are_named_in_part() -> None:
    with pytest.raises(BedivereError, match="and 28 more"):
        lay_out([Column(f"c{n}", "text", "text") for n in range(40)], [], "text")


def test_what_a_table_lacks_is_told() -> None:
    bare = lay_out(columns(text="text"), [], "text")
    assert any("no full-text index" in note for note in missing_parts(bare, []))
    assert any("cannot be cited" in note for note in missing_parts(bare, []))
    for unindexed, beginning in ((1, "1 row is not in the "), (8, "8 rows are not in the ")):
        late = [fts("text", unindexed=unindexed)]
        notes = missing_parts(lay_out(columns(text="text"), late, "text"), late)
        assert any(note.startswith(beginning) for note in notes)


def test_a_whole_table_of_ours_lacks_nothing() -> None:
    indexes = [fts("search_text"), fts("idents"), fts("title"), fts("heading")]
    assert missing_parts(lay_out(OURS, indexes, "text"), indexes) == []
