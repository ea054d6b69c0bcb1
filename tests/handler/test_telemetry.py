"""What an operator is told: the lines, the metrics, and all that is in neither."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client

from handler.protocol import build_server
from handler.telemetry import (
    METRICS,
    Call,
    CloudWatchRecorder,
    HeldRecords,
    PlainRecorder,
    Stopwatch,
    hold_logs,
    json_handler,
    lambda_recorder,
)
from retrieval.errors import ErrorCode
from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options
from retrieval.look import SyncOutcome
from retrieval.provider import Endpoint
from retrieval.retriever import Retriever
from retrieval.settings import Settings, load_settings
from tests.embedding_server import MODEL, EmbeddingServer

NOW = 2_000_000_000.0

Line = dict[str, Any]


@dataclass
class Told:
    """A recorder and what it has written, log lines and metrics apart."""

    recorder: CloudWatchRecorder
    capsys: pytest.CaptureFixture[str]
    stream: io.StringIO = field(default_factory=io.StringIO)

    def log(self) -> list[Line]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def metrics(self) -> list[Line]:
        return [json.loads(line) for line in self.capsys.readouterr().out.splitlines()]


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    monkeypatch.delenv("POWERTOOLS_SERVICE_NAME", raising=False)
    monkeypatch.delenv("AWS_LAMBDA_INITIALIZATION_TYPE", raising=False)
    stream = io.StringIO()
    handler, formatter = json_handler(stream)
    logger = logging.getLogger("bedivere")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield Told(CloudWatchRecorder(Settings(), formatter, now=lambda: NOW), capsys, stream)
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


CALL = Call(tool="lancedb_search", status="ok", milliseconds=12.5)
SYNC = SyncOutcome(
    failure=None, milliseconds=700.0, release="20330518T033300Z-3f2a9c1b", published_at=NOW - 60, fetched_bytes=1000
)


def call(**changes: Any) -> Call:
    return replace(CALL, **changes)


def synced(**changes: Any) -> SyncOutcome:
    return replace(SYNC, **changes)


# The log


def test_a_call_is_one_line_with_the_invocations_ids(told: Told) -> None:
    with told.recorder.invocation("gateway-1", "lambda-1"):
        told.recorder.call_finished(call(stages={"parse": 0.1}, search_type="text", hits=3, release="r1"))

    (line,) = told.log()
    assert line.pop("timestamp")
    assert line.pop("location")
    assert line == {
        "level": "INFO",
        "message": "call",
        "service": "bedivere",
        "correlation_id": "gateway-1",
        "function_request_id": "lambda-1",
        "cold_start": True,
        "tool": "lancedb_search",
        "status": "ok",
        "milliseconds": 12.5,
        "stages": {"parse": 0.1},
        "search_type": "text",
        "hits": 3,
        "release": "r1",
    }


def test_without_a_gateways_id_lambdas_own_correlates(told: Told) -> None:
    with told.recorder.invocation(None, "lambda-1"):
        told.recorder.call_finished(call())
    assert told.log()[0]["correlation_id"] == "lambda-1"


def test_only_the_first_invocation_of_an_environment_is_a_cold_start(told: Told) -> None:
    for number in range(3):
        with told.recorder.invocation(None, str(number)):
            told.recorder.call_finished(call())
    assert [line["cold_start"] for line in told.log()] == [True, False, False]
    assert [line["ColdStart"] for line in told.metrics() if "ColdStart" in line] == [[1.0]]


def test_an_environment_that_was_provisioned_has_no_cold_start(
    told: Told, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_LAMBDA_INITIALIZATION_TYPE", "provisioned-concurrency")
    recorder = CloudWatchRecorder(Settings(), json_handler(io.StringIO())[1])
    with recorder.invocation(None, "1"):
        pass
    assert capsys.readouterr().out == ""


def test_the_ids_of_one_invocation_are_not_those_of_what_comes_after(told: Told) -> None:
    with told.recorder.invocation("gateway-1", "lambda-1"):
        pass
    told.recorder.call_finished(call())
    assert {"correlation_id", "function_request_id", "cold_start"} & told.log()[0].keys() == set()


def test_arguments_are_in_the_line_where_they_are_given(told: Told) -> None:
    told.recorder.call_finished(call(arguments='{"query":"zanzibar"}'))
    assert told.log()[0]["arguments"] == '{"query":"zanzibar"}'


def test_a_line_break_in_a_message_forges_no_line(told: Told) -> None:
    logging.getLogger("bedivere").warning('one\n{"level":"ERROR"}\u2028two')
    assert len(told.stream.getvalue().splitlines()) <= 2
    assert told.stream.getvalue().count("\n") == 1


def fail(text: str) -> None:
    raise RuntimeError(text)


def test_of_an_exception_its_place_is_logged_and_not_its_text(told: Told) -> None:
    try:
        fail("\n".join(["the", "secret", "query"]))
    except RuntimeError:
        logging.getLogger("bedivere").exception("It failed")

    (line,) = told.log()
    assert line["exception_name"] == "RuntimeError"
    assert "test_telemetry.py" in line["exception"]
    assert "secret\nquery" not in line["exception"]
    assert "secret\\nquery" not in told.stream.getvalue()


# The metrics


def test_every_metric_has_its_namespace_unit_and_dimensions(told: Told) -> None:
    with told.recorder.invocation(None, "1"):
        told.recorder.call_finished(call(status=ErrorCode.INVALID_QUERY, degraded=True))
        told.recorder.sync_finished(synced())
        told.recorder.sync_finished(synced(failure=ErrorCode.STORE_DENIED, fetched_bytes=None))
        told.recorder.tokens_embedded(7)

    seen: dict[str, tuple[str, tuple[str, ...]]] = {}
    for line in told.metrics():
        (directive,) = line["_aws"]["CloudWatchMetrics"]
        assert directive["Namespace"] == "Bedivere"
        assert [set(dimensions) for dimensions in directive["Dimensions"]][-1] == {"service"}
        assert all(len(dimensions) <= 2 for dimensions in directive["Dimensions"])
        for metric in directive["Metrics"]:
            seen[metric["Name"]] = (metric["Unit"], tuple(sorted(directive["Dimensions"][0])))
            assert line[metric["Name"]]
    assert seen == {name: (unit, tuple(sorted(dimensions))) for name, (unit, dimensions) in METRICS.items()}


def test_metrics_are_written_once_at_the_end_of_an_invocation(told: Told) -> None:
    with told.recorder.invocation(None, "1"):
        told.recorder.call_finished(call())
        told.recorder.call_finished(call(milliseconds=2.0))
        assert told.metrics() == []
    totals, calls = told.metrics()
    assert totals["ColdStart"] == [1.0]
    assert (calls["tool"], calls["Calls"], calls["Latency"]) == ("lancedb_search", [1.0, 1.0], [12.5, 2.0])
    assert told.metrics() == []


def test_metrics_are_written_where_the_invocation_fails_too(told: Told) -> None:
    with pytest.raises(KeyError), told.recorder.invocation(None, "1"):
        raise KeyError
    assert told.metrics()[0]["ColdStart"] == [1.0]


def test_what_a_thread_reports_between_invocations_is_written_with_the_next(told: Told) -> None:
    thread = threading.Thread(target=told.recorder.sync_finished, args=(synced(),))
    thread.start()
    thread.join()
    assert told.metrics() == []
    with told.recorder.invocation(None, "1"):
        pass
    (line,) = told.metrics()
    assert (line["SyncMs"], line["DatasetAgeSeconds"]) == ([700.0], [60.0])


def test_the_age_of_the_dataset_is_written_with_every_invocation_and_a_folder_has_none(told: Told) -> None:
    with told.recorder.invocation(None, "1"):
        pass
    assert "DatasetAgeSeconds" not in told.metrics()[0]
    told.recorder.sync_finished(synced(published_at=NOW + 5))
    for number in ("2", "3"):
        with told.recorder.invocation(None, number):
            pass
    # A clock that is behind makes nothing younger than new.
    assert [line["DatasetAgeSeconds"] for line in told.metrics()] == [[0.0], [0.0]]


def test_a_failed_sync_is_counted_and_says_why_in_the_log(told: Told) -> None:
    with told.recorder.invocation(None, "1"):
        told.recorder.sync_finished(synced(failure=ErrorCode.STORE_DENIED, release=None, published_at=None))
    (line,) = told.metrics()
    assert line["SyncFailures"] == [1.0]
    assert "SyncMs" not in line
    assert told.log()[0]["status"] == "STORE_DENIED"
    assert "release" not in told.log()[0]


def test_a_request_that_failed_before_a_call_is_counted_by_its_code(told: Told) -> None:
    with told.recorder.invocation(None, "1"):
        told.recorder.request_failed(ErrorCode.INTERNAL_ERROR)
    assert [line["code"] for line in told.metrics() if "Errors" in line] == ["INTERNAL_ERROR"]


@pytest.fixture
def embedded(tmp_path: Path, embedding_server: EmbeddingServer) -> Settings:
    """The settings of a server over documents with vectors."""
    settings = load_settings(
        database=str(tmp_path / "database"), openai_base_url=embedding_server.url, embedding_model=MODEL
    )
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "keys.md").write_text("# Keys\n\nRotate the key every spring.\n")
    build_table(Options(tmp_path / "docs", tmp_path / "database", embed=True, endpoint=Endpoint(settings)))
    return settings


def asked(told: Told, settings: Settings, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The metrics of one call, as an MCP client makes it."""

    async def call() -> None:
        async with Client(build_server(settings, Retriever(settings), told.recorder)) as client:
            assert not (await client.call_tool(tool, arguments)).is_error

    with told.recorder.invocation(None, "1"):
        asyncio.run(call())
    return {name: value for line in told.metrics() for name, value in line.items()}


