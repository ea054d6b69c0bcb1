"""An HTML page is what its reader sees of the page itself: no scripts, no menus, nothing hidden, no word altered."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.indexing.document import Block, ParsedDocument
from retrieval.indexing.formats import parse
from retrieval.indexing.formats.html import declared_charset


def read(html: str) -> ParsedDocument:
    return parse("page.html", html.encode())


def blocks(html: str) -> list[tuple[str, str]]:
    return [(block.kind, block.text) for block in read(html).blocks]


def texts(html: str) -> list[str]:
    return [block.text for block in read(html).blocks]


def headings(html: str) -> list[Block]:
    return [block for block in read(html).blocks if block.kind == "heading"]


PAGE = """\
<!DOCTYPE html>
<html><head>
<meta name="viewport" content="width=device-width">
<meta http-equiv="content-type" content="text/html; charset=UTF-8">
<title>Storage
 engine</title>
<style>h1 { color: red }</style>
<!-- a comment -->
</head>
<body>
<div class="nosearch"><div class="tagline">Small. Fast.</div>
<div class="menu mainmenu"><ul><li><a href="/">Home</a><li class='wide'><a href="a">About</a></ul></div></div>
<script>if (a < b) document.write("<p>written</p>");</script>
<h1 align=center>Storage engine</h1>
<p>The engine is <b>sm</b>all &mdash; and <i>fast</i>,
by any <a href="m">measure</a>.
<p>Unclosed paragraph
<h2 id="limits">Limits &amp; sizes</h2>
<ul>
<li>one
<li>two <ul><li>nested<li>more <ol><li>deep</ol></ul>
<li>three
</ul>
<ol start="3"><li>third</li><li>fourth</li></ol>
<table border=1><caption>Sizes</caption>
<tr><th>Name<th>Value</tr>
<tr><td>page<td><p>4096</p><p>bytes</p></td></tr>
<tr><td><td></tr>
</table>
<pre>
  int open(
    const char *name <b>/* path */</b>
  );
