"""Embeds documents: batches by tokens and count, several at a time, tried again with patience, halved where too large.

What was paid for is handed over at once, batch by batch, so that whatever ends a run costs at most what is under way.
"""

from __future__ import annotations

import asyncio
import random
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeAlias

from retrieval.models import estimated_tokens, known_model
from retrieval.provider import EmbeddingUnavailable, Endpoint, checked, keep_quiet, unavailable

if TYPE_CHECKING:
    from openai import AsyncOpenAI

MAX_TEXTS: Final = 64
MAX_TOKENS: Final = 16_000
"""Texts and estimated tokens of one request; well below what providers refuse, and enough to keep one busy."""

CONCURRENCY: Final = 4
REQUEST_SECONDS: Final = 60.0
ATTEMPTS: Final = 8
"""How often a request is sent before the run gives up; the waits between them come to about two minutes."""

FIRST_WAIT_SECONDS: Final = 1.0
LONGEST_WAIT_SECONDS: Final = 60.0
LONGEST_ASKED_WAIT_SECONDS: Final = 300.0
"""A provider that asks for a longer wait is out for today: the run ends, and a later one goes on."""

LAST_SECONDS: Final = 10.0
"""How long requests under way are waited for when a run is interrupted: they are paid for."""

_TRANSIENT: Final = frozenset({408, 409, 425, 429})
_SIZE_COMPLAINTS: Final = frozenset({400, 422, 500})
_TOO_LARGE: Final = re.compile(
    r"context.length|too (long|large|many)|batch.?size|max\w* .{0,40}(tokens|length|inputs|context)|"
    r"(tokens|length|inputs?) .{0,40}(exceed|limit|maximum)|exceeds? .{0,40}(tokens|length|limit|maximum|context)",
    re.IGNORECASE,
)
_LONGEST_COMPLAINT: Final = 2_000
_OUT_OF_MONEY: Final = "insufficient_quota"
_SHORTEST: Final = 100
"""Characters; a text that is refused for its size at this length is refused for another reason."""

_CHARACTERS_A_TOKEN: Final = 3
_SAME_WAIT_SECONDS: Final = 0.5
"""Requests that fail together wait until about the same moment, which is told once."""

Keep: TypeAlias = "Callable[[Sequence[bytes], Sequence[array[float]]], None]"
"""Takes keys and their vectors, for good."""


@dataclass(slots=True)
class Spent:
    """What a run cost. `tokens` are the provider's count; `truncated` counts texts of which the end was left out."""

    texts: int = 0
    tokens: int = 0
    truncated: int = 0


