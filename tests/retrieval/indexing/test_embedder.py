"""Embedding many texts with a server that limits, refuses and fails: patience, halves, and nothing paid for twice."""

from __future__ import annotations

import asyncio
import threading
from array import array
from collections.abc import Sequence
from typing import Any

import pytest

from retrieval.indexing import embedder
from retrieval.indexing.embedder import ATTEMPTS, CONCURRENCY, DocumentEmbedder, Spent, batches
from retrieval.provider import EmbeddingUnavailable, Endpoint
from retrieval.settings import load_settings
from tests.embedding_server import MODEL, EmbeddingServer, cosine, vector_of


class Run:
    """One run over texts whose keys are their own bytes."""

    def __init__(self, server: EmbeddingServer, *, dimensions: int | None = None, **settings: Any) -> None:
        given = {"openai_base_url": server.url, "embedding_model": MODEL} | settings
        self.kept: dict[str, list[float]] = {}
        self.told: list[tuple[int, int]] = []
        self.waits: list[str] = []
        self.embedder = DocumentEmbedder(
            Endpoint(load_settings(**given)),
            dimensions,
            self._keep,
            lambda texts, tokens: self.told.append((texts, tokens)),
            lambda why, _seconds: self.waits.append(why),
        )

    def __call__(self, texts: Sequence[str]) -> Spent:
        return asyncio.run(self.embedder.run((text.encode(), text) for text in texts))

    def _keep(self, keys: Sequence[bytes], vectors: Sequence[array[float]]) -> None:
        self.kept.update((key.decode(), vector.tolist()) for key, vector in zip(keys, vectors, strict=True))


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setattr(embedder, "FIRST_WAIT_SECONDS", 0.0001)
    monkeypatch.setattr(embedder, "MAX_TEXTS", 8)


def texts(count: int) -> list[str]:
    return [f"chunk number {number}" for number in range(count)]


def test_every_text_gets_its_own_vector(embedding_server: EmbeddingServer) -> None:
    embedding_server.backwards = True
    run = Run(embedding_server)
    spent = run(texts(50))
    assert (spent.texts, spent.tokens, spent.truncated) == (50, 150, 0)
    assert all(cosine(vector, vector_of(text)) == pytest.approx(1) for text, vector in run.kept.items())
    assert len(run.kept) == 50


def test_what_was_done_is_told_batch_by_batch(embedding_server: EmbeddingServer) -> None:
    run = Run(embedding_server)
    run(texts(20))
    assert sorted(run.told) == [(4, 12), (8, 24), (8, 24)]


def test_batches_are_bounded_by_count_and_by_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedder, "MAX_TOKENS", 10)
    made = list(batches([(b"", "x" * 16)] * 5 + [(b"", "y" * 400)] + [(b"", "z")] * 9))
    assert [len(batch) for batch in made] == [2, 2, 1, 1, 8, 1]


def test_a_document_gets_the_prefix_that_the_model_wants(embedding_server: EmbeddingServer) -> None:
    embedding_server.dimensions = 768
    Run(embedding_server, embedding_model="nomic-embed-text")(["keys"])
    assert embedding_server.answered == ["search_document: keys"]


@pytest.mark.parametrize(
    "failure",
    [
        {"kind": "status", "status": 429, "headers": {"Retry-After": "0"}},
        {"kind": "status", "status": 429},
        {"kind": "status", "status": 408},
        {"kind": "status", "status": 500},
        {"kind": "status", "status": 503},
        {"kind": "drop"},
    ],
)
def test_what_passes_is_waited_for(embedding_server: EmbeddingServer, failure: dict[str, Any]) -> None:
    embedding_server.fail(**failure, times=3)
    run = Run(embedding_server)
    run(texts(20))
    assert len(run.kept) == 20
    assert sorted(embedding_server.answered) == sorted(texts(20))


