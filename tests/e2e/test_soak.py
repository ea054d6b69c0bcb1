"""A short soak: the same as `make soak`, in a quarter of a minute."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.console import Console

from tests.soak.__main__ import QUICK, show
from tests.soak.run import soak

pytestmark = pytest.mark.e2e


def test_a_function_under_load_gives_no_wrong_answer_while_everything_around_it_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = soak(QUICK, tmp_path)
    show(outcome, Console(width=200))

    assert outcome.problems == []
    assert outcome.checked >= 10
    assert outcome.happened["releases published"] >= 2
    assert any(what.startswith("store: ") for what in outcome.happened)
    assert re.search(rf"{outcome.checked} checked against their release, 0 wrong, 0 with", capsys.readouterr().out)
