"""Embeds a question, or says in time why it cannot: a deadline, a cache of recent questions, a circuit breaker.

`openai` is imported, and the key read, when the first vector is needed. Embedding documents is the indexer's business.
"""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from array import array
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from retrieval.circuit import Circuit
from retrieval.models import known_model
from retrieval.provider import (
    NOT_CONFIGURED,
    Answer,
    EmbeddingUnavailable,
    Endpoint,
    Reason,
    checked,
    keep_quiet,
    unavailable,
)
from retrieval.settings import Settings

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["DEADLINE_SECONDS", "EmbeddingUnavailable", "QueryEmbedder", "QueryVector", "Reason"]

DEADLINE_SECONDS: Final = 2.0
"""All that a question waits for its vector, the first import and the reading of the key included."""

CACHED_VECTORS: Final = 256
"""Recent questions whose vectors are kept; at 1,536 dimensions they take 1.6 MB."""

# Faults of one question, not of the provider: another question may well be embedded.
_OF_THE_TEXT: Final = frozenset({400, 413, 422})
_CHARACTERS_A_TOKEN: Final = 4


@dataclass(frozen=True, slots=True)
class QueryVector:
    """A question's vector: float32 values of length 1. `tokens` is 0 where it was `cached`."""

    values: list[float]
    tokens: int
    milliseconds: float
    cached: bool


