"""Topics and qrels of TREC."""

from __future__ import annotations

import pytest

from retrieval.evaluation import trec

CLASSIC = """
<top>
<num> Number: 301
<title> International Organized
Crime

<desc> Description:
Identify organizations.

<narr> Narrative:
A relevant document names one.
</top>
<top>
<num> Number: 302
<title> Poliomyelitis
</top>
"""
CLOSED = "<topics><top><num>7</num><title>sea turtles</title><desc>Which?</desc></top></topics>"


def test_a_topic_is_its_number_and_title() -> None:
    assert list(trec.topics(CLASSIC)) == [("301", "International Organized Crime"), ("302", "Poliomyelitis")]


def test_fields_may_be_closed() -> None:
    assert list(trec.topics(CLOSED)) == [("7", "sea turtles")]


def test_topics_may_be_lines_of_id_tab_and_text() -> None:
    assert list(trec.topics("12\twhat is a spool\n\nq-7\tsecond one\n")) == [
        ("12", "what is a spool"),
        ("q-7", "second one"),
    ]


def test_a_line_of_names_is_no_topic() -> None:
    assert list(trec.topics("query_id\ttext\n1\tspool\n")) == [("1", "spool")]


@pytest.mark.parametrize("text", ["no tab here\n", "\tno id\n", "1\t \n", "<top><num>1</num></top>"])
def test_a_topic_without_id_or_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"line 1|topic 1"):
        list(trec.topics(text))


def test_qrels_have_four_columns_parted_by_white_space() -> None:
    assert trec.qrels("301 0 FT-1 1\n301 0 FT-2 0\n302 Q0 FT-1 2\n") == {
        "301": {"FT-1": 1, "FT-2": 0},
        "302": {"FT-1": 2},
    }


def test_qrels_may_have_a_header_and_three_columns_parted_by_tabs() -> None:
    text = "query_id\tdoc_id\trelevance\n1\tguide/my page.md\t3\n"

    assert trec.qrels(text) == {"1": {"guide/my page.md": 3}}


@pytest.mark.parametrize("line", ["301 0 FT-1", "301 0 FT-1 high", "301 0 FT-1 1 2", "301 0 FT-1 1\n301 0 FT-1 2"])
def test_qrels_that_are_no_judgements_are_refused(line: str) -> None:
    with pytest.raises(ValueError, match="line"):
        trec.qrels(f"{line}\n")
