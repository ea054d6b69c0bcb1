"""`make deploy`: what it tells sam and bedivere, what it does not begin, and what it says is left to do."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.infra.tools import ROOT

REGION = "eu-central-1"
API = "https://abc.execute-api.eu-central-1.amazonaws.com/mcp"
OUTPUTS = {
    "McpUrl": API,
    "ApiUrl": API,
    "DatasetUri": "s3://bucket/bedivere",
    "PublishCommand": "bedivere publish build/database s3://bucket/bedivere",
    "ClaudeCommand": f"claude mcp add --transport http bedivere {API}",
}
DOMAIN = {"McpUrl": "https://mcp.example.com/mcp", "DomainTarget": "d-1.execute-api.eu-central-1.amazonaws.com"}
RECORD = {"DnsRecord": "mcp.example.com CNAME d-1.execute-api.eu-central-1.amazonaws.com"}


def always(answer: bool) -> Callable[..., bool]:
    def of(*_: object) -> bool:
        return answer

    return of


@pytest.fixture
def deploying(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The program, with a region that is set, an engine that builds for arm64 and names that resolve."""
    spec = importlib.util.spec_from_file_location("bedivere_deploy", ROOT / "infra" / "deploy.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Where a dataclass looks for the names in its annotations.
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "running_engine", lambda: module.Engine("arm64", "Debian"))
    monkeypatch.setattr(module, "resolves", always(True))
    monkeypatch.setattr(module, "has_release", always(True))
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    return module


class Programs:
    """Stands for sam and bedivere: remembers what each was told, and lists the outputs."""

    def __init__(self, module: ModuleType, outputs: Mapping[str, str]) -> None:
        self._names = {module.SAM: "sam", module.BEDIVERE: "bedivere"}
        self._outputs = outputs
        self.told: list[list[str]] = []
        self.variables: list[Mapping[str, str]] = []

    def run(self, program: Path, *arguments: str | Path, variables: Mapping[str, str], capture: bool = False) -> str:
        self.told.append([self._names[program], *map(str, arguments)])
        self.variables.append(variables)
        listed = [{"OutputKey": key, "OutputValue": text} for key, text in self._outputs.items()]
        return json.dumps(listed) if capture else ""

    def one(self, *begin: str) -> list[str]:
        (found,) = [words for words in self.told if words[: len(begin)] == list(begin)]
        return found[len(begin) :]


def deployed(
    module: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    *sam_arguments: str,
    outputs: Mapping[str, str] = OUTPUTS,
    **order: Any,
) -> Programs:
    programs = Programs(module, outputs)
    monkeypatch.setattr(module, "run", programs.run)
    given = {"environment": "default", "database": None, "keep": "", **order}
    module.deploy(module.Order(**given, sam_arguments=sam_arguments))
    return programs


def parameters(words: Sequence[str]) -> list[str]:
    begin = words.index("--parameter-overrides") + 1
    end = next((place for place in range(begin, len(words)) if words[place].startswith("-")), len(words))
    return list(words[begin:end])


# One list of parameters