def test_the_wait_that_is_asked_for_holds_back_every_request(
    embedding_server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused: list[float] = []

    def note(_embedder: DocumentEmbedder, _attempt: int, asked: float, _why: str) -> None:
        paused.append(asked)

    monkeypatch.setattr(DocumentEmbedder, "_pause", note)
    embedding_server.fail("status", status=429, headers={"Retry-After": "17"}, times=1)
    Run(embedding_server)(texts(3))
    assert paused == [17.0]


def test_a_wait_is_told_once_for_all_requests_that_it_holds_back(embedding_server: EmbeddingServer) -> None:
    embedding_server.fail("status", status=503, times=CONCURRENCY)
    run = Run(embedding_server)
    run(texts(8 * CONCURRENCY))
    assert run.waits == ["The embeddings provider answered with status 503."]


def test_a_wait_of_hours_ends_the_run(embedding_server: EmbeddingServer) -> None:
    embedding_server.fail("status", status=429, headers={"Retry-After": "7200"})
    with pytest.raises(EmbeddingUnavailable) as caught:
        Run(embedding_server)(texts(3))
    assert caught.value.reason == "rate_limited"
    assert len(embedding_server.requests) == 1


def test_patience_has_an_end(embedding_server: EmbeddingServer) -> None:
    embedding_server.fail("status", status=503)
    with pytest.raises(EmbeddingUnavailable, match="status 503"):
        Run(embedding_server)(texts(3))
    assert len(embedding_server.requests) == ATTEMPTS


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        ({"kind": "status", "status": 401}, "refused"),
        ({"kind": "status", "status": 404}, "provider_error"),
        ({"kind": "status", "status": 400, "message": "no such thing"}, "provider_error"),
        ({"kind": "status", "status": 429, "code": "insufficient_quota"}, "rate_limited"),
        ({"kind": "nan"}, "bad_vector"),
        ({"kind": "zero"}, "bad_vector"),
        ({"kind": "few"}, "provider_error"),
    ],
)
def test_what_no_patience_mends_ends_the_run_at_once(
    embedding_server: EmbeddingServer, failure: dict[str, Any], reason: str
) -> None:
    embedding_server.fail(**failure)
    with pytest.raises(EmbeddingUnavailable) as caught:
        Run(embedding_server)(texts(3))
    assert caught.value.reason == reason
    assert len(embedding_server.requests) == 1


def test_vectors_of_another_length_than_wanted_end_the_run(embedding_server: EmbeddingServer) -> None:
    run = Run(embedding_server, dimensions=24)
    with pytest.raises(EmbeddingUnavailable, match="16 numbers where 24"):
        run(texts(3))
    assert run.kept == {}


def test_a_length_that_changes_midway_ends_the_run(embedding_server: EmbeddingServer) -> None:
    run = Run(embedding_server)
    run(texts(3))
    embedding_server.dimensions = 12
    with pytest.raises(EmbeddingUnavailable, match="12 numbers where 16"):
        run(["more"])


@pytest.mark.parametrize(("status", "message"), [(413, ""), (400, "batch size 8 > maximum allowed batch size 3")])
def test_a_batch_with_too_many_texts_is_halved(embedding_server: EmbeddingServer, status: int, message: str) -> None:
    embedding_server.most_texts, embedding_server.size_status = 3, status
    embedding_server.size_message = message
    run = Run(embedding_server)
    spent = run(texts(8))
    assert (len(run.kept), spent.truncated) == (8, 0)
    assert sorted(embedding_server.answered) == sorted(texts(8))


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "This model's maximum context length is 8192 tokens, however you requested 9000"),
        (422, "inputs must have less than 512 tokens. Given: 700: input exceeds the limit"),
        (500, "input is too large to process. increase the physical batch size"),
    ],
)
def test_a_text_that_is_too_long_is_cut_and_counted(
    embedding_server: EmbeddingServer, status: int, message: str
) -> None:
    embedding_server.most_chars, embedding_server.size_status = 200, status
    embedding_server.size_message = message
    run = Run(embedding_server)
    long = ["long " * 100, "also long " * 70]
    spent = run([*texts(5), *long])
    assert (len(run.kept), spent.texts, spent.truncated) == (7, 7, 2)
    cut = [text for text in embedding_server.answered if "long" in text]
    assert all(any(text.startswith(start) for text in long) for start in cut)
    assert all(100 < len(text) <= 200 for text in cut)


def test_a_short_text_that_is_refused_for_its_size_ends_the_run(embedding_server: EmbeddingServer) -> None:
    embedding_server.most_chars = 3
    with pytest.raises(EmbeddingUnavailable, match="status 400"):
        Run(embedding_server)(texts(1))


def test_no_more_than_a_few_requests_are_under_way(embedding_server: EmbeddingServer) -> None:
    embedding_server.hang_after = 0
    all_held = embedding_server.all_held = threading.Barrier(CONCURRENCY + 1)

    async def count() -> int:
        run = Run(embedding_server)
        wanted = ((text.encode(), text) for text in texts(200))
        task = asyncio.create_task(run.embedder.run(wanted))
        await asyncio.to_thread(all_held.wait, 10)
        seen = len(embedding_server.requests)
        task.cancel()
        embedding_server.closing.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        return seen

    assert asyncio.run(count()) == CONCURRENCY


def test_what_is_under_way_when_a_run_is_interrupted_is_kept(embedding_server: EmbeddingServer) -> None:
    run = Run(embedding_server)

    def wanted() -> Any:
        for text in texts(8 * CONCURRENCY + 1):
            yield text.encode(), text
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(run.embedder.run(wanted()))
    assert sorted(run.kept) == sorted(embedding_server.answered) == sorted(texts(8 * CONCURRENCY))


def test_one_request_that_fails_for_good_does_not_lose_what_the_others_paid_for(
    embedding_server: EmbeddingServer,
) -> None:
    embedding_server.fail("status", status=401, times=1)
    run = Run(embedding_server)
    with pytest.raises(EmbeddingUnavailable):
        run(texts(24))
    assert sorted(run.kept) == sorted(embedding_server.answered)
