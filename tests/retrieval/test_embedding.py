"""The vector of a question, from a real server on loopback that fails as providers do: in time, or with a reason."""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from typing import Any

import pytest

from retrieval import embedding, provider
from retrieval.circuit import FIRST_PAUSE, REFUSED_PAUSE, THRESHOLD
from retrieval.embedding import EmbeddingUnavailable, QueryEmbedder, QueryVector
from retrieval.settings import load_settings
from tests.embedding_server import DIMENSIONS, MODEL, EmbeddingServer, cosine, vector_of


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Asked:
    """An embedder with a clock of its own, and what it told of tokens."""

    embedder: QueryEmbedder
    clock: Clock
    tokens: list[int] = field(default_factory=list[int])

    def ask(self, text: str = "where are keys", *, dimensions: int | None = None) -> QueryVector:
        return asyncio.run(self.embedder.embed(text, dimensions=dimensions))

    def refusal(self, text: str = "where are keys", *, dimensions: int | None = None) -> EmbeddingUnavailable:
        with pytest.raises(EmbeddingUnavailable) as caught:
            self.ask(text, dimensions=dimensions)
        return caught.value


def asking(server: EmbeddingServer | None, **settings: Any) -> Asked:
    clock, tokens = Clock(), list[int]()
    given = {"openai_base_url": server.url, "embedding_model": MODEL} if server else {}
    embedder = QueryEmbedder(load_settings(**given, **settings), on_tokens=tokens.append, clock=clock)
    return Asked(embedder, clock, tokens)


def test_a_question_gets_the_models_vector_at_unit_length(embedding_server: EmbeddingServer) -> None:
    vector = asking(embedding_server).ask("where are keys").values
    assert math.hypot(*vector) == pytest.approx(1)
    assert cosine(vector, vector_of("where are keys")) == pytest.approx(1)


def test_lists_of_numbers_are_taken_where_base64_was_asked_for(embedding_server: EmbeddingServer) -> None:
    expected = asking(embedding_server).ask()
    embedding_server.plain_lists = True
    assert asking(embedding_server).ask().values == expected.values


def test_a_server_of_ones_own_needs_no_key(embedding_server: EmbeddingServer) -> None:
    asked = asking(embedding_server)
    assert asked.embedder.configured
    assert not asked.ask().cached


def test_without_a_provider_the_sentence_names_the_settings() -> None:
    asked = asking(None)
    assert not asked.embedder.configured
    assert asked.refusal().reason == "not_configured"
    assert "OPENAI_API_KEY" in asked.refusal().sentence


def test_the_tokens_that_are_paid_for_are_told(embedding_server: EmbeddingServer) -> None:
    asked = asking(embedding_server)
    vector = asked.ask("one two three")
    asked.ask("one two three")
    assert (vector.tokens, asked.tokens) == (3, [3])


def test_a_recent_question_is_not_paid_for_again(embedding_server: EmbeddingServer) -> None:
    asked = asking(embedding_server)
    first, second = asked.ask(), asked.ask()
    assert (first.cached, second.cached, second.tokens) == (False, True, 0)
    assert first.values == second.values
    assert len(embedding_server.requests) == 1


def test_the_oldest_questions_are_forgotten(embedding_server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "CACHED_VECTORS", 2)
    asked = asking(embedding_server)
    for text in ("a", "b", "a", "c"):
        asked.ask(text)
    assert asked.ask("a").cached
    assert not asked.ask("b").cached


def test_each_call_may_come_from_another_event_loop(embedding_server: EmbeddingServer) -> None:
    asked = asking(embedding_server)
    assert [asked.ask(text).cached for text in ("a", "b", "c")] == [False] * 3


def test_dimensions_are_sent_only_where_they_are_set(embedding_server: EmbeddingServer) -> None:
    asking(embedding_server).ask()
    vector = asking(embedding_server, embedding_dimensions=8).ask()
    assert [request.get("dimensions") for request in embedding_server.requests] == [None, 8]
    assert len(vector.values) == 8


def test_a_known_model_is_not_asked_for_the_length_that_it_has(embedding_server: EmbeddingServer) -> None:
    embedding_server.dimensions = 384
    settings = load_settings(
        openai_base_url=embedding_server.url, embedding_model="all-MiniLM-L6-v2", embedding_dimensions=384
    )
    asyncio.run(QueryEmbedder(settings).embed("x"))
    assert "dimensions" not in embedding_server.requests[0]


def test_a_model_gets_the_prefix_that_it_wants(embedding_server: EmbeddingServer) -> None:
    settings = load_settings(openai_base_url=embedding_server.url, embedding_model="nomic-embed-text")
    embedding_server.dimensions = 768
    asyncio.run(QueryEmbedder(settings).embed("keys"))
    assert embedding_server.requests[0]["input"] == ["search_query: keys"]


