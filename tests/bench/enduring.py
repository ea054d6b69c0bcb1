"""Run as a script: calls the handler over and over with the events on standard input, and says what memory it holds.

It imports nothing but the handler, so that the memory is the handler's own.
"""

import json
import re
import sys
from pathlib import Path

from handler.main import lambda_handler

work = json.load(sys.stdin)
held: list[int] = []
for number in range(1, max(work["at"]) + 1):
    answer = lambda_handler(work["events"][number % len(work["events"])], None)
    if answer["statusCode"] != 200 or "structuredContent" not in answer["body"]:
        raise RuntimeError(f"Call {number} was not answered: {answer}")
    if number in work["at"]:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        held += [int(size) for size in re.findall(r"VmRSS:\s+(\d+) kB", status)]

from tests.bench.saying import say  # noqa: E402

say(at=0, held_kb=held)
