"""`make deploy`: what it tells sam and bedivere, what it does not begin, and what it says is left to do.

Where it deploys to is tested in `test_deploy_target`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests import planted
from tests.infra.deploying import API, DOMAIN, OUTPUTS, RECORD, always, deployed, parameters
from tests.infra.tools import ROOT

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


def test_no_secret_of_the_environment_gets_into_the_stack(
    deploying: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", planted.EMBEDDING_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", planted.AWS_SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", planted.AWS_TOKEN)

    told = deployed(deploying, monkeypatch, database=tmp_path, environment="staging")

    assert {words[0] for words in told.told} == {"sam", "bedivere"}
    assert planted.spilt(str(told.told)) == []


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
