"""Chunks hold all of a document once, keep to their section and to the cap, and are cut where a reader would."""

from __future__ import annotations

import unicodedata
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.indexing.chunks import MAX_CHARS, PARAMETERS, TARGET_CHARS, Chunk, split
from retrieval.indexing.document import Block, BlockKind, ParsedDocument


def document(*blocks: Block) -> ParsedDocument:
    return ParsedDocument(title=None, blocks=blocks)


def heading(*path: str) -> Block:
    return Block("heading", "#" * len(path) + " " + path[-1], path, path[-1].lower())


def under(path: tuple[str, ...], text: str, kind: BlockKind = "paragraph") -> Block:
    return Block(kind, text, path, path[-1].lower() if path else None)


def folded(text: str) -> str:
    return "".join(text.split())


def texts(*blocks: Block) -> list[str]:
    return [chunk.text for chunk in split(document(*blocks))]


def sentences(chars: int) -> str:
    sentence = "The quick brown fox jumps over the lazy dog. "
    return (sentence * (chars // len(sentence) + 1))[:chars].rstrip() + "."


def words(chars: int) -> str:
    return ("lorem ipsum " * (chars // 12)).strip()


@st.composite
def repeated(draw: st.DrawFn) -> str:
    return draw(st.text(max_size=30)) * draw(st.integers(1, 300))


_text: st.SearchStrategy[str] = (
    st.text(max_size=40) | st.text(alphabet="ab .\n`é\u0301\u200d🏽。 |-", max_size=400) | repeated()
)
_blocks = st.builds(
    Block,
    kind=st.sampled_from(get_args(BlockKind)),
    text=_text,
    heading_path=st.lists(st.sampled_from("ABC"), max_size=3).map(tuple),
    anchor=st.none() | st.just("a"),
)


@settings(max_examples=300)
@given(st.lists(_blocks, max_size=12))
def test_the_chunks_are_the_blocks_with_nothing_lost_and_nothing_doubled(blocks: list[Block]) -> None:
    chunks = split(document(*blocks))

    assert folded("".join(chunk.text for chunk in chunks)) == folded("".join(block.text for block in blocks))
    assert all(chunk.text.strip() for chunk in chunks)
    assert max((len(chunk.text) for chunk in chunks), default=0) <= MAX_CHARS


def test_a_document_without_blocks_has_no_chunks() -> None:
    assert split(document()) == []


def test_blocks_of_white_space_make_no_chunk() -> None:
    assert split(document(Block("paragraph", " \n\t"), Block("code", "\n"))) == []


def test_a_section_is_one_chunk_that_opens_with_its_heading() -> None:
    chunks = split(document(heading("Git"), under(("Git",), "Words."), heading("Helm"), under(("Helm",), "More.")))

    assert chunks == [Chunk("# Git\n\nWords.", ("Git",), "git"), Chunk("# Helm\n\nMore.", ("Helm",), "helm")]


def test_a_heading_without_text_opens_the_chunk_of_its_first_subsection() -> None:
    chunks = split(document(heading("Git"), heading("Git", "Clone"), under(("Git", "Clone"), "Words.")))

    assert chunks == [Chunk("# Git\n\n## Clone\n\nWords.", ("Git", "Clone"), "clone")]


def test_a_heading_without_text_or_subsections_is_a_chunk() -> None:
    chunks = split(document(heading("A", "B"), heading("A", "C"), under(("A", "C"), "Words."), heading("A", "D")))

    assert [chunk.text for chunk in chunks] == ["## B", "## C\n\nWords.", "## D"]


def test_text_before_the_first_heading_is_a_chunk_of_its_own() -> None:
    assert texts(under((), "Preface."), heading("A"), under(("A",), "Words.")) == ["Preface.", "# A\n\nWords."]


def test_a_change_of_heading_path_without_a_heading_block_ends_a_chunk() -> None:
    chunks = split(document(under(("A",), "One."), under(("B",), "Two.")))

    assert [(chunk.text, chunk.heading_path) for chunk in chunks] == [("One.", ("A",)), ("Two.", ("B",))]


def test_items_and_rows_follow_one_another_line_by_line_and_paragraphs_stand_apart() -> None:
    blocks = [
        under((), "Choose:"),
        *(under((), f"- {name}", "list_item") for name in "ab"),
        *(under((), f"| {name} |", "table_row") for name in "xy"),
    ]

    assert texts(*blocks) == ["Choose:\n\n- a\n- b\n\n| x |\n| y |"]


def test_a_long_section_is_cut_between_paragraphs_into_chunks_of_like_length() -> None:
    parts = texts(*(under((), sentences(400)) for _ in range(9)))

    assert len(parts) == 3
    assert all(abs(len(part) - TARGET_CHARS) < 20 for part in parts)


def test_a_short_rest_joins_the_chunk_before_it() -> None:
    code = "\n".join(["x = 1"] * 290)
    rest = words(180)

    assert texts(under((), code, "code"), under((), rest)) == [f"{code}\n\n{rest}"]


def test_a_heading_is_not_left_alone_by_a_paragraph_that_just_fits() -> None:
    parts = texts(heading("A"), under(("A",), sentences(MAX_CHARS - 2)))

    assert all(len(part) > 500 for part in parts)


def test_code_within_the_cap_is_not_cut() -> None:
    code = "```\n" + "\n".join(["x = 1"] * 300) + "\n```"

    assert code in texts(under((), sentences(900)), under((), code, "code"), under((), sentences(900)))


def test_code_over_the_cap_is_cut_at_line_ends_and_keeps_its_indentation() -> None:
    lines = [f"    line_{number} = {number}" for number in range(300)]
    parts = texts(under((), "\n".join(lines), "code"))

    assert len(parts) > 1
    assert [line for part in parts for line in part.split("\n")] == lines


def test_empty_lines_inside_cut_code_stay() -> None:
    parts = texts(under((), "\n\n".join(["x = 1"] * 400), "code"))

    assert all("x = 1\n\nx = 1" in part for part in parts)


def test_a_long_paragraph_is_cut_at_the_end_of_a_sentence() -> None:
    parts = texts(under((), sentences(5000)))

    assert len(parts) == 4
    assert all(part.endswith(".") and part.startswith("The quick") for part in parts)


def test_a_long_paragraph_of_japanese_is_cut_after_a_full_stop() -> None:
    parts = texts(under((), "これは日本語の文書です。" * 300))

    assert all(part.endswith("。") for part in parts)


def test_a_paragraph_without_sentences_is_cut_between_words() -> None:
    parts = texts(under((), words(5000)))

    assert len(parts) == 4
    assert {word for part in parts for word in part.split()} == {"lorem", "ipsum"}


@pytest.mark.parametrize("place", [300, 1700])
def test_the_only_space_within_the_cap_is_where_a_paragraph_is_cut(place: int) -> None:
    parts = texts(under((), "a" * place + " " + "b" * 2400))

    assert all(len(set(part)) == 1 for part in parts)


def test_a_text_without_spaces_is_cut_at_the_cap_between_letters_and_not_before_their_marks() -> None:
    letter = "q\N{COMBINING DOT BELOW}\N{COMBINING TILDE}"
    parts = texts(under((), letter * 1500))

    assert all(part.startswith("q") for part in parts)
    assert not any(unicodedata.combining(part[0]) for part in parts)


def test_an_emoji_sequence_is_not_cut() -> None:
    family = "👩🏽\N{ZERO WIDTH JOINER}🚀"
    parts = texts(under((), family * 1200))

    assert all(part.startswith("👩") and part.endswith("🚀") for part in parts)


def test_an_endless_run_of_marks_is_cut_all_the_same() -> None:
    parts = texts(under((), "a" + "\N{COMBINING ACUTE ACCENT}" * 5000))

    assert max(len(part) for part in parts) <= MAX_CHARS


def test_a_long_item_is_cut_at_its_nested_lines() -> None:
    lines = ["- top", *(f"  - nested item number {number}" for number in range(120))]
    parts = texts(under((), "\n".join(lines), "list_item"))

    assert [line for part in parts for line in part.split("\n")] == lines


def test_a_long_item_is_not_cut_inside_a_code_fence_that_fits() -> None:
    fence = "  ```yaml\n" + "\n".join(f"  key_{number}: value" for number in range(60)) + "\n  ```"
    parts = texts(under((), f"- {words(1100)}\n{fence}\n  {words(1100)}\n{fence}", "list_item"))

    assert sum(part.count(fence) for part in parts) == 2


def test_a_long_code_fence_in_a_long_item_is_cut_at_line_ends() -> None:
    lines = ["- ```", *(f"  key_{number}: value" for number in range(300)), "  ```", "  rest"]
    parts = texts(under((), "\n".join(lines), "list_item"))

    assert [line for part in parts for line in part.split("\n")] == lines


def test_an_unclosed_fence_in_a_long_item_loses_nothing() -> None:
    text = "- item\n  ```\n" + "\n".join(["  x"] * 900)

    assert folded("".join(texts(under((), text, "list_item")))) == folded(text)


def test_a_very_long_row_is_cut_between_words() -> None:
    parts = texts(under((), "| " + words(4000) + " |", "table_row"))

    assert {word for part in parts for word in part.split()} == {"|", "lorem", "ipsum"}


def test_a_heading_longer_than_the_cap_is_cut() -> None:
    parts = texts(under((words(4100),), words(4100), "heading"), under((words(4100),), "Words."))

    assert max(len(part) for part in parts) <= MAX_CHARS


def test_the_parameters_name_the_version_and_both_lengths() -> None:
    assert PARAMETERS["version"] >= 1
    assert (PARAMETERS["target_chars"], PARAMETERS["max_chars"]) == (TARGET_CHARS, MAX_CHARS)