</pre>
<dl><dt>ok<dd>all went well<dt>busy<dt>locked<dd><p>try again</p><p>later</p></dl>
<footer>Copyright</footer>
</body></html>
"""


def test_a_page_is_its_headings_paragraphs_items_rows_and_code() -> None:
    document = read(PAGE)

    assert document.title == "Storage engine"
    assert document.metadata == {}
    assert [(block.kind, block.text) for block in document.blocks] == [
        ("heading", "Storage engine"),
        ("paragraph", "The engine is small — and fast, by any measure."),
        ("paragraph", "Unclosed paragraph"),
        ("heading", "Limits & sizes"),
        ("list_item", "- one"),
        ("list_item", "- two\n  - nested\n  - more\n    1. deep"),
        ("list_item", "- three"),
        ("list_item", "3. third"),
        ("list_item", "4. fourth"),
        ("paragraph", "Sizes"),
        ("table_row", "Name | Value"),
        ("table_row", "page | 4096 bytes"),
        ("code", "  int open(\n    const char *name /* path */\n  );"),
        ("list_item", "ok\nall went well"),
        ("list_item", "busy"),
        ("list_item", "locked\ntry again\nlater"),
    ]


def test_blocks_stand_under_their_headings_and_carry_their_anchor() -> None:
    html = "<p>pre<h1 id=a>A</h1><p>a<h3>C</h3><p>c<h2 id=b>B</h2><p>b"

    assert [(block.text, block.heading_path, block.anchor) for block in read(html).blocks] == [
        ("pre", (), None),
        ("A", ("A",), "a"),
        ("a", ("A",), "a"),
        ("C", ("A", "C"), None),
        ("c", ("A", "C"), None),
        ("B", ("A", "B"), "b"),
        ("b", ("A", "B"), "b"),
    ]


@pytest.mark.parametrize(
    "html",
    [
        '<h2 id="x">T</h2>',
        '<a name="x"></a><h2>T</h2>',
        '<a name="x"></a>\n<p></p>\n<h2>T</h2>',
        '<h2><a name="x">T</a></h2>',
        '<section id="x"><h2>T</h2></section>',
        '<h2>T<a class="headerlink" href="#x"></a></h2>',
        '<span id="old"></span><section id="x"><h2>T</h2></section>',
        '<div id="y"><p>before</div><a id="x"></a><h2>T</h2>',
        '<h2 id="x"><a name="y"></a>T</h2>',
    ],
)
def test_an_anchor_is_the_headings_own_or_stands_right_before_it(html: str) -> None:
    assert headings(html)[0].anchor == "x"


@pytest.mark.parametrize("html", ['<p id="x">text<h2>T</h2>', '<input id="x"><h2>T</h2>', '<h2><a href="x">T</a></h2>'])
def test_an_id_that_marks_something_else_is_no_anchor(html: str) -> None:
    assert headings(html)[0].anchor is None


def test_a_permalink_sign_stays_in_the_text_and_out_of_the_path() -> None:
    [heading] = headings('<h2>Usage <a class="permalink" href="#use">¶</a></h2>')

    assert (heading.text, heading.heading_path, heading.anchor) == ("Usage ¶", ("Usage",), "use")


def test_a_heading_may_hold_blocks_and_breaks_and_an_empty_one_is_none() -> None:
    assert blocks("<h1><div><p>Two words</p></div></h1><h2>line<br>line</h2><h3> </h3>") == [
        ("heading", "Two words"),
        ("heading", "line line"),
    ]


@pytest.mark.parametrize(
    ("html", "kind"),
    [
        ("<h1>Guide<div>text", "paragraph"),
        ("<h1>Guide<p>text", "paragraph"),
        ("<h1>Guide<section>text</section>", "paragraph"),
        ("<h1>Guide<ul><li>text", "list_item"),
        ("<h1>Guide<table><tr><td>text<td>text", "table_row"),
        ("<h1><div>Guide</div><div>text</div></h1>", "paragraph"),
        ("<h1>Guide<pre>text</pre>", "code"),
    ],
)
def test_a_block_that_follows_the_words_of_a_heading_ends_it(html: str, kind: str) -> None:
    heading, rest = read(html).blocks

    assert (heading.kind, heading.text) == ("heading", "Guide")
    assert (rest.kind, rest.heading_path) == (kind, ("Guide",))
    assert "text" in rest.text


def test_a_heading_that_is_too_long_for_one_is_a_paragraph_and_still_names_the_page() -> None:
    document = read(f"<h1>{'Guide ' * 60}</h1><h2>Next</h2><p>text")

    assert [(block.kind, block.heading_path) for block in document.blocks] == [
        ("paragraph", ()),
        ("heading", ("Next",)),
        ("paragraph", ("Next",)),
    ]
    assert (document.title or "").startswith("Guide Guide")


def test_a_heading_that_is_all_permalink_sign_keeps_it() -> None:
    assert headings("<h2>#</h2>")[0].heading_path == ("#",)


@pytest.mark.parametrize(
    ("html", "title"),
    [
        ("<title>Site - Page</title><h1>Other</h1>", "Site - Page"),
        ("<title>Caf&eacute;</title><title>Second</title>", "Café"),
        ("<title> </title><h2>No</h2><h1>First <a href='#f'>¶</a></h1><h1>Next</h1>", "First"),
        ("<svg><title>Picture</title></svg><p>x", None),
        ("<p>x", None),
    ],
)
def test_the_title_is_the_heads_or_the_first_h1(html: str, title: str | None) -> None:
    assert read(html).title == title


def test_meta_elements_are_metadata_and_settings_of_browsers_are_not() -> None:
    document = read(
        """\
