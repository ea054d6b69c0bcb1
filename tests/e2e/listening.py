"""Ports for processes that are started by a test, and the wait until they are open."""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path


def free_ports(count: int) -> list[int]:
    """So many ports of loopback that nothing listens on."""
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def wait_until_it_listens(process: subprocess.Popen[bytes], port: int, log: Path, *, seconds: float) -> None:
    """Returns once `process` takes connections at `port`; fails with its `log` where it ends first or takes longer."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            try:
                code = process.wait(timeout=0.05)
            except subprocess.TimeoutExpired:
                continue
            raise AssertionError(f"it ended with {code}:\n{log.read_text()}") from None
        else:
            return
    raise AssertionError(f"it did not listen within {seconds:g} s:\n{log.read_text()}")
