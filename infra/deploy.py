"""What `make deploy` does: sam builds and deploys, bedivere publishes and smokes; at the end stands what is left to do.

It adds to them what they cannot know of each other: one list of parameters for the build and the deployment, a look at
the processor before minutes are spent on it, and checks that fit a stack with nothing published or without its name.
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

ROOT = Path(__file__).parents[1]
BEDIVERE = ROOT / ".venv" / "bin" / "bedivere"
SAM = ROOT / "build" / ".tools" / "sam" / "bin" / "sam"

# Where Linux says which foreign programs it can run, and the names that the usual emulators have there.
HANDLERS = Path("/proc/sys/fs/binfmt_misc")
_EMULATORS = {"arm64": ("qemu-aarch64",), "x86_64": ("qemu-x86_64", "rosetta")}
_ENGINE_NAMES = {"aarch64": "arm64", "arm64": "arm64", "x86_64": "x86_64", "amd64": "x86_64"}
_OVERRIDES = "--parameter-overrides"


class Stopped(Exception):
    """It cannot go on; the text is one sentence that says what to do, or empty where a program has said it already."""


@dataclass(frozen=True)
class Order:
    """What was asked for."""

    environment: str
    database: Path | None
    keep: str
    sam_arguments: tuple[str, ...]


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
    parser.add_argument("sam_arguments", nargs="*", help="for sam deploy, after --")
    given = parser.parse_args()
    database = Path(given.database) if given.database else None
    try:
        deploy(Order(given.environment, database, given.keep, tuple(given.sam_arguments)))
    except Stopped as reason:
        if str(reason):
            sys.stderr.write(f"{reason}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def deploy(order: Order) -> None:
    """From the order to a smoked URL. Raises `Stopped`."""
    if order.database is not None and not order.database.is_dir():
        raise Stopped(
            f"{order.database} is no database: make one with bedivere index, name another with DATABASE=, "
            "or say DATABASE= to publish none."
        )
    if order.keep and not re.fullmatch(r"[1-9][0-9]*", order.keep):
        raise Stopped("KEEP= is a number of releases, 1 or more, or empty to keep all.")
    configured = configured_overrides(_samconfig(), order.environment)
    asked, arguments = split(order.sam_arguments)
    overrides = [*configured, *asked]
    architecture = value(overrides, "Architecture") or default("Architecture")
    engine = running_engine()
    if engine is not None and not builds(engine, architecture, HANDLERS):
        raise Stopped(advice(engine, architecture, order.environment))

    # Always said, since a stack keeps the last value of a parameter that is not, while a build takes the default.
    parameters = [_OVERRIDES, f"Architecture={architecture}", *overrides]
    environment = ("--config-env", order.environment)
    run(SAM, "validate", "--lint", *environment)
    run(SAM, "build", *environment, *parameters)
    run(SAM, "deploy", *environment, *parameters, *arguments)
    listed = run(SAM, "list", "stack-outputs", *environment, "--output", "json", capture=True)
    outputs = {output["OutputKey"]: output["OutputValue"] for output in json.loads(listed)}
    if order.database is not None:
        keep = ("--keep", order.keep) if order.keep else ()
        run(BEDIVERE, "publish", order.database, outputs["DatasetUri"], *keep)
    published = order.database is not None or has_release(outputs["DatasetUri"])
    left = [*smoked(outputs, published=published)]
    if not published:
        left.append(f"Nothing is published yet, so nothing was searched. To publish: {outputs['PublishCommand']}")
    _say(outputs["ClaudeCommand"], *left)


# Parameters


def _samconfig() -> Mapping[str, Any]:
    return tomllib.loads((ROOT / "samconfig.toml").read_text(encoding="utf-8"))


def configured_overrides(config: Mapping[str, Any], environment: str) -> list[str]:
    """The `parameter_overrides` of an environment, the later ones of more weight, as words for the command line.

    sam would let those of the section `deploy`, which `sam deploy --guided` writes, take the place of all the others.
    """
    sections: Mapping[str, Any] = config.get(environment, {})
    if not sections:
        others = ", ".join(sorted({*config} - {"version"}))
        raise Stopped(f"samconfig.toml has no environment {environment}: name one of {others} with ENV=.")
    return [
        word
        for command in ("global", "build", "deploy")
        for word in _words(sections.get(command, {}).get("parameters", {}).get("parameter_overrides", []))
    ]


def _words(given: str | Sequence[str] | Mapping[str, object]) -> list[str]:
    """A setting of samconfig.toml, which may be text, a list or a table."""
    if isinstance(given, str):
        return [given] if given else []
    if isinstance(given, Mapping):
        return [f'{name}="{setting}"' for name, setting in given.items()]
    return [*given]


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


def has_release(uri: str) -> bool:
    """Whether something is published there. Who may not look has it searched for: that shows, too."""
    done = subprocess.run(  # noqa: S603 - our own command
        [str(BEDIVERE), "releases", uri, "--json"], stdout=subprocess.PIPE, text=True, check=False
    )
    return done.returncode != 0 or any(release["current"] for release in json.loads(done.stdout))


def smoked(outputs: Mapping[str, str], *, published: bool) -> Iterator[str]:
    """Smokes the endpoint by the name that can be reached; yields what is left to do before the other can be."""
    url = outputs["McpUrl"]
    host = urlsplit(url).hostname or ""
    if "DomainTarget" in outputs and not resolves(host):
        record = outputs.get("DnsRecord")
        made = f"make this DNS record: {record}" if record else "the stack made its record, which takes a while to show"
        yield f"{host} cannot be resolved yet: {made}. Then: bedivere smoke {url}"
        url = outputs.get("ApiUrl", "")
    if url:
        run(BEDIVERE, "smoke", url, *(() if published else ("--without-dataset",)))


def resolves(host: str) -> bool:
    try:
        socket.getaddrinfo(host, 443)
    except OSError:
        return False
    return True


# Programs


def run(*command: str | Path, capture: bool = False) -> str:
    """Shows the command and runs it; what it printed, if that is captured. Raises `Stopped` where it fails."""
    words = [str(word) for word in command]
    shown = [os.path.relpath(words[0], ROOT), *words[1:]]
    _say(shlex.join(shown))
    pipe = subprocess.PIPE if capture else None
    done = subprocess.run(words, cwd=ROOT, stdout=pipe, text=True, check=False)  # noqa: S603 - as shown
    if done.returncode:
        raise Stopped
    return done.stdout or ""


def _say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
