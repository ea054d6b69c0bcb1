"""The Lambda entry point: how it starts, what it outlives, and what it answers when it cannot."""

import asyncio
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from handler import main
from handler.main import AppHandler, make_handler
from handler.telemetry import PlainRecorder
from retrieval.errors import BedivereError, ErrorCode
from retrieval.settings import Settings
from tests.handler.events import code, load

ROOT = Path(__file__).parents[2]


@pytest.fixture
def closing() -> Iterator[Callable[[AppHandler], AppHandler]]:
    """Closes at the end whatever handler it is given."""
    handlers: list[AppHandler] = []

    def keep(handler: AppHandler) -> AppHandler:
        handlers.append(handler)
        return handler

    yield keep
    for handler in handlers:
        handler.close()


@pytest.fixture
def handler(closing: Callable[[AppHandler], AppHandler]) -> AppHandler:
    return closing(make_handler(Settings()))


# One loop and one lifespan


class App:
    """An app whose lifespan fails as often as it is told to, and which answers 200."""

    def __init__(self, failures: int = 0) -> None:
        self.made = 0
        self.started = 0
        self.ended = 0
        self._failures = failures

    def make(self) -> ASGIApp:
        self.made += 1
        return self._run

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"{}"})
            return
        await receive()
        if self.made <= self._failures:
            await send({"type": "lifespan.startup.failed", "message": "at /srv/secret.py"})
            return
        self.started += 1
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self.ended += 1
        await send({"type": "lifespan.shutdown.complete"})


def test_the_lifespan_is_entered_once_and_left_at_the_close() -> None:
    app = App()
    handler = AppHandler(app.make)
    for _ in range(5):
        assert handler(load("v2_default_stage"), None)["statusCode"] == 200
    assert (app.made, app.started, app.ended) == (1, 1, 0)

    handler.close()
    assert app.ended == 1


def test_a_lifespan_that_fails_is_a_json_rpc_error_and_tried_again_at_the_next_request(
    closing: Callable[[AppHandler], AppHandler], caplog: pytest.LogCaptureFixture
) -> None:
    app = App(failures=2)
    handler = closing(AppHandler(app.make))

    for _ in range(2):
        answer = handler(load("v2_default_stage"), None)
        assert (answer["statusCode"], code(answer)) == (500, "INTERNAL_ERROR")
        assert "secret" not in answer["body"]
        assert caplog.records[-1].getMessage().startswith("The MCP application failed to start")

    assert handler(load("v2_default_stage"), None)["statusCode"] == 200
    assert (app.made, app.started) == (3, 1)


def test_an_app_that_cannot_be_made_is_a_json_rpc_error(closing: Callable[[AppHandler], AppHandler]) -> None:
    def make() -> ASGIApp:
        raise RuntimeError("at /srv/secret.py")

    answer = closing(AppHandler(make))(load("v1_rest_stage"), None)
    assert (answer["statusCode"], code(answer)) == (500, "INTERNAL_ERROR")
    assert "secret" not in answer["body"]


def test_a_ping_during_a_failure_is_still_answered(closing: Callable[[AppHandler], AppHandler]) -> None:
    assert closing(AppHandler(App(failures=9).make))({"warmup": True}, None)["statusCode"] == 200


def test_a_lifespan_that_falls_later_is_started_anew(closing: Callable[[AppHandler], AppHandler]) -> None:
    # GIVEN an app whose lifespan ends by itself while the first request is answered
    lives: list[int] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            lives.append(1)
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await asyncio.sleep(0)
        else:
            await asyncio.sleep(0.01)
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"{}"})

    handler = closing(AppHandler(lambda: app))

    # WHEN a second request comes
    statuses = [handler(load("v2_default_stage"), None)["statusCode"] for _ in range(2)]

    # THEN there is a second life
    assert statuses == [200, 200]
    assert len(lives) == 2


def test_another_event_loop_set_meanwhile_does_no_harm(handler: AppHandler) -> None:
    assert handler(load("v2_default_stage"), None)["statusCode"] == 200
    asyncio.run(asyncio.sleep(0))
    assert handler(load("v2_default_stage"), None)["statusCode"] == 200


