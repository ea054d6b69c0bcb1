"""The Lambda handler under the real runtime emulator, behind a small API Gateway of our own, as a URL.

It runs on what the image would hold, see `image_tree`, and can import nothing else. Its credentials are planted: what
it has written is searched for them, and for every question that came through the gateway, when it ends.

The emulator's binary comes from the wheel of aws-sam-cli, which pins what Bedivere needs newer, so only the wheel is
fetched, once, into build/. Emulator and gateway listen on loopback only.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import platform
import re
import stat
import subprocess
import sys
import threading
import zipfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2

from tests import planted
from tests.e2e.conftest import clean_environment
from tests.e2e.image_tree import ImageTree, image_tree
from tests.e2e.listening import free_ports, wait_until_it_listens
from tests.lambda_bridge import http_event

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "build" / "emulator"
WHEEL = "aws-sam-cli==1.170.0"
ARCHITECTURES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}
SHA256 = {
    "x86_64": "6b1e686e62ab2baf5759c412c4864276ef2a88b094fca53ec070637ccba9b9a5",
    "arm64": "ec2e5d09633d853834c008b1ef264bf834b258a94d551d2b2074966494b39a21",
}
INVOKE = "/2015-03-31/functions/function/invocations"
HANDLER = "handler.main.lambda_handler"
TIMEOUT_SECONDS = 29
START_SECONDS = 30
# pip's words for a registry that gave no answer, rather than the answer that there is no such wheel.
UNREACHABLE = re.compile(r"connection broken|NewConnectionError|Name or service not known|Network is unreachable", re.I)


class EmulatorUnavailable(Exception):
    """The emulator is not to be had here; the message says why."""


def binary() -> Path:
    """The emulator for this machine, fetched unless it is there; processes that ask at the same time wait."""
    architecture = ARCHITECTURES.get(platform.machine().lower())
    if sys.platform != "linux" or architecture is None:
        raise EmulatorUnavailable(f"the emulator runs on Linux, not on {sys.platform} {platform.machine()}")
    emulator = KEPT / f"aws-lambda-rie-{architecture}"
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not emulator.is_file() or sha256(emulator.read_bytes()).hexdigest() != SHA256[architecture]:
            _fetch(emulator, SHA256[architecture])
    return emulator


def _fetch(emulator: Path, digest: str) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(KEPT), WHEEL]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode and UNREACHABLE.search(done.stderr):
        raise EmulatorUnavailable("pip cannot reach its index")
    assert done.returncode == 0, done.stderr
    (wheel,) = KEPT.glob("aws_sam_cli-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        content = archive.read(f"samcli/local/rapid/{emulator.name}")
    wheel.unlink()
    assert sha256(content).hexdigest() == digest, f"{WHEEL} holds another {emulator.name} than the one that was pinned"
    partial = emulator.with_suffix(".partial")
    partial.write_bytes(content)
    partial.chmod(partial.stat().st_mode | stat.S_IXUSR)
    partial.rename(emulator)


@dataclass(frozen=True)
class Emulated:
    """A running function: the URL of its endpoint, and what it has written to its log."""

    url: str
    log: Path
    emulator_id: int
    """The emulator's process."""
    asked: list[str] = field(default_factory=list[str])
    """The texts of all arguments that came through the gateway."""

    def process_ids(self) -> list[int]:
        """The processes of the function; none before the first request."""
        children = Path(f"/proc/{self.emulator_id}/task").glob("*/children")
        return [int(number) for listed in children for number in listed.read_text().split()]

    def lines(self) -> list[dict[str, Any]]:
        """The lines of JSON in the log, the handler's own and its metrics."""
        return [json.loads(line) for line in self.text().splitlines() if line.startswith("{")]

    def init_milliseconds(self) -> list[float]:
        """How long each initialisation took, as the emulator reports it."""
        return [float(report) for report in re.findall(r"INIT REPORT\(durationMs: ([\d.]+)", self.text())]

    def text(self) -> str:
        """The whole log, with what the emulator itself says."""
        return self.log.read_text(encoding="utf-8", errors="replace")


