"""Builds the stand-in for AWS's base image, from Debian's packages and the runtime client's and emulator's own."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path

from tests.image.engine import Engine
from tests.image.steps import BUILT, ROOT, run

HERE = Path(__file__).parent / "base"
LOCK = ROOT / "requirements" / "tools" / "base.lock"
EMULATORS = ROOT / "build" / ".tools" / "sam"
SUITE = "trixie"
MIRROR = "http://deb.debian.org/debian"
PLATFORMS = {"amd64": "x86_64", "arm64": "aarch64"}
_EMULATOR = {"amd64": "aws-lambda-rie-x86_64", "arm64": "aws-lambda-rie-arm64"}
_PACKAGES = ("libstdc++6", "libgcc-s1", "python3", "ca-certificates")
_BUNDLE = "etc/ssl/certs/ca-certificates.crt"
# A user that Lambda runs functions as.
_USER = "sbx_user1051:x:993:990::/home/sbx_user1051:/sbin/nologin\n"


def base_image(docker: Engine, platform: str) -> str:
    """The tag of the stand-in for `platform` (amd64 or arm64), built unless it is there."""
    made_of = (*sorted(HERE.iterdir()), LOCK, Path(__file__))
    version = hashlib.sha256(b"".join(path.read_bytes() for path in made_of)).hexdigest()[:12]
    tag = f"bedivere/lambda-base:{version}-{platform}"
    if not docker.run("image", "ls", "--quiet", tag):
        context = BUILT / f"base-{platform}"
        shutil.rmtree(context, ignore_errors=True)
        _fill(context, platform)
        docker.build(tag, context, HERE / "Dockerfile", platform=platform, arguments={})
    return tag


def _fill(context: Path, platform: str) -> None:
    root = context / "root"
    site = root / "var" / "lang" / "lib" / "python3.13" / "site-packages"
    for folder in (site, root / "var" / "lang" / "bin", root / "var" / "task", root / "usr" / "local" / "bin"):
        folder.mkdir(parents=True)
    # Unpacked and not configured, so that nothing of another processor is run.
    run(
        "mmdebstrap",
        *("--quiet", "--variant=extract", f"--architectures={platform}"),
        *("--include=?essential", f"--include={','.join(_PACKAGES)}"),
        *(f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in ("doc", "man", "locale")),
        *(SUITE, str(context / "debian.tar"), MIRROR),
    )
    _install(root / "var" / "runtime", "awslambdaric", platform)
    _install(site, "pip", platform)
    for name in ("python3.13", "python3", "python"):
        (root / "var" / "lang" / "bin" / name).symlink_to("/usr/bin/python3.13")
    (root / "var" / "lang" / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    (emulator,) = EMULATORS.rglob(_EMULATOR[platform])
    _program(emulator, root / "usr" / "local" / "bin" / "aws-lambda-rie")
    _program(HERE / "bootstrap", root / "var" / "runtime" / "bootstrap")
    _program(HERE / "lambda-entrypoint.sh", root / "lambda-entrypoint.sh")
    etc = root / "etc"
    (etc / "ssl" / "certs").mkdir(parents=True)
    # pip, within, trusts what this machine trusts: a company's own authority included.
    shutil.copy(os.environ.get("PIP_CERT") or f"/{_BUNDLE}", root / _BUNDLE)
    (etc / "passwd").write_text(f"root:x:0:0:root:/root:/bin/sh\n{_USER}")
    (etc / "group").write_text("root:x:0:\nsbx_user1051:x:990:\n")


def _program(source: Path, target: Path) -> None:
    shutil.copy(source, target)
    target.chmod(0o755)


def _install(folder: Path, package: str, platform: str) -> None:
    """Unpack one package and what it needs for the other processor, of the versions that the lock holds."""
    run(
        str(Path(sys.executable).parent / "uv"),
        *("pip", "install", "--quiet", "--target", str(folder), "--constraint", str(LOCK), package),
        *("--python-platform", f"{PLATFORMS[platform]}-manylinux_2_34", "--python-version", "3.13"),
        *("--only-binary", ":all:"),
    )