class DocumentEmbedder:
    """Asks one provider for the vectors of many texts.

    `dimensions` is the length that all vectors must have; None takes that of the first. `prefix` goes before each text
    in place of the one that the model wants before documents. `told` gets the texts and tokens of each batch, `waits`
    why nothing comes and the seconds until it is asked for again.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        dimensions: int | None,
        keep: Keep,
        told: Callable[[int, int], None],
        waits: Callable[[str, float], None],
        *,
        prefix: str | None = None,
    ) -> None:
        self._prefix = endpoint.document_prefix if prefix is None else prefix
        self.spent = Spent()
        self._endpoint = endpoint
        self._dimensions = dimensions
        self._keep = keep
        self._told = told
        self._waits = waits
        self._not_before = 0.0
        self._told_until = 0.0
        self._stopped = asyncio.Event()

    async def run(self, wanted: Iterable[tuple[bytes, str]]) -> Spent:
        """Embeds each text of `wanted`, which comes with its key and without prefix.

        Raises `EmbeddingUnavailable` for what patience does not mend; its cause is the package's own exception.
        """
        key = self._endpoint.key()
        from openai import AsyncOpenAI

        keep_quiet()
        async with AsyncOpenAI(
            api_key=key, base_url=self._endpoint.base_url, timeout=REQUEST_SECONDS, max_retries=0
        ) as client:
            await self._run(client, wanted)
        return self.spent

    async def _run(self, client: AsyncOpenAI, wanted: Iterable[tuple[bytes, str]]) -> None:
        tasks: set[asyncio.Task[None]] = set()
        try:
            for batch in batches(wanted):
                tasks.add(asyncio.create_task(self._embed(client, batch)))
                if len(tasks) >= CONCURRENCY:
                    tasks = await _one_done(tasks)
            while tasks:
                tasks = await _one_done(tasks)
        except BaseException:
            self._stopped.set()
            if tasks:
                ended, _ = await asyncio.wait(tasks, timeout=LAST_SECONDS)
                for task in ended:
                    if not task.cancelled():
                        # Looked at, or asyncio says that nobody did; the first failure is the one that is raised.
                        task.exception()
            raise

    async def _embed(self, client: AsyncOpenAI, batch: Sequence[tuple[bytes, str]], *, cut: bool = False) -> None:
        texts = [f"{self._prefix}{text}" for _, text in batch]
        for attempt in range(1, ATTEMPTS + 1):
            await self._wait_for_turn()
            try:
                response = await client.embeddings.create(**self._endpoint.body(texts))
                answer = checked(response, texts, self._dimensions)
            except Exception as error:
                if _is_too_large(error):
                    await self._embed_less(client, batch, error, cut=cut)
                    return
                failure = unavailable(error, datetime.now(UTC))
                patience = failure.wait or 0.0
                if attempt == ATTEMPTS or not _is_transient(error, failure) or patience > LONGEST_ASKED_WAIT_SECONDS:
                    raise failure from error
                self._pause(attempt, patience, failure.sentence)
            else:
                self._dimensions = len(answer.vectors[0])
                self._keep([key for key, _ in batch], answer.vectors)
                self.spent.texts += len(batch)
                self.spent.tokens += answer.tokens
                self._told(len(batch), answer.tokens)
                return

    async def _embed_less(
        self, client: AsyncOpenAI, batch: Sequence[tuple[bytes, str]], error: Exception, *, cut: bool
    ) -> None:
        """The batch in two halves; a single text without its end."""
        if len(batch) > 1:
            middle = len(batch) // 2
            await self._embed(client, batch[:middle])
            await self._embed(client, batch[middle:])
            return
        ((key, text),) = batch
        if len(text) <= _SHORTEST:
            raise unavailable(error, datetime.now(UTC)) from error
        self.spent.truncated += not cut
        await self._embed(client, [(key, self._shortened(text))], cut=True)

    def _shortened(self, text: str) -> str:
        most = known_model(self._endpoint.model).max_tokens
        fitting = most * _CHARACTERS_A_TOKEN if most else len(text)
        return text[:fitting] if fitting < len(text) else text[: len(text) * 2 // 3]

    async def _wait_for_turn(self) -> None:
        """Waits out the pause that any request was asked for: they all go to the same provider."""
        loop = asyncio.get_running_loop()
        while (seconds := self._not_before - loop.time()) > 0 and not self._stopped.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), seconds)
        if self._stopped.is_set():
            raise asyncio.CancelledError

    def _pause(self, attempt: int, asked: float, why: str) -> None:
        backed_off = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** (attempt - 1))
        # Jitter, so that requests that failed together do not come back together.
        seconds = max(asked, backed_off * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
        now = asyncio.get_running_loop().time()
        self._not_before = max(self._not_before, now + seconds)
        if self._not_before - self._told_until > _SAME_WAIT_SECONDS and not self._stopped.is_set():
            self._told_until = self._not_before
            self._waits(why, self._not_before - now)


def batches(wanted: Iterable[tuple[bytes, str]]) -> Iterator[list[tuple[bytes, str]]]:
    """`wanted` in order, in batches of at most `MAX_TEXTS` texts and about `MAX_TOKENS` tokens."""
    batch: list[tuple[bytes, str]] = []
    tokens = 0
    for item in wanted:
        size = estimated_tokens(item[1])
        if batch and (len(batch) == MAX_TEXTS or tokens + size > MAX_TOKENS):
            yield batch
            batch, tokens = [], 0
        batch.append(item)
        tokens += size
    if batch:
        yield batch


async def _one_done(tasks: set[asyncio.Task[None]]) -> set[asyncio.Task[None]]:
    """The tasks that still run, once at least one is done. Raises what a task raised."""
    done, running = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()
    return running


def _is_too_large(error: Exception) -> bool:
    import openai

    if not isinstance(error, openai.APIStatusError):
        return False
    complains = error.status_code in _SIZE_COMPLAINTS and _TOO_LARGE.search(str(error.body)[:_LONGEST_COMPLAINT])
    return error.status_code == 413 or bool(complains)


def _is_transient(error: Exception, failure: EmbeddingUnavailable) -> bool:
    import openai

    if isinstance(error, openai.APIConnectionError):
        return True
    status = failure.status or 0
    out_of_money = isinstance(error, openai.APIStatusError) and error.code == _OUT_OF_MONEY
    return (status in _TRANSIENT or status >= 500) and not out_of_money
