"""The local HTTP server under one client and under many: calls a second, how long they take, and which fail.

Run as a script it is all clients of one crowd, in a process of their own; each sends its next call when the last is
answered, over a connection that it keeps.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import count
from math import inf
from pathlib import Path
from statistics import quantiles
from typing import Any

from mcp_types.version import LATEST_MODERN_VERSION

from tests.bench.asking import LIMIT, call_event

_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Throughput:
    """What `clients` clients got at once; an error is any answer that is no hit."""

    kind: str
    clients: int
    calls: int
    errors: int
    calls_a_second: float
    p50_ms: float
    p99_ms: float
    server_ms: float
    """CPU of the server a call, all threads; 0 where the system does not tell."""
    python_ms: float
    """Of that, what the thread took that runs the server's event loop."""
    busy: float
    """The share of the processors' time that the server took: what is left, others took or nobody."""
    least_ms: float
    """The quickest call, which waited least for a processor that others had."""

    def times(self, one: Throughput) -> float:
        """How many times the calls of `one` client, were each as quick as its quickest, the processors can answer."""
        if not self.server_ms or not self.python_ms:
            return inf
        return one.least_ms / max(self.python_ms, self.server_ms / (os.cpu_count() or 1))


@dataclass(frozen=True, slots=True)
class Crowd:
    """How many ask at once, for how many seconds each time, and what."""

    sizes: Sequence[int]
    seconds: float
    questions: Sequence[str]

    def ask(self, database: Path, kind: str, environment: Mapping[str, str]) -> list[Throughput]:
        """What a server of `database` that is found at `environment` gives crowds of each size, by `kind` of search."""
        found: list[Throughput] = []
        with _serving(database, environment) as (port, server):
            for clients in self.sizes:
                work: dict[str, object] = {"port": port, "clients": clients, "seconds": self.seconds, "kind": kind}
                work["server"] = server
                work["bodies"] = [_body(question, kind) for question in self.questions]
                ran = subprocess.run(
                    [sys.executable, "-m", "tests.bench.crowd"],
                    input=json.dumps(work),
                    capture_output=True,
                    text=True,
                    cwd=_ROOT,
                    check=True,
                )
                found.append(Throughput(**json.loads(ran.stdout)))
        return found


def _body(question: str, kind: str) -> str:
    event = call_event("lancedb_search", {"query": question, "limit": LIMIT, "searchType": kind})
    return event["body"]


@contextmanager
def _serving(database: Path, environment: Mapping[str, str]) -> Generator[tuple[int, int]]:
    """`bedivere serve`, once it takes connections: its port and the number of its process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    command = [sys.executable, "-m", "handler.cli", "serve", str(port), "--db", str(database.absolute())]
    variables = {**os.environ, **environment, "BEDIVERE_LOG_LEVEL": "error"}
    process = subprocess.Popen(command, cwd=_ROOT, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if time.monotonic() > until or process.poll() is not None:
                    raise RuntimeError("The local server did not start") from None
                time.sleep(0.05)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait()


async def _crowd(work: Mapping[str, Any]) -> Throughput:
    numbers = count()
    bodies: list[str] = work["bodies"]
    taken: list[float] = []
    errors = 0

    async def client(until: float) -> None:
        nonlocal errors
        reader, writer = await asyncio.open_connection("127.0.0.1", work["port"])
        while time.perf_counter() < until:
            number = next(numbers)
            # A question that was never asked: neither its words nor its vector are remembered.
            body = bodies[number % len(bodies)].replace("How do I", f"How do I in {number}")
            began = time.perf_counter()
            writer.write(_request(work["port"], body.encode()))
            answered = await _answered(reader, work["kind"])
            taken.append((time.perf_counter() - began) * 1000)
            errors += not answered
        writer.close()

    async def crowd(clients: int, seconds: float) -> float:
        began = time.perf_counter()
        await asyncio.gather(*(client(began + seconds) for _ in range(clients)))
        return time.perf_counter() - began

    await crowd(1, min(1.0, work["seconds"]))
    taken.clear()
    errors = 0
    server: int = work["server"]
    before = _all_threads(server), _loop_thread(server)
    seconds = await crowd(work["clients"], work["seconds"])
    spent, of_python = _all_threads(server) - before[0], _loop_thread(server) - before[1]
    calls = len(taken)
    percents = quantiles(taken, n=100, method="inclusive") if calls > 1 else taken * 99
    return Throughput(
        kind=work["kind"],
        clients=work["clients"],
        calls=calls,
        errors=errors,
        calls_a_second=calls / seconds,
        p50_ms=percents[49],
        p99_ms=percents[98],
        server_ms=spent * 1000 / calls,
        python_ms=of_python * 1000 / calls,
        busy=spent / seconds / (os.cpu_count() or 1),
        least_ms=min(taken),
    )


def _all_threads(process: int) -> float:
    """Seconds of processor time of all threads of the process, those that have ended included."""
    return _seconds(Path(f"/proc/{process}/stat"))


def _loop_thread(process: int) -> float:
    """The same of its first thread."""
    return _seconds(Path(f"/proc/{process}/task/{process}/stat"))


def _seconds(stat: Path) -> float:
    try:
        # The name of the program, in brackets, may hold spaces.
        user, system = stat.read_text(encoding="utf-8").rpartition(")")[2].split()[11:13]
    except OSError:
        return 0.0
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _request(port: int, body: bytes) -> bytes:
    lines = [
        "POST /mcp HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        f"MCP-Protocol-Version: {LATEST_MODERN_VERSION}",
        "Mcp-Method: tools/call",
        "Mcp-Name: lancedb_search",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def _answered(reader: asyncio.StreamReader, kind: str) -> bool:
    """Whether the next answer holds hits of that kind of search."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = next(line for line in head.split(b"\r\n") if line.startswith(b"content-length:"))
    body = await reader.readexactly(int(length.partition(b":")[2]))
    if not head.startswith(b"http/1.1 200"):
        return False
    found = json.loads(body).get("result", {}).get("structuredContent", {})
    return bool(found.get("hits")) and found["searchType"] == kind


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asdict(asyncio.run(_crowd(json.load(sys.stdin))))))
