"""Finds a Docker engine, or starts one for the time of a run, and speaks to it through the docker command."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.image.steps import BUILT, Failed, log_file

_STARTS_WITHIN = 30.0


@dataclass(frozen=True)
class Engine:
    """A running engine: the command that speaks to it and the address it listens on."""

    command: str
    host: str

    @property
    def environment(self) -> Mapping[str, str]:
        """What makes other programs, such as sam, find this engine."""
        return {**os.environ, "DOCKER_HOST": self.host, "DOCKER_BUILDKIT": "1", "BUILDX_NO_DEFAULT_ATTESTATIONS": "1"}

    def run(self, *arguments: str, timeout: float = 3600) -> str:
        """Run a docker command and return what it printed. Raises `Failed` with the end of its output."""
        done = subprocess.run(
            [self.command, *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )
        if done.returncode:
            raise Failed(f"docker {arguments[0]} failed:\n{done.stdout[-4000:]}")
        return done.stdout.strip()

    def build(self, tag: str, context: Path, dockerfile: Path, *, platform: str, arguments: Mapping[str, str]) -> None:
        """Build an image. The network is the machine's, because pip runs in it."""
        given = [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
        self.run(
            "build",
            *("--network", "host", "--platform", f"linux/{platform}", "--tag", tag, "--file", str(dockerfile)),
            *given,
            str(context),
        )

    def size(self, image: str) -> int:
        """Bytes of an image's layers, unpacked."""
        return int(self.run("image", "inspect", "--format", "{{.Size}}", image))

    @property
    def gateway(self) -> str:
        """The address at which containers reach this machine, and nothing outside of it does."""
        return self.run("network", "inspect", "bridge", "--format", "{{(index .IPAM.Config 0).Gateway}}")


@contextmanager
def engine() -> Generator[Engine]:
    """The engine that runs already, else one of our own, ended with the block; it keeps its layers where engines do."""
    command = _command()
    host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if _answers(command, host):
        yield Engine(command, host)
        return
    daemon = shutil.which("dockerd")
    if daemon is None or os.geteuid() != 0:
        raise Failed(
            f"no Docker engine answers at {host}: start one, or install docker.io and run as root to have one started"
        )
    # A socket's path may have 108 characters, which a checkout's own may use up.
    with tempfile.TemporaryDirectory(prefix="bedivere-docker-") as folder, log_file("dockerd") as log:
        host = f"unix://{folder}/docker.sock"
        process = subprocess.Popen(
            [
                daemon,
                *("--host", host, "--exec-root", f"{folder}/exec", "--pidfile", f"{folder}/pid"),
            ],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            _wait(command, host, process)
            yield Engine(command, host)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)


def _wait(command: str, host: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _STARTS_WITHIN
    while not _answers(command, host):
        if process.poll() is not None or time.monotonic() > until:
            raise Failed(f"dockerd did not start; see {BUILT / 'dockerd.log'}")
        time.sleep(0.25)


def _answers(command: str, host: str) -> bool:
    environment = {**os.environ, "DOCKER_HOST": host}
    asked: Sequence[str] = (command, "version", "--format", "{{.Server.Version}}")
    return subprocess.run(asked, env=environment, capture_output=True, check=False).returncode == 0


def _command() -> str:
    """The first docker on PATH that can build with BuildKit: it has buildx, or is so old that it needs none."""
    found = [
        str(path)
        for folder in os.get_exec_path()
        if os.access(path := Path(folder) / "docker", os.X_OK) and not path.is_dir()
    ]
    for command in found:
        version = subprocess.run([command, "--version"], capture_output=True, text=True, check=False).stdout
        major = version.removeprefix("Docker version ").partition(".")[0]
        buildx = subprocess.run([command, "buildx", "version"], capture_output=True, check=False).returncode == 0
        if buildx or (major.isdigit() and int(major) < 23):
            return command
    raise Failed("no docker command with BuildKit on PATH: install docker.io, or docker with its buildx plug-in")
