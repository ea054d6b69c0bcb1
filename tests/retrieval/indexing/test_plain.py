"""Plain text is its paragraphs; the suffix of a name, in any case, says which format reads it."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.indexing.document import Block, ParsedDocument, Unreadable
from retrieval.indexing.formats import SUFFIXES, parse


def test_paragraphs_stand_between_empty_lines() -> None:
    document = parse("a.txt", b"One\nstill one.\n \n\n  Two.\n\x0cThree.")

    assert document == ParsedDocument(
        title=None,
        blocks=(Block("paragraph", "One\nstill one."), Block("paragraph", "  Two."), Block("paragraph", "Three.")),
    )


@given(st.text(st.characters(blacklist_categories=["Cs", "Cc"]) | st.sampled_from("\n \t"), max_size=200))
def test_nothing_of_a_text_is_lost(text: str) -> None:
    blocks = parse("a.txt", text.encode()).blocks

    assert "".join("".join(block.text.split()) for block in blocks) == "".join(
        unicodedata.normalize("NFC", text.removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")).split()
    )


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_suffix_is_read_in_any_case(suffix: str) -> None:
    assert "Words." in parse(f"docs/v1.2/a{suffix.upper()}", b"Words.").blocks[0].text


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_empty_file_is_a_document_without_blocks(suffix: str) -> None:
    assert parse(f"a{suffix}", b"") == ParsedDocument(title=None, blocks=())


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_binary_file_is_refused_with_a_reason(suffix: str) -> None:
    with pytest.raises(Unreadable, match="binary, not text"):
        parse(f"a{suffix}", b"PK\x03\x04\0\0")


@pytest.mark.parametrize(("name", "reason"), [("a.exe", "no reader for .exe files"), ("README", "without a suffix")])
def test_a_file_of_no_known_format_is_refused_with_a_reason(name: str, reason: str) -> None:
    with pytest.raises(Unreadable, match=reason):
        parse(name, b"Words.")
