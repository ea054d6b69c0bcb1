"""`python -m tests.bench.indexed SOURCE DATABASE [WORKERS]`: indexes, and says in JSON what it cost, by stage."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from handler.lean import wait_with_remote_catalogs
from retrieval.indexing.job import Options, Quiet


class Stages(Quiet):
    """When each stage began."""

    def __init__(self) -> None:
        self.began: list[tuple[str, float]] = []

    def stage(self, name: str) -> None:
        self.began.append((name, time.monotonic()))

    def seconds(self) -> dict[str, float]:
        ends = [*(began for _, began in self.began[1:]), time.monotonic()]
        return {name: end - began for (name, began), end in zip(self.began, ends, strict=True)}


def main() -> None:
    # As the command does, of which this is all but its progress.
    wait_with_remote_catalogs()
    from retrieval.indexing import rows
    from retrieval.indexing.build import build_table

    source, database = map(Path, sys.argv[1:3])
    workers = int(sys.argv[3]) if len(sys.argv) > 3 else None
    stages = Stages()
    summary = build_table(Options(source, database, workers=workers), stages)
    by_stage = stages.seconds()
    used = os.times()
    report = {
        "chunks": summary.chunks,
        "files": summary.files,
        "reused": summary.reused,
        "unchanged": summary.unchanged,
        "code": rows.fingerprint(),
        "seconds": summary.seconds,
        "cpu": used.user + used.system + used.children_user + used.children_system,
        "stages": by_stage,
    }
    sys.stdout.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    main()
