"""A Markdown file is its headings, paragraphs, items, rows and code, each as its lines stand in the source."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.indexing.chunks import split
from retrieval.indexing.document import Block, ParsedDocument
from retrieval.indexing.formats import parse
from retrieval.indexing.formats.markdown import slug


def read(text: str) -> ParsedDocument:
    return parse("page.md", text.encode())


def blocks(text: str) -> list[tuple[str, str]]:
    return [(block.kind, block.text) for block in read(text).blocks]


def headings(text: str) -> list[Block]:
    return [block for block in read(text).blocks if block.kind == "heading"]


def folded(text: str) -> str:
    return "".join(text.split())


PAGE = """\
# Guide to *cloning* [repos](x.md)

Intro with `code`, **bold** and a [link][ref].
Second line.

[ref]: https://example.com/ref

Setext section
--------------

- one
  - nested

  more of one
- two

1) first

| Name | Value |
|------|-------|
| a    | 1     |
| b    | 2     |
| c    | 3     |

```yaml
# not a heading
key: value
```

    indented code

> [!NOTE]
> A quote.

***

<details>
<summary>More</summary>

Inside.

</details>
"""


def test_each_block_is_its_lines_in_the_source() -> None:
    assert blocks(PAGE) == [
        ("heading", "# Guide to *cloning* [repos](x.md)"),
        ("paragraph", "Intro with `code`, **bold** and a [link][ref].\nSecond line."),
        ("paragraph", "[ref]: https://example.com/ref"),
        ("heading", "Setext section\n--------------"),
        ("list_item", "- one\n  - nested\n\n  more of one"),
        ("list_item", "- two"),
        ("list_item", "1) first"),
        ("table_row", "| Name | Value |\n|------|-------|\n| a    | 1     |"),
        ("table_row", "| b    | 2     |"),
        ("table_row", "| c    | 3     |"),
        ("code", "```yaml\n# not a heading\nkey: value\n```"),
        ("code", "    indented code"),
        ("paragraph", "> [!NOTE]\n> A quote."),
        ("paragraph", "***"),
        ("paragraph", "<details>\n<summary>More</summary>"),
        ("paragraph", "Inside."),
        ("paragraph", "</details>"),
    ]


_lines = st.sampled_from(
    [
        *(
            "# One",
            "## Two",
            "Title",
            "===",
            "---",
            "",
            "  ",
            "text *here*",
            "- item",
            "  - nested",
            "1. first",
            "> quote",
        ),
        *("```", "~~~", "    code", "| a | b |", "|---|---|", "[x]: http://e.org", "!!! note", '=== "Tab"', "\tx", "#"),
        *("<div>", "</div>", "+++", "...", "***", "\\", "* * *", '??? tip "T"', "      deep", "&amp;", "<a id=x>"),
    ]
)


@given(st.lists(_lines, max_size=25).map("\n".join) | st.text(alphabet="#-*`|> \n\tab1.<![]()=!~", max_size=120))
def test_nothing_of_a_page_is_lost_or_doubled(text: str) -> None:
    text = "Start\n\n" + text.replace("<!--", "")
    document = read(text)

    assert folded("".join(block.text for block in document.blocks)) == folded(text)
    assert folded("".join(chunk.text for chunk in split(document))) == folded(text)


def test_a_block_stands_under_its_headings() -> None:
    paths = {block.text: block.heading_path for block in read("pre\n# A\na\n### C\nc\n## B\nb\n# D\nd").blocks}

    assert paths["pre"] == ()
    assert paths["a"] == ("A",)
    assert paths["c"] == ("A", "C")
    assert paths["b"] == ("A", "B")
    assert paths["d"] == ("D",)
    assert paths["## B"] == ("A", "B")


@pytest.mark.parametrize(
    ("line", "text", "anchor"),
    [
        ("## Shallow clone", "Shallow clone", "shallow-clone"),
        ("## Shallow *clone* of `git` &amp; [more](x) ##", "Shallow clone of git & more", "shallow-clone-of-git--more"),
        ('## <a name="x1"></a>Named', "Named", "x1"),
        ("## Named <a id='x2'/>", "Named", "x2"),
        ("## Pinned {#pin}", "Pinned", "pin"),
        ("## Pinned {: #pin .wide }", "Pinned", "pin"),
        ("## Styled {.wide}", "Styled", "styled"),
        ("## ![logo](a.png) Brand", "logo Brand", "logo-brand"),
        ("## [Ref][r] and ~~old~~", "Ref and old", "ref-and-old"),
        ("two\nlines\n---", "two lines", "two-lines"),
        ("## C++ & C#: 3.5_x", "C++ & C#: 3.5_x", "c--c-35_x"),
        ("## हिन्दी 日本語", "हिन्दी 日本語", "हिन्दी-日本語"),
        ("## ???", "???", None),
    ],
)
def test_a_heading_is_stripped_of_markup_and_has_an_anchor(line: str, text: str, anchor: str | None) -> None:
    [heading] = headings(f"{line}\n\n[r]: http://example.com")

    assert (heading.heading_path[-1], heading.anchor) == (text, anchor)


def test_equal_headings_are_numbered_as_github_does() -> None:
    assert [block.anchor for block in headings("# A\n# A\n# A")] == ["a", "a-1", "a-2"]


def test_blocks_carry_the_anchor_of_their_section() -> None:
    assert [block.anchor for block in read("x\n# A b\ny").blocks] == [None, "a-b", "a-b"]


def test_a_heading_of_markup_alone_is_a_paragraph() -> None:
    assert blocks("#\n\n## <br>") == [("paragraph", "#"), ("paragraph", "## <br>")]


def test_a_heading_that_is_too_long_for_one_is_a_paragraph_and_still_names_the_document() -> None:
    document = read("# " + "**a** [" * 2000 + "\n\nWords.\n\n## " + "b " * 150 + "\n")

    assert [(block.kind, block.heading_path) for block in document.blocks[:2]] == [("paragraph", ())] * 2
    assert document.blocks[2].kind == "heading"
    assert document.title
    assert document.title.startswith("**a** [")


def test_a_slug_keeps_letters_digits_and_hyphens() -> None:
    assert slug(" Hello, World! (v2) ") == "hello-world-v2"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("---\ntitle: Front\n---\n# First\n", "Front"),
        ("## Second level\n# First\n# Next\n", "First"),
        ("---\ntitle: 2.10\n---\n", "2.10"),
        ("## Only second\n", None),
        ("```\n# Fenced\n```\n", None),
        ("words", None),
    ],
)
def test_the_title_is_the_front_matters_or_the_first_h1(text: str, title: str | None) -> None:
    assert read(text).title == title


def test_front_matter_is_metadata_and_not_text() -> None:
    document = read(
        """\
