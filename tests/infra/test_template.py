"""The stack: what linters say of it, and what it promises that no linter knows, but for what its roles may do."""

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from handler.telemetry import METRICS
from retrieval.settings import Settings, variables
from tests.infra.cloudformation import DEPLOY_ROLE, FRONT, TEMPLATE, read
from tests.infra.tools import ROOT, install, run


def tool(environment: str, program: str) -> Path:
    return install(environment) / program


# What the tools say


@pytest.mark.e2e
def test_sam_finds_nothing_wrong_with_the_template() -> None:
    done = run(tool("sam", "sam"), "validate", "--lint", "--template", str(TEMPLATE))

    assert done.returncode == 0, done.stdout


@pytest.mark.e2e
def test_cfn_lint_finds_nothing_wrong_with_the_templates() -> None:
    done = run(tool("sam", "cfn-lint"), "--", str(TEMPLATE), str(DEPLOY_ROLE), str(FRONT))

    assert done.stdout == ""


# sam validates the template as it is written; a property that is wrong shows only in what it is translated to.
@pytest.mark.e2e
@pytest.mark.parametrize("gradual", ["false", "true"])
def test_what_the_template_is_translated_to_has_no_errors(gradual: str, tmp_path: Path) -> None:
    python = tool("sam", "python")
    translator = Path(__file__).with_name("translate.py")
    translated = run(python, "-W", "ignore", str(translator), str(TEMPLATE), f"GradualDeployment={gradual}")
    assert translated.returncode == 0, translated.stdout
    (tmp_path / "translated.json").write_text(translated.stdout[translated.stdout.index("{") :], encoding="utf-8")

    # Warnings are for the template that people edit: translated, a parameter that SAM has used up is an unused one.
    done = run(tool("sam", "cfn-lint"), "--ignore-checks", "W", "--", str(tmp_path / "translated.json"))

    assert done.stdout == ""


@pytest.mark.e2e
def test_checkov_objects_to_nothing_but_what_is_excepted_with_a_reason(tmp_path: Path) -> None:
    checkov = tool("checkov", "checkov")
    options = ("--quiet", "--compact", "--framework", "cloudformation", "--skip-download", "--output", "json")
    done = run(checkov, *options, "--file", str(TEMPLATE), str(DEPLOY_ROLE), str(FRONT), cwd=tmp_path)

    results = json.loads(done.stdout[done.stdout.index("{") :])
    assert results["summary"]["failed"] == 0, done.stdout
    assert results["summary"]["passed"] > 0


def test_each_exception_from_a_policy_has_a_reason() -> None:
    exceptions = [
        exception
        for path in (TEMPLATE, DEPLOY_ROLE, FRONT)
        for resource in read(path)["Resources"].values()
        for exception in resource.get("Metadata", {}).get("checkov", {}).get("skip", [])
    ]

    assert exceptions
    assert [exception["id"] for exception in exceptions if len(exception.get("comment", "")) < 20] == []


# Parameters


