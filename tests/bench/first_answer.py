"""Run in a fresh process: the handler's first answer to the event on standard input, and when it came.

The parent started the clock, which is one for the whole machine; what is imported here is part of the measurement.
"""

import json
import sys
import time

from handler.main import lambda_handler

request = json.load(sys.stdin)
answer = lambda_handler(request["event"], None)
at, cpu = time.monotonic(), time.process_time()

loaded = [name for name in request["packages"] if name in sys.modules]
json.dump({"at": at, "cpu": cpu, "answer": answer, "loaded": loaded}, sys.stdout)
