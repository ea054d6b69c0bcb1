"""A reStructuredText file is its sections and blocks as they stand in the source, whatever extensions it uses."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.indexing.chunks import split
from retrieval.indexing.document import Block, ParsedDocument
from retrieval.indexing.formats import parse


def read(text: str) -> ParsedDocument:
    return parse("page.rst", text.encode())


def blocks(text: str) -> list[tuple[str, str]]:
    return [(block.kind, block.text) for block in read(text).blocks]


def headings(text: str) -> list[Block]:
    return [block for block in read(text).blocks if block.kind == "heading"]


def folded(text: str) -> str:
    return "".join(text.split())


def test_mail_style_headers_are_metadata_and_not_text() -> None:
    document = read(
        """\
PEP: 9001
Title: An Example
 Proposal
Author: A. Author <a@example.com>,
        B. Author <b@example.com>
Status: Superseded
Superseded-By: 3
Created: 07-Jul-2001
Resolution:

Abstract
========

Words.
"""
    )

    assert document.title == "An Example Proposal"
    assert document.metadata == {
        "pep": "9001",
        "title": "An Example Proposal",
        "author": "A. Author <a@example.com>, B. Author <b@example.com>",
        "status": "Superseded",
        "superseded_by": "3",
        "created": "07-Jul-2001",
        "date": "2001-07-07",
    }
    assert [block.text for block in document.blocks] == ["Abstract\n========", "Words."]


@pytest.mark.parametrize("text", ["Note: one field is a sentence.", "Key: a\nsome prose", " Indented: a\n B: c"])
def test_a_first_paragraph_with_a_colon_is_text(text: str) -> None:
    document = read(f"{text}\n\nMore.")

    assert document.metadata == {}
    assert folded(document.blocks[0].text) == folded(text)


def test_a_title_alone_is_a_header() -> None:
    assert read("Title: Alone\n\nWords.").title == "Alone"


def test_fields_before_the_first_text_are_metadata() -> None:
    document = read("Guide\n=====\n\n:status: draft\n:Replaces: 1,\n   2\n:orphan:\n\nWords.\n\n:field: of text")

    assert document.metadata == {"status": "draft", "replaces": "1, 2"}
    assert [(block.kind, block.text) for block in document.blocks] == [
        ("heading", "Guide\n====="),
        ("paragraph", "Words."),
        ("list_item", ":field: of text"),
    ]


def test_the_meta_directive_is_metadata() -> None:
    document = read(".. meta::\n   :description: About it\n   :keywords: a, b\n\nWords.")

    assert document.metadata == {"description": "About it", "keywords": "a, b"}
    assert [block.text for block in document.blocks] == ["Words."]


def test_the_title_is_the_first_top_section_unless_named() -> None:
    assert read("Words.\n\nFirst\n=====\n\nSub\n---\n\nNext\n====\n").title == "First"
    assert read("Words.").title is None


def test_sections_nest_by_the_order_in_which_their_adornments_appear() -> None:
    text = "====\n Doc\n====\n\nPart\n====\n\na\n\nSub\n~~~~\n\nb\n\nPart 2\n======\n\nc\n\n====\nEnd\n====\n"

    assert [(block.text, block.heading_path) for block in read(text).blocks] == [
        ("====\n Doc\n====", ("Doc",)),
        ("Part\n====", ("Doc", "Part")),
        ("a", ("Doc", "Part")),
        ("Sub\n~~~~", ("Doc", "Part", "Sub")),
        ("b", ("Doc", "Part", "Sub")),
        ("Part 2\n======", ("Doc", "Part 2")),
        ("c", ("Doc", "Part 2")),
        ("====\nEnd\n====", ("End",)),
    ]


@pytest.mark.parametrize(
    ("title", "text", "anchor"),
    [
        ("The ``git clone`` *command*", "The git clone command", "the-git-clone-command"),
        (":mod:`os.path` and `Docs <https://example.com>`_", "os.path and Docs", "os-path-and-docs"),
        ("1. **Größe**", "1. Größe", "groe"),
        ("2 * 3 * 4", "2 * 3 * 4", None),
        ("日本語の題名です", "日本語の題名です", None),
        ("`<only>`", "<only>", "only"),
    ],
)
def test_a_heading_is_stripped_of_markup_and_has_docutils_anchor(title: str, text: str, anchor: str | None) -> None:
    [heading] = headings(f"{title}\n{'=' * 60}\n")

    assert (heading.heading_path, heading.anchor) == ((text,), anchor)


def test_a_label_is_the_anchor_of_the_section_that_follows() -> None:
    text = ".. _My_Label:\n\nA\n====\n\nx\n\nB\n====\n\nB\n====\n"

    assert [block.anchor for block in headings(text)] == ["my-label", "b", None]
    assert "Label" not in "".join(block.text for block in read(text).blocks)


@pytest.mark.parametrize("text", ["----------", "Longer text\n==\n", "====\n\n====", "====\nLonger than it\n===="])
def test_a_line_of_punctuation_that_underlines_nothing_is_text(text: str) -> None:
    assert headings(f"Words.\n\n{text}\n\nWords.") == []


def test_literal_blocks_and_code_directives_are_code() -> None:
    text = """\