---
title: "Quoted: title"
Status: draft
date: 2026-01-02
supersededBy: 3
version: 1.10
weight: 10
ratio: 0.5
hidden: true
country: no
time: 1:30
quoted: "10"
tags: [alpha, beta]
aliases:
  - /old
  - /older
nested:
  key: value
pairs: [[a, b]]
nothing:
? [complex]
: key
---
# Text
"""
    )

    assert document.metadata == {
        "title": "Quoted: title",
        "status": "draft",
        "date": "2026-01-02",
        "superseded_by": "3",
        "version": "1.10",
        "weight": 10,
        "ratio": 0.5,
        "hidden": True,
        "country": "no",
        "time": "1:30",
        "quoted": "10",
        "tags": "alpha, beta",
        "aliases": "/old, /older",
    }
    assert [block.text for block in document.blocks] == ["# Text"]


def test_toml_front_matter_is_read_too() -> None:
    document = read('+++\ntitle = "T"\ndate = 2026-01-02\ntags = ["a", "b"]\n[extra]\nx = 1\n+++\nWords.\n')

    assert document.metadata == {"title": "T", "date": "2026-01-02", "tags": "a, b"}
    assert [block.text for block in document.blocks] == ["Words."]


@pytest.mark.parametrize(
    "text",
    [
        "---\na: " + "[" * 60_000 + "\n---\nWords.",
        "---\na: " + "[" * 300 + "b," * 30_000 + "\n---\nWords.",
        "---\n---\nWords.",
        "+++\nbroken = \n+++\nWords.",
    ],
)
def test_broken_or_empty_front_matter_costs_only_the_metadata(text: str) -> None:
    document = read(text)

    assert document.metadata == {}
    assert [block.text for block in document.blocks] == ["Words."]


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("title: Redis: how to rotate", "Redis: how to rotate"),
        ("title: Redis: how  # a comment", "Redis: how"),
        ("title: Redis: how\n  to rotate", "Redis: how to rotate"),
        ('title: "Redis', "Redis"),
        ("title: 'It's Redis'", "It's Redis"),
        ("title: @redis", "@redis"),
        ("title: `redis`", "`redis`"),
        ("title: %redis", "%redis"),
        ("title: *redis", "*redis"),
        ("title: [Redis", "[Redis"),
        ('"title": Redis: how', "Redis: how"),
    ],
)
def test_an_entry_that_is_no_yaml_is_taken_by_the_word_and_costs_the_others_nothing(line: str, title: str) -> None:
    document = read(f"---\n# comment\nweight: 3\n{line}\ntags:\n- a\n- b\nparams:\n  x: 1\ndraft: true\n---\nWords.")

    assert document.title == title
    assert document.metadata == {"weight": 3, "title": title, "tags": "a, b", "draft": True}
    assert [block.text for block in document.blocks] == ["Words."]


def test_an_entry_that_is_no_toml_costs_the_others_nothing() -> None:
    document = read("+++\nweight = 3\ntitle = Redis # x\nlist = [\n  1,\n]\n[table]\nx = 1\n+++\nWords.")

    assert document.metadata == {"weight": 3, "title": "Redis", "list": "1"}
    assert [block.text for block in document.blocks] == ["Words."]


@pytest.mark.parametrize(
    "text",
    [
        "---\nJust prose\n---\nWords.",
        "---\n- a\n- b\n---\nWords.",
        "---\nNote: read this: it matters\nImportant.\n---\nWords.",
        "---\n  indented: a: b\n---\nWords.",
        "+++\na = 1\nImportant.\n+++\nWords.",
        "---\nnever: closed\n\nWords.",
        "---",
        "--- a\nb: c\n---\nWords.",
        "+++\nprose\n+++\n",
        "---\nlong: |\n" + "  text\n" * 20_000 + "---\n",
    ],
)
def test_what_only_looks_like_front_matter_is_text(text: str) -> None:
    document = read(text)

    assert document.metadata == {}
    assert folded("".join(block.text for block in document.blocks)) == folded(text)


def test_yaml_that_grows_when_expanded_is_not_expanded() -> None:
    levels = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 12))
    merges = "\n".join(f"m{n}: &m{n} {{<<: [*m{n - 1}, *m{n - 1}]}}" for n in range(1, 30))
    long = "s: &s " + "x" * 3000 + "\njoined: [" + ", ".join(["*s"] * 900) + "]"

    document = read(f"---\nl0: &l0 lol\n{levels}\nm0: &m0 {{a: b}}\n{merges}\n{long}\n---\nWords.")

    assert set(document.metadata) == {"l0", "l1", "s"}


def test_comments_are_dropped_and_what_stands_beside_them_is_not() -> None:
    text = "before\n\n<!-- one -->\n\n<!--\n# two\n\nstill two\n--> after\n\n<div><!-- three -->\nkept</div>\n"

    assert blocks(text) == [("paragraph", "before"), ("paragraph", "after"), ("paragraph", "<div>\nkept</div>")]


def test_a_comment_that_never_ends_hides_nothing() -> None:
    assert blocks("<!-- oops\n\n# Title") == [("paragraph", "<!-- oops\n\n# Title")]


def test_a_comment_inside_code_stays() -> None:
    assert blocks("```html\n<!-- kept -->\n```") == [("code", "```html\n<!-- kept -->\n```")]


@pytest.mark.parametrize("mark", ["!!! note", '!!! warning "Mind"', "??? tip", "???+ tip", '=== "Tab"'])
def test_the_body_of_an_admonition_is_read_as_markdown_and_not_as_code(mark: str) -> None:
    text = (
        f"Lead\n{mark}\n\n    A sentence.\n\n    - item\n\n    ```sh\n    # run\n    ls\n    ```\n\n        x\n\nAfter."
    )

    assert blocks(text) == [
        ("paragraph", "Lead"),
        ("paragraph", mark),
        ("paragraph", "A sentence."),
        ("list_item", "- item"),
        ("code", "```sh\n# run\nls\n```"),
        ("code", "        x"),
        ("paragraph", "After."),
    ]


def test_admonitions_nest_and_may_have_no_body() -> None:
    assert blocks("!!! note\n    !!! tip\n        Words.\n!!! danger\nAfter.") == [
        ("paragraph", "!!! note"),
        ("paragraph", "!!! tip"),
        ("paragraph", "Words."),
        ("paragraph", "!!! danger"),
        ("paragraph", "After."),
    ]


def test_exclamation_marks_in_code_are_no_admonition() -> None:
    assert blocks("    !!! note") == [("code", "    !!! note")]
    assert blocks("!!!") == [("paragraph", "!!!")]


def test_an_item_with_an_admonition_stays_one_item() -> None:
    assert blocks("- item\n\n    !!! note\n        Words.\n") == [
        ("list_item", "- item\n\n    !!! note\n        Words.")
    ]


def test_mdx_imports_and_components_stay_as_text() -> None:
    document = parse("page.mdx", b"import Tabs from '@theme/Tabs';\n\n# T\n\n<Tabs>\n\nWords.\n\n</Tabs>\n")

    assert [block.text for block in document.blocks] == [
        "import Tabs from '@theme/Tabs';",
        "# T",
        "<Tabs>",
        "Words.",
        "</Tabs>",
    ]


def test_a_table_of_a_header_alone_is_one_row() -> None:
    assert blocks("| a |\n|---|\n") == [("table_row", "| a |\n|---|")]


@pytest.mark.parametrize("text", [">" * 20_000, "- " * 20_000 + "x", "# " + "[" * 20_000, "<!--\n" * 5_000])
def test_hostile_nesting_is_read_in_linear_time(text: str) -> None:
    assert folded("".join(block.text for block in read(text).blocks)) == folded(text)
