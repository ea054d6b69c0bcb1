"""What the server tells its operator: one line a call, and on Lambda metrics; never what was asked, unless set so.

Everything that happens is reported to a `Recorder`. `PlainRecorder` logs it for a person; `CloudWatchRecorder` logs it
as JSON and counts it. Powertools is imported where the latter is made, because a local server needs none of it.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Final, Literal, Protocol

from handler.lean import wait_with
from retrieval.errors import ErrorCode
from retrieval.look import SyncOutcome
from retrieval.notes import counted
from retrieval.settings import Settings

if TYPE_CHECKING:
    from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter
    from aws_lambda_powertools.metrics import EphemeralMetrics

logger: Final = logging.getLogger("bedivere")

OK: Final = "ok"
"""The status of what went well; anything else is an error code."""

Unit = Literal["Count", "Milliseconds", "Seconds"]

METRICS: Final[Mapping[str, tuple[Unit, tuple[str, ...]]]] = {
    "ColdStart": ("Count", ("service",)),
    "Calls": ("Count", ("service", "tool")),
    "Latency": ("Milliseconds", ("service", "tool")),
    "Errors": ("Count", ("service", "code")),
    "Degraded": ("Count", ("service",)),
    "SyncMs": ("Milliseconds", ("service",)),
    "SyncFailures": ("Count", ("service",)),
    "DatasetAgeSeconds": ("Seconds", ("service",)),
    "EmbeddingTokens": ("Count", ("service",)),
}
"""Every metric with its unit and its dimensions: few, and of few values, because each combination is paid for.

One with a second dimension is also written without it.
"""


@dataclass(frozen=True, slots=True)
class Call:
    """One finished call of a tool. Nothing here was written by the caller but `arguments`, which is mostly None."""

    tool: str
    status: str
    milliseconds: float
    stages: Mapping[str, float] = field(default_factory=dict[str, float])
    """Milliseconds of each stage that was reached and left."""
    search_type: str | None = None
    hits: int | None = None
    release: str | None = None
    degraded: bool = False
    """Another search answered than the one that was asked for."""
    caller: str | None = None
    """The name of the key, token or signer that was let in; None where anyone may call."""
    arguments: str | None = None
    """The arguments as JSON, where the setting `log_queries` is on."""


class Recorder(Protocol):
    """Where everything worth telling is reported. No method raises, and all may be called from any thread."""

    def invocation(self, correlation_id: str | None, request_id: str | None) -> AbstractContextManager[None]:
        """Around one Lambda invocation: what is reported within belongs to it, and is written by its end."""
        ...

    def call_finished(self, call: Call) -> None: ...

    def request_failed(self, code: ErrorCode) -> None:
        """A request was answered with a server error before, or instead of, a call."""
        ...

    def sync_finished(self, sync: SyncOutcome) -> None: ...

    def tokens_embedded(self, count: int) -> None: ...


class Stopwatch:
    """Milliseconds of one call, by stage."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._started = self._lap = clock()
        self.stages: dict[str, float] = {}

    def lap(self, stage: str) -> None:
        """Ends `stage`, which began where the one before it ended."""
        now = self._clock()
        self.stages[stage] = round((now - self._lap) * 1000, 1)
        self._lap = now

    def milliseconds(self) -> float:
        return round((self._clock() - self._started) * 1000, 1)


class PlainRecorder:
    """A line a call for a person to read, by whatever handlers `logging` has."""

    def invocation(self, correlation_id: str | None, request_id: str | None) -> AbstractContextManager[None]:
        del correlation_id, request_id
        return nullcontext()

    def call_finished(self, call: Call) -> None:
        facts = [f"{call.milliseconds:.1f} ms"]
        facts += [call.search_type] if call.search_type else []
        facts += [counted(call.hits, "hit")] if call.hits is not None else []
        facts += [f"release {call.release}"] if call.release else []
        facts += [f"by {call.caller}"] if call.caller else []
        logger.info("%s %s %s", call.tool, call.status, ", ".join(facts))
        if call.arguments is not None:
            logger.info("%s asked %s", call.tool, call.arguments)

    def request_failed(self, code: ErrorCode) -> None:
        """Nothing: whoever failed has logged why."""

    def sync_finished(self, sync: SyncOutcome) -> None:
        # A failure has been logged by the dataset, with its sentence.
        if sync.failure is None:
            logger.info("sync %s %.0f ms, release %s", OK, sync.milliseconds, sync.release)

    def tokens_embedded(self, count: int) -> None:
        logger.debug("%d tokens embedded", count)


def _service() -> str:
    """What tells this deployment from others in the same namespace."""
    return os.environ.get("POWERTOOLS_SERVICE_NAME", "").strip() or "bedivere"


