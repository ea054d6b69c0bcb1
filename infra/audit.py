"""What `make audit` does: advisories against the locked packages, their licences, a bill of materials, secrets.

Whatever could not be looked at counts as a failure: an audit that nobody answered is not a clean one.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TOOLS = ROOT / "build" / ".tools" / "audit" / "bin"
INSTALLED = ROOT / "build" / "core" / "bin" / "python"
"""Python of an environment that holds what the image holds, and no more."""

LOCKS = ("core", "index", "dev")
KNOWN_SECRETS = ROOT / "infra" / "secrets.baseline"
"""What looks like a secret and is none, in the format of detect-secrets: made-up keys of tests."""

LICENCES = frozenset(
    {"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "MIT", "MIT-0", "MPL-2.0", "PSF-2.0", "Zlib"}
)
"""All that software under the Apache licence may be passed on with."""

# How packages without an SPDX expression say it.
_SPELT_OUT = {
    "Apache License, Version 2.0": "Apache-2.0",
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: BSD License": "BSD-3-Clause",
}
# Said in a form that the bill of materials does not take over; read in the package's own LICENSE.
_READ_BY_HAND = {"overrides": "Apache-2.0"}
_JOINED = re.compile(r"\s+(?:AND|OR)\s+|[()]")
# Of random letters there are too many in locks and fixtures; keys of known services are found by their form.
_PLUGINS_LEFT_OUT = ("Base64HighEntropyString", "HexHighEntropyString", "IPPublicDetector")
_MINUTES = 5


class Unanswered(Exception):
    """A tool, or the service that it asks, gave no answer; the text is one sentence."""


@dataclass(frozen=True)
class Finding:
    """Something that must not stay so; `where` is a package with its version, or a file and a line."""

    where: str
    what: str


def main(arguments: Sequence[str] | None = None) -> int:
    """0 for nothing found, 1 for findings, 2 where something could not be looked at."""
    parser = argparse.ArgumentParser(prog="make audit", description="What is known against what Bedivere is made of")
    parser.add_argument("--reports", type=Path, default=ROOT / "build" / "audit", help="the folder that reports go to")
    parser.add_argument("--advisories", metavar="URL", help="ask this server that speaks OSV's API in place of PyPI's")
    parser.add_argument("--secrets", action="store_true", help="look for secrets only, for which nobody is asked")
    options = parser.parse_args(arguments)
    options.reports.mkdir(parents=True, exist_ok=True)
    bill = options.reports / "sbom.cdx.json"
    asking = [
        *((f"Advisories, {lock}.lock", lambda lock=lock: advisories(lock, options.advisories)) for lock in LOCKS),
        (f"Bill of materials and licences, {bill.name}", lambda: licences(bill_of_materials(bill))),
    ]
    checks = [*(() if options.secrets else asking), ("Secrets in what git tracks", secrets)]
    found = unanswered = False
    for name, check in checks:
        try:
            findings = list(check())
        except Unanswered as why:
            unanswered = True
            sys.stdout.write(f"?  {name}: {why}\n")
            continue
        found = found or bool(findings)
        sys.stdout.write(f"{'✗' if findings else '✓'}  {name}\n")
        sys.stdout.writelines(f"     {finding.where}: {finding.what}\n" for finding in findings)
    return 2 if unanswered else int(found)


def advisories(lock: str, server: str | None) -> Iterator[Finding]:
    """What is known against the versions of a lock. Raises `Unanswered` where any of them could not be looked up."""
    service = ["--vulnerability-service", "osv", "--osv-url", server] if server else []
    file = ROOT / "requirements" / f"{lock}.lock"
    done = _run("pip-audit", *service, "--requirement", str(file), "--disable-pip", "--format", "json")
    packages = _json(done, "pip-audit")["dependencies"]
    for package in packages:
        for known in package.get("vulns", ()):
            fixed = f"fixed in {', '.join(known['fix_versions'])}" if known["fix_versions"] else "not fixed yet"
            yield Finding(f"{package['name']} {package['version']}", f"{known['id']}, {fixed}")
    if unknown := [package["name"] for package in packages if "skip_reason" in package]:
        raise Unanswered(f"{len(unknown)} of {len(packages)} packages could not be looked up, {unknown[0]} for one.")


def bill_of_materials(file: Path) -> dict[str, Any]:
    """Writes the Python packages of the image to `file`, as CycloneDX; what AWS's base holds is not among them."""
    project = str(ROOT / "pyproject.toml")
    done = _run("cyclonedx-py", "environment", str(INSTALLED), "--pyproject", project, "--output-reproducible")
    bill = _json(done, "cyclonedx-py")
    file.write_text(json.dumps(bill, indent=2) + "\n", encoding="utf-8")
    return bill


def licences(bill: dict[str, Any]) -> Iterator[Finding]:
    """Packages of a bill of materials under none of the licences that are known to be fine."""
    for package in bill["components"]:
        named = {
            name
            for entry in package.get("licenses", ())
            for name in _JOINED.split(entry.get("expression") or entry["license"].get("id") or entry["license"]["name"])
            if name
        } or {_READ_BY_HAND.get(package["name"], "")} - {""}
        strange = {_SPELT_OUT.get(name, name) for name in named} - LICENCES
        if strange or not named:
            what = f"licence {', '.join(sorted(strange))}" if strange else "no licence"
            yield Finding(f"{package['name']} {package['version']}", what)


def secrets() -> Iterator[Finding]:
    """What looks like a secret in a tracked file, and is not among those known to be none."""
    known = {
        (file, secret["hashed_secret"])
        for file, secrets in json.loads(KNOWN_SECRETS.read_text(encoding="utf-8"))["results"].items()
        for secret in secrets
    }
    plugins = [word for plugin in _PLUGINS_LEFT_OUT for word in ("--disable-plugin", plugin)]
    # Asking a service whether a key is valid would send it there.
    # The hashes of those that are known look like secrets too.
    known_file = rf"(^|/){re.escape(KNOWN_SECRETS.name)}$"
    done = _run("detect-secrets", "scan", "--no-verify", *plugins, "--exclude-files", known_file)
    for file, secrets in _json(done, "detect-secrets")["results"].items():
        for secret in secrets:
            if (file, secret["hashed_secret"]) not in known:
                yield Finding(f"{file}:{secret['line_number']}", f"looks like a secret ({secret['type']})")


def _run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(  # noqa: S603 - our own tools and paths
            [TOOLS / program, *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=_MINUTES * 60,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unanswered(f"{program} took more than {_MINUTES} minutes.") from None


def _json(done: subprocess.CompletedProcess[str], program: str) -> dict[str, Any]:
    """What a program printed. Findings are among the exit codes, so that only the output tells whether it worked."""
    try:
        return json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise Unanswered(f"{program} failed ({last[:200]}).") from None


if __name__ == "__main__":
    sys.exit(main())