<meta charset="utf-8"><meta name="generator" content="x"><meta name="robots" content="noindex">
<meta name="twitter:card" content="x"><meta property="og:title" content="x"><meta content="nameless">
<meta name="Status" content="deprecated"><meta name="description" content=" About  it ">
<meta name="superseded-by" content="new.html"><meta name="empty" content=""><meta name="bare">
<meta property="article:modified_time" content="2026-01-02T03:04:05Z">
<link rel="canonical" href="https://example.com/page"><link rel=stylesheet href="https://example.com/a.css">
<p>Words."""
    )

    assert document.metadata == {
        "status": "deprecated",
        "description": "About it",
        "superseded_by": "new.html",
        "article_modified_time": "2026-01-02T03:04:05Z",
        "date": "2026-01-02T03:04:05Z",
        "url": "https://example.com/page",
    }


def test_a_relative_canonical_link_says_nothing() -> None:
    assert read('<link rel="canonical" href="/page"><p>x').metadata == {}


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<b>a</b>b", "ab"),
        ("a<i>b</i> <u>c</u>", "ab c"),
        ("a<!-- x -->b<script>y</script>c", "abc"),
        ("a<br>b<br/><br>\n c", "a\nb\n\nc"),
        ("a\n\t  b&nbsp;c", "a b c"),
        ("<code>x</code>, <kbd>y</kbd>.", "x, y."),
        ("ex<wbr>ample &lt;tag&gt; &#x20AC; &hellip;", "example <tag> € …"),
        ("a<img alt=x>b<svg><text>no</text></svg>c", "abc"),
        ("Click <button>Save</button> now", "Click Save now"),
        ("<label>Name:</label><button>A</button><button>B</button>.", "Name: A B ."),
    ],
)
def test_inline_elements_neither_add_nor_lose_spaces(html: str, text: str) -> None:
    assert texts(f"<p>{html}</p>") == [text]


@pytest.mark.parametrize(
    "hidden",
    [
        "<script>secret</script>",
        "<style>secret</style>",
        "<template><p>secret</p></template>",
        "<noscript>secret</noscript>",
        "<!-- secret -->",
        "<nav><ul><li>secret</ul></nav>",
        '<div role="navigation">secret</div>',
        "<div hidden>secret<p>secret</div>",
        '<span aria-hidden="true">secret<b>secret</b></span>',
        '<p style="color:red; DISPLAY : none">secret</p>',
        '<p style="visibility:hidden">secret</p>',
        "<footer>secret</footer>",
        '<div id="footer">secret</div>',
        '<div role="contentinfo">secret</div>',
        "<header>secret <a href=x>secret</a></header>",
        '<div class="nosearch">secret</div>',
        '<a class="skip-link" href="#main">secret</a>',
        '<div class="menu"><a>secret</a> | <a>secret</a></div>',
        '<ul id="breadcrumbs"><li><a>secret</a> » <li><a>secret</a></ul>',
        "<select><option>secret</select><datalist><option>secret</datalist>",
        '<button class="btn-copy">secret</button>',
        "<svg><text>secret</text></svg>",
        "<input hidden value=x><iframe>secret</iframe>",
    ],
)
def test_what_is_no_text_of_the_page_is_left_out(hidden: str) -> None:
    assert texts(f"<p>before</p>{hidden}<p>after</p>") == ["before", "after"]


@pytest.mark.parametrize(
    "shown",
    [
        '<div hidden="until-found">shown</div>',
        '<p style="display:block">shown</p>',
        "<article><header>shown</header></article>",
        "<blockquote><footer>shown</footer></blockquote>",
        '<div class="menu">shown, in words, with one <a href=x>link</a></div>',
        "<details><summary>shown</summary></details>",
        "<form><label>shown</label></form>",
        "<button>shown</button>",
        "<textarea>shown</textarea>",
    ],
)
def test_what_only_resembles_navigation_is_kept(shown: str) -> None:
    assert "shown" in "".join(texts(f"<p>before</p>{shown}<p>after</p>"))


def test_a_site_header_that_holds_a_heading_is_kept() -> None:
    assert texts("<header><h1>Title</h1><p>Lead.</p></header><p>Words.") == ["Title", "Lead.", "Words."]


def test_a_page_of_navigation_alone_has_no_blocks() -> None:
    document = read("<title>Index</title><body><nav><a href=a>A</a></nav><div class=toc><a href=b>B</a></div>")

    assert document == ParsedDocument(title="Index", blocks=())


@pytest.mark.parametrize("element", ["<main>", "<div role=main>", "<article>"])
def test_the_main_part_stands_for_the_page_where_it_holds_most_of_it(element: str) -> None:
    html = f"<h1>Title</h1><h2>Aside</h2><p>Ad.</p>{element}<p>{'Many words. ' * 20}</p>"

    assert texts(html) == ["Title", ("Many words. " * 20).strip()]


def test_a_main_part_with_its_own_title_needs_no_other() -> None:
    assert texts(f"<h1>Site</h1><main><h1>Page</h1><p>{'x ' * 50}</main>")[0] == "Page"


def test_an_article_that_holds_little_does_not_stand_for_the_page() -> None:
    assert texts(f"<p>{'Many words. ' * 20}</p><article>News.</article>")[-1] == "News."


def test_line_breaks_of_code_are_kept() -> None:
    html = "<pre><code><span>a</span>\n\n    b<br>c</code></pre><pre><div>d</div><div>e</div></pre><pre> \n </pre>"

    assert blocks(html) == [("code", "a\n\n    b\nc"), ("code", "d\ne")]


def test_a_button_within_code_is_none_of_its_lines() -> None:
    assert blocks("<pre><button>Copy</button>ls</pre>") == [("code", "ls")]


def test_a_button_in_a_menu_is_one_of_its_links() -> None:
    assert texts('<div class="menu"><button>Menu</button><a href=x>x</a></div><p>Words.') == ["Words."]


def test_code_in_an_item_or_a_cell_is_a_block_of_its_own() -> None:
    html = "<ol><li>run <pre>ls</pre> then<li><p>stop</ol><table><tr><td>a<td>b<pre>c</pre>d<td>e</table>"

    assert blocks(html) == [
        ("list_item", "1. run"),
        ("code", "ls"),
        ("list_item", "then"),
        ("list_item", "2. stop"),
        ("table_row", "a | b"),
        ("code", "c"),
        ("table_row", "d | e"),
    ]


def test_a_table_that_lays_out_a_page_is_read_as_the_page() -> None:
    long = "Words of a page. " * 60
    html = f"<table><tr><td><h2>T</h2><p>{long}</p><p>Next.</p><table><tr><td>a<td>b</table><ul><li>c</ul>d</table>"

    assert blocks(html) == [
        ("heading", "T"),
        ("paragraph", long.strip()),
        ("paragraph", "Next."),
        ("table_row", "a | b"),
        ("list_item", "- c"),
        ("paragraph", "d"),
    ]


def test_a_row_of_one_cell_is_a_paragraph_and_empty_cells_keep_their_place() -> None:
    assert blocks("<table><tr><td>one<br>cell<tr><td>a<td><td>c</table>") == [
        ("paragraph", "one\ncell"),
        ("table_row", "a |  | c"),
    ]


def test_items_without_text_are_none_and_odd_numberings_start_at_one() -> None:
    assert texts("<ul><li><li> </ul><ol start=x><li>a</ol><li>stray") == ["1. a", "- stray"]


@pytest.mark.parametrize(
    ("html", "charset"),
    [
        (b'<meta charset="euc-kr">', "euc-kr"),
        (b"<META HTTP-EQUIV='Content-Type' CONTENT='text/html; charset=Shift_JIS'>", "Shift_JIS"),
        (b'<?xml version="1.0" encoding="ISO-8859-1"?><html>', "ISO-8859-1"),
        (b"<!-- <meta charset=big5> --><meta charset=gb2312>", "gb2312"),
        (b"<p>charset=none", None),
    ],
)
def test_the_charset_is_the_one_the_page_declares(html: bytes, charset: str | None) -> None:
    assert declared_charset(html) == charset


@pytest.mark.parametrize(("label", "codec"), [("euc-kr", "cp949"), ("utf-8", "cp949"), ("iso-8859-1", "utf-8")])
def test_a_page_is_read_in_its_encoding_declared_rightly_or_wrongly(label: str, codec: str) -> None:
    korean = "서버 로그파일을 설정하는 방법을 설명한다."
    html = f'<?xml version="1.0" encoding="{label}"?><meta charset={label}><title>설정</title><p>{korean}'

    document = parse("page.html", html.encode(codec))

    assert (document.title, document.blocks[0].text) == ("설정", korean)


@pytest.mark.parametrize(
    ("start", "times"),
    [
        ("<div>a", 10_000),
        ("<b>a", 250_000),
        ("<div class=menu><p>a", 20_000),
        ("<ul><li>a", 10_000),
        ("<table><tr><td>a", 10_000),
        ("<h1>a", 20_000),
        ("<td>a", 100_000),
        ("<p>a<br>", 100_000),
    ],
)
def test_a_million_unclosed_or_deeply_nested_tags_lose_no_text(start: str, times: int) -> None:
    text = "".join(texts(start * times))

    assert text.count("a") == times


_tags = st.sampled_from(
    [
        *("div", "p", "b", "a", "h1", "h2", "ul", "ol", "li", "table", "tr", "td", "th", "pre", "br", "dl", "dt", "dd"),
        *("section", "center", "span", "blockquote", "code", "hr", "caption", "tbody", "body", "html", "head"),
    ]
)
_markup = st.one_of(
    _tags.map("<{}>".format),
    _tags.map("</{}>".format),
    st.sampled_from(["word", "two words ", " ", "\n", "&amp;", "é"]),
)


@given(st.lists(_markup, max_size=40).map("".join))
def test_no_word_is_lost_doubled_or_moved_however_broken_the_tags(html: str) -> None:
    plain = re.sub("<[^>]*>", "", html).replace("&amp;", "&")
    found = re.sub(r"^ *(?:-|\d+\.)(?: |$)", "", "\n".join(texts(html)), flags=re.MULTILINE).replace("|", "")

    assert sorted("".join(found.split())) == sorted("".join(plain.split()))


@given(st.text(alphabet="<>/=!-&;\"' abhp1\n", max_size=200))
def test_any_text_is_read_as_a_page(html: str) -> None:
    assert all(block.text.strip() for block in read(html).blocks)
