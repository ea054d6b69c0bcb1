"""A cold start imports what is on the list and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.handler.import_budget import allowed, loaded, short


@pytest.mark.e2e
def test_the_first_answer_needs_no_import_that_is_not_on_the_list(handbook: Path) -> None:
    costs = loaded(handbook)

    new = [f"{name} ({costs[name]:.1f} ms)" for name in costs if name not in allowed()]
    assert not new, f"Imported before the first answer: {', '.join(new)}. Where it is needed: make import-budget"


@pytest.mark.parametrize("heavy", ["boto3", "botocore.session", "lancedb", "numpy", "openai", "uvicorn", "mcp.client"])
def test_nothing_heavy_is_on_the_list(heavy: str) -> None:
    assert heavy not in allowed()


@pytest.mark.parametrize(
    ("module", "listed"),
    [
        ("retrieval.search.plan", "retrieval.search.plan"),
        ("mcp.server.lowlevel.server", "mcp.server"),
        ("anyio._core._sockets", "anyio"),
        ("json.decoder", None),
        ("multiprocessing.managers", "multiprocessing"),
        ("xmlrpc", None),
    ],
)
def test_a_module_is_listed_by_as_much_of_its_name_as_patch_releases_keep(module: str, listed: str | None) -> None:
    assert short(module) == listed