class QueryEmbedder:
    """Embeds questions with the configured model.

    May be asked on any event loop, one thread at a time: the provider is asked on a loop of its own, so that the
    connections outlive the caller's loop and an import does not hold up other calls.
    `on_tokens` is told the tokens of each answer that is paid for, `clock` gives seconds that never go back.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        on_tokens: Callable[[int], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._endpoint = Endpoint(settings)
        self._model_was_set = "embedding_model" in settings.model_fields_set
        self._on_tokens = on_tokens
        self._clock = clock
        self._circuit = Circuit(clock)
        self._why = ""
        self._recent: OrderedDict[tuple[str, int | None], array[float]] = OrderedDict()
        self._asker = _Asker(self._endpoint)
        weakref.finalize(self, self._asker.close).atexit = False

    @property
    def configured(self) -> bool:
        """Whether there is a provider to ask."""
        return self._endpoint.configured

    @property
    def model(self) -> str:
        return self._endpoint.model

    def mismatch(self, provenance_embedding: Mapping[str, Any] | None, length: int | None = None) -> str | None:
        """Why the vectors of a table, whose record this is, cannot be compared with ours; None where they can.

        `length` is that of the table's vectors. The sentence names both models, and the lengths where only they differ.
        """
        ours = self._endpoint.dimensions
        if self._is_recorded(provenance_embedding):
            model, dimensions = provenance_embedding["model"], provenance_embedding["dimensions"]
            if model != self.model:
                return (
                    f"The table was embedded with model {model!r} and questions would be with {self.model!r} "
                    "(for the server's owner: set EMBEDDING_MODEL to the former, or index again with --embed "
                    "--rebuild)."
                )
            if ours is not None and ours != dimensions:
                return (
                    f"The table was embedded with model {model!r} to {dimensions:,} dimensions and questions would be "
                    f"with {self.model!r} to {ours:,} (for the server's owner: set EMBEDDING_DIMENSIONS={dimensions})."
                )
            return None
        if not self._model_was_set:
            return (
                f"The table has no record of the model that made its vectors, so that questions of model "
                f"{self.model!r} cannot be compared with them (for the server's owner: set EMBEDDING_MODEL to the "
                "model that did)."
            )
        if ours is not None and length is not None and ours != length:
            return (
                f"The table has no record of the model that made its vectors, which have {length:,} dimensions, and "
                f"questions would be with {self.model!r} to {ours:,} (for the server's owner: set EMBEDDING_MODEL and "
                "EMBEDDING_DIMENSIONS to what made them)."
            )
        return None

    def on_trust(self, provenance_embedding: Mapping[str, Any] | None) -> str | None:
        """What to say of vectors that are only used because the owner names their model; None where they say it."""
        if self._is_recorded(provenance_embedding) or not self._model_was_set:
            return None
        return f"The table does not say which model made its vectors; {self.model!r} is taken on trust."

    @staticmethod
    def _is_recorded(record: Mapping[str, Any] | None) -> TypeGuard[Mapping[str, Any]]:
        """Whether `record` says by which model vectors were made, and to which length."""
        record = record or {}
        return isinstance(record.get("model"), str) and isinstance(record.get("dimensions"), int)

    def begin(self) -> None:
        """Begins to `prepare` in the background, where a provider is configured: cheap, waits for nothing."""
        if self.configured:
            asyncio.run_coroutine_threadsafe(self._asker.connect(), _loop())

    async def prepare(self) -> None:
        """Does ahead what the first question would spend its seconds on: imports, and reading the key.

        Never raises: what is amiss is told by `embed`. What takes longer than `DEADLINE_SECONDS` goes on unattended.
        """
        if self.configured:
            with suppress(Exception):
                async with asyncio.timeout(DEADLINE_SECONDS):
                    await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._asker.connect(), _loop()))

    async def embed(self, text: str, *, dimensions: int | None = None) -> QueryVector:
        """The vector of `text`, in at most `DEADLINE_SECONDS`; nothing is tried twice.

        `dimensions` is the length of the table's vectors; one of another length is refused. Raises
        `EmbeddingUnavailable`.
        """
        if not self.configured:
            raise EmbeddingUnavailable("not_configured", NOT_CONFIGURED)
        wanted = dimensions or self._endpoint.dimensions
        started = self._clock()
        recent = self._recent.get((text, wanted))
        if recent is not None:
            self._recent.move_to_end((text, wanted))
            return QueryVector(recent.tolist(), 0, (self._clock() - started) * 1000, cached=True)
        if not self._circuit.admits():
            raise self._open()
        try:
            answer = await self._asked(self._query(text), wanted)
        except EmbeddingUnavailable as error:
            self._note_failure(error)
            raise
        except BaseException:
            self._circuit.given_up()
            raise
        self._circuit.succeeded()
        vector = answer.vectors[0]
        self._recent[(text, wanted)] = vector
        if len(self._recent) > CACHED_VECTORS:
            self._recent.popitem(last=False)
        if self._on_tokens:
            self._on_tokens(answer.tokens)
        return QueryVector(vector.tolist(), answer.tokens, (self._clock() - started) * 1000, cached=False)

    async def _asked(self, text: str, dimensions: int | None) -> Answer:
        asked = asyncio.run_coroutine_threadsafe(self._asker.ask(text, dimensions), _loop())
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                return await asyncio.wrap_future(asked)
        except TimeoutError:
            raise EmbeddingUnavailable(
                "timeout", f"The embeddings provider did not answer within {DEADLINE_SECONDS:g} seconds."
            ) from None

    def _query(self, text: str) -> str:
        most = known_model(self.model).max_tokens
        # Some servers refuse what is too long for the model; its beginning says what a long question is about.
        shortened = text[: most * _CHARACTERS_A_TOKEN] if most else text
        return f"{self._endpoint.query_prefix}{shortened}"

    def _note_failure(self, error: EmbeddingUnavailable) -> None:
        if error.status in _OF_THE_TEXT:
            self._circuit.given_up()
            return
        refused = error.reason in {"refused", "not_configured"}
        if error.reason == "refused":
            self._asker.forget_key()
        self._why = error.sentence
        self._circuit.failed(wait=error.wait, refused=refused)

    def _open(self) -> EmbeddingUnavailable:
        left = self._circuit.seconds_left
        seconds = round(left)
        when = "soon" if seconds < 1 else "in 1 second" if seconds == 1 else f"in {seconds:,} seconds"
        return EmbeddingUnavailable("circuit_open", f"{self._why} It is asked again {when}.")


class _Asker:
    """Lives on the loop of `_loop`: holds the client, and with it the connections."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._client: AsyncOpenAI | None = None

    async def connect(self) -> None:
        self._connected()

    async def ask(self, text: str, dimensions: int | None) -> Answer:
        client = self._connected()
        try:
            response = await client.embeddings.create(**self._endpoint.body([text]))
        except Exception as error:
            raise unavailable(error, datetime.now(UTC)) from None
        return checked(response, [text], dimensions)

    def _connected(self) -> AsyncOpenAI:
        if self._client is None:
            key = self._endpoint.key()
            from openai import AsyncOpenAI

            keep_quiet()
            self._client = AsyncOpenAI(
                api_key=key, base_url=self._endpoint.base_url, timeout=DEADLINE_SECONDS, max_retries=0
            )
        return self._client

    def forget_key(self) -> None:
        """After the key was refused: the next question is asked with the one that AWS keeps by then."""
        if self._endpoint.forget_key():
            self.close()

    def close(self) -> None:
        """Lets the connections go; from any thread."""
        client, self._client = self._client, None
        if client is not None:
            asyncio.run_coroutine_threadsafe(client.close(), _loop())


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """The loop that providers are asked on, in a thread that ends with the process."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="embedding", daemon=True).start()
    return loop