QUESTIONS: list[tuple[str, dict[str, Any]]] = [
    ("lancedb_search", {"query": "rotate the key"}),
    ("lancedb_query", {"question": "rotate the key"}),
]


@pytest.mark.parametrize(("tool", "arguments"), QUESTIONS)
def test_a_question_that_is_embedded_is_counted_by_its_tokens(
    told: Told, embedded: Settings, tool: str, arguments: dict[str, Any]
) -> None:
    metrics = asked(told, embedded, tool, arguments)
    assert metrics["EmbeddingTokens"] == [3.0]
    assert "Degraded" not in metrics


@pytest.mark.parametrize(("tool", "arguments"), QUESTIONS)
def test_words_that_answer_because_the_provider_fails_are_counted(
    told: Told, embedded: Settings, embedding_server: EmbeddingServer, tool: str, arguments: dict[str, Any]
) -> None:
    embedding_server.fail("status", status=500)
    metrics = asked(told, embedded, tool, arguments)
    assert metrics["Degraded"] == [1.0]
    assert "EmbeddingTokens" not in metrics


def test_words_that_answer_because_there_are_no_vectors_are_no_failure(told: Told, handbook: Path) -> None:
    assert "Degraded" not in asked(told, load_settings(database=str(handbook)), "lancedb_search", {"query": "backup"})


