"""What building and running for another processor takes: the emulator registered, and packages unpacked beforehand.

Under emulation pip takes half an hour, compiling bytecode ten minutes. So the step of the Dockerfile that installs is
replaced by a copy of what uv unpacks here, from the same lock and for the other processor. The bytecode is the same for
each, so the stand-in for this machine compiles it. Every other step is the Dockerfile's own.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.image.base_image import PLATFORMS
from tests.image.engine import Engine
from tests.image.steps import BUILT, ROOT, Failed, run

_BINFMT = Path("/proc/sys/fs/binfmt_misc")
_NAMES = {"arm64": "qemu-aarch64", "amd64": "qemu-x86_64"}
_COMPILE = ("-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash")
_COMPILED = re.compile(r"^ *python -m compileall .*\\\n *&& ", re.MULTILINE)
_INSTALL = re.compile(r"^RUN python -m pip install(?:.*\\\n)*.*\n", re.MULTILINE)


def register(platform: str) -> None:
    """Make the kernel start programs of `platform` in qemu; it stays so until the machine is restarted."""
    name = _NAMES[platform]
    if (_BINFMT / name).exists():
        return
    rule = Path("/usr/lib/binfmt.d") / f"{name}.conf"
    if not rule.exists():
        raise Failed("qemu is missing: install qemu-user-static and binfmt-support")
    if not (_BINFMT / "register").exists():
        run("mount", "-t", "binfmt_misc", "binfmt_misc", str(_BINFMT))
    if not (_BINFMT / name).exists():
        (_BINFMT / "register").write_text(rule.read_text())


@contextmanager
def context(docker: Engine, platform: str, native_base: str) -> Generator[tuple[Path, Path]]:
    """A folder to build in, and the Dockerfile that installs and compiles nothing."""
    folder = BUILT / f"context-{platform}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in ("handler", "retrieval", "infra", "requirements"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    run(
        str(Path(sys.executable).parent / "uv"),
        *("pip", "install", "--quiet", "--require-hashes", "--only-binary", ":all:", "--target", str(folder / "site")),
        *("--python-platform", f"{PLATFORMS[platform]}-manylinux_2_34", "--python-version", "3.13"),
        *("--requirement", str(ROOT / "requirements" / "core.lock")),
    )
    text, replaced = _INSTALL.subn("COPY site/ /build/site/\n", (ROOT / "infra" / "Dockerfile").read_text())
    text, compiled = _COMPILED.subn("        ", text)
    if (replaced, compiled) != (1, 1):
        raise Failed("infra/Dockerfile does not install and compile in one step each any more")
    trees = [f"/context/{name}" for name in ("site", "handler", "retrieval")]
    volume = ("--volume", f"{folder}:/context", "--entrypoint", "python3")
    docker.run("run", "--rm", *volume, native_base, *_COMPILE, *trees)
    dockerfile = folder / "infra" / "Dockerfile"
    dockerfile.write_text(text)
    ignored = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("**/")]
    (folder / ".dockerignore").write_text("\n".join([*ignored, "!site", ""]))
    try:
        yield folder, dockerfile
    finally:
        shutil.rmtree(folder, ignore_errors=True)
