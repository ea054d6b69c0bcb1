"""The Lambda entry point: cold start order, and one event loop and one lifespan for the process."""

from __future__ import annotations

import gc

# Nothing that an import makes is garbage: collections between them are time lost, and later ones need not look again.
gc.disable()
try:
    from handler.lean import only_to_serve

    with only_to_serve():
        import os
        from contextlib import suppress
        from functools import cache

        from handler.telemetry import PlainRecorder, Recorder, hold_logs, lambda_recorder
        from retrieval.dataset import Dataset, open_dataset
        from retrieval.errors import BedivereError, ErrorCode
        from retrieval.settings import Settings, load_settings

        ON_LAMBDA = "AWS_LAMBDA_RUNTIME_API" in os.environ

        @cache
        def _beginning() -> tuple[Settings, Dataset]:
            """The settings of the process, and its dataset, whose first sync has begun.

            Raises `BedivereError` SETTING_INVALID.
            """
            settings = load_settings()
            dataset = open_dataset(settings)
            dataset.start()
            return settings, dataset

        if ON_LAMBDA:
            # The download runs while the rest is imported. What is wrong with a setting is said when somebody listens.
            hold_logs()
            with suppress(BedivereError):
                _beginning()

        import asyncio
        import logging
        from collections.abc import Callable
        from typing import Any, cast

        from mangum import Mangum
        from mangum.protocols import LifespanCycle
        from mangum.types import ASGI, LambdaContext, LambdaHandler
        from starlette.types import ASGIApp

        from handler.app import create_app, gate_of
        from handler.authority import gateway_hosts, origins
        from handler.gateway import Answer, GatewayRequest, answer_ping, check_event, is_ping, refuse_event, request_id
        from handler.protocol import build_server
        from handler.refusal import Refused
        from retrieval.retriever import Retriever
finally:
    gc.freeze()
    gc.enable()

logger = logging.getLogger("bedivere")

Handler = Callable[[object, object], Answer]


class AppHandler:
    """Answers Lambda events with an ASGI app, on one loop and in one lifespan that outlive every invocation.

    The SDK's session manager runs once, so a lifespan an invocation would fail the second, and none at all the first.
    Never raises: what fails is logged and answered as JSON-RPC. `make_app` is asked again after a failed start.
    """

    def __init__(self, make_app: Callable[[], ASGIApp], recorder: Recorder | None = None) -> None:
        self._make_app = make_app
        self._recorder = recorder or PlainRecorder()
        self._loop = asyncio.new_event_loop()
        self._lifespan: LifespanCycle | None = None
        self._adapter: Mangum | None = None

    def __call__(self, event: object, context: object) -> Answer:
        with self._recorder.invocation(request_id(event), _lambda_request_id(context)):
            answer = self._answer(event, context)
            if answer["statusCode"] >= 500:
                self._recorder.request_failed(ErrorCode.INTERNAL_ERROR)
            return answer

    def _answer(self, event: object, context: object) -> Answer:
        adapter = self.start()
        if is_ping(event):
            return answer_ping()
        if adapter is None:
            return refuse_event(event, Refused.internal())
        try:
            return adapter(check_event(event), cast("LambdaContext", context))
        except BedivereError as error:
            logger.warning("%s", error)
            return refuse_event(event, Refused.from_error(error, status=400))
        except Exception:
            logger.exception("The event could not be answered")
            return refuse_event(event, Refused.internal())

    def start(self) -> Mangum | None:
        """The adapter of the app, started unless it is running; None where it failed, which is logged."""
        # Mangum takes the loop from here, and any library may have set another or none since the last invocation.
        asyncio.set_event_loop(self._loop)
        # Set whenever the lifespan is over, whether it was asked to end or fell.
        if self._lifespan is not None and not self._lifespan.shutdown_event.is_set():
            return self._adapter
        try:
            app = cast("ASGI", self._make_app())
            lifespan = LifespanCycle(app, "on")
            lifespan.__enter__()
        except Exception:
            logger.exception("The MCP application failed to start; the next request tries again")
            return None
        self._lifespan = lifespan
        self._adapter = Mangum(app, lifespan="off", custom_handlers=[cast("type[LambdaHandler]", GatewayRequest)])
        return self._adapter

    def close(self) -> None:
        """End the lifespan and the loop. Lambda never asks; tests do."""
        asyncio.set_event_loop(self._loop)
        if self._lifespan is not None and not self._lifespan.shutdown_event.is_set():
            self._lifespan.__exit__(None, None, None)
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()
        asyncio.set_event_loop(None)


def _lambda_request_id(context: object) -> str | None:
    return getattr(context, "aws_request_id", None)


def make_handler(settings: Settings, recorder: Recorder | None = None, dataset: Dataset | None = None) -> AppHandler:
    """The handler that serves what `settings` say and reports to `recorder`; a missing database is no obstacle.

    Raises `BedivereError` SETTING_INVALID for lists of hosts or origins that hold something else, and where the way to
    let callers in lacks a setting.
    """
    hosts = gateway_hosts(settings)
    if hosts.warning:
        logger.warning("%s", hosts.warning)
    server = build_server(settings, Retriever(settings, dataset), recorder)
    origins(settings, hosts)  # raises now what it would at the start
    gate = gate_of(settings)
    return AppHandler(lambda: create_app(settings, server, hosts=hosts, gate=gate), recorder)


def _set_log_levels(settings: Settings) -> None:
    logger.setLevel(settings.log_level.upper())
    # A line a request from Mangum says nothing new, and the SDK's debug lines hold what was asked.
    for name in ("mangum", "mcp"):
        logging.getLogger(name).setLevel(logging.WARNING)


@cache
def _process_handler() -> Handler:
    try:
        settings, dataset = _beginning()
        recorder = lambda_recorder(settings) if ON_LAMBDA else PlainRecorder()
        _set_log_levels(settings)
        handler = make_handler(settings, recorder, dataset)
    except BedivereError as error:
        # Raised here, it would end the process, and Lambda would start the next one to the same end, over and over.
        return _refusing(error)
    handler.start()
    return handler


def _refusing(error: BedivereError) -> Handler:
    """A handler that answers every request with `error`, which no request can mend."""
    recorder = lambda_recorder(Settings.model_construct()) if ON_LAMBDA else PlainRecorder()
    logger.error("%s", error)
    refused = Refused.from_error(error)

    def answer(event: object, context: object) -> Answer:
        with recorder.invocation(request_id(event), _lambda_request_id(context)):
            if is_ping(event):
                return answer_ping()
            recorder.request_failed(error.code)
            return refuse_event(event, refused)

    return answer


def lambda_handler(event: dict[str, Any], context: object) -> Answer:
    """What Lambda calls. The handler behind it is made while Lambda initialises, elsewhere at the first call."""
    return _process_handler()(event, context)


if ON_LAMBDA:
    gc.disable()
    try:
        _process_handler()
    finally:
        gc.freeze()
        gc.enable()