def test_each_parameter_is_grouped_once_described_and_constrained(template: Mapping[str, Any]) -> None:
    groups = template["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
    grouped = [name for group in groups for name in group["Parameters"]]
    bounds = {"AllowedPattern", "AllowedValues", "MinValue", "MinLength", "MaxLength"}

    assert sorted(grouped) == sorted(template["Parameters"])
    for name, parameter in template["Parameters"].items():
        assert parameter["Description"].endswith("."), name
        assert bounds & parameter.keys(), name
        assert "Default" in parameter, f"{name}: a first deployment asks for nothing"


def test_each_default_is_one_that_its_parameter_allows(template: Mapping[str, Any]) -> None:
    for name, parameter in template["Parameters"].items():
        default = str(parameter["Default"])
        assert re.search(parameter.get("AllowedPattern", ""), default), name
        assert default in map(str, parameter.get("AllowedValues", [default])), name


def test_each_setting_of_samconfig_is_a_parameter_and_a_value_that_it_allows(template: Mapping[str, Any]) -> None:
    config = tomllib.loads((ROOT / "samconfig.toml").read_text(encoding="utf-8"))
    environments = {name: commands for name, commands in config.items() if name != "version"}
    given = [
        override.split("=", 1)
        for commands in environments.values()
        for override in commands["global"]["parameters"].get("parameter_overrides", [])
    ]

    assert given
    for name, value in given:
        parameter = template["Parameters"][name]
        assert re.search(parameter.get("AllowedPattern", ""), value), name
        assert value in map(str, parameter.get("AllowedValues", [value])), name


def test_parameters_stand_where_the_build_reads_them_too() -> None:
    config = tomllib.loads((ROOT / "samconfig.toml").read_text(encoding="utf-8"))
    sections = {
        f"{name}.{command}"
        for name, commands in config.items()
        if name != "version"
        for command, section in commands.items()
        if "parameter_overrides" in section["parameters"]
    }

    assert sections == {"staging.global", "prod.global"}


# The function


def depends_on(value: object, template: Mapping[str, Any]) -> set[str]:
    """The parameters that decide a value, through the conditions that are named in it."""
    names: set[str] = set()
    if isinstance(value, list):
        return names.union(*(depends_on(part, template) for part in cast("list[object]", value)))
    if not isinstance(value, dict):
        return names
    for key, inner in cast("dict[str, Any]", value).items():
        if key == "Fn::If":
            names |= depends_on({"Condition": inner[0]}, template) | depends_on(inner[1:], template)
        elif key == "Condition":
            names |= depends_on(template["Conditions"][inner], template)
        elif key == "Ref":
            names |= {inner} & template["Parameters"].keys()
        elif key == "Fn::Sub":
            text: str = inner if isinstance(inner, str) else inner[0]
            names |= {*re.findall(r"\$\{(\w+)\}", text)} & template["Parameters"].keys()
            names |= depends_on([] if isinstance(inner, str) else inner[1], template)
        else:
            names |= depends_on(inner, template)
    return names


def test_each_parameter_that_a_version_depends_on_makes_another_image(template: Mapping[str, Any]) -> None:
    function = template["Resources"]["Function"]
    # Of the function as a whole or of its alias, and so in force without a new version.
    elsewhere = {"DeploymentPreference", "ProvisionedConcurrencyConfig", "ReservedConcurrentExecutions", "Role"}
    versioned = {name: value for name, value in function["Properties"].items() if name not in elsewhere}
    arguments = function["Metadata"]["DockerBuildArgs"]

    # The processor is the image's own.
    assert depends_on(arguments["SETTINGS"], template) == depends_on(versioned, template) - {"Architecture"}
    label = (ROOT / "infra" / "Dockerfile").read_text(encoding="utf-8").rpartition("FROM ")[2]
    assert re.search(r'^ARG SETTINGS=""\nLABEL bedivere\.settings="\$\{SETTINGS\}"$', label, re.MULTILINE)


def version_of(image: str) -> str:
    """The name of the version in what the template is translated to, with that image pushed."""
    translator = Path(__file__).with_name("translate.py")
    done = run(tool("sam", "python"), "-W", "ignore", str(translator), str(TEMPLATE), f"ImageTag={image}")
    translated = json.loads(done.stdout[done.stdout.index("{") :])
    (version,) = [
        name for name, resource in translated["Resources"].items() if resource["Type"] == "AWS::Lambda::Version"
    ]
    return version


@pytest.mark.e2e
def test_another_image_is_another_version_and_the_same_image_is_the_same() -> None:
    first = version_of("1")

    assert version_of("1") == first
    assert version_of("2") != first


@pytest.mark.e2e
def test_sam_builds_the_image_with_the_values_of_the_parameters() -> None:
    program = Path(__file__).with_name("build_arguments.py")
    python = tool("sam", "python")

    def given(*parameters: str) -> Mapping[str, str]:
        done = run(python, "-W", "ignore", str(program), str(TEMPLATE), *parameters)
        return json.loads(done.stdout[done.stdout.index("{") :])

    assert "RefreshSeconds=60 " in given()["SETTINGS"]
    assert "RefreshSeconds=7 " in given("RefreshSeconds=7")["SETTINGS"]


def test_each_variable_of_the_function_is_a_setting(environment: Mapping[str, Any]) -> None:
    known = {variable for field in Settings.model_fields.values() for variable in variables(field)}
    # Powertools reads the first; the second is for the release that embeds queries.
    others = {"POWERTOOLS_SERVICE_NAME", "OPENAI_API_KEY_ARN"}

    assert environment.keys() - others <= known


def test_no_secret_is_passed_as_text(template: Mapping[str, Any], environment: Mapping[str, Any]) -> None:
    assert "OPENAI_API_KEY" not in environment
    assert [name for name in template["Parameters"] if re.search(r"(?i)(key|secret|token|password)$", name)] == []


def test_a_call_ends_before_the_gateway_gives_up(template: Mapping[str, Any], resources: Mapping[str, Any]) -> None:
    timeout = template["Parameters"]["TimeoutSeconds"]

    assert timeout["MaxValue"] * 1000 < resources["Integration"]["Properties"]["TimeoutInMillis"] < 30_000


def test_a_call_that_waits_for_the_dataset_ends_before_lambda_cuts_it(template: Mapping[str, Any]) -> None:
    wait = Settings.model_fields["dataset_wait_seconds"].default

    assert wait < template["Parameters"]["TimeoutSeconds"]["Default"]


def test_the_image_is_built_from_the_dockerfile_of_the_repository(resources: Mapping[str, Any]) -> None:
    metadata = resources["Function"]["Metadata"]

    assert (ROOT / metadata["DockerContext"] / metadata["Dockerfile"]).is_file()
    assert f"ARG {next(iter(metadata['DockerBuildArgs']))}=" in (ROOT / "infra" / "Dockerfile").read_text()


def test_the_image_starts_the_same_handler_by_itself_and_on_lambda(resources: Mapping[str, Any]) -> None:
    (command,) = resources["Function"]["Properties"]["ImageConfig"]["Command"]

    assert f'CMD ["{command}"]' in (ROOT / "infra" / "Dockerfile").read_text()


# The way in


def test_each_path_and_method_reaches_the_server(resources: Mapping[str, Any]) -> None:
    routes = [resource for resource in resources.values() if resource["Type"] == "AWS::ApiGatewayV2::Route"]

    everywhere = [route["Properties"]["RouteKey"] for route in routes if "Condition" not in route]
    assert everywhere == ["$default"]
    assert resources["Stage"]["Properties"]["StageName"] == "$default"


def test_one_parameter_says_who_may_call(template: Mapping[str, Any], resources: Mapping[str, Any]) -> None:
    route = resources["Route"]["Properties"]
    ways = {name: rule["Fn::Equals"][1] for name, rule in template["Conditions"].items() if name.startswith("Takes")}

    assert template["Parameters"]["Access"]["AllowedValues"] == ["public", *ways.values()]
    assert template["Parameters"]["Access"]["Default"] == "public"
    assert ways == {"TakesKeys": "keys", "TakesTokens": "jwt", "TakesSignatures": "iam"}
    assert route["AuthorizationType"] == {
        "Fn::If": ["TakesTokens", "JWT", {"Fn::If": ["TakesSignatures", "AWS_IAM", "NONE"]}]
    }
    assert route["AuthorizerId"] == {"Fn::If": ["TakesTokens", {"Ref": "TokenAuthorizer"}, {"Ref": "AWS::NoValue"}]}


def test_tokens_are_checked_by_the_gateway_and_again_by_the_server(
    resources: Mapping[str, Any], environment: Mapping[str, Any]
) -> None:
    authorizer = resources["TokenAuthorizer"]
    asked = authorizer["Properties"]["JwtConfiguration"]

    assert authorizer["Condition"] == "TakesTokens"
    assert asked["Issuer"] == environment["BEDIVERE_JWT_ISSUER"]
    assert asked["Audience"] == {"Fn::Split": [",", environment["BEDIVERE_JWT_AUDIENCE"]]}


def test_where_the_gateway_asks_preflights_and_metadata_stay_open(
    template: Mapping[str, Any], resources: Mapping[str, Any]
) -> None:
    routes = [resource for resource in resources.values() if resource["Type"] == "AWS::ApiGatewayV2::Route"]
    conditional = {route["Properties"]["RouteKey"]: route for route in routes if "Condition" in route}

    assert set(conditional) == {"OPTIONS /{proxy+}", "GET /.well-known/{proxy+}"}
    assert template["Conditions"]["AsksInFront"] == {
        "Fn::Or": [{"Condition": "TakesTokens"}, {"Condition": "TakesSignatures"}]
    }
    for route in conditional.values():
        assert route["Condition"] == "AsksInFront"
        assert route["Properties"]["AuthorizationType"] == "NONE"
        assert route["Properties"]["Target"] == resources["Route"]["Properties"]["Target"]


def test_preflights_are_left_to_the_server(resources: Mapping[str, Any]) -> None:
    assert "CorsConfiguration" not in resources["Api"]["Properties"]


def test_the_gateway_calls_the_alias_and_may_call_nothing_else(resources: Mapping[str, Any]) -> None:
    alias = resources["Function"]["Properties"]["AutoPublishAlias"]

    assert f"${{Function.Arn}}:{alias}/" in resources["Integration"]["Properties"]["IntegrationUri"]["Fn::Sub"]
    assert resources["Permission"]["Properties"]["FunctionName"] == {"Ref": "Function.Alias"}


def test_the_access_log_is_json_with_the_integration_error_and_without_the_client(
    resources: Mapping[str, Any],
) -> None:
    line = json.loads(resources["Stage"]["Properties"]["AccessLogSettings"]["Format"])

    assert line["integrationError"] == "$context.integrationErrorMessage"
    assert [value for value in line.values() if "identity" in value or "userAgent" in value] == []


# What outlives the stack, and what pages


def test_the_dataset_survives_the_stack_is_private_encrypted_and_versioned(resources: Mapping[str, Any]) -> None:
    bucket = resources["DatasetBucket"]

    assert (bucket["DeletionPolicy"], bucket["UpdateReplacePolicy"]) == ("Retain", "Retain")
    assert set(bucket["Properties"]["PublicAccessBlockConfiguration"].values()) == {True}
    assert bucket["Properties"]["VersioningConfiguration"]["Status"] == "Enabled"
    assert "BucketEncryption" in bucket["Properties"]


def test_the_bucket_is_reached_over_tls_only(resources: Mapping[str, Any]) -> None:
    policy = resources["DatasetBucketPolicy"]["Properties"]["PolicyDocument"]["Statement"]

    assert {"Bool": {"aws:SecureTransport": False}} in [statement["Condition"] for statement in policy]
    assert {statement["Effect"] for statement in policy} == {"Deny"}


def test_each_log_is_kept_for_a_time_that_is_set(resources: Mapping[str, Any]) -> None:
    groups = [resource["Properties"] for resource in resources.values() if resource["Type"] == "AWS::Logs::LogGroup"]

    assert [group["RetentionInDays"] for group in groups] == [{"Ref": "LogRetentionDays"}] * 2


def alarms(resources: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    return {
        name: resource["Properties"]
        for name, resource in resources.items()
        if resource["Type"] == "AWS::CloudWatch::Alarm"
    }


def test_each_alarm_says_what_to_do_and_reaches_the_topic(resources: Mapping[str, Any]) -> None:
    assert len(alarms(resources)) == 6
    for name, alarm in alarms(resources).items():
        assert len(alarm["AlarmDescription"]) > 40, name
        assert "AlarmTopic" in json.dumps(alarm["AlarmActions"]), name
        assert alarm["TreatMissingData"] == "notBreaching", f"{name}: nobody asking is no incident"


def test_each_metric_of_ours_that_is_watched_is_one_that_is_written(resources: Mapping[str, Any]) -> None:
    text = json.dumps(alarms(resources))
    watched = set(re.findall(r'"Namespace": "Bedivere", "MetricName": "(\w+)"', text))
    shown = resources["OperationsDashboard"]["Properties"]["DashboardBody"]["Fn::Sub"]
    watched |= {
        word
        for widget in json.loads(shown)["widgets"]
        if "Bedivere" in json.dumps(widget)
        for metric in widget["properties"]["metrics"]
        for word in [metric[1]]
    }

    assert {"SyncFailures", "DatasetAgeSeconds"} <= watched <= set(METRICS)
    assert {METRICS[name][1][0] for name in watched} == {"service"}
