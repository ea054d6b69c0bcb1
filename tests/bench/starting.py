"""Fresh processes: from the start to the first answer, and from the start to the end of some plain imports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
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
import json, sys, time
json.dump({{"at": time.monotonic(), "cpu": time.process_time()}}, sys.stdout)
"""
_OWN_VARIABLES: Final = ("BEDIVERE_", "LANCELOT_", "LANCEDB_", "OPENAI_", "EMBEDDING_", "AWS_", "COV_", "COVERAGE_")


@dataclass(frozen=True, slots=True)
class _Ended:
    """What a process that has ended said, and its cost up to the moment that it names, without its end."""

    cost: Cost
    said: dict[str, Any]


@dataclass(frozen=True, slots=True)
class FreshProcess:
    """Starts processes that find their bytecode compiled and `database` configured."""

    database: Path

    def first_answer(self, question: str) -> Cost:
        """The handler imported and called once. Raises RuntimeError where it does not answer with hits."""
        return self._answer(question).cost

    def imports(self, packages: Iterable[str]) -> Cost:
        """`packages` imported, and nothing else."""
        return self._start(["-c", _IMPORTS.format(", ".join(packages))], "").cost

    def loaded(self, question: str) -> tuple[str, ...]:
        """Those of `PACKAGES` that the handler has loaded by its first answer."""
        return tuple(self._answer(question).said["loaded"])

    def _answer(self, question: str) -> _Ended:
        request = json.dumps({"event": search_event(question), "packages": PACKAGES})
        ended = self._start([str(_FIRST_ANSWER)], request)
        answer = ended.said["answer"]
        if not json.loads(answer["body"]).get("result", {}).get("structuredContent", {}).get("hits"):
            raise RuntimeError(f"The first call was not answered with hits: {answer}")
        return ended

    def _start(self, arguments: list[str], given: str) -> _Ended:
        started = time.monotonic()
        done = subprocess.run(
            # -P: the script's own folder is no place to import from.
            [sys.executable, "-P", *arguments],
            cwd=_ROOT,
            env=self._environment(),
            input=given,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"The process ended with {done.returncode}:\n{done.stderr}")
        said = json.loads(done.stdout)
        return _Ended(Cost(said["at"] - started, said["cpu"]), said)

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith((*_OWN_VARIABLES, "PYTHON"))}
        return {**kept, "PYTHONPATH": str(_ROOT), "LANCEDB_PATH": str(self.database.absolute())}


def compile_bytecode() -> None:
    """Compiles what the fresh processes import, as an image's build does, unless it is compiled already."""
    import_path = [path for path in sys.path if path.endswith("site-packages")]
    places = [*import_path, *(str(_ROOT / name) for name in ("handler", "retrieval"))]
    # Some packages ship files that are no Python of this version: they stay uncompiled, and unimported.
    subprocess.run([sys.executable, "-m", "compileall", "-qq", *places], check=False)
