"""sam, cfn-lint and checkov, each in the environment that the Makefile makes for it, once, in build/."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "build" / ".tools"
# uv's words for a registry that gave no answer, rather than the answer that there is no such package.
_UNREACHABLE = re.compile(
    r"error sending request|dns error|failed to lookup|timed out|connection refused", re.IGNORECASE
)
# No call leaves the machine: with no region or key set, boto3 would go and ask for them.
_OFFLINE = {
    "SAM_CLI_TELEMETRY": "0",
    "AWS_DEFAULT_REGION": "eu-central-1",
    "AWS_ACCESS_KEY_ID": "none",
    "AWS_SECRET_ACCESS_KEY": "none",
    "AWS_EC2_METADATA_DISABLED": "true",
    "BC_SKIP_MAPPING": "TRUE",
}


class ToolUnavailable(Exception):
    """The registry that a tool is installed from cannot be reached; the message is the installer's."""


def install(environment: str) -> Path:
    """The folder of programs of an environment, made unless it is there; processes that ask at the same time wait."""
    TOOLS.mkdir(parents=True, exist_ok=True)
    variables = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    with (TOOLS / f"{environment}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            ["make", "--silent", f"build/.tools/{environment}/.ready"],
            cwd=ROOT,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    if done.returncode:
        if _UNREACHABLE.search(done.stdout):
            raise ToolUnavailable(done.stdout.strip().splitlines()[-1])
        raise RuntimeError(f"build/.tools/{environment} could not be made:\n{done.stdout}")
    return TOOLS / environment / "bin"


def run(program: Path, *arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run a tool to its end; the caller judges the exit code. Both outputs are in `stdout`."""
    return subprocess.run(
        [str(program), *arguments],
        cwd=cwd,
        env={**os.environ, **_OFFLINE},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
