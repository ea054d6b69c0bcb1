"""Run as a module: runs a victim and kills itself, at the n-th thing that it does outside or after some time.

    python -m tests.kills.dying VICTIM FOLDER step 17
    python -m tests.kills.dying VICTIM FOLDER seconds 0.21
    python -m tests.kills.dying VICTIM FOLDER count 0

`count` kills nothing and prints how many steps there are and how many seconds they take. A step is a file that is
opened, made, renamed or removed below FOLDER, a lock that is taken there, or a request that is sent: Python tells of
them before they happen. What LanceDB's compiled core does is between them, and is met by the seconds.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, Final

from tests.kills.victims import VICTIMS

_STEPS: Final = frozenset(
    "open os.rename os.mkdir os.remove os.rmdir os.symlink os.link os.truncate os.scandir shutil.copyfile "
    "shutil.rmtree".split()
)
_ALWAYS: Final = frozenset({"fcntl.flock", "http.client.send"})


def main() -> None:
    name, place, how, when = sys.argv[1:]
    folder = Path(place)
    steps = 0
    armed = True

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal steps
        if not armed or (event not in _ALWAYS and not (event in _STEPS and str(arguments[0]).startswith(place))):
            return
        steps += 1
        if how == "step" and steps == int(when):
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    began = time.monotonic()
    if how == "seconds":
        # Its default is to end the process at once, as a kill does, and it comes at its time whatever is going on.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, max(float(when), 0.001))
    VICTIMS[name].run(folder)
    seconds = time.monotonic() - began
    armed = False
    signal.setitimer(signal.ITIMER_REAL, 0)
    if how == "count":
        sys.stdout.write(json.dumps({"steps": steps, "seconds": seconds}) + "\n")


if __name__ == "__main__":
    main()
