"""Where `make deploy` deploys to: one stack, region and profile for every program that it runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.infra.deploying import OUTPUTS, REGION, Programs, always, deployed

PLACE = ["--stack-name", "bedivere", "--region", REGION]


def test_each_program_is_led_to_the_same_place(
    deploying: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "another's")
    asked = ("--region", "us-west-2", "--stack-name=mine", "--profile", "work", "--role-arn", "x")

    told = deployed(deploying, monkeypatch, *asked, database=tmp_path)

    place = ["--stack-name", "mine", "--region", "us-west-2", "--profile", "work"]
    assert told.one("sam", "deploy")[-8:] == [*place, "--role-arn", "x"]
    assert told.one("sam", "list")[3:-2] == place
    assert {(each["AWS_DEFAULT_REGION"], each["AWS_REGION"]) for each in told.variables} == {("us-west-2",) * 2}
    assert {(each["AWS_PROFILE"], each["AWS_DEFAULT_PROFILE"]) for each in told.variables} == {("work",) * 2}
    assert [each for each in told.variables if "AWS_ACCESS_KEY_ID" in each] == []


def test_the_keys_of_the_environment_stay_where_no_profile_is_named(
    deploying: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "mine")

    assert {each["AWS_ACCESS_KEY_ID"] for each in deployed(deploying, monkeypatch).variables} == {"mine"}


@pytest.mark.parametrize("name", ["AWS_REGION", "AWS_DEFAULT_REGION"])
def test_a_region_by_either_name_is_one_by_both(
    deploying: ModuleType, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    monkeypatch.setenv(name, "eu-west-3")

    told = deployed(deploying, monkeypatch)

    assert {(each["AWS_DEFAULT_REGION"], each["AWS_REGION"]) for each in told.variables} == {("eu-west-3",) * 2}


def test_two_regions_stop_it_before_anything_runs(deploying: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-3")

    with pytest.raises(deploying.Stopped, match=f"AWS_REGION is eu-west-3 and AWS_DEFAULT_REGION is {REGION}"):
        deployed(deploying, monkeypatch)


def test_no_region_stops_it_before_anything_runs(deploying: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")

    with pytest.raises(deploying.Stopped, match="No region is known: set AWS_REGION"):
        deployed(deploying, monkeypatch)


def test_a_profile_has_a_region_of_its_own(
    deploying: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    monkeypatch.setenv("AWS_PROFILE", "work")
    (tmp_path / "config").write_text("[profile work]\nregion = ap-south-1\n[profile home]\nregion = eu-west-2\n")

    def region(*arguments: str) -> str:
        return deploying.find_target(deploying.section("default"), arguments, os.environ)[0].region

    assert (region(), region("--profile", "home")) == ("ap-south-1", "eu-west-2")
    with pytest.raises(deploying.Stopped, match="none"):
        region("--profile", "none")


@pytest.mark.parametrize(
    ("sections", "arguments", "found"),
    [
        ({}, (), ("bedivere", REGION, None)),
        ({"global": {"region": "r-1", "profile": "p"}}, (), ("bedivere", "r-1", "p")),
        (
            {"global": {"region": "r-1"}, "deploy": {"region": "r-2", "stack_name": "s", "profile": "p"}},
            (),
            ("s", "r-2", "p"),
        ),
        ({"deploy": {"region": "r-2", "stack_name": "s"}}, ("--region=r-3",), ("s", "r-3", None)),
    ],
)
def test_arguments_go_before_the_section_deploy_that_before_global_and_that_before_the_environment(
    deploying: ModuleType, sections: Mapping[str, Any], arguments: Sequence[str], found: tuple[str, str, str | None]
) -> None:
    whole = {**sections, "global": {"stack_name": "bedivere", **sections.get("global", {})}}
    config = {name: {"parameters": section} for name, section in whole.items()}

    target, _ = deploying.find_target(config, arguments, {"AWS_REGION": REGION})

    assert (target.stack, target.region, target.profile) == found


@pytest.mark.parametrize(
    "asked", [("--guided",), ("-g",), ("--config-env", "prod"), ("--config-env=prod",), ("--config-file", "x.toml")]
)
def test_what_would_have_sam_deploy_elsewhere_is_refused_before_anything_runs(
    deploying: ModuleType, monkeypatch: pytest.MonkeyPatch, asked: tuple[str, ...]
) -> None:
    with pytest.raises(deploying.Stopped, match="make takes no --"):
        deployed(deploying, monkeypatch, *asked)


def test_a_guided_deployment_that_is_configured_is_refused_too(deploying: ModuleType) -> None:
    config = {"global": {"parameters": {"stack_name": "bedivere"}}, "deploy": {"parameters": {"guided": True}}}

    with pytest.raises(deploying.Stopped, match="make takes no --guided"):
        deploying.find_target(config, (), {"AWS_REGION": REGION})


def test_what_is_left_to_publish_is_said_with_the_place(
    deploying: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(deploying, "has_release", always(False))

    deployed(deploying, monkeypatch, "--profile", "work")

    assert f"AWS_PROFILE=work AWS_DEFAULT_REGION={REGION} bedivere publish" in capsys.readouterr().out


def test_what_is_destroyed_is_what_would_be_deployed_to(deploying: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = Programs(deploying, OUTPUTS)
    monkeypatch.setattr(deploying, "run", programs.run)
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    monkeypatch.setenv("AWS_REGION", REGION)

    deploying.destroy(deploying.Order("default", None, "", ("--parameter-overrides", "A=1", "--no-prompts")))

    assert programs.told == [["sam", "delete", "--config-env", "default", *PLACE, "--no-prompts"]]
    assert [each["AWS_DEFAULT_REGION"] for each in programs.variables] == [REGION]


def test_a_program_that_fails_stops_it_with_its_name_and_a_code(deploying: ModuleType) -> None:
    with pytest.raises(deploying.Stopped, match=r"^PROGRAM_FAILED: \S*python\S* -c failed: "):
        deploying.run(sys.executable, "-c", "raise SystemExit(3)", variables=os.environ)


def test_what_stops_it_is_told_as_a_code_and_a_sentence(
    deploying: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["deploy", "--environment", "production"])

    assert deploying.main() == 1
    assert capsys.readouterr().err.startswith("INVALID_ARGUMENT: samconfig.toml has no environment production: ")


def test_a_program_is_given_the_environment_that_leads_it(
    deploying: ModuleType, capfd: pytest.CaptureFixture[str]
) -> None:
    target = deploying.Target("bedivere", "eu-west-3", None)

    script = "import os; print(os.environ['AWS_DEFAULT_REGION'])"
    deploying.run(sys.executable, "-c", script, variables=target.variables(os.environ))

    assert capfd.readouterr().out.splitlines()[-1] == "eu-west-3"
