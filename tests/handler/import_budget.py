"""What a cold start imports until its first answer, and the list of what it may: `make import-budget` renews that.

Of other people's packages the list has the first part of each name, and of the largest the second, so that a patch
release changes nothing; of ours it has every module; of Python's own library only what is known to be slow.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options
from tests.bench.asking import search_event
from tests.bench.waterfall import spent

ROOT: Final = Path(__file__).parents[2]
LIST: Final = Path(__file__).with_name("import_budget.txt")

_IN_TWO_PARTS: Final = {"botocore", "lancedb", "mcp", "openai", "pyarrow"}
_OURS: Final = {"handler", "retrieval"}
_SLOW: Final = {
    "concurrent.futures.process",
    "ctypes",
    "doctest",
    "multiprocessing",
    "pdb",
    "sqlite3",
    "unittest",
    "xml",
}

_ANSWER: Final = """
import json, sys
before = {*sys.modules}
from handler.main import lambda_handler
answer = json.loads(lambda_handler(json.load(sys.stdin), None)["body"])
assert answer["result"]["structuredContent"]["hits"], answer
print("\\n" + json.dumps(sorted({*sys.modules} - before)))
"""


def short(module: str) -> str | None:
    """The name under which `module` is listed; None where it is not."""
    package, _, rest = module.partition(".")
    if package in _OURS:
        return module
    if package in sys.stdlib_module_names:
        return next((name for name in _SLOW if f"{module}.".startswith(f"{name}.")), None)
    # Names that begin so are what Cython and the build of Python leave behind.
    if package.startswith("_") or package == "cython_runtime":
        return None
    return ".".join([package, *rest.split(".")[:1]]) if rest and package in _IN_TWO_PARTS else package


def loaded(database: Path) -> dict[str, float]:
    """What is imported, by its name in the list, with the milliseconds that it took by itself."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", _ANSWER],
        cwd=ROOT,
        env={**kept, "AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9", "LANCEDB_PATH": str(database)},
        input=json.dumps(search_event("rotate the signing key")),
        capture_output=True,
        text=True,
        check=True,
    )
    costs: dict[str, float] = {}
    for module, milliseconds in spent(done.stderr).items():
        name = short(module)
        if name is not None:
            costs[name] = costs.get(name, 0) + milliseconds
    names = {short(module) for module in json.loads(done.stdout.splitlines()[-1])}
    return {name: costs.get(name, 0) for name in sorted(names - {None}, key=str) if name}


def allowed() -> set[str]:
    """What the list allows."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def main() -> None:
    """Writes the list anew."""
    with tempfile.TemporaryDirectory() as room:
        source = Path(room) / "docs"
        source.mkdir()
        (source / "keys.md").write_text("# Keys\n\nRotate the signing key every ninety days.\n", encoding="utf-8")
        build_table(Options(source, Path(room) / "database"))
        names = loaded(Path(room) / "database")
    head = "# What may be imported until the first answer on Lambda; renewed by make import-budget.\n"
    LIST.write_text(head + "".join(f"{name}\n" for name in names), encoding="utf-8")


if __name__ == "__main__":
    main()
