"""docs/operations.md: what is on call for must be in it, by the names that the template has."""

from __future__ import annotations

import re

import pytest

from tests.infra.cloudformation import read
from tests.infra.tools import ROOT

PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
TEMPLATE = read(ROOT / "template.yaml")
ALARMS = [name for name, each in TEMPLATE["Resources"].items() if each["Type"] == "AWS::CloudWatch::Alarm"]


def sections() -> list[str]:
    return re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]


@pytest.mark.parametrize("alarm", ALARMS)
def test_each_alarm_has_a_section_that_says_what_it_means_and_what_to_do(alarm: str) -> None:
    (section,) = [section for section in sections() if f"`{alarm}`" in section.partition("\n- ")[0]]
    assert "**It means**" in section
    assert "**Look at**" in section
    assert "**Do" in section


def test_the_page_names_no_alarm_that_there_is_not() -> None:
    assert set(re.findall(r"`(\w+Alarm)`", PAGE)) == set(ALARMS)


def test_the_parameters_that_it_says_to_change_are_parameters_of_the_template() -> None:
    changed = set(re.findall(r"(?:raise|lower|double|with) `([A-Z][A-Za-z]+)`", PAGE))
    assert changed
    assert changed <= set(TEMPLATE["Parameters"])
