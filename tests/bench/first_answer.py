"""Run in a fresh process: the handler's first answer to the event on standard input, and when it came.

The parent started the clock, which is one for the whole machine; what is imported here is part of the measurement. With
`trace` in the request it also says when the stages of the start began and ended.
"""

import time

BEGUN = time.monotonic()

import json  # noqa: E402
import sys  # noqa: E402

request = json.load(sys.stdin)
if request.get("trace"):
    from tests.bench.stages import watch_stages

    moments = watch_stages()
else:
    moments = {}

from handler.main import lambda_handler  # noqa: E402

ready = time.monotonic()
answer = lambda_handler(request["event"], None)
at = time.monotonic()

from tests.bench.saying import say  # noqa: E402

loaded = [name for name in request["packages"] if name in sys.modules]
say(at=at, begun=BEGUN, ready=ready, answer=answer, loaded=loaded, moments=moments)