@pytest.mark.parametrize(("prefix", "sent"), [("ask: ", "ask: keys"), ("none", "keys")])
def test_a_prefix_that_is_set_wins(embedding_server: EmbeddingServer, prefix: str, sent: str) -> None:
    embedding_server.dimensions = 768
    settings = load_settings(
        openai_base_url=embedding_server.url, embedding_model="nomic-embed-text", embedding_query_prefix=prefix
    )
    asyncio.run(QueryEmbedder(settings).embed("keys"))
    assert embedding_server.requests[0]["input"] == [sent]


@pytest.mark.parametrize(
    ("failure", "reason", "words"),
    [
        ({"kind": "status", "status": 401}, "refused", "OPENAI_API_KEY"),
        ({"kind": "status", "status": 403}, "refused", "status 403"),
        ({"kind": "status", "status": 404}, "provider_error", "EMBEDDING_MODEL"),
        ({"kind": "status", "status": 429}, "rate_limited", "status 429"),
        ({"kind": "status", "status": 500}, "provider_error", "status 500"),
        ({"kind": "status", "status": 400}, "provider_error", "status 400"),
        ({"kind": "drop"}, "provider_error", "could not be reached"),
        ({"kind": "not_json"}, "provider_error", ""),
        ({"kind": "few"}, "provider_error", "0 in place of 1"),
        ({"kind": "nan"}, "bad_vector", "finite"),
        ({"kind": "zero"}, "bad_vector", "zeros"),
        ({"kind": "garbage"}, "bad_vector", "no vector"),
    ],
)
def test_each_failure_has_its_reason_and_is_not_tried_again(
    embedding_server: EmbeddingServer, failure: dict[str, Any], reason: str, words: str
) -> None:
    embedding_server.fail(**failure)
    refusal = asking(embedding_server).refusal()
    assert refusal.reason == reason
    assert words in refusal.sentence
    assert "sk-secret" not in str(refusal)
    assert len(embedding_server.requests) == 1


def test_a_vector_of_another_length_than_the_tables_is_refused(embedding_server: EmbeddingServer) -> None:
    refusal = asking(embedding_server).refusal(dimensions=24)
    assert refusal.reason == "bad_vector"
    assert "16 numbers where 24" in refusal.sentence