For example::

    x = 1

    y = 2

.. code-block:: python
   :linenos:

   # not a comment

   z = 3

>>> 1 + 1
2

term
   Definition::

      code

After.
"""

    assert blocks(text) == [
        ("paragraph", "For example::"),
        ("code", "    x = 1\n\n    y = 2"),
        ("code", ".. code-block:: python\n   :linenos:\n\n   # not a comment\n\n   z = 3"),
        ("code", ">>> 1 + 1\n2"),
        ("paragraph", "term\n   Definition::"),
        ("code", "      code"),
        ("paragraph", "After."),
    ]


def test_a_literal_block_may_be_indented_less_than_the_last_line_before_it() -> None:
    assert blocks("term\n        as follows::\n\n    code\n") == [
        ("paragraph", "term\n        as follows::"),
        ("code", "    code"),
    ]


def test_two_colons_without_an_indented_block_are_text() -> None:
    assert blocks("Nothing::\n\nfollows.") == [("paragraph", "Nothing::"), ("paragraph", "follows.")]


def test_comments_are_dropped_with_all_that_is_indented_under_them() -> None:
    text = (
        "a\n\n.. a comment\n   goes on\n\n   and on\n\nb\n\n..\n   silent\n\nc\n\n..\n\n   quoted\n\n..no comment\n\n.."
    )

    assert [text for _, text in blocks(text)] == ["a", "b", "c", "   quoted", "..no comment"]


def test_directives_keep_their_text_known_or_not() -> None:
    text = """\
.. note:: Mind this.

   A paragraph.

   .. unknown:thing:: argument
      :option: 1

      Deeper::

         code

.. |logo| image:: a.png