def test_invocations_from_threads_with_event_loops_of_their_own_are_all_answered(handler: AppHandler) -> None:
    def invoke(_: int) -> int:
        asyncio.set_event_loop(own := asyncio.new_event_loop())
        try:
            return handler(load("v2_default_stage"), None)["statusCode"]
        finally:
            own.close()
            asyncio.set_event_loop(None)

    for _ in range(3):
        with ThreadPoolExecutor(1) as thread:
            assert list(thread.map(invoke, range(2))) == [200, 200]


def test_what_the_adapter_itself_cannot_do_is_a_json_rpc_error(
    closing: Callable[[AppHandler], AppHandler], caplog: pytest.LogCaptureFixture
) -> None:
    # GIVEN an app whose answer no Lambda answer can hold
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        message: Message = await receive()
        if scope["type"] == "lifespan":
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
        else:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"\xff", "more_body": message["more_body"]})

    answer = closing(AppHandler(lambda: app))(load("v2_default_stage"), None)

    assert (answer["statusCode"], code(answer)) == (500, "INTERNAL_ERROR")
    assert "could not be answered" in caplog.text


# What the recorder is told


class Remembering(PlainRecorder):
    """Keeps what it is told, in order."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def invocation(self, correlation_id: str | None, request_id: str | None) -> AbstractContextManager[None]:
        self.told.append((correlation_id, request_id))
        return super().invocation(correlation_id, request_id)

    def request_failed(self, code: ErrorCode) -> None:
        self.told.append(code)


class Context:
    """What Lambda passes beside the event."""

    aws_request_id = "lambda-1"


def test_each_invocation_is_known_by_the_gateways_id_and_lambdas(closing: Callable[[AppHandler], AppHandler]) -> None:
    recorder = Remembering()
    handler = closing(AppHandler(App().make, recorder))
    for event, context in ((load("v2_default_stage"), Context()), (load("v1_rest_stage"), None), ({}, None)):
        handler(event, context)
    assert recorder.told == [
        ("PJk2tgXcjoEEMRA=", "lambda-1"),
        ("4f2b7c1e-9a36-4d58-8f70-1c2d3e4f5a6b", None),
        (None, None),
    ]


def test_a_request_that_the_server_fails_is_reported_and_one_that_it_refuses_is_not(
    closing: Callable[[AppHandler], AppHandler],
) -> None:
    recorder = Remembering()
    handler = closing(AppHandler(App(failures=1).make, recorder))
    handler(load("v2_default_stage"), Context())
    handler({"Records": []}, Context())
    assert [told for told in recorder.told if not isinstance(told, tuple)] == [ErrorCode.INTERNAL_ERROR]


# The start


def test_lists_that_hold_something_else_are_known_at_the_start() -> None:
    for wrong in (Settings(allowed_hosts=("a b",)), Settings(allowed_origins=("a b",))):
        with pytest.raises(BedivereError, match="BEDIVERE_ALLOWED_"):
            make_handler(wrong)


def forget() -> None:
    for kept in (main._beginning, main._process_handler):  # pyright: ignore[reportPrivateUsage]
        kept.cache_clear()


@pytest.fixture
def fresh_process() -> Iterator[None]:
    """The handler of the process forgotten, before and after."""
    forget()
    yield
    made = main._process_handler()  # pyright: ignore[reportPrivateUsage]
    if isinstance(made, AppHandler):
        made.close()
    forget()
    for name in ("bedivere", "mangum", "mcp"):
        logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.mark.usefixtures("fresh_process")
def test_lambda_handler_answers_from_the_environments_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEDIVERE_BASE_PATH", "/docs")
    monkeypatch.setenv("BEDIVERE_LOG_LEVEL", "debug")

    event = load("v2_custom_domain_base_path")
    assert main.lambda_handler(event, None)["statusCode"] == 200
    assert main.lambda_handler(event, None)["statusCode"] == 200
    assert logging.getLogger("bedivere").level == logging.DEBUG
    # What was asked stands in the SDK's debug lines.
    assert logging.getLogger("mcp").level == logging.WARNING


@pytest.mark.usefixtures("fresh_process")
@pytest.mark.parametrize(
    ("name", "value"), [("BEDIVERE_MAX_BODY_BYTES", "many"), ("BEDIVERE_ALLOWED_ORIGINS", "a.example")]
)
def test_a_setting_that_cannot_be_used_is_one_log_line_and_the_answer_to_every_request(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(name, value)

    for event in (load("v2_default_stage"), load("v1_rest_stage"), {}):
        answer = main.lambda_handler(event, None)
        assert (answer["statusCode"], code(answer)) == (500, "SETTING_INVALID")
        assert name in answer["body"]
    assert main.lambda_handler({"warmup": True}, None)["statusCode"] == 200
    assert [record.levelname for record in caplog.records if record.name == "bedivere"] == ["ERROR"]
    assert caplog.records[0].exc_info is None


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_an_import_brings_nothing_that_the_first_answer_does_not_need() -> None:
    done = python(
        "import gc, sys, handler.main\n"
        "assert gc.isenabled() and gc.get_freeze_count()\n"
        "unwanted = 'aws_lambda_powertools boto3 handler.cli lxml openai rich typer yaml'.split()\n"
        "print(*sorted({*unwanted} & {*sys.modules}))"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")


IN_LAMBDA = """
import json, pathlib
import handler.main as main
assert main._process_handler.cache_info().currsize == 1, "made while Lambda initialises"
event = json.loads(pathlib.Path("tests/events/v2_default_stage.json").read_text())
answers = [main.lambda_handler(event, None) for _ in range(3)]
print(json.dumps({"answers": [answer["statusCode"] for answer in answers]}))
getattr(main._process_handler(), "close", int)()
"""


def lines_in_lambda(**settings: str) -> list[dict[str, Any]]:
    """Every line that IN_LAMBDA writes; each is JSON."""
    done = python(IN_LAMBDA, AWS_LAMBDA_RUNTIME_API="127.0.0.1:9001", **settings)
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_in_lambda_the_handler_is_made_at_import_without_a_warning() -> None:
    metrics, answers = lines_in_lambda()

    assert answers == {"answers": [200, 200, 200]}
    assert metrics["ColdStart"] == [1.0]


def test_in_lambda_a_bad_setting_does_not_end_the_process() -> None:
    first, *metrics, answers = lines_in_lambda(BEDIVERE_ALLOWED_HOSTS="https://x")

    assert answers == {"answers": [500, 500, 500]}
    assert first["level"] == "ERROR"
    assert first["message"].startswith("SETTING_INVALID: BEDIVERE_ALLOWED_HOSTS must be host names")
    assert [line["code"] for line in metrics if "Errors" in line] == ["SETTING_INVALID"] * 3


@pytest.mark.parametrize("settings", [{"BEDIVERE_MAX_BODY_BYTES": "many"}, {"BEDIVERE_DATASET": "s3://"}])
def test_in_lambda_what_cannot_be_read_or_fetched_is_said_in_json_and_does_not_end_the_process(
    settings: dict[str, str],
) -> None:
    lines = lines_in_lambda(**settings)

    (answers,) = (line["answers"] for line in lines if "answers" in line)
    assert len(answers) == 3


FIRST_THINGS_FIRST = """
import builtins, sys
order = []
import_before = builtins.__import__
def watching(name, *rest):
    if name.partition(".")[0] in {"mangum", "mcp", "starlette"} and "imports" not in order:
        order.append("imports")
    return import_before(name, *rest)
builtins.__import__ = watching
from retrieval.dataset import ReleasedDataset
ReleasedDataset.start = lambda self: order.append("download")
import handler.main
print(*order)
"""


def test_in_lambda_the_download_begins_before_the_imports_that_take_long(tmp_path: Path) -> None:
    done = python(
        FIRST_THINGS_FIRST, AWS_LAMBDA_RUNTIME_API="127.0.0.1:9001", BEDIVERE_DATASET=(tmp_path / "store").as_uri()
    )
    assert (done.returncode, done.stdout.split()) == (0, ["download", "imports"])