class CloudWatchRecorder:
    """JSON log lines that share the invocation's ids, and metrics in CloudWatch's embedded format, once an invocation.

    What a thread reports between invocations waits for the end of the next. `formatter` is that of `json_handler`.
    """

    def __init__(
        self, settings: Settings, formatter: LambdaPowertoolsFormatter, *, now: Callable[[], float] = time.time
    ) -> None:
        from aws_lambda_powertools.metrics import EphemeralMetrics

        self._make_metrics: Callable[[], EphemeralMetrics] = lambda: EphemeralMetrics(
            namespace=settings.metrics_namespace, service=_service()
        )
        self._formatter = formatter
        self._now = now
        # An environment that was made before it was needed keeps nobody waiting.
        self._cold = os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") != "provisioned-concurrency"
        self._published_at: float | None = None
        self._pending: dict[tuple[str, ...], EphemeralMetrics] = {}
        self._lock = threading.Lock()

    @contextmanager
    def invocation(self, correlation_id: str | None, request_id: str | None) -> Generator[None]:
        cold, self._cold = self._cold, False
        keys = {"correlation_id": correlation_id or request_id, "function_request_id": request_id, "cold_start": cold}
        self._formatter.append_keys(**keys)
        if cold:
            self._count("ColdStart", 1)
        try:
            yield
        finally:
            self._flush()
            self._formatter.remove_keys(keys)

    def call_finished(self, call: Call) -> None:
        self._count("Calls", 1, call.tool)
        self._count("Latency", call.milliseconds, call.tool)
        if call.status != OK:
            self._count("Errors", 1, call.status)
        if call.degraded:
            self._count("Degraded", 1)
        facts = {
            "tool": call.tool,
            "status": call.status,
            "milliseconds": call.milliseconds,
            "stages": dict(call.stages),
            "search_type": call.search_type,
            "hits": call.hits,
            "release": call.release,
            "degraded": call.degraded or None,
            "caller": call.caller,
            "arguments": call.arguments,
        }
        logger.info("call", extra=_given(facts))

    def request_failed(self, code: ErrorCode) -> None:
        self._count("Errors", 1, code)

    def sync_finished(self, sync: SyncOutcome) -> None:
        self._published_at = sync.published_at
        if sync.failure is None:
            self._count("SyncMs", sync.milliseconds)
        else:
            self._count("SyncFailures", 1)
        facts = {
            "status": sync.failure or OK,
            "milliseconds": sync.milliseconds,
            "release": sync.release,
            "fetched_bytes": sync.fetched_bytes,
        }
        logger.info("sync", extra=_given(facts))

    def tokens_embedded(self, count: int) -> None:
        self._count("EmbeddingTokens", count)

    def _count(self, name: str, value: float, second: str | None = None) -> None:
        """Adds to the metric `name`; `second` is the value of its second dimension."""
        unit, dimensions = METRICS[name]
        with self._lock:
            key = dimensions if second is None else (*dimensions, second)
            metrics = self._pending.get(key)
            if metrics is None:
                metrics = self._pending[key] = self._make_metrics()
                if second is not None:
                    # By service alone too: an alarm cannot add up what it does not know the names of.
                    metrics.add_dimension(dimensions[-1], second)
                    metrics.add_dimensions(service=_service())
            metrics.add_metric(name, unit, value)

    def _flush(self) -> None:
        if self._published_at is not None:
            self._count("DatasetAgeSeconds", max(0.0, self._now() - self._published_at))
        with self._lock:
            pending, self._pending = self._pending, {}
        for metrics in pending.values():
            metrics.flush_metrics()


def _given(facts: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in facts.items() if value is not None}


class WhereNotWhat(logging.Filter):
    """Replaces an exception by its type and the lines of code it came from: its own text may quote a query."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.exc_info, tuple) and record.exc_info[0] is not None:
            record.exception_name = record.exc_info[0].__name__
            record.exception = "".join(traceback.format_tb(record.exc_info[2]))
        record.exc_info = record.exc_text = None
        return True


def json_handler(stream: IO[str]) -> tuple[logging.Handler, LambdaPowertoolsFormatter]:
    """A handler that writes each record to `stream` as one line of JSON, and its formatter."""
    from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter

    formatter = LambdaPowertoolsFormatter(utc=True, use_rfc3339=True, service=_service())
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    handler.addFilter(WhereNotWhat())
    return handler, formatter


class HeldRecords(logging.Handler):
    """Keeps what is logged until there is a handler to write it."""

    def __init__(self) -> None:
        super().__init__()
        self._records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._records.append(record)

    def hand_over(self, to: logging.Handler) -> None:
        """Has `to` write all that was kept."""
        for record in self._records:
            to.handle(record)


def hold_logs() -> None:
    """Holds back every line of the process until `lambda_recorder` can write it as JSON."""
    logging.getLogger().handlers[:] = [HeldRecords()]


def lambda_recorder(settings: Settings) -> Recorder:
    """The recorder of a Lambda environment; every logger of the process writes JSON from now on."""
    # Of Powertools its formatter and its metrics are used, not its logger and its tracer.
    wait_with("aws_lambda_powertools", "aws_lambda_powertools.logging")
    handler, formatter = json_handler(sys.stdout)
    root = logging.getLogger()
    # The runtime's own handler writes lines as they come, line breaks that a caller sent included.
    before, root.handlers[:] = root.handlers[:], [handler]
    for held in before:
        if isinstance(held, HeldRecords):
            held.hand_over(handler)
    return CloudWatchRecorder(settings, formatter)
