"""What `make deploy` does: sam builds and deploys, bedivere publishes and smokes; at the end stands what is left to do.

It adds to them what they cannot know of each other: one stack, region and profile for all of them, one list of
parameters for the build and the deployment, a look at the processor before minutes are spent on it, and checks that fit
a stack with nothing published or without its name. `make destroy` deletes what it would deploy to.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from retrieval.errors import BedivereError, ErrorCode

ROOT = Path(__file__).parents[1]
BEDIVERE = ROOT / ".venv" / "bin" / "bedivere"
SAM = ROOT / "build" / ".tools" / "sam" / "bin" / "sam"

# Where Linux says which foreign programs it can run, and the names that the usual emulators have there.
HANDLERS = Path("/proc/sys/fs/binfmt_misc")
_EMULATORS = {"arm64": ("qemu-aarch64",), "x86_64": ("qemu-x86_64", "rosetta")}
_ENGINE_NAMES = {"aarch64": "arm64", "arm64": "arm64", "x86_64": "x86_64", "amd64": "x86_64"}
_OVERRIDES = "--parameter-overrides"
# What would have sam deploy something else than was built and looked at here, and what to do in its place.
_REFUSED = {
    "--guided": "sam would ask after the image was built for other answers: put them into samconfig.toml",
    "--config-env": "name the environment with ENV=",
    "--config-file": "what is configured is read from samconfig.toml alone",
}
_SHORT = {"-g": "--guided"}
_CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN")


class Stopped(BedivereError):
    """It cannot go on: a code, and one sentence that says what to do."""


@dataclass(frozen=True)
class Order:
    """What was asked for."""

    environment: str
    database: Path | None
    keep: str
    sam_arguments: tuple[str, ...]


@dataclass(frozen=True)
class Target:
    """The stack, and where it is: the same for all programs that are run."""

    stack: str
    region: str
    profile: str | None
    """None where it is left to the environment."""

    def options(self) -> list[str]:
        """For sam, in whose eyes they go before its configuration."""
        profile = ["--profile", self.profile] if self.profile else []
        return ["--stack-name", self.stack, "--region", self.region, *profile]

    def settings(self) -> dict[str, str]:
        """For what reads the environment. boto3, and sam with it, knows the region by the second name alone."""
        profile = {"AWS_PROFILE": self.profile, "AWS_DEFAULT_PROFILE": self.profile} if self.profile else {}
        return {"AWS_REGION": self.region, "AWS_DEFAULT_REGION": self.region, **profile}

    def before(self) -> str:
        """What a person types before a command, for it to go here."""
        profile = f"AWS_PROFILE={shlex.quote(self.profile)} " if self.profile else ""
        return f"{profile}AWS_DEFAULT_REGION={self.region}"

    def variables(self, given: Mapping[str, str]) -> dict[str, str]:
        """The environment `given`, led here. Keys in it would go before a profile that was named."""
        kept = {name: text for name, text in given.items() if not (self.profile and name in _CREDENTIALS)}
        return {**kept, **self.settings()}


@dataclass(frozen=True)
class Engine:
    """The Docker engine that builds."""

    architecture: str
    """In Lambda's words."""
    system: str


