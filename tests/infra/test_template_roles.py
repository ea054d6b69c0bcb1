"""What the stack's function and those who deploy and publish may do, and no more."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from tests.infra.cloudformation import DEPLOY_ROLE, listed, read
from tests.infra.tools import ROOT


def resources_of(role: Mapping[str, Any], service: str) -> Iterator[tuple[str | None, str]]:
    """Each resource of a service that a role may change, after the condition under which it may."""
    for policy in role["Properties"]["Policies"]:
        for given in policy["PolicyDocument"]["Statement"]:
            condition, statement = (given["Fn::If"][0], given["Fn::If"][1]) if "Fn::If" in given else (None, given)
            if any(action.startswith(f"{service}:") for action in listed(statement["Action"])):
                found: Any = statement["Resource"]
                several = cast("list[object]", found if isinstance(found, list) else [found])
                yield from ((condition, json.dumps(resource)) for resource in several)


def statements(role: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for policy in role["Properties"].get("Policies", []):
        for statement in policy["PolicyDocument"]["Statement"]:
            yield statement["Fn::If"][1] if "Fn::If" in statement else statement


def actions(role: Mapping[str, Any]) -> set[str]:
    return {action for statement in statements(role) for action in listed(statement["Action"])}


def test_the_function_may_only_read_one_prefix_write_one_log_and_read_one_key(resources: Mapping[str, Any]) -> None:
    role = resources["FunctionRole"]

    assert actions(role) == {
        "s3:GetObject",
        "s3:ListBucket",
        "logs:CreateLogStream",
        "logs:PutLogEvents",
        "secretsmanager:GetSecretValue",
        "ssm:GetParameter",
    }
    assert "ManagedPolicyArns" not in role["Properties"]
    assert [statement for statement in statements(role) if statement["Resource"] == "*"] == []


def test_of_the_store_the_function_reads_the_pointer_the_releases_and_only_where_keys_are_taken_the_keys(
    resources: Mapping[str, Any],
) -> None:
    read_of_s3 = [
        (condition, re.findall(r"DatasetPrefix\}/([^\"]+)", resource)[0])
        for condition, resource in resources_of(resources["FunctionRole"], "s3")
        if "DatasetPrefix" in resource
    ]

    assert read_of_s3 == [(None, "current.json"), (None, "releases/*"), ("TakesKeys", "keys.json")]


def test_a_pipeline_that_publishes_cannot_make_itself_a_key() -> None:
    role = read(DEPLOY_ROLE)["Resources"]["DeployRole"]
    (denied,) = [one for one in statements(role) if one.get("Sid") == "LeaveTheKeysAlone"]

    assert denied["Effect"] == "Deny"
    assert {*listed(denied["Action"])} == {"s3:PutObject", "s3:DeleteObject"}
    assert json.dumps(denied["Resource"]).count("/keys.json") == 1


def test_a_bucket_that_is_not_the_stacks_own_is_never_listed(resources: Mapping[str, Any]) -> None:
    listing = [
        statement
        for policy in resources["FunctionRole"]["Properties"]["Policies"]
        for statement in policy["PolicyDocument"]["Statement"]
        if "s3:ListBucket" in json.dumps(statement)
    ]

    assert [statement["Fn::If"][0] for statement in listing] == ["MakeBucket"]


def test_the_boundary_of_the_deployment_allows_all_that_the_roles_of_the_stack_do(
    resources: Mapping[str, Any],
) -> None:
    boundary = read(DEPLOY_ROLE)["Resources"]["Boundary"]["Properties"]["PolicyDocument"]["Statement"]
    allowed = {action for statement in boundary for action in listed(statement["Action"])}
    roles = [resource for resource in resources.values() if resource["Type"] == "AWS::IAM::Role"]

    assert len(roles) == 2
    assert {action for role in roles for action in actions(role)} == allowed
    assert [role for role in roles if "PermissionsBoundary" not in role["Properties"]] == []


def test_the_role_that_github_assumes_touches_no_roles_but_hands_one_on() -> None:
    role = read(DEPLOY_ROLE)["Resources"]["DeployRole"]

    assert {action for action in actions(role) if action.startswith("iam:")} == {"iam:PassRole"}
    (trust,) = role["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    assert set(trust["Condition"]) == {"StringEquals"}


def test_a_pipeline_without_a_zone_changes_none_and_with_one_only_the_one_name_in_it() -> None:
    role = read(DEPLOY_ROLE)["Resources"]["StackRole"]
    zones = [(condition, resource) for condition, resource in resources_of(role, "route53") if "hostedzone" in resource]
    (change,) = [one for one in statements(role) if one["Action"] == "route53:ChangeResourceRecordSets"]

    assert zones
    assert {condition for condition, _ in resources_of(role, "route53")} == {"HasZone"}
    assert [resource for _, resource in zones if "hostedzone/${HostedZoneId}" not in resource] == []
    assert change["Condition"] == {
        "ForAllValues:StringEquals": {
            "route53:ChangeResourceRecordSetsNormalizedRecordNames": [{"Ref": "DomainName"}],
        }
    }


def test_a_pipeline_reaches_no_domain_but_its_own_and_no_other_region() -> None:
    role = read(DEPLOY_ROLE)["Resources"]["StackRole"]
    gateways = [*resources_of(role, "apigateway")]

    assert [resource for _, resource in gateways if "${AWS::Region}" not in resource] == []
    domains = [(condition, resource) for condition, resource in gateways if "domainnames" in resource]
    assert {condition for condition, _ in domains} == {"HasDomain"}
    assert [
        resource for _, resource in domains if "domainnames/" in resource and "/${DomainName}" not in resource
    ] == []


def test_a_pipeline_needs_no_bucket_that_other_stacks_use() -> None:
    text = DEPLOY_ROLE.read_text(encoding="utf-8")
    workflow = (ROOT / ".github" / "workflows" / "deploy.yml").read_text(encoding="utf-8")

    assert "aws-sam-cli-managed-default" not in text
    assert "--no-resolve-s3 --s3-bucket ${ARTIFACTS_BUCKET:?" in workflow


def test_each_variable_of_the_workflow_is_an_output_of_the_pipeline() -> None:
    workflow = (ROOT / ".github" / "workflows" / "deploy.yml").read_text(encoding="utf-8")
    outputs = json.dumps(read(DEPLOY_ROLE)["Outputs"])
    asked = {*re.findall(r"vars\.(\w+)", workflow)} - {"AWS_REGION"}

    assert asked == {*re.findall(r"variable (AWS_\w+)", outputs)}


def test_publishing_may_do_what_the_documentation_says_it_must() -> None:
    role = read(DEPLOY_ROLE)["Resources"]["DeployRole"]
    (publish,) = [one for one in statements(role) if one.get("Sid") == "PublishTheDataset"]
    text = (ROOT / "docs" / "deploying.md").read_text(encoding="utf-8")
    (sentence,) = re.findall(r"^The role needs (.*?), and nothing else", text, re.MULTILINE | re.DOTALL)

    assert {*re.findall(r"`(s3:\w+)`", sentence)} == {*publish["Action"]}
