"""Makes what the image adds to its base, without Docker, and says what of it is how large and what was removed.

`image_size.py FOLDER ARCHITECTURE` installs the locked packages for Lambda's Python on that processor below FOLDER,
prunes them as the Dockerfile does, compiles their bytecode and the server's code, and prints unpacked bytes by package.
"""

from __future__ import annotations

import compileall
import contextlib
import io
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from py_compile import PycInvalidationMode

from context import ROOT, copy_code
from prune import prune, size

PYTHON = "3.13"
PLATFORMS = {"x86_64": "x86_64-manylinux_2_34", "arm64": "aarch64-manylinux_2_34"}
LARGEST = 330_000_000
"""The most that the image may add to its base, in bytes."""

_SHOWN = 15


def install(site: Path, architecture: str) -> None:
    """Unpacks what requirements/core.lock names, hashes checked, for Lambda's Python on `architecture`."""
    subprocess.run(  # noqa: S603 - the environment's own uv
        [
            str(Path(sys.executable).with_name("uv")),
            *("pip", "install", "--quiet", "--require-hashes", "--only-binary", ":all:", "--link-mode", "copy"),
            *("--target", str(site), "--python-platform", PLATFORMS[architecture], "--python-version", PYTHON),
            *("--requirement", str(ROOT / "requirements" / "core.lock")),
        ],
        check=True,
    )


def compile_bytecode(*trees: Path) -> None:
    # Some packages ship files that are no Python of this version; the image's own has its own opinion of them.
    with contextlib.redirect_stdout(io.StringIO()):
        for tree in trees:
            mode = PycInvalidationMode.UNCHECKED_HASH
            compileall.compile_dir(tree, quiet=2, force=True, workers=0, invalidation_mode=mode)


def by_package(*trees: Path) -> Counter[str]:
    """Bytes of each package, what it brings beside itself included."""
    sizes: Counter[str] = Counter()
    for tree in trees:
        for path in tree.iterdir():
            name = path.name.removesuffix(".dist-info").partition("-")[0]
            sizes[name.partition(".")[0].lower()] += size(path)
    return sizes


def report(sizes: Counter[str], saved: Mapping[str, int]) -> str:
    lines = ["What is left, in MB:"]
    lines += [f"{bytes_ / 1e6:8.1f}  {name}" for name, bytes_ in sizes.most_common(_SHOWN)]
    rest = [bytes_ for _, bytes_ in sizes.most_common()[_SHOWN:]]
    lines += [f"{sum(rest) / 1e6:8.1f}  {len(rest)} others", f"{sizes.total() / 1e6:8.1f}  in all"]
    lines += ["What was removed, before bytecode, in MB (infra/prune.py has each path with its reason):"]
    lines += [f"{bytes_ / 1e6:8.1f}  {reason}" for reason, bytes_ in sorted(saved.items(), key=lambda item: -item[1])]
    lines += [f"{sum(saved.values()) / 1e6:8.1f}  in all"]
    lines += ["The function works without these files: make e2e removes the same ones and runs it."]
    return "\n".join(lines)


def main() -> None:
    folder, architecture = Path(sys.argv[1]), sys.argv[2]
    shutil.rmtree(folder, ignore_errors=True)
    site, task = folder / "site", folder / "task"
    install(site, architecture)
    saved = prune(site)
    copy_code(task)
    compile_bytecode(site, task)
    sizes = by_package(site, task)
    sys.stdout.write(f"The image for {architecture} beyond its base, unpacked\n{report(sizes, saved)}\n")
    if sizes.total() > LARGEST:
        sys.exit(f"That is more than {LARGEST / 1e6:.0f} MB.")


if __name__ == "__main__":
    main()