def main() -> int:
    parser = argparse.ArgumentParser(prog="make deploy", description=__doc__)
    parser.add_argument("--environment", required=True, help="of samconfig.toml")
    parser.add_argument("--database", default="", help="what is published; empty, nothing")
    parser.add_argument("--keep", default="", help="how many releases stay; empty, all")
    parser.add_argument("--destroy", action="store_true", help="delete the stack, which sam asks about first")
    parser.add_argument("sam_arguments", nargs="*", help="for sam deploy or sam delete, after --")
    given = parser.parse_args()
    database = Path(given.database) if given.database else None
    order = Order(given.environment, database, given.keep, tuple(given.sam_arguments))
    try:
        (destroy if given.destroy else deploy)(order)
    except Stopped as reason:
        sys.stderr.write(f"{reason}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def deploy(order: Order) -> None:
    """From the order to a smoked URL. Raises `Stopped`."""
    if order.database is not None and not order.database.is_dir():
        raise Stopped(
            ErrorCode.DATABASE_NOT_FOUND,
            f"{order.database} is no database: make one with bedivere index, name another with DATABASE=, "
            "or say DATABASE= to publish none.",
        )
    if order.keep and not re.fullmatch(r"[1-9][0-9]*", order.keep):
        raise Stopped(ErrorCode.INVALID_ARGUMENT, "KEEP= is a number of releases, 1 or more, or empty to keep all.")
    config = section(order.environment)
    asked, arguments = split(order.sam_arguments)
    target, others = find_target(config, arguments, os.environ)
    overrides = [*configured_overrides(config), *asked]
    architecture = value(overrides, "Architecture") or default("Architecture")
    engine = running_engine()
    if engine is not None and not builds(engine, architecture, HANDLERS):
        raise Stopped(ErrorCode.PROCESSOR_MISMATCH, advice(engine, architecture, order.environment))

    _say(f"{target.stack} in {target.region}")
    variables = target.variables(os.environ)
    # Always said, since a stack keeps the last value of a parameter that is not, while a build takes the default.
    parameters = [_OVERRIDES, f"Architecture={architecture}", *overrides]
    environment = ("--config-env", order.environment)
    run(SAM, "validate", "--lint", *environment, variables=variables)
    run(SAM, "build", *environment, *parameters, variables=variables)
    run(SAM, "deploy", *environment, *parameters, *target.options(), *others, variables=variables)
    asking = ("list", "stack-outputs", *environment, *target.options(), "--output", "json")
    listed = run(SAM, *asking, variables=variables, capture=True)
    outputs = {output["OutputKey"]: output["OutputValue"] for output in json.loads(listed)}
    if order.database is not None:
        keep = ("--keep", order.keep) if order.keep else ()
        run(BEDIVERE, "publish", order.database, outputs["DatasetUri"], *keep, variables=variables)
    published = order.database is not None or has_release(outputs["DatasetUri"], variables)
    left = [*smoked(outputs, variables, published=published)]
    if not published:
        publish = f"{target.before()} {outputs['PublishCommand']}"
        left.append(f"Nothing is published yet, so nothing was searched. To publish: {publish}")
    _say(outputs["ClaudeCommand"], *left)


def destroy(order: Order) -> None:
    """Deletes the stack that `deploy` would deploy to. Raises `Stopped`."""
    _, arguments = split(order.sam_arguments)
    target, others = find_target(section(order.environment), arguments, os.environ)
    command = ("delete", "--config-env", order.environment, *target.options(), *others)
    run(SAM, *command, variables=target.variables(os.environ))


# The target


def find_target(
    config: Mapping[str, Any], arguments: Sequence[str], environment: Mapping[str, str]
) -> tuple[Target, list[str]]:
    """The target by the arguments, the section of samconfig.toml and the environment, in this order; other arguments.

    Raises `Stopped` where it is not known, or where the arguments or the section would have sam choose another.
    """
    configured = {**_parameters(config, "global"), **_parameters(config, "deploy")}
    for name, reason in _REFUSED.items():
        named = any(_SHORT.get(word, word.partition("=")[0]) == name for word in arguments)
        if named or configured.get(name.removeprefix("--")):
            raise Stopped(ErrorCode.INVALID_ARGUMENT, f"make takes no {name}: {reason}.")
    given, others = taken(arguments, ("--stack-name", "--region", "--profile"))
    stack = given.get("--stack-name") or configured.get("stack_name")
    if not stack:
        raise Stopped(
            ErrorCode.SETTING_INVALID,
            "samconfig.toml has no stack_name for this environment: add one to its global.parameters, "
            "or name it with SAM_ARGS='--stack-name bedivere'.",
        )
    profile = given.get("--profile") or configured.get("profile")
    region = given.get("--region") or configured.get("region") or region_of(environment) or profile_region(profile)
    if not region:
        raise Stopped(
            ErrorCode.SETTING_INVALID,
            "No region is known: set AWS_REGION, for example to eu-central-1, or give the profile one, "
            "or name it with SAM_ARGS='--region eu-central-1'.",
        )
    return Target(stack, region, profile), others


def taken(arguments: Sequence[str], names: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The last value of each option that is named and given, and the other arguments."""
    values: dict[str, str] = {}
    others: list[str] = []
    words = iter(arguments)
    for word in words:
        name, equals, text = word.partition("=")
        if name in names:
            values[name] = text if equals else next(words, "")
        else:
            others.append(word)
    return values, others


def region_of(environment: Mapping[str, str]) -> str | None:
    """The region that is set by either name, of which most of AWS's programs read the one or the other alone."""
    region, fallback = environment.get("AWS_REGION"), environment.get("AWS_DEFAULT_REGION")
    if region and fallback and region != fallback:
        raise Stopped(
            ErrorCode.SETTING_INVALID,
            f"AWS_REGION is {region} and AWS_DEFAULT_REGION is {fallback}: unset one of them.",
        )
    return region or fallback or None


def profile_region(profile: str | None) -> str | None:
    """The region in the profile of that name, or in the one that the environment names."""
    from botocore.exceptions import ProfileNotFound
    from botocore.session import Session

    session: Any = Session(profile=profile)
    try:
        return session.get_config_variable("region")
    except ProfileNotFound as error:
        raise Stopped(
            ErrorCode.SETTING_INVALID, f"{error}: name one of ~/.aws/config with AWS_PROFILE or SAM_ARGS='--profile …'."
        ) from None


# Parameters


def section(environment: str) -> Mapping[str, Any]:
    """What samconfig.toml has for an environment."""
    config = tomllib.loads((ROOT / "samconfig.toml").read_text(encoding="utf-8"))
    if not config.get(environment):
        others = ", ".join(sorted({*config} - {"version"}))
        raise Stopped(
            ErrorCode.INVALID_ARGUMENT,
            f"samconfig.toml has no environment {environment}: name one of {others} with ENV=.",
        )
    return config[environment]


def _parameters(config: Mapping[str, Any], command: str) -> Mapping[str, Any]:
    return config.get(command, {}).get("parameters", {})


def configured_overrides(config: Mapping[str, Any]) -> list[str]:
    """The `parameter_overrides` of an environment, the later ones of more weight, as words for the command line.

    sam would let those of the section `deploy`, which `sam deploy --guided` writes, take the place of all the others.
    """
    return [
        word
        for command in ("global", "build", "deploy")
        for word in _words(_parameters(config, command).get("parameter_overrides", []))
    ]


def _words(given: str | Sequence[str] | Mapping[str, object]) -> list[str]:
    """A setting of samconfig.toml, which may be text, a list or a table."""
    if isinstance(given, str):
        return [given] if given else []
    if isinstance(given, Mapping):
        return [f'{name}="{_text(setting)}"' for name, setting in given.items()]
    return [*given]


def _text(setting: object) -> str:
    """As CloudFormation writes it, which knows true and false in small letters only."""
    return str(setting).lower() if isinstance(setting, bool) else str(setting)


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The parameters among arguments of `sam deploy`, and the other arguments."""
    overrides: list[str] = []
    others: list[str] = []
    inside = False
    for argument in arguments:
        name, equals, first = argument.partition("=")
        if argument.startswith("-"):
            inside = name == _OVERRIDES
            if inside:
                overrides += [first] if equals else []
                continue
        (overrides if inside else others).append(argument)
    return overrides, others


def value(overrides: Sequence[str], name: str) -> str | None:
    """The last value that `name` is given, of those that are words without spaces."""
    form = re.compile(rf"(?:^|\s)(?:ParameterKey={name},ParameterValue=|{name}=)[\"']?([^\s,\"']*)")
    found = [match[1] for word in overrides for match in form.finditer(word)]
    return found[-1] if found else None


class _Template(yaml.SafeLoader):
    """Reads what is no function of CloudFormation."""


_Template.add_multi_constructor("!", lambda loader, suffix, node: None)  # pyright: ignore[reportUnknownLambdaType]


def default(name: str) -> str:
    """The default of a parameter of the template."""
    template = yaml.load((ROOT / "template.yaml").read_text(encoding="utf-8"), Loader=_Template)  # noqa: S506 - a safe one
    return str(template["Parameters"][name]["Default"])


# The processor


def running_engine() -> Engine | None:
    """None where no docker command finds one: sam looks further, and says so if it finds none either."""
    asked = ("docker", "info", "--format", "{{.Architecture}} {{.OperatingSystem}}")
    try:
        said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout  # noqa: S603 - a constant
    except OSError:
        return None
    architecture, _, system = said.strip().partition(" ")
    if architecture not in _ENGINE_NAMES:
        return None
    return Engine(_ENGINE_NAMES[architecture], system)


def builds(engine: Engine, architecture: str, handlers: Path) -> bool:
    """Whether the engine can run programs of that processor; where that cannot be told, sam may find out."""
    if engine.architecture == architecture or "Desktop" in engine.system:
        return True
    elsewhere = sys.platform != "linux" or not os.environ.get("DOCKER_HOST", "unix:").startswith("unix:")
    if elsewhere or not (handlers / "register").exists():
        return True
    return any((handlers / name).exists() for name in _EMULATORS[architecture])


def advice(engine: Engine, architecture: str, environment: str) -> str:
    return (
        f"Docker on this machine builds for {engine.architecture}, and the function is to run on {architecture}: put "
        f'"Architecture={engine.architecture}" among the parameter_overrides of [{environment}.global.parameters] in '
        f"samconfig.toml, or install emulation, which is slow, with `docker run --privileged --rm tonistiigi/binfmt "
        f"--install {architecture.replace('x86_64', 'amd64')}`."
    )


# After the deployment


def has_release(uri: str, variables: Mapping[str, str]) -> bool:
    """Whether something is published there, or was.

    Only an empty list without a note says no. Who may not look, or sees what cannot be understood, has it searched for:
    that shows, too.
    """
    done = subprocess.run(  # noqa: S603 - our own command
        [str(BEDIVERE), "releases", uri, "--json"], capture_output=True, env=variables, text=True, check=False
    )
    sys.stderr.write(done.stderr)
    noted = re.search(r"^note: ", done.stderr, re.MULTILINE)
    return done.returncode != 0 or bool(noted) or json.loads(done.stdout) != []


def smoked(outputs: Mapping[str, str], variables: Mapping[str, str], *, published: bool) -> Iterator[str]:
    """Smokes the endpoint by the name that can be reached; yields what is left to do before the other can be."""
    url = outputs["McpUrl"]
    host = urlsplit(url).hostname or ""
    if "DomainTarget" in outputs and not resolves(host):
        record = outputs.get("DnsRecord")
        made = f"make this DNS record: {record}" if record else "the stack made its record, which takes a while to show"
        yield f"{host} cannot be resolved yet: {made}. Then: bedivere smoke {url}"
        url = outputs.get("ApiUrl", "")
    if url and outputs.get("Access", "public") != "public" and not os.environ.get("BEDIVERE_BEARER"):
        how = "put a key or a token in BEDIVERE_BEARER, and"
        yield f"Not everyone may call it, so it was not smoked: {how} bedivere smoke {url}"
    elif url:
        run(BEDIVERE, "smoke", url, *(() if published else ("--without-dataset",)), variables=variables)


def resolves(host: str) -> bool:
    try:
        socket.getaddrinfo(host, 443)
    except OSError:
        return False
    return True


# Programs


def run(*command: str | Path, variables: Mapping[str, str], capture: bool = False) -> str:
    """Shows the command and runs it; what it printed, if that is captured. Raises `Stopped` where it fails."""
    words = [str(word) for word in command]
    shown = [os.path.relpath(words[0], ROOT), *words[1:]]
    _say(shlex.join(shown))
    pipe = subprocess.PIPE if capture else None
    done = subprocess.run(words, cwd=ROOT, env=variables, stdout=pipe, text=True, check=False)  # noqa: S603 - as shown
    if done.returncode:
        step = shlex.join(shown[:2])
        raise Stopped(ErrorCode.PROGRAM_FAILED, f"{step} failed: mend what it says above, and run make again.")
    return done.stdout or ""


def _say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
