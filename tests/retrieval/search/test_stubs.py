"""Which chunks explain nothing."""

from __future__ import annotations

import pytest

from retrieval.search.stubs import asks_for_notice, is_notice, is_stub

PROSE = (
    "An explanation that takes some words: what the thing is for, how it is set, and when not to set it at all. " * 2
)
COMMANDS = "".join(
    f"* [tool {name}](tool_{name}.md)\t - Manages the {name} of an account\n" for name in ("keys", "roles", "quota")
)
CODE = "## Reset\n\n```\n# Take the password back to what it was at first\n$ tool password reset https://a.example\n```"


@pytest.mark.parametrize(
    "text",
    [
        "## Configuration",
        "# Guide\n\n- [Install](install.md)\n- [Upgrade](upgrade.md)\n- [Remove](https://example.com/remove)",
        "Configuration\n=============",
        "",
        "## See also\n\nhttps://example.com/a/very/long/address/that/goes/on/and/on/for/ever/and/ever/and/a/day",
    ],
)
def test_a_heading_alone_or_a_list_of_links_is_a_stub(text: str) -> None:
    assert is_stub(text)


def test_an_explanation_is_no_stub_though_it_links() -> None:
    assert not is_stub(f"## Configuration\n\n{PROSE} See [the reference](reference.md).")


@pytest.mark.parametrize(
    "text", ["## Sleeping\n\nCats sleep sixteen hours, mostly in the sun.", "Is it free of charge? Yes."]
)
def test_a_sentence_explains_however_short_it_is(text: str) -> None:
    assert not is_stub(text)


def test_an_underlined_heading_counts_no_more_than_a_marked_one() -> None:
    placed = "Placed in the public domain by all of its authors"
    assert is_stub(f"# Copyright\n\n{placed}")
    assert is_stub(f"Copyright\n=========\n\n{placed}")


@pytest.mark.parametrize(
    "text",
    [
        f"### SEE ALSO\n\n{COMMANDS}",
        "References\n==========\n\n.. [1] Developer's Guide to Many Things\n   (https://a.example/dev/)\n\n"
        ".. [2] Project Guidelines and Voting Rules of Them\n   (https://b.example/guidelines.html)",
        "## Quellen\n\n1. Meyer, Von der Ordnung der Dinge, zweite Auflage: https://a.example\n"
        "2. Huber, Gegen die Ordnung der Dinge: https://b.example/ordnung",
        "## Setting\n\nOnly a sentence.\n\n[one]: https://a.example/one\n[two]: https://a.example/two 'Two'",
    ],
)
def test_a_list_whose_entries_say_little_more_than_where_they_lead_is_a_stub(text: str) -> None:
    assert is_stub(text)


def test_a_list_that_explains_what_it_links_is_none() -> None:
    explained = "".join(f"- [{name}]({name}.md): {PROSE}\n" for name in ("keys", "roles"))
    assert not is_stub(f"## Overview\n\n{explained}")


def test_a_paragraph_with_links_counts_by_its_own_words() -> None:
    paragraph = (
        "It is installed by [the chart](a.md), which is kept up to date by its users, from [here](b.md) or there."
    )
    assert not is_stub(f"## Installing\n\n{paragraph}")


def test_an_example_of_code_is_no_stub_whatever_addresses_it_holds() -> None:
    assert not is_stub(CODE)


def test_a_table_of_facts_is_none_though_each_row_links() -> None:
    rows = "".join(f"| `KEY_{n}` | how many of {n} are kept | [more](keys.md#{n}) |\n" for n in range(9))
    assert not is_stub(f"| Key | Meaning | |\n|---|---|---|\n{rows}")


@pytest.mark.parametrize(
    "text",
    [
        "Copyright\n=========\n\nThis document is placed in the public domain or under the CC0-1.0-Universal license, "
        "whichever is more permissive.",
        "© 2019 The Authors. All rights reserved, in every country and for ever, whoever reads this.",
        "## Lizenz\n\nDieses Handbuch darf unter den Bedingungen der CC-BY weitergegeben werden, lizenzfrei.",
    ],
)
def test_a_short_text_on_who_owns_the_document_is_a_notice(text: str) -> None:
    assert is_notice(text)


def test_a_long_text_on_licences_is_no_notice() -> None:
    assert not is_notice(f"A license is chosen so. {PROSE * 3}")
    assert not is_notice(PROSE[:200])


def test_a_question_on_licences_asks_for_notices() -> None:
    assert asks_for_notice("Which license does it have?")
    assert not asks_for_notice("How is it set?")
