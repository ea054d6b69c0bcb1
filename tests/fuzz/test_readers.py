"""No document stops an index: whatever its bytes, its reader gives rows or says why not, in time and within bounds."""

from __future__ import annotations

from collections.abc import Callable
from time import thread_time
from typing import Any, Final, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.indexing.document import Unreadable
from retrieval.indexing.formats import jsonl
from retrieval.indexing.rows import Scope, read_document
from retrieval.search.visible import counted
from tests.fuzz.examples import examples

SECONDS: Final = 3.0
"""Of the processor, for a document of an example, which takes a hundredth of it."""

PARTS: Final = {
    "md": (
        *(
            "# T\n",
            "===\n",
            "---\n",
            "+++\n",
            "```\n",
            "~~~\n",
            "- a\n",
            "    ",
            "> ",
            "| a | b |\n",
            "|---|---|\n",
            "1. x\n",
        ),
        *("!!! note\n", "<div>", "</div>", "<!--", "-->", "[a]: b\n", "[a](b", "**", "title: &a [*a]\n", "<<: *a\n"),
        *(
            "a: {b: [",
            "url: http://\n",
            "date: 2024-13-45\n",
            "\\",
            "{#id}",
            "\t",
            "\x0b",
            "\u2028",
            "&#0;",
            "!ruby/object",
        ),
        *(
            '=== "T"\n',
            "??? note\n",
            "<a id=x></a>",
            "{#id .c}\n",
            "[a][a]",
            "![a](b)",
            "- - a\n",
            "# c\n",
            "  go on\n",
        ),
    ),
    "html": (
        *(
            "<p>",
            "</p>",
            "<table>",
            "<td>",
            "<li>",
            "<ul>",
            "<h1>",
            "</h1>",
            "<pre>",
            "<a href='#x'>",
            "<main>",
            "<nav>",
        ),
        *(
            "<script>",
            "</script>",
            "<!--",
            "-->",
            "<![CDATA[",
            "]]>",
            "<?xml ?>",
            "<!DOCTYPE x [<!ENTITY a 'b'>]>",
            "&a;",
        ),
        *("&#x110000;", "&#0;", "&#x202e;", "<meta charset=utf-7>", "<title>"),
        *("<svg>", "<template>", "<", ">", "\x00"),
        *("<meta name=date content=x>", "<link rel=canonical href=http://x>"),
        *("<ol start=-999999>", "<br>", "<button>"),
        *(
            "</td>",
            "<tr>",
            "</table>",
            "</li>",
            "</ul>",
            "<ol>",
            "</ol>",
            "<dl>",
            "<dt>",
            "<dd>",
            "</dl>",
            "</pre>",
            "</p>",
        ),
        *("</main>", "<article>", "</nav>", "<h2 id=a>", "</h2>", "<a name=b>", "</a>", "<div class=note>", "</div>"),
    ),
    "rst": (
        *(
            "====\n",
            "----\n",
            "T\n",
            ".. note::\n",
            "   a\n",
            "::\n",
            ":f: v\n",
            ".. _a:\n",
            ".. [1] x\n",
            "+--+\n",
            "| a |\n",
        ),
        *(
            "== ==\n",
            "a b\n",
            ">>> x\n",
            "* a\n",
            "#. b\n",
            ":ref:`a <b>`",
            "``",
            ".. |s| image:: x\n",
            "..\n",
            "\t",
            "\\",
        ),
        *(
            ":title: a\n",
            "Title: a\nDate: b\n",
            ".. code:: c\n\n",
            "   deeper\n",
            "     deepest\n",
            ".. include:: /etc/passwd\n",
        ),
    ),
    "txt": ("a", "\n\n", "\f", " ", "\t", "\u2028", "\ufeff", "é"),
}
ENTRIES: Final = {
    "---": (
        *("title: a\n", "title: 'a\n", "k: a: b\n", "tags: [a, b]\n"),
        *("n: null\n", "v: 1.10\n", "b: No\n", "t: 1:30\n"),
        *("date: 1 May 2024\n", "date: Feb 30, 2024\n"),
        *("date: 2024-2-3\n", "date: 2024-13-45\n", "updated: {a: b}\n"),
        *("# c\n", "  go on\n", "- a\n", "? [k]\n: v\n", "a: |\n"),
        *("<<: *a\n", "a: &a [*a]\n", "a: [\n", "\ta: b\n", "é: \u202e\n"),
        *("a: !!python/object:os.system x\n", "title: >-\n  a\n  b\n", "!"),
        *("%YAML 1.1\n", "status: Final # c\n", "...\n"),
    ),
    "+++": (
        *("title = 'a'\n", 'title = "a\n', "k = 1\n"),
        *("n = 9999999999999999999999\n", "f = nan\n", "b = true\n", "t = 07:32:00\n"),
        *("date = 2024-02-29\n", "date = 2024-02-30\n"),
        *("date = 2024-02-29T10:00:00Z\n", "tags = ['a', 1]\n", "a = [1, {b = 2}]\n"),
        *("# c\n", "[table]\n", "[[tables]]\n", "a.b.c = 1\n"),
        *("  go on\n", "k = 1\nk = 2\n", 's = """\n', "é = 1\n", "=\n"),
    ),
}
ANYTHING: Final = (
    "word ",
    "\n",
    "\n\n",
    " ",
    "é",
    "e\u0301" * 40,
    "\u202e",
    "\u200d",
    "\U000e0041",
    "日本語",
    "\x1b[31m",
)