@contextmanager
def emulated(
    environment: Mapping[str, str], folder: Path, *, wrapper: Sequence[str] = (), questions: bool = True
) -> Generator[Emulated]:
    """The handler with `environment`, started at its first request as Lambda does it; its log goes below `folder`.

    `wrapper` is a command that starts the function, such as one that limits it. Fails at the end where the log holds a
    planted secret or, with `questions`, a text that a caller asked by.

    One environment answers one request at a time: a second that comes meanwhile waits.
    """
    log = folder / "function.log"
    tree = image_tree(folder / "task")
    front, runtime = free_ports(2)
    command = [
        str(binary()),
        "--runtime-interface-emulator-address",
        f"127.0.0.1:{front}",
        "--runtime-api-address",
        f"127.0.0.1:{runtime}",
        *wrapper,
        sys.executable,
        "-S",
        "-m",
        "awslambdaric",
        HANDLER,
    ]
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command,
            cwd=folder,
            env=_function_environment(tree, environment),
            stdout=output,
            stderr=output,
            start_new_session=True,
        ) as emulator,
    ):
        try:
            wait_until_it_listens(emulator, front, log, seconds=START_SECONDS)
            asked: list[str] = []
            with _gateway(f"http://127.0.0.1:{front}{INVOKE}", asked) as address:
                function = Emulated(f"{address}/mcp", log, emulator.pid, asked)
                yield function
        finally:
            _end(emulator)
    assert not planted.spilt(function.text(), asked if questions else ())


def _function_environment(tree: ImageTree, environment: Mapping[str, str]) -> dict[str, str]:
    inherited = {name: value for name, value in clean_environment().items() if not name.startswith("AWS_")}
    return {
        **inherited,
        "AWS_LAMBDA_FUNCTION_NAME": "bedivere",
        "AWS_LAMBDA_FUNCTION_VERSION": "1",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1769",
        "AWS_LAMBDA_FUNCTION_TIMEOUT": str(TIMEOUT_SECONDS),
        "AWS_REGION": "eu-west-1",
        "BEDIVERE_LOG_LEVEL": "debug",
        "AWS_SECRET_ACCESS_KEY": planted.AWS_SECRET,
        "AWS_SESSION_TOKEN": planted.AWS_TOKEN,
        "LAMBDA_TASK_ROOT": str(tree.task),
        "PYTHONPATH": tree.search_path,
        **environment,
    }


def _end(emulator: subprocess.Popen[bytes]) -> None:
    """Ends the emulator, which ends the function; what does not go is killed with all that it started."""
    emulator.terminate()
    try:
        emulator.wait(timeout=10)
    except subprocess.TimeoutExpired:
        os.killpg(emulator.pid, 9)


@contextmanager
def _gateway(function: str, asked: list[str]) -> Generator[str]:
    """An HTTP API in front of the function at that URL; yields the gateway's own address.

    What the requests ask by is added to `asked`.
    """
    one_at_a_time = threading.Lock()

    class Gateway(BaseHTTPRequestHandler):
        """Makes each request an event, payload 2.0, and each answer of the function a response."""

        protocol_version = "HTTP/1.1"

        def serve(self) -> None:
            length = int(self.headers.get("content-length", 0))
            body = self.rfile.read(length)
            asked.extend(planted.asked(body))
            # Space around a value is no part of it, and never reaches what is behind a gateway.
            headers = [(name, value.strip()) for name, value in self.headers.items()]
            request = httpx2.Request(self.command, f"{address}{self.path}", headers=headers)
            event = http_event(request, body)
            # The emulator has no domain: the gateway reports the name that it is reached by, as the real one does.
            request_id = f"request-{next(numbers)}"
            event["requestContext"] |= {"domainName": own, "requestId": request_id}
            # A second event at the same time would end the emulator.
            with one_at_a_time:
                answered = httpx2.post(function, json=event, timeout=TIMEOUT_SECONDS + 30)
            self._answer(answered.text, request_id)

        def _answer(self, answered: str, request_id: str) -> None:
            try:
                answer = json.loads(answered)
                status, content = answer["statusCode"], answer["body"]
            except (ValueError, KeyError, TypeError):
                # A function that was cut off, or that failed, answers in other words: a gateway says 502.
                self._send(502, {"apigw-requestid": request_id}, b'{"message":"Internal Server Error"}')
                return
            encoded = base64.b64decode(content) if answer["isBase64Encoded"] else content.encode()
            self._send(status, {**answer["headers"], "apigw-requestid": request_id}, encoded)

        def _send(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                if name.lower() != "content-length":
                    self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            # Whoever asked may have gone meanwhile.
            if self.command != "HEAD":
                with suppress(OSError):
                    self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that it overrides
            del format, args

    for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"):
        setattr(Gateway, f"do_{method}", Gateway.serve)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Gateway)
    own = f"127.0.0.1:{server.server_address[1]}"
    address = f"http://{own}"
    numbers = iter(range(1, 1_000_000))
    thread = threading.Thread(target=server.serve_forever, name="gateway", daemon=True)
    thread.start()
    try:
        yield address
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)
