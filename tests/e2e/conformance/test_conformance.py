"""The official MCP conformance suite against a live server, in each revision of the protocol that is in use."""

import pytest

from tests.e2e.conformance.npm import Node
from tests.e2e.conformance.scenarios import APPLICABLE, LEFT_OUT, LEFT_OUT_CHECKS, LEFT_OUT_ON_LAMBDA, REVISIONS
from tests.e2e.conformance.suite import Report, run_suite

pytestmark = pytest.mark.e2e

CASES = [(revision, scenario) for scenario, revisions in APPLICABLE.items() for revision in revisions]


@pytest.fixture(scope="session")
def report(node: Node, endpoint: str, tmp_path_factory: pytest.TempPathFactory) -> Report:
    return run_suite(node, endpoint, REVISIONS, tmp_path_factory.mktemp("conformance"))


@pytest.mark.parametrize(("revision", "scenario"), CASES)
def test_every_check_of_the_scenario_passes_where_npm_is_present(
    report: Report, revision: str, scenario: str, request: pytest.FixtureRequest
) -> None:
    on_lambda = request.node.callspec.params["endpoint"] == "image"
    left_out = {*LEFT_OUT_CHECKS, *(LEFT_OUT_ON_LAMBDA if on_lambda else ())}
    checks = [check for check in report.checks[revision, scenario] if check.id not in left_out]

    failed = [f"{check.status} {check.id}: {check.message or check.description}" for check in checks if not check.holds]

    assert not failed, "\n".join(failed)
    assert any(check.status == "SUCCESS" for check in checks), "nothing was checked"


def test_every_scenario_is_applied_or_left_out_for_a_reason_where_npm_is_present(report: Report) -> None:
    left_out = {scenario for scenarios in LEFT_OUT.values() for scenario in scenarios}

    assert report.scenarios == left_out | set(APPLICABLE)


@pytest.mark.parametrize("check_id", LEFT_OUT_CHECKS)
def test_a_check_is_left_out_only_while_it_cannot_pass_where_npm_is_present(report: Report, check_id: str) -> None:
    found = {check.status for check in report if check.id == check_id}

    assert found == {"FAILURE"}


def test_no_scenario_is_both_applied_and_left_out() -> None:
    left_out = [scenario for scenarios in LEFT_OUT.values() for scenario in scenarios]

    assert len(left_out) == len(set(left_out) - set(APPLICABLE))
