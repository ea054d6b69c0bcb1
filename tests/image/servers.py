"""The servers that stand in for AWS during a run: ministack, a registry of images, its log-in, and a proxy to APIs.

Each is ended by its own process. All listen on loopback, but for ministack, which containers must reach: it listens on
the address that the engine's bridge has on this machine, where nothing from outside arrives.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, cast

from tests.image.steps import BUILT, ROOT, Failed, log_file, run

if TYPE_CHECKING:
    import io

REGION = "eu-central-1"
_STARTS_WITHIN = 60.0


def free_port(host: str = "127.0.0.1") -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


@contextmanager
def program(name: str, command: Sequence[str], environment: dict[str, str]) -> Generator[subprocess.Popen[bytes]]:
    """A program that runs until the block ends, with its output in build/.image/NAME.log."""
    with log_file(name) as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_for(url: str, process: subprocess.Popen[bytes], name: str) -> None:
    """Until something answers at `url`, whatever it says."""
    until = time.monotonic() + _STARTS_WITHIN
    while True:
        try:
            urllib.request.urlopen(url, timeout=2).close()
        except urllib.error.HTTPError:
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > until:
                raise Failed(f"{name} did not start; see {BUILT / name}.log") from None
            time.sleep(0.2)
        else:
            return


@dataclass(frozen=True)
class LocalAws:
    """A running ministack."""

    host: str
    port: int

    @property
    def endpoint(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """What makes a program take it for AWS."""
        return {
            **os.environ,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": REGION,
            "AWS_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "SAM_CLI_TELEMETRY": "0",
        }


@contextmanager
def local_aws(gateway: str, docker_host: str) -> Generator[LocalAws]:
    """ministack, with functions run in containers of their own images."""
    aws = LocalAws(gateway, free_port(gateway))
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
        "BIND_HOST": gateway,
        "MINISTACK_HOST": gateway,
        "GATEWAY_PORT": str(aws.port),
        "MINISTACK_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "DOCKER_HOST": docker_host,
        "LAMBDA_EXECUTOR": "docker",
        "LAMBDA_STRICT": "1",
        "IOT_MTLS_ENABLED": "0",
    }
    command = [str(ROOT / "build" / ".tools" / "ministack" / "bin" / "ministack")]
    with program("ministack", command, environment) as process:
        wait_for(f"{aws.endpoint}/_ministack/health", process, "ministack")
        yield aws


@contextmanager
def registry() -> Generator[str]:
    """A registry of images on loopback, which engines trust without TLS; yields HOST:PORT."""
    address = f"127.0.0.1:{free_port()}"
    storage = BUILT / "registry"
    config = BUILT / "registry.yml"
    config.write_text(
        json.dumps(
            {"version": "0.1", "http": {"addr": address}, "storage": {"filesystem": {"rootdirectory": str(storage)}}}
        )
    )
    with program("docker-registry", ["docker-registry", "serve", str(config)], dict(os.environ)) as process:
        wait_for(f"http://{address}/v2/", process, "docker-registry")
        yield address


@contextmanager
def _serving(handler: type[BaseHTTPRequestHandler]) -> Generator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Nothing."""

    def received(self) -> bytes:
        return self.rfile.read(int(self.headers.get("content-length") or 0))

    def answer(self, status: int, headers: Sequence[tuple[str, str]], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def ecr_login(images: str) -> Generator[str]:
    """As much of ECR as sam asks: a token for the registry at `images` to push to it, and to delete an image."""

    class Login(_Handler):
        def do_POST(self) -> None:
            self.received()
            token = {
                "authorizationToken": base64.b64encode(b"AWS:none").decode(),
                "expiresAt": time.time() + 3600,
                "proxyEndpoint": f"http://{images}",
            }
            asked = self.headers.get("x-amz-target", "").rpartition(".")[2]
            login = asked == "GetAuthorizationToken"
            body: dict[str, object] = {"authorizationData": [token]} if login else {"failures": []}
            self.answer(200, [("content-type", "application/x-amz-json-1.1")], json.dumps(body).encode())

    with _serving(Login) as address:
        yield f"http://{address}"


@contextmanager
def tunnel(aws: LocalAws) -> Generator[dict[str, str]]:
    """A proxy to the host name of each API, which no resolver knows here; yields the variables that make it used.

    A request for another host reaches the function with that host, so that the function must refuse it.
    """
    certificate = _certificate(f"*.execute-api.{REGION}.amazonaws.com")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    class Tunnel(_Handler):
        name = ""

        def do_CONNECT(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.name = self.path.partition(":")[0]
            self.connection = context.wrap_socket(self.connection, server_side=True)
            self.rfile = self.connection.makefile("rb")
            self.wfile = cast("io.BufferedIOBase", self.connection.makefile("wb", buffering=0))

        def handle_any(self) -> None:
            body = self.received()
            api = self.name.partition(".")[0]
            asked = self.headers.get("host", "")
            known = asked == self.name
            path = f"/$default{self.path}" if known else f"/_aws/execute-api/{api}/$default{self.path}"
            headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
            headers["Host"] = f"{api}.execute-api.{aws.host}" if known else asked
            connection = http.client.HTTPConnection(aws.host, aws.port, timeout=60)
            try:
                connection.request(self.command, path, body, headers)
                answer = connection.getresponse()
                dropped = {"content-length", "transfer-encoding", "connection", "date", "server"}
                kept = [(name, value) for name, value in answer.getheaders() if name.lower() not in dropped]
                self.answer(answer.status, kept, answer.read())
            finally:
                connection.close()

        do_GET = do_POST = do_OPTIONS = do_DELETE = do_PUT = do_PATCH = do_HEAD = handle_any  # noqa: N815 - looked up by these names

    with _serving(Tunnel) as address:
        yield {"HTTPS_PROXY": f"http://{address}", "SSL_CERT_FILE": str(certificate)}


def _certificate(name: str) -> Path:
    """A certificate for `name` that signs itself, with its key, in one file."""
    path = BUILT / "api.pem"
    names = ("-subj", "/CN=bedivere-e2e", "-addext", f"subjectAltName=DNS:{name}")
    kind = ("-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    run("openssl", "req", *kind, *names, "-keyout", str(path), "-out", str(path) + ".crt")
    path.write_text(path.read_text() + Path(str(path) + ".crt").read_text())
    return path
