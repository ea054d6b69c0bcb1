"""Removes from installed packages what never serves a request, and says what that saved.

`prune.py FOLDER [GROUP…]` is called with the folder of packages while the image is built, and with the groups that are
to stay all the same. This is the list of all that is removed, with the reason; the tests that drive the finished
product run on what is left, see tests/e2e/image_tree.py. Licences and metadata of what stays stay.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Iterable
from pathlib import Path

from libraries import slim

PUBLIC_API = "public API of LanceDB"
"""The group to keep in an image that is to serve with `BEDIVERE_LANCEDB_API=public`."""

SYMBOLS = "symbols of debuggers"

# Whole parts of packages, by pattern below the folder, with the reason for each. Some are not in every system's wheels.
PRUNED = {
    # Commands of the packages; the runtime starts the handler.
    "commands": ["bin"],
    # For compiling against pyarrow and numpy.
    "headers and sources": [
        "pyarrow/include",
        "pyarrow/includes",
        "pyarrow/src",
        "pyarrow/*.pyx",
        "pyarrow/*.pxi",
        "pyarrow/*.pxd",
        "numpy/_core/include",
        "numpy/_core/lib",
        "numpy/f2py",
        "**/*.a",
    ],
    "tests": [
        "pyarrow/tests",
        "pyarrow/*cpp_tests*",
        "pyarrow/conftest.py",
        "numpy/tests",
        "numpy/*/tests",
        "numpy/_core/*_tests.*.so",
        "numpy/_core/_simd.*.so",
    ],
    "types for developers": ["**/*.pyi", "pydantic/mypy.py"],
    # Of Powertools the log and the metrics are used.
    "ways to write other handlers": ["aws_lambda_powertools/event_handler", "aws_lambda_powertools/utilities/*"],
    # Links that a wheel can only hold as copies: what is loaded is named by its ABI version, such as .so.2600.
    "copies of libraries": ["pyarrow/libarrow*.so", "pyarrow/lib*.so.*.*.*"],
    # LanceDB speaks to object stores and plans queries by itself, in its own library.
    "Arrow's remote file systems and query plans": [
        "pyarrow/*flight*",
        "pyarrow/*parquet_encryption*",
        "pyarrow/*substrait*",
        "pyarrow/*s3*",
        "pyarrow/*gcsfs*",
        "pyarrow/*azurefs*",
        "pyarrow/*hdfs*",
        "pyarrow/*orc*",
        "pyarrow/*cuda*",
        "pyarrow/*feather*",
        "pyarrow/jvm.py",
        "pyarrow/interchange",
        "pyarrow/benchmark.py",
    ],
    # The handler calls the compiled core, see retrieval/core.py, and the build fails where that is another version than
    # the one it calls. The package of the same name around it, Arrow's files and data sets, numpy and the client of
    # remote services are imported by the public API alone.
    PUBLIC_API: [
        "lancedb/*",
        "lance_namespace*",
        "numpy*",
        "overrides*",
        "deprecation*",
        "packaging*",
        "pyarrow/*dataset*",
        "pyarrow/*parquet*",
        "pyarrow/*acero*",
        "pyarrow/*csv*",
        "pyarrow/*json*",
        "pyarrow/*fs.*",
    ],
    # The MCP SDK's clients check results. What checks tokens stays, for a server that takes them.
    "what clients of MCP need": [
        "pycparser*",
        "jsonschema*",
        "referencing*",
        "rpds*",
        "attr",
        "attrs*",
        "mcp/cli",
    ],
    # Lambda is the server.
    "a server of HTTP": ["uvicorn*", "click*"],
    # Those of services are asked for in retrieval/release and retrieval/secret.py, and botocore alone describes them.
    "descriptions of AWS services": ["botocore/data/*", "boto3/data/*", "boto3/examples"],
    # The one before this; nothing here was written for it.
    "pydantic's first version": ["pydantic/v1"],
    # Made by the build of a package, of no use to whom it serves.
    "lists of what packages were made of": ["*.dist-info/sboms", "*.dist-info/RECORD", "*.dist-info/direct_url.json"],
}

# Exceptions: what the server calls, what every client needs to find its endpoint, and what those import.
KEPT = {
    "lancedb": {"__init__.py", "_lancedb.abi3.so"},
    # What the logger imports.
    "aws_lambda_powertools/utilities": {"__init__.py", "jmespath_utils"},
    "botocore/data": {
        "_retry.json",
        "endpoints.json",
        "partitions.json",
        "s3",
        "sdk-default-configuration.json",
        "secretsmanager",
        "ssm",
        "sts",
    },
}


def size(path: Path) -> int:
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.lstat().st_size for file in files if file.is_file())


def prune(site: Path, keep: Collection[str] = ()) -> dict[str, int]:
    """Removes it, but for the groups in `keep`, and returns the bytes saved, by reason.

    Raises `ValueError` for a group that there is not.
    """
    if unknown := {*keep} - {*PRUNED, SYMBOLS}:
        raise ValueError(f"no such group: {', '.join(sorted(unknown))}")
    saved = dict.fromkeys(PRUNED, 0)
    removed: set[str] = set()
    for reason, patterns in PRUNED.items():
        if reason in keep:
            continue
        for path in [found for pattern in patterns for found in site.glob(pattern)]:
            kept = KEPT.get(path.parent.relative_to(site).as_posix(), set())
            if path.name in kept or not path.exists():
                continue
            saved[reason] += size(path)
            removed.add(path.name)
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
    if SYMBOLS not in keep:
        saved[SYMBOLS] = sum(slim(library, removed) for library in libraries(site))
    return saved


def libraries(site: Path) -> Iterable[Path]:
    return sorted(path for path in site.rglob("*.so*") if path.is_file() and not path.is_symlink())


if __name__ == "__main__":
    for why, freed in prune(Path(sys.argv[1]), sys.argv[2:]).items():
        sys.stdout.write(f"{freed / 1e6:7.1f} MB  {why}\n")
