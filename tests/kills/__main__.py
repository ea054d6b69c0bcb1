"""`python -m tests.kills`: hundreds of kills and every power cut, from a seed; exits with 1 where one left a mess."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random

from rich.console import Console
from rich.table import Table

from tests.kills.moments import Left, cut, killed, length
from tests.kills.victims import STORE_VARIABLE, VICTIMS, copy_store, make_base
from tests.s3_server import S3Server, running_s3_server

_TO_S3 = "publish to S3"
_NAMES = (*VICTIMS, _TO_S3)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kills", description=__doc__)
    parser.add_argument("--runs", type=int, default=300, help="kills in all (default: 300)")
    parser.add_argument("--only", choices=_NAMES, help="one kind of run in place of all")
    parser.add_argument("--seed", type=int, default=1, help="what the moments come from")
    asked = parser.parse_args()
    console = Console(soft_wrap=True)
    found: list[Left] = []
    with tempfile.TemporaryDirectory(prefix="bedivere-kills-") as folder, running_s3_server() as s3:
        base = make_base(Path(folder, "base"))
        # Ctrl-C ends it with the figures so far.
        with suppress(KeyboardInterrupt):
            names = [asked.only] if asked.only else _NAMES
            for left in _all(base, Path(folder), s3, names, -(-asked.runs // len(names)), asked.seed):
                found.append(left)
                if left.problem:
                    console.print(f"{left.victim}, {left.moment}: {left.problem}", markup=False)
    _show(found, console)
    return 1 if any(left.problem for left in found) else 0


def _all(base: Path, folder: Path, s3: S3Server, names: Sequence[str], each: int, seed: int) -> Iterator[Left]:
    for victim in (victim for name, victim in VICTIMS.items() if name in names):
        yield from cut(victim, base, folder / "cut", Random(seed))
        of = length(victim, base, folder / "length")
        for number in range(each):
            yield killed(victim, base, folder / "run", of, Random(seed * 10_000 + number))
    if _TO_S3 not in names:
        return
    os.environ.update(s3.environment)
    client, bucket = s3.client(), s3.create_bucket()
    os.environ[STORE_VARIABLE] = copy_store(base / "store", client, bucket, "length")
    of = length(VICTIMS["publish"], base, folder / "length")
    for number in range(each):
        os.environ[STORE_VARIABLE] = copy_store(base / "store", client, bucket, f"run-{number}")
        left = killed(VICTIMS["publish"], base, folder / "run", of, Random(seed * 10_000 + number))
        yield replace(left, victim=_TO_S3)


def _show(found: list[Left], console: Console) -> None:
    table = Table("victim", "ended by", "runs", "old", "new", "wrong")
    counted = Counter((left.victim, left.how, left.state, left.problem is not None) for left in found)
    for victim, how in dict.fromkeys((left.victim, left.how) for left in found):
        of = {key: count for key, count in counted.items() if key[:2] == (victim, how)}
        wrong = sum(count for key, count in of.items() if key[3])
        states = [sum(count for key, count in of.items() if key[2:] == (state, False)) for state in ("old", "new")]
        table.add_row(victim, how, str(sum(of.values())), *map(str, states), str(wrong))
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