.. versionadded:: 3.2
"""

    assert blocks(text) == [
        ("paragraph", ".. note:: Mind this."),
        ("paragraph", "   A paragraph."),
        ("paragraph", "   .. unknown:thing:: argument\n      :option: 1"),
        ("paragraph", "      Deeper::"),
        ("code", "         code"),
        ("paragraph", ".. |logo| image:: a.png"),
        ("paragraph", ".. versionadded:: 3.2"),
    ]


def test_a_directive_whose_first_paragraph_announces_code() -> None:
    assert blocks(".. note:: Run\n   this::\n\n      ls\n") == [
        ("paragraph", ".. note:: Run\n   this::"),
        ("code", "      ls"),
    ]


def test_tables_of_contents_are_navigation() -> None:
    assert blocks(".. toctree::\n   :hidden:\n\n   a\n   b\n\n.. contents::\n\nWords.") == [("paragraph", "Words.")]


def test_targets_and_footnotes_are_text() -> None:
    text = ".. _link: https://example.com\n.. [1] A note\n   on two lines.\n\n__ https://example.org"

    assert blocks(text) == [
        ("paragraph", ".. _link: https://example.com"),
        ("paragraph", ".. [1] A note\n   on two lines."),
        ("paragraph", "__ https://example.org"),
    ]


def test_items_are_blocks_with_what_is_nested_in_them() -> None:
    text = "- one\n\n  more\n\n  - nested\n- two\n\n1. first\n#. second\n\n(a) third\n\n:field: value\n\n   more"

    assert blocks(text) == [
        ("list_item", "- one\n\n  more\n\n  - nested"),
        ("list_item", "- two"),
        ("list_item", "1. first"),
        ("list_item", "#. second"),
        ("list_item", "(a) third"),
        ("list_item", ":field: value\n\n   more"),
    ]


def test_a_paragraph_that_starts_with_an_initial_is_no_item() -> None:
    assert blocks("A. Author wrote\nthis paragraph.") == [("paragraph", "A. Author wrote\nthis paragraph.")]


def test_a_grid_table_is_its_rows_and_the_header_stays_with_the_first() -> None:
    top, rule, line = "+---+---+\n| A | B |", "+===+===+\n", "+---+---+"

    assert blocks(f"{top}\n{rule}| 1 | 2 |\n{line}\n| 3 | 4 |\n{line}\n") == [
        ("table_row", f"{top}\n{rule}| 1 | 2 |\n{line}"),
        ("table_row", f"| 3 | 4 |\n{line}"),
    ]


def test_a_simple_table_is_its_rows_and_the_header_stays_with_the_first() -> None:
    text = "=== ===\nA   B\n=== ===\n1   2\n    goes on\n3   4\n\n5   6\n=== ===\n\nAfter."

    assert blocks(text) == [
        ("table_row", "=== ===\nA   B\n=== ===\n1   2\n    goes on"),
        ("table_row", "3   4"),
        ("table_row", "5   6\n=== ==="),
        ("paragraph", "After."),
    ]


def test_a_simple_table_without_a_header_is_its_rows() -> None:
    assert blocks("=== ===\n1   2\n3   4\n=== ===\n") == [
        ("table_row", "=== ===\n1   2"),
        ("table_row", "3   4\n=== ==="),
    ]


@pytest.mark.parametrize("text", ["=== ===\nnever closed", "  === ===\n  a\n\nout\n\n  === ==="])
def test_the_border_of_no_table_is_text(text: str) -> None:
    assert folded("".join(text for _, text in blocks(text))) == folded(text)
    assert "table_row" not in dict(blocks(text))


_lines = st.sampled_from(
    [
        *("Title", "=====", "-----", "", "  ", "text ``x``", "- item", "  nested", "1. one", "A. b", "::", "see::"),
        *("    code", "=== ===", "  === ===", "+--+--+", "+==+==+", "| a | b |", ".. note:: x", "   .. code::", "____"),
        *(".. _t: http://e.org", ".. [1] f", ">>> x", ":f: v", "| line", "*em*", "term\n   def::", "…", "__ x"),
    ]
)


@given(st.lists(_lines, max_size=25).map("\n".join))
def test_nothing_of_a_page_is_lost_or_doubled(text: str) -> None:
    text = "Start.\n\n" + text
    document = read(text)

    assert folded("".join(block.text for block in document.blocks)) == folded(text)
    assert folded("".join(chunk.text for chunk in split(document))) == folded(text)


@given(st.text(alphabet="=-.:_`*|+ \nab[]1#", max_size=150))
def test_any_text_is_read(text: str) -> None:
    assert all(block.text.strip() for block in read(text).blocks)


def test_deep_nesting_costs_no_stack() -> None:
    text = "".join("   " * depth + ".. note:: x\n\n" for depth in range(300))

    assert len(read(text).blocks) == 300


def test_a_title_that_is_too_long_for_one_is_a_paragraph_and_still_names_the_document() -> None:
    title = "word " * 100
    document = read(f"{title}\n{'=' * 500}\n\ntext\n\nNext\n====\n")

    assert [(block.kind, block.heading_path) for block in document.blocks] == [
        ("paragraph", ()),
        ("paragraph", ()),
        ("heading", ("Next",)),
    ]
    assert document.title == title.strip()


@pytest.mark.parametrize(
    "text",
    [
        ":" * 60_000 + " x\n====\n\ntext",
        ":a" * 30_000 + "\n====\n\ntext",
        "  = =\n  x\n\n" * 30_000 + "y\n= =\n",
    ],
)
def test_what_almost_is_a_role_or_a_table_is_read_in_linear_time(text: str) -> None:
    started = time.process_time()

    assert folded("".join(block.text for block in read(text).blocks)) == folded(text)
    # It takes a tenth of a second, and half a minute where each start looks at all that follows.
    assert time.process_time() - started < 10
