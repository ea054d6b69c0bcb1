"""What goes into the image and what stays out, as far as that shows without Docker; `make e2e-image` does the rest."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.infra.tools import ROOT

DOCKERFILE = (ROOT / "infra" / "Dockerfile").read_text(encoding="utf-8")
IGNORED = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module")
def pruning() -> ModuleType:
    spec = importlib.util.spec_from_file_location("prune", ROOT / "infra" / "prune.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
    # Unpacked by pip into a folder of their own; and some systems' wheels lack a part.
    elsewhere = {"bin", "**/*.a", "pyarrow/*hdfs*", "pyarrow/*gcsfs*", "pyarrow/*azurefs*"}
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
        "!infra/prune.py",
    ]


@pytest.mark.parametrize(
    "writer", ["handler/cli", "handler/smoke.py", "retrieval/indexing", "retrieval/release/publish.py"]
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
