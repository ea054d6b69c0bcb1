"""The roles that deploy: they reach all of their own stack by its names, and nothing of one with a similar name."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from hashlib import md5
from typing import Any

import pytest

from tests.infra.cloudformation import DEPLOY_ROLE, TEMPLATE, allowed, read, resolved
from tests.infra.tools import ROOT, install, run

STACKS = ("bedivere", "bedivere-prod", "bedivere-staging", "bedivere-p", "bedivere2", "bedivere-prod-2")
AWS = {"AWS::Partition": "aws", "AWS::Region": "eu-central-1", "AWS::AccountId": "111122223333"}
LONGEST = "a" * 35

# What of the three policies is for no stack alone, since it knows no narrower resource.
SHARED = re.compile(r"\*|.*:transform/Serverless-2016-10-31|.*:apigateway:.*|.*:deploymentconfig:.*|<.*>(/\*)?")

PREFIX = "arn:aws:{service}:eu-central-1:111122223333:"
# In CloudFormation's words for a kind of resource, the ARN of one by its physical name.
ARNS = {
    "AWS::S3::Bucket": "arn:aws:s3:::{name}",
    "AWS::Serverless::Function": PREFIX.format(service="lambda") + "function:{name}",
    "AWS::IAM::Role": "arn:aws:iam::111122223333:role/{name}",
    "AWS::Logs::LogGroup": PREFIX.format(service="logs") + "log-group:{name}",
    "AWS::CloudWatch::Alarm": PREFIX.format(service="cloudwatch") + "alarm:{name}",
    "AWS::CloudWatch::Dashboard": "arn:aws:cloudwatch::111122223333:dashboard/{name}",
    "AWS::SNS::Topic": PREFIX.format(service="sns") + "{name}",
}
NAMES = {"AWS::Logs::LogGroup": "LogGroupName", "AWS::CloudWatch::Dashboard": "DashboardName"}
# These have ids that nobody knows before they are made, or are parts of another.
UNNAMED = {
    "AWS::ApiGatewayV2::Api",
    "AWS::ApiGatewayV2::ApiMapping",
    "AWS::ApiGatewayV2::Authorizer",
    "AWS::ApiGatewayV2::DomainName",
    "AWS::ApiGatewayV2::Integration",
    "AWS::ApiGatewayV2::Route",
    "AWS::ApiGatewayV2::Stage",
    "AWS::Lambda::Permission",
    "AWS::Route53::RecordSet",
    "AWS::S3::BucketPolicy",
}


def made_by_sam(stack: str) -> tuple[str, str]:
    """The stack and the repository that SAM makes for the image."""
    behind = md5(stack.encode(), usedforsecurity=False).hexdigest()[:8]
    function = md5(b"Function", usedforsecurity=False).hexdigest()[:8]
    return f"{stack}-{behind}-CompanionStack", f"{stack.replace('-', '')}{behind}/function{function}repo"


def things(stack: str) -> dict[str, str]:
    """The ARN of each thing of a stack, by what it is."""
    found: dict[str, str] = {}
    for logical, resource in read(TEMPLATE)["Resources"].items():
        kind = resource["Type"]
        if kind in UNNAMED:
            continue
        name = f"{stack}-{logical}-1A2B3C4D5E6F7"
        if kind in NAMES:
            values = {**AWS, "AWS::StackName": stack}
            name = resolved(resource["Properties"][NAMES[kind]], values, {})
        found[logical] = ARNS[kind].format(name=name.lower() if kind == "AWS::S3::Bucket" else name)
    companion, repository = made_by_sam(stack)
    application = f"{stack}-ServerlessDeploymentApplication-1A2B3C4D5E6F7"
    codedeploy, cloudformation = PREFIX.format(service="codedeploy"), PREFIX.format(service="cloudformation")
    return {
        **found,
        "alias": f"{found['Function']}:live",
        "object": f"{found['DatasetBucket']}/bedivere/current.json",
        "line of the log": f"{found['FunctionLogs']}:log-stream:2026/01/01/[1]a",
        "stack": f"{cloudformation}stack/{stack}/5b8e-1",
        "stack of the image": f"{cloudformation}stack/{companion}/5b8e-2",
        "image": f"{PREFIX.format(service='ecr')}repository/{repository}",
        "application": f"{codedeploy}application:{application}",
        "deployment group": f"{codedeploy}deploymentgroup:{application}/{stack}-FunctionDeploymentGroup-1A2B3C4D5E6F7",
        "secret": f"{PREFIX.format(service='secretsmanager')}secret:{stack}/openai-a1b2c3",
        "SSM parameter": f"{PREFIX.format(service='ssm')}parameter/{stack}/openai",
        # By its name that of the stack, too, if only the beginning counts.
        "other secret": f"{PREFIX.format(service='secretsmanager')}secret:{stack}-openai-a1b2c3",
    }


def policies(stack: str) -> Mapping[str, Mapping[str, Any]]:
    """The policies of the pipeline of a stack, by the names of their resources."""
    conditions: dict[str, bool] = dict.fromkeys(("MakeProvider", "OwnBucket", "HasDomain", "HasZone"), False)
    resources = read(DEPLOY_ROLE)["Resources"]
    written = {
        "Boundary": resources["Boundary"]["Properties"]["PolicyDocument"],
        **{
            role: resources[role]["Properties"]["Policies"][0]["PolicyDocument"] for role in ("DeployRole", "StackRole")
        },
    }
    return {
        name: resolved(policy, {**AWS, "StackName": stack, "DomainName": "", "HostedZoneId": ""}, conditions)
        for name, policy in written.items()
    }


def reached(policy: Mapping[str, Any], arn: str) -> list[str]:
    """The patterns of a policy that an ARN matches, without those that are for no stack alone."""
    patterns = {pattern for _, pattern in allowed(policy) if not SHARED.fullmatch(pattern)}
    return [pattern for pattern in sorted(patterns) if fnmatchcase(arn, pattern)]


@pytest.mark.parametrize("stack", STACKS)
def test_a_pipeline_reaches_nothing_of_a_stack_with_a_similar_name(stack: str) -> None:
    others = [(what, arn) for other in STACKS if other != stack for what, arn in things(other).items()]
    found = [
        (name, what, arn) for name, policy in policies(stack).items() for what, arn in others if reached(policy, arn)
    ]

    assert found == []


@pytest.mark.parametrize("stack", [*STACKS, LONGEST])
def test_each_thing_of_a_stack_is_reached_by_one_of_the_policies(stack: str) -> None:
    own = {what: arn for what, arn in things(stack).items() if what != "other secret"}
    out_of_reach = [
        what for what, arn in own.items() if not any(reached(policy, arn) for policy in policies(stack).values())
    ]

    assert out_of_reach == []


@pytest.mark.parametrize("stack", [*STACKS, LONGEST])
@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (
            "Boundary",
            {"DatasetBucket", "object", "line of the log", "secret", "SSM parameter", "Function", "alias"},
        ),
        ("DeployRole", {"stack", "stack of the image", "image", "DatasetBucket", "object"}),
        (
            "StackRole",
            {
                *("AccessLogs", "FunctionLogs", "FunctionRole", "DeploymentRole", "Function", "alias", "AlarmTopic"),
                *("ServerErrorsAlarm", "LatencyAlarm", "ThrottlesAlarm", "ErrorsAlarm", "SyncFailuresAlarm"),
                *("DatasetAgeAlarm", "OperationsDashboard", "DatasetBucket", "image", "application"),
                "deployment group",
            },
        ),
    ],
)
def test_each_policy_reaches_what_it_is_for(stack: str, policy: str, expected: set[str]) -> None:
    assert {what for what, arn in things(stack).items() if reached(policies(stack)[policy], arn)} >= expected


def test_no_name_of_an_allowed_stack_is_so_long_that_it_is_cut() -> None:
    parameter = read(DEPLOY_ROLE)["Parameters"]["StackName"]
    limits = {"DatasetBucket": 63, "Function": 64, "FunctionRole": 64, "DeploymentRole": 64}

    assert re.search(parameter["AllowedPattern"], LONGEST)
    assert not re.search(parameter["AllowedPattern"], f"{LONGEST}a")
    for what, arn in things(LONGEST).items():
        assert len(re.split(r"[:/]", arn)[-1]) <= limits.get(what, 1000), what


@pytest.mark.parametrize(("policy", "most"), [("Boundary", 6144), ("DeployRole", 10_240), ("StackRole", 10_240)])
def test_each_policy_is_as_short_as_iam_wants_it(policy: str, most: int) -> None:
    assert len(json.dumps(policies(LONGEST)[policy], separators=(",", ":"))) < most


def test_the_documentation_names_a_key_as_the_boundary_reaches_it() -> None:
    text = (ROOT / "docs" / "deploying.md").read_text(encoding="utf-8")
    (name,) = re.findall(r"`(bedivere-prod/\w+)`", text)

    assert reached(policies("bedivere-prod")["Boundary"], f"{PREFIX.format(service='ssm')}parameter/{name}")


@pytest.mark.e2e
def test_sam_names_the_stack_and_the_repository_of_the_image_so() -> None:
    python = install("sam") / "python"
    script = (
        "from samcli.lib.bootstrap.companion_stack.data_types import CompanionStack, ECRRepo\n"
        "stack = CompanionStack('bedivere-prod')\n"
        "print(stack.stack_name, ECRRepo(stack, 'Function').physical_id)"
    )

    assert run(python, "-W", "ignore", "-c", script).stdout.split() == [*made_by_sam("bedivere-prod")]