def test_namespace_and_service_are_those_that_are_set(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "handbook-prod")
    recorder = CloudWatchRecorder(Settings(metrics_namespace="Docs"), json_handler(io.StringIO())[1])
    with recorder.invocation(None, "1"):
        recorder.call_finished(call())
    for line in map(json.loads, capsys.readouterr().out.splitlines()):
        assert line["service"] == "handbook-prod"
        assert line["_aws"]["CloudWatchMetrics"][0]["Namespace"] == "Docs"


# The process


@pytest.fixture
def root_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the test makes of the root logger's handlers is undone."""
    monkeypatch.setattr(logging.getLogger(), "handlers", list(logging.getLogger().handlers))


@pytest.mark.usefixtures("root_handlers")
def test_what_was_logged_before_there_was_a_recorder_is_written_as_json_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    hold_logs()
    logging.getLogger("bedivere").warning("early")
    logging.getLogger("another").warning("early too")
    assert capsys.readouterr().out == ""

    lambda_recorder(Settings())
    logging.getLogger("another").error("late")

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["message"] for line in lines] == ["early", "early too", "late"]


@pytest.mark.usefixtures("root_handlers")
def test_the_runtimes_own_handler_writes_no_second_line(capsys: pytest.CaptureFixture[str]) -> None:
    logging.getLogger().addHandler(logging.StreamHandler(sys.stdout))
    lambda_recorder(Settings())
    logging.getLogger("bedivere").warning("once")
    assert capsys.readouterr().out.count("once") == 1
    assert not any(isinstance(handler, HeldRecords) for handler in logging.getLogger().handlers)


def test_a_local_server_logs_for_a_person(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    recorder = PlainRecorder()
    with recorder.invocation("gateway-1", "lambda-1"):
        recorder.call_finished(call(search_type="text", hits=3, release="r1"))
        recorder.call_finished(call(tool="lancedb_status", status="INTERNAL_ERROR", arguments="{}"))
        recorder.sync_finished(synced(release="r2"))
        recorder.sync_finished(synced(failure=ErrorCode.STORE_DENIED))
        recorder.tokens_embedded(7)
        recorder.request_failed(ErrorCode.INTERNAL_ERROR)
    assert [record.getMessage() for record in caplog.records] == [
        "lancedb_search ok 12.5 ms, text, 3 hits, release r1",
        "lancedb_status INTERNAL_ERROR 12.5 ms",
        "lancedb_status asked {}",
        "sync ok 700 ms, release r2",
        "7 tokens embedded",
    ]


def test_a_stopwatch_gives_each_stage_its_own_milliseconds() -> None:
    ticks = iter([0.0, 0.001, 0.0035, 0.005])
    watch = Stopwatch(lambda: next(ticks))
    watch.lap("parse")
    watch.lap("retrieve")
    assert (watch.stages, watch.milliseconds()) == ({"parse": 1.0, "retrieve": 2.5}, 5.0)
