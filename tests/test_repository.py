"""What the repository promises of itself: its locks, its commands, its workflows."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import distribution, packages_distributions
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

ROOT = Path(__file__).parents[1]
LOCKS = ("core", "index", "dev")
TARGETS = {"setup", "run", "test", "lint", "types", "unit", "e2e", "bench", "format", "conformance", "lock", "clean"}
# Put together here, so that this file does not name them either.
REGISTRY_HOSTS = tuple(
    ".".join(parts)
    for parts in (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("npmjs", "com"), ("yarnpkg", "com"))
)


@dataclass(frozen=True)
class Pin:
    """One entry of a lock file; a package has several where its version depends on the platform."""

    requirement: Requirement
    hashes: Sequence[str]

    @property
    def name(self) -> NormalizedName:
        return canonicalize_name(self.requirement.name)

    @property
    def version(self) -> str:
        (exact,) = self.requirement.specifier
        assert exact.operator == "=="
        return exact.version

    @property
    def applies_here(self) -> bool:
        return self.requirement.marker is None or self.requirement.marker.evaluate()


@cache
def pins(lock: str) -> Sequence[Pin]:
    text = (ROOT / "requirements" / f"{lock}.lock").read_text(encoding="utf-8")
    entries = [line for line in text.replace("\\\n", "").splitlines() if line and not line.startswith("#")]
    return [Pin(Requirement(entry.partition("--hash")[0]), re.findall(r"--hash=(\S+)", entry)) for entry in entries]


@cache
def project() -> Mapping[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def requirements(lock: str) -> Sequence[Requirement]:
    """What pyproject.toml asks for in this lock; dev holds index, and every lock holds the core."""
    optional = project()["optional-dependencies"]
    extras = {"core": [], "index": ["index"], "dev": ["index", "dev"]}[lock]
    wanted = [*project()["dependencies"], *(line for extra in extras for line in optional[extra])]
    return [asked for asked in map(Requirement, wanted) if canonicalize_name(asked.name) != "bedivere"]


def closure(asked: Iterable[Requirement]) -> set[NormalizedName]:
    """The packages that these lead to on this machine, as the installed packages themselves say."""
    found: set[tuple[NormalizedName, str]] = set()
    queue = [(requirement, "") for requirement in asked]
    while queue:
        requirement, extra = queue.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        for wanted in ("", *requirement.extras):
            if (name, wanted) not in found:
                found.add((name, wanted))
                queue += [(Requirement(line), wanted) for line in distribution(name).requires or ()]
    return {name for name, _ in found}


@cache
def tracked_files() -> Sequence[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


@pytest.mark.parametrize("lock", LOCKS)
def test_each_requirement_of_pyproject_is_met_by_its_lock(lock: str) -> None:
    versions = {name: [pin.version for pin in pins(lock) if pin.name == name] for name in {p.name for p in pins(lock)}}

    unmet = [
        str(asked)
        for asked in requirements(lock)
        if not (held := versions.get(canonicalize_name(asked.name))) or not all(map(asked.specifier.contains, held))
    ]

    assert not unmet, f"run `make lock`: {unmet}"


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_holds_what_its_requirements_lead_to_and_nothing_else(lock: str) -> None:
    assert {pin.name for pin in pins(lock) if pin.applies_here} == closure(requirements(lock)), "run `make lock`"


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_has_hashes(lock: str) -> None:
    assert [pin.name for pin in pins(lock) if not pin.hashes] == []


@pytest.mark.parametrize("lock", ["core", "index"])
def test_what_is_served_is_what_was_tested(lock: str) -> None:
    tested = {(pin.name, pin.version) for pin in pins("dev")}

    assert {(pin.name, pin.version) for pin in pins(lock)} <= tested


def test_lancedb_is_pinned_to_one_version() -> None:
    (lancedb,) = (asked for asked in requirements("core") if asked.name == "lancedb")

    assert [clause.operator for clause in lancedb.specifier] == ["=="]


def test_the_project_is_built_with_what_the_dev_lock_holds() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    held = {pin.name: pin.version for pin in pins("dev")}

    assert all(Requirement(line).specifier.contains(held[canonicalize_name(Requirement(line).name)]) for line in build)


def test_the_npm_lock_has_a_hash_for_every_package_and_pins_what_package_json_asks_for() -> None:
    folder = ROOT / "tests" / "e2e" / "conformance"
    asked = json.loads((folder / "package.json").read_text(encoding="utf-8"))["dependencies"]
    held = json.loads((folder / "package-lock.json").read_text(encoding="utf-8"))["packages"]

    assert {name: held[f"node_modules/{name}"]["version"] for name in asked} == asked
    assert [name for name, package in held.items() if name and "integrity" not in package] == []


def test_no_file_names_the_host_of_a_package_registry() -> None:
    named = [
        f"{path.relative_to(ROOT)}: {host}"
        for path in tracked_files()
        for host in REGISTRY_HOSTS
        if host.encode() in path.read_bytes()
    ]

    assert named == []


def test_there_is_no_second_lock_file() -> None:
    assert not {path.name for path in tracked_files()} & {"uv.lock", "poetry.lock", "Pipfile.lock", "requirements.txt"}


def make_help() -> Mapping[str, str]:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return dict(re.findall(r"^([a-z0-9-]+):.*## (.+)$", makefile, re.MULTILINE))


def test_each_target_that_a_developer_is_promised_exists_and_is_explained() -> None:
    assert make_help().keys() >= TARGETS


def test_each_make_command_that_the_documentation_names_exists() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    named = {
        (page.name, target)
        for page in pages
        for target in re.findall(r"(?:^ {4}|`|&& )make ([a-z0-9-]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    }

    assert {(page, target) for page, target in named if target not in make_help()} == set()


def test_make_alone_explains_itself() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    shown = subprocess.run(["make"], cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout

    assert [target for target in make_help() if f"make {target} " not in shown] == []


def test_ci_runs_what_a_developer_runs() -> None:
    script = ROOT / ".ci" / "run"

    assert os.access(script, os.X_OK)
    assert re.findall(r"^(?!#|set |cd )(.+)$", script.read_text(encoding="utf-8"), re.MULTILINE) == ["exec make test"]


def workflows() -> Sequence[Path]:
    return sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("workflow", workflows(), ids=lambda path: path.name)
def test_a_workflow_names_each_action_by_its_commit_and_says_which_version_that_is(workflow: Path) -> None:
    used = re.findall(r"uses: *(.+)", workflow.read_text(encoding="utf-8"))

    assert used
    assert [action for action in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action)] == []


@pytest.mark.parametrize("workflow", workflows(), ids=lambda path: path.name)
def test_a_workflow_may_only_read_unless_a_job_asks_for_more(workflow: Path) -> None:
    assert yaml.safe_load(workflow.read_text(encoding="utf-8"))["permissions"] == {"contents": "read"}


@pytest.mark.parametrize("workflow", workflows(), ids=lambda path: path.name)
def test_a_workflow_leaves_no_credentials_in_the_checkout(workflow: Path) -> None:
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]
    steps = [step for job in jobs.values() for step in job["steps"] if "checkout" in step.get("uses", "")]

    assert [step.get("with", {}).get("persist-credentials") for step in steps] == [False] * len(steps)


def test_ci_tries_each_python_that_the_project_claims() -> None:
    claimed = re.findall(r"Python :: (3\.\d+)", "\n".join(project()["classifiers"]))
    matrix = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))["jobs"]["test"]

    assert matrix["strategy"]["matrix"]["python"] == claimed


def modules() -> Sequence[Path]:
    return sorted(path for package in ("handler", "retrieval", "tests") for path in (ROOT / package).rglob("*.py"))


@pytest.mark.parametrize("module", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_says_what_it_is_for(module: Path) -> None:
    tree = ast.parse(module.read_bytes())

    assert ast.get_docstring(tree) or not tree.body


def test_the_server_imports_without_the_optional_parts(tmp_path: Path) -> None:
    optional = {pin.name for pin in pins("dev")} - {pin.name for pin in pins("core")}
    missing = sorted(
        module
        for module, names in packages_distributions().items()
        if {canonicalize_name(name) for name in names} <= optional
    )
    script = f"import sys; sys.modules.update(dict.fromkeys({missing!r})); import handler.main, retrieval.retriever"

    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "LANCEDB_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