def read(suffix: str, data: bytes) -> int:
    """The rows of a document, which are sound; 0 where it has none or cannot be read."""
    began = thread_time()
    try:
        found = read_document(f"a.{suffix}", data, "0" * 64, Scope(), None, jsonl.parse if suffix == "jsonl" else None)
    except Unreadable:
        return 0
    finally:
        assert thread_time() - began < SECONDS
    rows = cast("list[dict[str, Any]]", found.batch.to_pylist())
    for row in rows:
        assert row["text"].strip()
        assert row["title"]
        for value in row.values():
            assert not isinstance(value, str) or not counted(value)[1]
    return len(rows)


@pytest.mark.parametrize("suffix", PARTS)
def test_a_document_of_any_pieces_is_read_or_refused(suffix: str) -> None:
    @examples(60)
    @given(st.lists(st.sampled_from((*PARTS[suffix], *ANYTHING)), max_size=40))
    def parse(parts: list[str]) -> None:
        read(suffix, "".join(parts).encode())

    parse()


@pytest.mark.parametrize("fence", ENTRIES)
def test_a_document_keeps_its_text_under_front_matter_of_any_entries(fence: str) -> None:
    @examples(60)
    @given(st.lists(st.sampled_from(ENTRIES[fence]), max_size=8))
    def parse(entries: list[str]) -> None:
        assert read("md", f"{fence}\n{''.join(entries)}{fence}\n# Title\n\ntext\n".encode())

    parse()


@pytest.mark.parametrize("suffix", [*PARTS, "jsonl"])
def test_a_document_of_any_bytes_is_read_or_refused(suffix: str) -> None:
    @examples(40)
    @given(
        st.binary(max_size=200),
        st.sampled_from([b"", b"---\n", b"<html>", b"\xff\xfe", b"\xfe\xff", b'{"id": "a", "text": "']),
    )
    def parse(data: bytes, start: bytes) -> None:
        read(suffix, start + data)

    parse()


@pytest.mark.parametrize("suffix", ["md", "html", "rst"])
def test_one_piece_many_times_takes_no_more_than_in_proportion(suffix: str) -> None:
    slow: dict[str, float] = {}
    for part in PARTS[suffix]:
        data = (part * (10_000 // len(part))).encode()
        began = thread_time()
        try:
            read_document(f"a.{suffix}", data, "0" * 64, Scope(), None)
        except Unreadable:
            continue
        finally:
            if (taken := thread_time() - began) > SECONDS / 2:
                slow[part] = taken
    assert slow == {}


BOMBS: Final[dict[str, Callable[[], tuple[str, str]]]] = {
    "aliases of YAML": lambda: (
        "md",
        "---\na0: &a0 [x]\n"
        + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 40))
        + "---\ntext",
    ),
    "merges of YAML": lambda: (
        "md",
        "---\na0: &a0 {k: v}\n"
        + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 60))
        + "---\ntext",
    ),
    "brackets of YAML": lambda: ("md", f"---\na: {'[' * 60_000}\n---\ntext"),
    "tables of TOML": lambda: ("md", f"+++\na = {'[' * 30_000}\n+++\ntext"),
    "entities": lambda: (
        "html",
        "<!DOCTYPE x [<!ENTITY a0 'ha'>"
        + "".join(f"<!ENTITY a{n} '{f'&a{n - 1};' * 10}'>" for n in range(1, 12))
        + "]><p>text &a11;</p>",
    ),
    "a file as an entity": lambda: ("html", "<!DOCTYPE x [<!ENTITY a SYSTEM 'file:///etc/passwd'>]><p>text &a;</p>"),
    "deep elements": lambda: ("html", f"{'<div><span>' * 20_000}text"),
    "deep quotes": lambda: ("md", f"{'>' * 50_000} text"),
    "deep lists": lambda: ("md", "".join(f"{'  ' * n}- text\n" for n in range(300))),
    "attributes": lambda: ("html", f"<p {'a=b ' * 50_000}>text</p>"),
    "marks": lambda: ("txt", f"a{chr(0x301) * 200_000} text"),
    "a line": lambda: ("rst", f"text {'`' * 100_000}"),
    "titles": lambda: ("rst", f"{'text' * 5_000}\n{'=' * 20_000}\n\ntext\n"),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_what_is_small_and_would_grow_does_not(bomb: str) -> None:
    suffix, text = BOMBS[bomb]()
    data = text.encode()
    began = thread_time()
    found = read_document(f"a.{suffix}", data, "0" * 64, Scope(), None)
    assert thread_time() - began < 5 * SECONDS
    rows = cast("list[dict[str, Any]]", found.batch.to_pylist())
    assert any("text" in row["text"] for row in rows)
    assert sum(len(row["text"]) for row in rows) <= len(data)
    assert len(found.metadata) <= len(data)
    assert not any("root:" in row["text"] for row in rows)
