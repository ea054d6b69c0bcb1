"""The stack that can stand in front of an endpoint: what it lets through, and to whom it hands it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from tests.infra.cloudformation import FRONT, TEMPLATE, read
from tests.infra.tools import ROOT

# What AWS calls its own policies, by the ids that its documentation lists.
CACHING_DISABLED = "4135ea2d-6df8-44a3-9df3-4b5a84be39ad"
ALL_VIEWER_EXCEPT_HOST = "b689b0a8-53d0-40ab-baf2-68738e2966ac"


@pytest.fixture(scope="module")
def template() -> Mapping[str, Any]:
    return read(FRONT)


@pytest.fixture(scope="module")
def behaviour(template: Mapping[str, Any]) -> Mapping[str, Any]:
    return template["Resources"]["Distribution"]["Properties"]["DistributionConfig"]["DefaultCacheBehavior"]


def test_no_answer_is_kept_for_another_caller(behaviour: Mapping[str, Any]) -> None:
    assert behaviour["CachePolicyId"] == CACHING_DISABLED


def test_credentials_origins_and_versions_reach_the_server_and_the_host_is_the_gateways(
    behaviour: Mapping[str, Any],
) -> None:
    assert behaviour["OriginRequestPolicyId"] == ALL_VIEWER_EXCEPT_HOST


def test_each_method_reaches_the_server_which_answers_in_json(behaviour: Mapping[str, Any]) -> None:
    assert {"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"} == set(behaviour["AllowedMethods"])


def test_nothing_travels_in_the_clear(template: Mapping[str, Any], behaviour: Mapping[str, Any]) -> None:
    (origin,) = template["Resources"]["Distribution"]["Properties"]["DistributionConfig"]["Origins"]

    assert behaviour["ViewerProtocolPolicy"] == "https-only"
    assert origin["CustomOriginConfig"]["OriginProtocolPolicy"] == "https-only"
    assert origin["CustomOriginConfig"]["OriginSSLProtocols"] == ["TLSv1.2"]


def test_a_front_waits_as_long_as_the_gateway_does(template: Mapping[str, Any]) -> None:
    (origin,) = template["Resources"]["Distribution"]["Properties"]["DistributionConfig"]["Origins"]
    gateway = read(TEMPLATE)["Resources"]["Integration"]["Properties"]["TimeoutInMillis"]

    assert origin["CustomOriginConfig"]["OriginReadTimeout"] * 1000 > gateway


def test_the_firewall_is_on_the_distribution_and_limits_each_address(template: Mapping[str, Any]) -> None:
    resources = template["Resources"]
    rules = resources["Firewall"]["Properties"]["Rules"]
    (limit,) = [rule for rule in rules if "RateBasedStatement" in rule["Statement"]]

    assert resources["Distribution"]["Properties"]["DistributionConfig"]["WebACLId"] == {"Fn::GetAtt": "Firewall.Arn"}
    assert limit["Statement"]["RateBasedStatement"] == {
        "Limit": {"Ref": "RequestsPerAddress"},
        "AggregateKeyType": "IP",
    }
    assert [rule["Priority"] for rule in rules] == [0, 1, 2]


def test_no_rule_takes_a_question_for_an_attack_by_its_words(template: Mapping[str, Any]) -> None:
    assert "AWSManagedRulesCommonRuleSet" not in json.dumps(template["Resources"]["Firewall"])


def test_it_is_made_where_alone_it_can_be(template: Mapping[str, Any]) -> None:
    (only,) = template["Rules"]["OnlyThere"]["Assertions"]

    assert only["Assert"] == {"Fn::Equals": [{"Ref": "AWS::Region"}, "us-east-1"]}


def test_the_documentation_passes_each_parameter_that_has_no_default(template: Mapping[str, Any]) -> None:
    needed = {name for name, parameter in template["Parameters"].items() if "Default" not in parameter}
    text = (ROOT / "docs" / "deploying.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"--template-file infra/front\.yaml[^`]*", text)

    assert needed
    assert needed <= {*re.findall(r"(\w+)=", command)}
