"""Removes from installed packages what never serves a request, and says what that saved.

Called with the folder of packages while the image is built. Licences and package metadata stay.
"""

import shutil
import sys
from pathlib import Path

# Whole parts of packages, by pattern below the folder, with the reason for each.
PRUNED = {
    # Commands of the packages; the runtime starts the handler.
    "bin": ["bin"],
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
    "types for developers": ["**/*.pyi"],
    # Of Powertools the log and the metrics are used.
    "ways to write other handlers": ["aws_lambda_powertools/event_handler", "aws_lambda_powertools/utilities/*"],
    # Links that a wheel can only hold as copies: what is loaded is named by its ABI version, such as .so.2600.
    "copies of libraries": ["pyarrow/libarrow*.so", "pyarrow/libarrow*.so.*.*.*"],
    # LanceDB speaks to object stores and plans queries by itself, in its own library.
    "arrow's remote file systems and query plans": [
        "pyarrow/*flight*",
        "pyarrow/*parquet_encryption*",
        "pyarrow/_substrait.*",
        "pyarrow/*s3*",
        "pyarrow/*gcsfs*",
        "pyarrow/*azurefs*",
        "pyarrow/*hdfs*",
        "pyarrow/*orc*",
    ],
    "descriptions of AWS services": ["botocore/data/*"],
}

# Exceptions: what the server calls, what every client needs to find its endpoint, and what those import.
KEPT = {
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


def prune(site: Path) -> dict[str, int]:
    """Removes it and returns the bytes saved, by reason."""
    saved = dict.fromkeys(PRUNED, 0)
    for reason, patterns in PRUNED.items():
        for path in [found for pattern in patterns for found in site.glob(pattern)]:
            kept = KEPT.get(path.parent.relative_to(site).as_posix(), set())
            if path.name in kept or not path.exists():
                continue
            saved[reason] += size(path)
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
    return saved


if __name__ == "__main__":
    for why, freed in prune(Path(sys.argv[1])).items():
        sys.stdout.write(f"{freed / 1e6:7.1f} MB  {why}\n")
