"""How a process that is measured says what it has to say, and ends."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import NoReturn


def say(**facts: object) -> NoReturn:
    """Writes `facts` and the most memory that was held as the last line of the output, and ends at once.

    Nothing is tidied up first, which no answer waits for.
    """
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        status = ""
    if found := re.search(r"VmHWM:\s+(\d+) kB", status):
        facts["peak_kb"] = int(found[1])
    sys.stdout.write("\n" + json.dumps(facts) + "\n")
    sys.stdout.flush()
    os._exit(0)
