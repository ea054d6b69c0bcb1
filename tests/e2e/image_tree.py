"""What the Lambda image adds to its base, made without Docker: the packages of the lock, pruned, and the server's code.

The packages come from the environment of the tests, which has them in the versions of the image, by hard links where
the file system has them. So it is infra/prune.py that decides what the function can import, and what it removed too
much is missed here.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "build" / "image-tree"
LOCK = ROOT / "requirements" / "core.lock"
# What the base has beside Python: the client of the runtime.
RUNTIME = ("awslambdaric", "simplejson", "snapshot-restore-py")
_MADE_OF = (LOCK, ROOT / "infra" / "prune.py", ROOT / "infra" / "libraries.py", Path(__file__))


@dataclass(frozen=True)
class ImageTree:
    """The folders that the function imports from, in the order of the real one."""

    task: Path
    """The server's code, as .dockerignore lets it through."""
    site: Path
    runtime: Path

    @property
    def search_path(self) -> str:
        return os.pathsep.join(str(folder) for folder in (self.task, self.site, self.runtime))


def image_tree(task: Path) -> ImageTree:
    """The tree, with a copy of the code as it is now in `task`; its packages are made where they are not there yet.

    Processes that ask at the same time wait for one to make them.
    """
    subprocess.run([sys.executable, str(ROOT / "infra" / "context.py"), str(task)], check=True)
    made_of = b"".join(path.read_bytes() for path in _MADE_OF)
    place = KEPT / sha256(made_of + sys.version.encode()).hexdigest()[:12]
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            # Those of older lists are of no use any more.
            for old in [path for path in KEPT.iterdir() if path.is_dir()]:
                shutil.rmtree(old)
            partial = place.with_suffix(".partial")
            _make(partial)
            partial.rename(place)
    return ImageTree(task, place / "site", place / "runtime")


def _make(place: Path) -> None:
    _link(_locked(), place / "site")
    _link(RUNTIME, place / "runtime")
    prune = [sys.executable, str(ROOT / "infra" / "prune.py"), str(place / "site")]
    subprocess.run(prune, stdout=subprocess.DEVNULL, check=True)


def _locked() -> Iterable[str]:
    """The packages that the image has on this system; the environment must have them in the same versions."""
    for line in LOCK.read_text(encoding="utf-8").splitlines():
        if found := re.match(r"[\w-]+==[^\\]+", line):
            wanted = Requirement(found.group().strip())
            if wanted.marker is None or wanted.marker.evaluate():
                version = distribution(wanted.name).version
                assert version in wanted.specifier, f"{wanted} is in the lock, and {version} is installed: make setup"
                yield wanted.name


def _link(packages: Iterable[str], folder: Path) -> None:
    for name in packages:
        package = distribution(name)
        for file in _files(package):
            target = folder / file
            target.parent.mkdir(parents=True, exist_ok=True)
            source = Path(str(package.locate_file(file)))
            try:
                target.hardlink_to(source)
            except FileExistsError:
                continue
            except OSError:
                shutil.copy2(source, target)


def _files(package: Distribution) -> Iterable[str]:
    """All files of a package below site-packages, its bytecode for this Python included."""
    for path in package.files or ():
        if path.parts[0] == ".." or "__pycache__" in path.parts:
            continue
        yield str(path)
        if path.suffix == ".py":
            compiled = path.parent / "__pycache__" / f"{path.stem}.{sys.implementation.cache_tag}.pyc"
            if Path(str(package.locate_file(compiled))).is_file():
                yield str(compiled)