def test_the_build_and_the_deployment_are_told_the_same_parameters(
    deploying: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = deployed(deploying, monkeypatch, "--parameter-overrides", "MemorySize=3008", environment="staging")

    build, deploy = told.one("sam", "build"), told.one("sam", "deploy")
    assert parameters(build) == parameters(deploy)
    assert {"ThrottlingRate=5", "MemorySize=3008"} <= {*parameters(build)}


def test_what_is_asked_for_comes_after_what_is_configured(
    deploying: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = deployed(deploying, monkeypatch, "--parameter-overrides", "ThrottlingRate=9", environment="staging")

    rates = [word for word in parameters(told.one("sam", "deploy")) if word.startswith("ThrottlingRate=")]
    assert rates == ["ThrottlingRate=5", "ThrottlingRate=9"]


def test_other_arguments_are_for_the_deployment_alone(deploying: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    role = ("--role-arn", "arn:aws:iam::111122223333:role/stack")
    told = deployed(deploying, monkeypatch, "--parameter-overrides", "LogLevel=debug", *role, "--no-resolve-s3")

    assert told.one("sam", "deploy")[-3:] == [*role, "--no-resolve-s3"]
    assert "LogLevel=debug" in parameters(told.one("sam", "deploy"))
    assert "--role-arn" not in told.one("sam", "build")


def test_the_processor_is_always_said_since_a_stack_remembers_another(
    deploying: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert parameters(deployed(deploying, monkeypatch).one("sam", "deploy")) == ["Architecture=arm64"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("A=1 B=2", ["A=1 B=2"]),
        (["A=1", "B=2"], ["A=1", "B=2"]),
        ({"A": 1, "B": "x y"}, ['A="1"', 'B="x y"']),
        ({"A": False, "B": True}, ['A="false"', 'B="true"']),
        ("", []),
    ],
)
def test_each_form_that_samconfig_allows_is_read(deploying: ModuleType, given: Any, words: list[str]) -> None:
    config = {"global": {"parameters": {"parameter_overrides": given}}}

    assert deploying.configured_overrides(config) == words


def test_what_a_guided_deployment_saved_joins_the_rest(deploying: ModuleType) -> None:
    config = {
        "global": {"parameters": {"parameter_overrides": ["A=1"]}},
        "deploy": {"parameters": {"parameter_overrides": "B=2"}},
    }

    assert deploying.configured_overrides(config) == ["A=1", "B=2"]


@pytest.mark.parametrize(
    ("overrides", "found"),
    [
        (["Architecture=x86_64"], "x86_64"),
        (["LogLevel=info Architecture=x86_64"], "x86_64"),
        (["ParameterKey=Architecture,ParameterValue=x86_64"], "x86_64"),
        (['Architecture="x86_64"'], "x86_64"),
        (["Architecture=arm64", "Architecture=x86_64"], "x86_64"),
        (["OtherArchitecture=x86_64"], None),
    ],
)
def test_the_last_value_of_a_parameter_is_the_one(
    deploying: ModuleType, overrides: list[str], found: str | None
) -> None:
    assert deploying.value(overrides, "Architecture") == found


def test_an_environment_that_is_not_configured_is_said_with_those_that_are(
    deploying: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(deploying.Stopped, match="no environment production: name one of default, prod, staging"):
        deployed(deploying, monkeypatch, environment="production")


# The processor


def test_a_machine_that_cannot_build_the_image_is_told_so_before_anything_runs(
    deploying: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "register").touch()
    monkeypatch.setattr(deploying, "HANDLERS", tmp_path)
    monkeypatch.setattr(deploying, "running_engine", lambda: deploying.Engine("x86_64", "Debian"))
    monkeypatch.setattr(deploying.sys, "platform", "linux")
    monkeypatch.delenv("DOCKER_HOST", raising=False)

    def fail(*_: object, **__: object) -> None:
        pytest.fail("something was run")

    monkeypatch.setattr(deploying, "run", fail)

    with pytest.raises(deploying.Stopped) as stopped:
        deploying.deploy(deploying.Order("prod", None, "", ()))

    assert '"Architecture=x86_64" among the parameter_overrides of [prod.global.parameters]' in str(stopped.value)
    assert "--install arm64" in str(stopped.value)


@pytest.mark.parametrize(
    ("engine", "system", "files", "host", "can"),
    [
        ("x86_64", "Debian", ["register"], "", False),
        ("x86_64", "Debian", ["register", "qemu-aarch64"], "", True),
        ("x86_64", "Debian", ["register", "qemu-riscv64"], "", False),
        ("arm64", "Debian", ["register"], "", True),
        ("x86_64", "Docker Desktop", ["register"], "", True),
        # What cannot be told from here.
        ("x86_64", "Debian", [], "", True),
        ("x86_64", "Debian", ["register"], "tcp://builder:2376", True),
    ],
)
def test_an_engine_builds_for_its_own_processor_and_for_those_that_are_emulated(
    deploying: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    engine: str,
    system: str,
    files: list[str],
    host: str,
    can: bool,
) -> None:
    monkeypatch.setattr(deploying.sys, "platform", "linux")
    monkeypatch.setenv("DOCKER_HOST", host or "unix:///var/run/docker.sock")
    for name in files:
        (tmp_path / name).touch()

    assert deploying.builds(deploying.Engine(engine, system), "arm64", tmp_path) is can


# Publishing and smoking


def test_a_database_is_published_with_as_many_releases_kept_as_was_said(
    deploying: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told = deployed(deploying, monkeypatch, database=tmp_path, keep="10")

    assert told.one("bedivere", "publish") == [str(tmp_path), "s3://bucket/bedivere", "--keep", "10"]


def test_all_releases_are_kept_where_no_number_is_said(
    deploying: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "--keep" not in deployed(deploying, monkeypatch, database=tmp_path).one("bedivere", "publish")


@pytest.mark.parametrize("keep", ["0", "ten", "-1"])
def test_a_number_of_releases_that_is_none_stops_it_before_anything_runs(
    deploying: ModuleType, monkeypatch: pytest.MonkeyPatch, keep: str
) -> None:
    with pytest.raises(deploying.Stopped, match="KEEP= is a number"):
        deployed(deploying, monkeypatch, keep=keep)


def test_a_database_that_is_missing_stops_it_before_anything_runs(
    deploying: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(deploying.Stopped, match="is no database"):
        deployed(deploying, monkeypatch, database=tmp_path / "none")


def test_a_stack_with_nothing_published_is_smoked_without_a_dataset_and_told_how_to_publish(
    deploying: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(deploying, "has_release", always(False))

    told = deployed(deploying, monkeypatch)

    assert told.one("bedivere", "smoke") == [API, "--without-dataset"]
    assert OUTPUTS["PublishCommand"] in capsys.readouterr().out


def test_a_stack_with_a_release_is_smoked_in_full_though_none_was_added(
    deploying: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert deployed(deploying, monkeypatch).one("bedivere", "smoke") == [API]


def test_a_name_without_a_record_is_smoked_by_the_other_and_the_record_is_said(
    deploying: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(deploying, "resolves", always(False))

    told = deployed(deploying, monkeypatch, outputs={**OUTPUTS, **DOMAIN, **RECORD})

    assert told.one("bedivere", "smoke") == [API]
    shown = capsys.readouterr().out
    assert f"make this DNS record: {RECORD['DnsRecord']}" in shown
    assert f"bedivere smoke {DOMAIN['McpUrl']}" in shown


def test_a_record_that_the_stack_made_is_waited_for_not_asked_for(
    deploying: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(deploying, "resolves", always(False))
    deployed(deploying, monkeypatch, outputs={**OUTPUTS, **DOMAIN})

    assert "the stack made its record" in capsys.readouterr().out


def test_an_endpoint_without_any_name_that_answers_is_not_smoked(
    deploying: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deploying, "resolves", always(False))
    outputs = {name: text for name, text in {**OUTPUTS, **DOMAIN, **RECORD}.items() if name != "ApiUrl"}

    told = deployed(deploying, monkeypatch, outputs=outputs)

    assert [words for words in told.told if words[1] == "smoke"] == []


def test_a_name_that_resolves_is_smoked_itself(deploying: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    told = deployed(deploying, monkeypatch, outputs={**OUTPUTS, **DOMAIN, **RECORD})

    assert told.one("bedivere", "smoke") == [DOMAIN["McpUrl"]]


DAMAGED = "note: current.json is damaged, so that it is not known which release is current."


@pytest.mark.parametrize(
    ("listed", "said", "code", "found"),
    [
        ("[]", "", 0, False),
        ("[]", "a warning of some library", 0, False),
        ('[{"current": true}]', "", 0, True),
        ('[{"current": false}]', DAMAGED, 0, True),
        ("[]", DAMAGED, 0, True),
        ("", "no access", 1, True),
    ],
)
def test_only_an_empty_store_without_a_note_is_one_with_nothing_published(
    deploying: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    listed: str,
    said: str,
    code: int,
    found: bool,
) -> None:
    monkeypatch.undo()
    command = tmp_path / "bedivere"
    command.write_text(f"#!/bin/sh\nprintf '%s' '{listed}'\nprintf '%s' '{said}' >&2\nexit {code}\n")
    command.chmod(0o755)
    monkeypatch.setattr(deploying, "BEDIVERE", command)

    assert deploying.has_release("s3://bucket/bedivere", os.environ) is found


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("pointer", "found"), [(None, False), ("{", True), ('{"manifest": {"minimum_reader": 99}}', True)]
)
def test_a_pointer_that_cannot_be_understood_is_no_empty_store(
    deploying: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pointer: str | None, found: bool
) -> None:
    monkeypatch.undo()
    (tmp_path / "releases").mkdir()
    if pointer is not None:
        (tmp_path / "current.json").write_text(pointer)

    assert deploying.has_release(tmp_path.as_uri(), os.environ) is found


# The target


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


def test_a_program_is_given_the_environment_that_leads_it(
    deploying: ModuleType, capfd: pytest.CaptureFixture[str]
) -> None:
    target = deploying.Target("bedivere", "eu-west-3", None)

    script = "import os; print(os.environ['AWS_DEFAULT_REGION'])"
    deploying.run(sys.executable, "-c", script, variables=target.variables(os.environ))

    assert capfd.readouterr().out.splitlines()[-1] == "eu-west-3"


# The targets of the Makefile


@pytest.mark.e2e
def test_make_deploy_hands_on_what_it_is_given() -> None:
    make = shutil.which("make")
    assert make is not None
    options = ("ENV=staging", "DATABASE=", "KEEP=3", "SAM_ARGS=--role-arn x")
    done = subprocess.run(
        [make, "--dry-run", "deploy", *options], cwd=ROOT, capture_output=True, text=True, check=False
    )

    told = '--environment "staging" --database "" --keep "3" -- --role-arn x'
    assert told in done.stdout, done.stdout + done.stderr


@pytest.mark.e2e
def test_make_destroy_hands_on_what_it_is_given() -> None:
    make = shutil.which("make")
    assert make is not None
    done = subprocess.run(
        [make, "--dry-run", "destroy", "ENV=staging", "SAM_ARGS=--region x"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert 'infra/deploy.py --destroy --environment "staging" -- --region x' in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("access", ["keys", "jwt", "iam"])
def test_what_not_everyone_may_call_is_smoked_only_with_a_credential(
    deploying: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], access: str
) -> None:
    told = deployed(deploying, monkeypatch, outputs={**OUTPUTS, "Access": access})
    assert [words for words in told.told if "smoke" in words] == []
    assert "BEDIVERE_BEARER" in capsys.readouterr().out

    monkeypatch.setenv("BEDIVERE_BEARER", "a key")
    told = deployed(deploying, monkeypatch, outputs={**OUTPUTS, "Access": access})
    assert told.one("bedivere", "smoke")[0] == OUTPUTS["McpUrl"]
