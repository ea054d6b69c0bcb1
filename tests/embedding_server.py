"""An OpenAI-compatible server of embeddings on loopback that can be told to fail in the ways that providers do.

Its vectors depend on the words of a text alone: texts that share words are near each other.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import threading
from array import array
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from tests.loopback import QuietHandler, listening

MODEL = "words-16"
DIMENSIONS = 16

Kind = Literal["status", "hang", "drop", "short", "nan", "zero", "garbage", "few", "not_json"]


@dataclass
class Failure:
    """What happens to a request instead of an answer, as often as `times` says (for ever without)."""

    kind: Kind
    status: int = 500
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    message: str = "As told, to sk-secret"
    code: str | None = None
    times: int | None = None


@dataclass
class EmbeddingServer:
    """A running server; change what it does as the test goes on."""

    url: str = ""
    key: str | None = None
    """The key that is asked for; None takes any."""
    dimensions: int = DIMENSIONS
    model: Callable[[Sequence[str]], list[list[float]]] | None = None
    """What makes vectors of texts; None: their words alone."""
    plain_lists: bool = False
    """Answers with lists of numbers, whatever encoding is asked for."""
    backwards: bool = False
    most_texts: int | None = None
    most_chars: int | None = None
    size_status: int = 400
    size_message: str = "This model's maximum context length is 8192 tokens"
    hang_after: int | None = None
    """Requests that are answered; later ones are held until the server ends."""
    refuse_after: int | None = None
    """Requests that are answered; later ones are refused with 401."""
    failures: list[Failure] = field(default_factory=list[Failure])
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    keys: list[str] = field(default_factory=list[str])
    answered: list[str] = field(default_factory=list[str])
    """Every text that a vector was given for, in order."""
    closing: threading.Event = field(default_factory=threading.Event)
    held: threading.Event = field(default_factory=threading.Event)
    """Set once a request hangs."""
    all_held: threading.Barrier | None = None
    """Where given, each request that hangs waits here first."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fail(self, kind: Kind, **details: Any) -> Failure:
        failure = Failure(kind, **details)
        self.failures.append(failure)
        return failure

    def heal(self) -> None:
        self.failures.clear()
        self.hang_after = self.refuse_after = None

    def next_failure(self, texts: Sequence[str]) -> Failure | None:
        """How this request fails, if it does. Counts it."""
        with self.lock:
            if self.hang_after is not None and len(self.requests) > self.hang_after:
                return Failure("hang")
            if self.refuse_after is not None and len(self.requests) > self.refuse_after:
                return Failure("status", status=401)
            for failure in self.failures:
                if failure.times is None or failure.times > 0:
                    failure.times = None if failure.times is None else failure.times - 1
                    return failure
        too_many = self.most_texts is not None and len(texts) > self.most_texts
        if too_many or (self.most_chars is not None and any(len(text) > self.most_chars for text in texts)):
            return Failure("status", status=self.size_status, message=self.size_message)
        return None

    def environment(self) -> dict[str, str]:
        """The variables with which a process finds it."""
        return {"OPENAI_BASE_URL": self.url, "EMBEDDING_MODEL": MODEL}


def vector_of(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """A vector that is the sum of one for each word, not of unit length."""
    total = [0.001] * dimensions
    for word in text.lower().split():
        seed = hashlib.shake_128(word.encode()).digest(dimensions)
        total = [value + (byte - 127.5) / 127.5 for value, byte in zip(total, seed, strict=True)]
    return total


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True)) / (math.hypot(*one) * math.hypot(*other))


@contextmanager
def running_embedding_server() -> Generator[EmbeddingServer]:
    """A server on a free port until the context ends."""
    state = EmbeddingServer()

    class Handler(QuietHandler):
        def do_POST(self) -> None:  # noqa: N802 - http.server's name
            with suppress(OSError):
                body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
                texts: list[str] = body["input"]
                with state.lock:
                    state.requests.append(body)
                    state.keys.append(self.headers.get("Authorization", ""))
                failure = state.next_failure(texts)
                if state.key is not None and self.headers.get("Authorization") != f"Bearer {state.key}":
                    failure = Failure("status", status=401)
                self.answer(body, texts, failure)

        def answer(self, body: Mapping[str, Any], texts: Sequence[str], failure: Failure | None) -> None:
            match failure:
                case Failure("status"):
                    error = {"message": failure.message, "type": "as_told", "code": failure.code}
                    self.reply(failure.status, json.dumps({"error": error}), failure.headers)
                    return
                case Failure("hang"):
                    state.held.set()
                    if state.all_held is not None:
                        state.all_held.wait(10)
                    state.closing.wait(60)
                    self.close_connection = True
                    return
                case Failure("drop"):
                    self.reset()
                    return
                case Failure("not_json"):
                    self.reply(200, "<html>busy</html>", {})
                    return
                case _:
                    pass
            length = int(body.get("dimensions") or state.dimensions)
            made = state.model(texts) if state.model else [vector_of(text, length) for text in texts]
            vectors = [spoilt(vector, failure) for vector in made]
            wanted_lists = state.plain_lists or body.get("encoding_format") != "base64"
            data: list[dict[str, Any]] = [
                {"object": "embedding", "index": place, "embedding": vector if wanted_lists else encoded(vector)}
                for place, vector in enumerate(vectors)
            ]
            if failure is not None and failure.kind == "garbage":
                data = [{**item, "embedding": ["x"]} for item in data]
            if failure is not None and failure.kind == "few":
                data = data[1:]
            if state.backwards:
                data.reverse()
            tokens = sum(len(text.split()) for text in texts)
            usage = {"prompt_tokens": tokens, "total_tokens": tokens}
            answer = {"object": "list", "model": body["model"], "data": data, "usage": usage}
            if failure is None:
                with state.lock:
                    state.answered.extend(texts)
            self.reply(200, json.dumps(answer), {})

        def reply(self, status: int, text: str, headers: Mapping[str, str]) -> None:
            data = text.encode()
            self.send_response_only(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
            self.wfile.flush()

    with listening(Handler, state.closing) as origin:
        state.url = f"{origin}/v1"
        yield state


def encoded(vector: Sequence[float]) -> str:
    return base64.b64encode(array("f", vector).tobytes()).decode()


def spoilt(vector: list[float], failure: Failure | None) -> list[float]:
    match failure:
        case Failure("short"):
            return vector[1:]
        case Failure("nan"):
            return [math.nan, *vector[1:]]
        case Failure("zero"):
            return [0.0] * len(vector)
        case _:
            return vector


@pytest.fixture
def embedding_server() -> Generator[EmbeddingServer]:
    with running_embedding_server() as server:
        yield server
