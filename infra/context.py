"""Copies what the Dockerfile copies of the server's code, as .dockerignore lets it through: `context.py FOLDER`."""

from __future__ import annotations

import shutil
import sys
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("handler", "retrieval")


def copy_code(task: Path) -> None:
    """The packages below `task`, with the bytecode that is there."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    ignored = [line for line in lines if line.startswith(PACKAGES)]

    def left_out(folder: str, names: list[str]) -> set[str]:
        within = Path(folder).relative_to(ROOT)
        return {name for name in names if any(fnmatch(str(within / name), pattern) for pattern in ignored)}

    for name in PACKAGES:
        shutil.copytree(ROOT / name, task / name, ignore=left_out)


if __name__ == "__main__":
    copy_code(Path(sys.argv[1]))
