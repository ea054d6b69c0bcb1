"""What goes into the image and what stays out, as far as that shows without Docker; `make e2e-image` does the rest."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.infra.tools import ROOT

DOCKERFILE = (ROOT / "infra" / "Dockerfile").read_text(encoding="utf-8")
IGNORED = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module")
def pruning() -> Iterator[ModuleType]:
    """The program of that name, which finds the others beside it."""
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(ROOT / "infra"))
        yield importlib.import_module("prune")


def program(name: str, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """One of the programs of the build, run to its end."""
    return subprocess.run(
        [sys.executable, str(ROOT / "infra" / name), *map(str, arguments)],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def site(folder: Path, *names: str) -> Path:
    for name in names:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"12345678")
    return folder


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_of_a_copied_library_the_one_that_is_loaded_stays(pruning: ModuleType, tmp_path: Path) -> None:
    site(tmp_path, *(f"pyarrow/libarrow_python.so{version}" for version in ("", ".2600", ".2600.1.0")))

    pruning.prune(tmp_path)

    assert names(tmp_path) == {"pyarrow/libarrow_python.so.2600"}


def test_of_the_aws_services_those_that_are_called_stay(pruning: ModuleType, tmp_path: Path) -> None:
    kept = {"botocore/data/s3/2006-03-01/service-2.json.gz", "botocore/data/endpoints.json"}
    site(tmp_path, *kept, "botocore/data/ec2/2016-11-15/service-2.json.gz")

    saved = pruning.prune(tmp_path)

    assert names(tmp_path) == kept
    assert saved["descriptions of AWS services"] == 8


def test_each_pattern_still_finds_something_in_what_is_installed(pruning: ModuleType) -> None:
    packages = Path(next(path for path in sys.path if path.endswith("site-packages")))
    # Unpacked by pip into a folder of their own; and some systems' wheels, or versions of Python, lack a part.
    elsewhere = {"bin", "**/*.a", "pyarrow/*hdfs*", "pyarrow/*gcsfs*", "pyarrow/*azurefs*", "overrides*"}
    patterns = {pattern for patterns in pruning.PRUNED.values() for pattern in patterns} - elsewhere
    if sys.platform != "linux":
        pytest.skip("the image is Linux's")

    assert {pattern for pattern in patterns if next(packages.glob(pattern), None) is None} == set()


def test_only_what_serves_is_sent_to_the_builder() -> None:
    assert "*" in IGNORED
    assert [line for line in IGNORED if line.startswith("!")] == [
        "!handler",
        "!retrieval",
        "!requirements/core.lock",
        "!infra/complete.py",
        "!infra/libraries.py",
        "!infra/prune.py",
    ]


@pytest.mark.parametrize(
    "writer",
    [
        "handler/cli",
        "handler/local.py",
        "handler/smoke.py",
        "handler/stdio.py",
        "retrieval/indexing",
        "retrieval/release/publish.py",
    ],
)
def test_what_writes_or_is_typed_by_people_stays_out(writer: str) -> None:
    assert writer in IGNORED
    assert (ROOT / writer).exists(), "renamed: .dockerignore must follow"


def test_the_server_starts_without_what_the_image_leaves_out() -> None:
    left_out = [
        line.removesuffix(".py").replace("/", ".")
        for line in IGNORED
        if line.startswith(("handler/", "retrieval/")) and "*" not in line
    ]
    script = f"import sys; sys.modules.update(dict.fromkeys({left_out!r})); import handler.main, retrieval.dataset"

    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_each_package_of_the_image_has_a_hash_and_none_is_compiled() -> None:
    assert "--require-hashes --only-binary :all:" in DOCKERFILE
    assert "requirements/core.lock" in DOCKERFILE


def test_the_bytecode_is_compiled_and_never_checked_against_the_source() -> None:
    assert "--invalidation-mode unchecked-hash" in DOCKERFILE


def test_whoever_runs_it_may_read_all_of_it_and_write_none() -> None:
    assert 'chmod -R u=rwX,go=rX "$tree"' in DOCKERFILE
    assert "for tree in /build/site /build/task" in DOCKERFILE
    assert re.findall(r"^(?:USER|VOLUME)\b.*", DOCKERFILE, re.MULTILINE) == []


# What stays, and what is missed


def test_a_group_can_be_kept_and_one_that_there_is_not_is_refused(pruning: ModuleType, tmp_path: Path) -> None:
    site(tmp_path, "numpy/__init__.py", "lancedb/db.py", "uvicorn/__init__.py")

    pruning.prune(tmp_path, [pruning.PUBLIC_API])

    assert names(tmp_path) == {"numpy/__init__.py", "lancedb/db.py"}
    with pytest.raises(ValueError, match="no such group: numpy"):
        pruning.prune(tmp_path, ["numpy"])


def test_of_lancedb_the_compiled_core_stays(pruning: ModuleType, tmp_path: Path) -> None:
    kept = {"lancedb/__init__.py", "lancedb/_lancedb.abi3.so"}
    site(tmp_path, *kept, "lancedb/db.py", "lancedb/remote/db.py")

    pruning.prune(tmp_path)

    assert names(tmp_path) == kept


def test_licences_and_metadata_of_what_stays_stay(pruning: ModuleType, tmp_path: Path) -> None:
    kept = {"lancedb-0.40.0.dist-info/METADATA", "lancedb-0.40.0.dist-info/licenses/LICENSE"}
    site(tmp_path, *kept, "lancedb-0.40.0.dist-info/sboms/core.json", "numpy-2.5.dist-info/METADATA")

    pruning.prune(tmp_path)

    assert names(tmp_path) == kept


def test_a_tree_that_lost_what_the_server_imports_late_fails_the_build(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "late.py").write_text("def ask():\n    from openai_gone import Client\n    import lancedb\n")

    done = program("complete.py", code, PYTHONPATH=str(ROOT))

    assert done.returncode == 1
    assert done.stderr.splitlines()[1:] == ["openai_gone: No module named 'openai_gone'"]


# Shared libraries


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """Arrow's bridge to Python as its wheel has it, with symbols, and libraries that it names and does not need."""
    packages = Path(next(path for path in sys.path if path.endswith("site-packages")))
    found = next((packages / "pyarrow").glob("libarrow_python.so.*"))
    return Path(shutil.copy(found, tmp_path / found.name))


