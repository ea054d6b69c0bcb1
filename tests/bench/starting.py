"""Fresh processes: from the start to the first answer, and from the start to the end of some plain imports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.bench.asking import search_event
from tests.bench.timing import Cost

PACKAGES: Final = (
    "lancedb",
    "mcp.server.lowlevel",
    "starlette",
    "mangum",
    "boto3",
    "openai",
    "aws_lambda_powertools",
)
"""What the Lambda image serves with, as the handler would import it."""

_ROOT: Final = Path(__file__).parents[2]
_FIRST_ANSWER: Final = Path(__file__).with_name("first_answer.py")
_IMPORTS: Final = """
import {}
import time
at = time.monotonic()
from tests.bench.saying import say
say(at=at)
"""
_OWN_VARIABLES: Final = ("BEDIVERE_", "LANCELOT_", "LANCEDB_", "OPENAI_", "EMBEDDING_", "AWS_", "COV_", "COVERAGE_")


@dataclass(frozen=True, slots=True)
class Started:
    """A process that started, answered and ended at once."""

    cost: Cost
    """From its start to its answer; its CPU is what the system counted for it."""
    peak_mb: float
    """The most memory that it held."""
    said: dict[str, Any]


@dataclass(frozen=True, slots=True)
class FreshProcess:
    """Starts processes that find their bytecode compiled and `database` configured."""

    database: Path
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """More variables, for instance those by which a process knows that it is on Lambda."""

    def first_answer(self, question: str) -> Cost:
        """The handler imported and called once. Raises RuntimeError where it does not answer with hits."""
        return self.answer(search_event(question)).cost

    def imports(self, packages: Iterable[str]) -> Cost:
        """`packages` imported, and nothing else."""
        return self.imported(packages).cost

    def imported(self, packages: Iterable[str]) -> Started:
        """The same with all that is known of it."""
        return self.run(["-c", _IMPORTS.format(", ".join(packages))])

    def loaded(self, question: str) -> tuple[str, ...]:
        """Those of `PACKAGES` that the handler has loaded by its first answer."""
        return tuple(self.answer(search_event(question)).said["loaded"])

    def answer(self, event: Mapping[str, Any], *, options: Sequence[str] = (), trace: bool = False) -> Started:
        """The handler imported, under Python's `options`, and called once with `event`.

        Raises RuntimeError where it answers a search without hits, or anything else without tools.
        """
        request = json.dumps({"event": event, "packages": PACKAGES, "trace": trace})
        started = self.run([*options, str(_FIRST_ANSWER)], request)
        answer = started.said["answer"]
        result = json.loads(answer["body"]).get("result", {})
        if not result.get("tools") and not result.get("structuredContent", {}).get("hits"):
            raise RuntimeError(f"The first call was not answered as it should be: {answer}")
        return started

    def run(self, arguments: Sequence[str], given: str = "") -> Started:
        """Python with `arguments`. Raises RuntimeError where it fails."""
        # -P: the script's own folder is no place to import from.
        return run([sys.executable, "-P", *arguments], given, self._environment())

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith((*_OWN_VARIABLES, "PYTHON"))}
        return {**kept, "PYTHONPATH": str(_ROOT), "LANCEDB_PATH": str(self.database.absolute()), **self.environment}


def run(command: Sequence[str], given: str, environment: Mapping[str, str]) -> Started:
    """Runs `command`, whose last line says in JSON when it had answered, `at`. Raises RuntimeError where it fails."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as asked:
        asked.write(given.encode())
        asked.seek(0)
        started = time.monotonic()
        process = subprocess.Popen(command, cwd=_ROOT, env=environment, stdin=asked, stdout=output, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        complaints = errors.read().decode(errors="replace")
        if process.returncode:
            raise RuntimeError(f"The process ended with {process.returncode}:\n{complaints}")
        said = json.loads(output.read().decode().strip().splitlines()[-1])
    # The system's own figure has the memory of this process in it, which the new one began as.
    peak = said.get("peak_kb", usage.ru_maxrss) / 1e3
    said |= {"started": started, "errors": complaints}
    return Started(Cost(said["at"] - started, usage.ru_utime + usage.ru_stime), peak, said)


def compile_bytecode() -> None:
    """Compiles what the fresh processes import, as an image's build does, unless it is compiled already."""
    import_path = [path for path in sys.path if path.endswith("site-packages")]
    places = [*import_path, *(str(_ROOT / name) for name in ("handler", "retrieval"))]
    # Some packages ship files that are no Python of this version: they stay uncompiled, and unimported.
    subprocess.run([sys.executable, "-m", "compileall", "-qq", *places], check=False)
