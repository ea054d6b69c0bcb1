"""Fails the build of the image where something that the server imports, early or late, was removed from it.

`complete.py CODE…` reads every module below the folders of the server's own code and imports each module that is named
there, in whatever function. Shared libraries are bound at once where `LD_BIND_NOW` is set, so one that lacks what
another of them had fails here, too.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

# Imported only where LanceDB's compiled core is another than the one that is known, which is seen to here, and where a
# key is in a person's keychain, which a function has not.
_LEFT_OUT = {"lancedb", "keyring"}
# What the server asks botocore for by name.
_SERVICES = ("s3", "secretsmanager", "ssm", "sts")


def imports(code: Path) -> Iterator[tuple[str, str]]:
    """Each module that the Python below `code` imports, with the name that is taken from it, or none."""
    for file in sorted(code.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from ((alias.name, "") for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield from ((node.module, alias.name) for alias in node.names)


def lost(folders: list[Path]) -> Iterator[str]:
    """What cannot be imported, with the reason."""
    for module, name in sorted({found for folder in folders for found in imports(folder)}):
        if module.partition(".")[0] in _LEFT_OUT:
            continue
        try:
            found = importlib.import_module(module)
            if name and not hasattr(found, name):
                importlib.import_module(f"{module}.{name}")
        except ImportError as error:
            yield f"{module}: {error}"


def main() -> None:
    folders = [Path(argument) for argument in sys.argv[1:]]
    # First, as the runtime does it: it keeps parts of packages from being loaded.
    importlib.import_module("handler.main")
    complaints = [*lost(folders)]
    from retrieval.core import compiled_core

    if compiled_core() is None:
        complaints.append("LanceDB's compiled core is not the one that retrieval/core.py knows")
    # botocore ships no types.
    from botocore.session import get_session  # pyright: ignore[reportUnknownVariableType]

    for service in _SERVICES:
        get_session().create_client(service, region_name="eu-west-1")
    if complaints:
        sys.exit("\n".join(["The image lost what the server imports:", *complaints]))


if __name__ == "__main__":
    main()
