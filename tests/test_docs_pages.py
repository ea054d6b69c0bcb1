"""The pages of the documentation as they are: links, headings and examples, and the budgets they name."""

import importlib
import json
import re

import pytest

from retrieval.errors import ErrorCode
from tests.documentation import DOCS, PAGES, ROOT, USER_PAGES, page, text_of

# Budgets


def limit_of(name: str) -> object:
    """The value that `module:NAME` has in the code, or the default of `module:Model.field`."""
    module, _, constant = name.partition(":")
    model, _, field = constant.partition(".")
    found = getattr(importlib.import_module(module), model)
    return found.model_fields[field].default if field else found


def test_each_budget_is_the_one_in_the_code() -> None:
    budgets = page("docs/security.md").rows("Stage", "Budgets")
    stated = {row["In the code"].strip("`"): row["Limit"] for row in budgets}
    assert len(budgets) == len(stated) > 20
    assert {name: f"{limit_of(name):,.0f}" for name in stated} == stated


def test_what_lies_past_a_budget_is_a_code_that_there_is() -> None:
    past = [row["Past it"] for row in page("docs/security.md").rows("Stage", "Budgets")]
    codes = {code for text in past for code in re.findall(r"`([A-Z_]+)`", text)}
    assert codes - set(ErrorCode) == set()


# The pages themselves


@pytest.mark.parametrize("name", PAGES)
def test_each_relative_link_leads_to_a_file_and_a_heading(name: str) -> None:
    assert [
        link for link in page(name).links if not re.match(r"[a-z]+:", link) and not leads_somewhere(name, link)
    ] == []


def leads_somewhere(name: str, link: str) -> bool:
    place, _, anchor = link.partition("#")
    target = ((ROOT / name).parent / place).resolve() if place else ROOT / name
    if not target.exists() or not target.is_relative_to(ROOT):
        return False
    return not anchor or anchor in page(str(target.relative_to(ROOT))).anchors


@pytest.mark.parametrize("name", PAGES)
def test_no_two_headings_of_a_page_have_the_same_anchor(name: str) -> None:
    assert len(set(page(name).anchors)) == len(page(name).anchors)


def test_the_readme_leads_to_each_page() -> None:
    assert {f"docs/{name}" for name in DOCS} <= set(page("README.md").links)


@pytest.mark.parametrize("name", USER_PAGES)
def test_each_code_block_names_its_language(name: str) -> None:
    assert [fence.text for fence in page(name).fences if not fence.language] == []


@pytest.mark.parametrize("name", USER_PAGES)
def test_each_example_in_json_can_be_read(name: str) -> None:
    for fence in page(name).fences:
        if fence.language == "json":
            json.loads(fence.text)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_names_no_place_on_its_writers_machine(name: str) -> None:
    private = re.compile(rf"{re.escape(str(ROOT))}\b|(?<![\w.~])/(?:home|root|Users|mnt|tmp(?!/bedivere))/\w")

    assert private.findall(text_of(name)) == []