def needed(library: Path) -> set[str]:
    """The libraries that the loader looks for, as `ldd` of the system's own loader names them."""
    listed = subprocess.run(["ldd", str(library)], capture_output=True, text=True, check=False).stdout
    return set(re.findall(r"(lib(?:arrow|parquet)\w*\.so\.\d+)", listed))


@pytest.mark.skipif(sysconfig.get_platform() not in {"linux-x86_64", "linux-aarch64"}, reason="the image is Linux's")
def test_on_linux_a_library_loses_what_is_not_loaded_and_what_is_gone(pruning: ModuleType, library: Path) -> None:
    before = library.stat()
    gone = {name for name in needed(library) if "parquet" in name or "dataset" in name or "substrait" in name}
    assert len(gone) == 3

    saved = pruning.slim(library, gone)

    assert saved == before.st_size - library.stat().st_size > 100_000
    assert library.stat().st_mode == before.st_mode
    assert not gone & needed(library)
    assert "libarrow.so" in "".join(needed(library))
    assert pruning.slim(library, gone) == 0


def test_others_that_share_a_library_by_a_link_keep_theirs(pruning: ModuleType, library: Path) -> None:
    other = library.with_name("other.so")
    other.hardlink_to(library)
    size = other.stat().st_size

    pruning.slim(library)

    assert library.stat().st_size < other.stat().st_size == size


@pytest.mark.parametrize("content", [b"", b"\x7fELF\x01\x01 of 32 bits", b"!<arch>"])
def test_what_is_no_library_of_64_bits_stays_as_it_is(pruning: ModuleType, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "some.so"
    file.write_bytes(content)

    assert pruning.slim(file) == 0
    assert file.read_bytes() == content


def test_the_build_binds_every_symbol_of_what_is_left() -> None:
    assert "LD_BIND_NOW=1" in DOCKERFILE
    assert DOCKERFILE.index("/build/prune.py /build/site") < DOCKERFILE.index("python /build/complete.py")