def test_a_provider_that_hangs_costs_the_deadline_and_no_more(
    embedding_server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asking(embedding_server)
    asyncio.run(asked.embedder.prepare())
    monkeypatch.setattr(embedding, "DEADLINE_SECONDS", 0.05)
    embedding_server.fail("hang")
    assert asked.refusal().reason == "timeout"
    assert embedding_server.held.wait(10)


def test_what_was_begun_in_the_background_is_what_the_first_question_uses(
    embedding_server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = threading.Event()

    def key(arn: str) -> str:
        read.set()
        return "sk-early"

    monkeypatch.setattr(provider, "read_secret", key)
    arn = "arn:aws:ssm:eu-west-1:123456789012:parameter/key"
    embedder = QueryEmbedder(load_settings(openai_api_key_arn=arn, openai_base_url=embedding_server.url))
    embedder.begin()
    assert read.wait(10)
    asyncio.run(embedder.prepare())
    assert embedding_server.requests == []


def test_nothing_is_begun_without_a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[object] = []
    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", begun.append)
    QueryEmbedder(load_settings()).begin()
    assert begun == []


def test_a_key_that_aws_keeps_back_costs_the_deadline_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    def held(arn: str) -> str:
        released.wait(10)
        return "sk-late"

    monkeypatch.setattr(provider, "read_secret", held)
    monkeypatch.setattr(embedding, "DEADLINE_SECONDS", 0.05)
    arn = "arn:aws:ssm:eu-west-1:123456789012:parameter/key"
    embedder = QueryEmbedder(load_settings(openai_api_key_arn=arn))
    try:
        asyncio.run(asyncio.wait_for(embedder.prepare(), 5))
        assert not released.is_set()
        with pytest.raises(EmbeddingUnavailable) as caught:
            asyncio.run(asyncio.wait_for(embedder.embed("keys"), 5))
        assert caught.value.reason == "timeout"
    finally:
        released.set()


def test_repeated_failures_open_the_circuit_and_a_pause_closes_it(embedding_server: EmbeddingServer) -> None:
    asked = asking(embedding_server)
    embedding_server.fail("status", status=503)
    reasons = [asked.refusal().reason for _ in range(THRESHOLD + 2)]
    assert reasons == ["provider_error"] * THRESHOLD + ["circuit_open"] * 2
    assert len(embedding_server.requests) == THRESHOLD
    embedding_server.heal()
    asked.clock.now += FIRST_PAUSE
    assert not asked.ask().cached


def test_an_open_circuit_says_why_and_when_the_provider_is_asked_again(embedding_server: EmbeddingServer) -> None:
    asked = asking(embedding_server)
    embedding_server.fail("status", status=401)
    asked.refusal()
    sentence = asked.refusal().sentence
    assert "refused the key" in sentence
    assert f"in {REFUSED_PAUSE:.0f} seconds" in sentence


def test_the_wait_that_the_provider_asks_for_is_kept(embedding_server: EmbeddingServer) -> None:
    asked = asking(embedding_server)
    embedding_server.fail("status", status=429, headers={"Retry-After": "30"}, times=1)
    asked.refusal()
    asked.clock.now += 29
    assert asked.refusal().reason == "circuit_open"
    asked.clock.now += 1
    assert not asked.ask().cached


def test_a_question_that_is_refused_for_itself_does_not_open_the_circuit(embedding_server: EmbeddingServer) -> None:
    asked = asking(embedding_server)
    embedding_server.fail("status", status=400, times=THRESHOLD + 1)
    for _ in range(THRESHOLD + 1):
        assert asked.refusal().reason == "provider_error"
    assert not asked.ask().cached


def test_a_call_that_is_given_up_leaves_the_way_free_for_the_next(embedding_server: EmbeddingServer) -> None:
    asked = asking(embedding_server)
    embedding_server.fail("status", status=503, times=THRESHOLD)
    for _ in range(THRESHOLD):
        asked.refusal()
    asked.clock.now += FIRST_PAUSE
    held = embedding_server.fail("hang")

    async def give_up() -> None:
        task = asyncio.create_task(asked.embedder.embed("probe"))
        await asyncio.to_thread(embedding_server.held.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())
    embedding_server.failures.remove(held)
    assert not asked.ask().cached


def test_a_table_of_the_same_model_agrees(embedding_server: EmbeddingServer) -> None:
    embedder = asking(embedding_server).embedder
    assert embedder.mismatch({"model": MODEL, "dimensions": DIMENSIONS}) is None


def test_a_table_of_another_model_is_told_with_both_names(embedding_server: EmbeddingServer) -> None:
    sentence = asking(embedding_server).embedder.mismatch({"model": "other-large", "dimensions": DIMENSIONS})
    assert sentence is not None
    assert "'other-large'" in sentence
    assert f"'{MODEL}'" in sentence


def test_a_table_of_another_length_is_told_with_the_setting(embedding_server: EmbeddingServer) -> None:
    embedder = asking(embedding_server, embedding_dimensions=8).embedder
    assert "EMBEDDING_DIMENSIONS=16" in (embedder.mismatch({"model": MODEL, "dimensions": 16}) or "")


NO_RECORD = [None, {}, {"model": MODEL}, {"model": 7, "dimensions": 3}]


@pytest.mark.parametrize("record", NO_RECORD)
def test_vectors_without_a_record_are_not_trusted_to_be_of_the_default_model(record: dict[str, Any] | None) -> None:
    embedder = asking(None).embedder
    assert "set EMBEDDING_MODEL" in (embedder.mismatch(record, 1536) or "")
    assert embedder.on_trust(record) is None


@pytest.mark.parametrize("record", NO_RECORD)
def test_vectors_without_a_record_are_taken_on_trust_where_the_owner_names_the_model(
    embedding_server: EmbeddingServer, record: dict[str, Any] | None
) -> None:
    embedder = asking(embedding_server).embedder
    assert embedder.mismatch(record, DIMENSIONS) is None
    assert f"{MODEL!r} is taken on trust" in (embedder.on_trust(record) or "")


def test_an_environment_names_the_model_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBEDDING_MODEL", MODEL)
    assert asking(None).embedder.mismatch(None, DIMENSIONS) is None


def test_vectors_without_a_record_are_not_those_of_a_model_of_another_length() -> None:
    embedder = QueryEmbedder(load_settings(embedding_model="text-embedding-3-small"))
    sentence = embedder.mismatch(None, 384) or ""
    assert "384 dimensions" in sentence
    assert "1,536" in sentence


def test_vectors_with_a_record_need_no_trust(embedding_server: EmbeddingServer) -> None:
    assert asking(embedding_server).embedder.on_trust({"model": MODEL, "dimensions": DIMENSIONS}) is None


def test_what_was_asked_is_never_logged(embedding_server: EmbeddingServer, caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("openai").setLevel(logging.NOTSET)
    with caplog.at_level(logging.DEBUG):
        asking(embedding_server, openai_api_key="sk-private").ask("unmistakable")
        embedding_server.fail("status")
        asking(embedding_server, openai_api_key="sk-private").refusal("unmistakable")
    assert "unmistakable" not in caplog.text
    assert "sk-private" not in caplog.text


def test_an_embedder_that_is_dropped_lets_its_connections_go(embedding_server: EmbeddingServer) -> None:
    asking(embedding_server).ask()
    gc.collect()
    assert not asking(embedding_server).ask("again").cached


def test_openai_is_imported_only_when_a_vector_is_needed() -> None:
    code = (
        "import sys; from retrieval.embedding import QueryEmbedder; from retrieval.settings import load_settings; "
        "QueryEmbedder(load_settings(openai_api_key='k')).mismatch(None); "
        "print([name for name in ('openai', 'boto3', 'httpx2') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
