"""The embeddings provider as the settings describe it, and its answers, checked: vectors of unit length or a reason.

Shared by the query side and the indexer. Leaves deadlines, retries and batches to them, and `openai` unimported.
"""

from __future__ import annotations

import base64
import binascii
import logging
import math
import re
import sys
import threading
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from retrieval.models import NO_PREFIX, estimated_tokens, known_model
from retrieval.secret import SecretUnavailable, read_secret
from retrieval.settings import Settings

if TYPE_CHECKING:
    from datetime import datetime

    from openai import APIStatusError

OPENAI_URL: Final = "https://api.openai.com/v1"
NOT_CONFIGURED: Final = (
    "No embeddings provider is configured: set OPENAI_API_KEY, or OPENAI_BASE_URL for a server that needs no key."
)

_NO_KEY: Final = "none"
"""Sent where a server of the owner's own needs no key: the package insists on one."""

_CODE: Final = re.compile(r"[a-z_]{1,40}")
"""What a code of a provider's looks like: too short to quote a text or a key."""

_QUIET: Final = ("openai", "httpx2", "httpcore2", "httpx", "httpcore")

Reason = Literal[
    "not_configured",
    "mismatch",
    "timeout",
    "refused",
    "rate_limited",
    "provider_error",
    "bad_vector",
    "circuit_open",
]


class EmbeddingUnavailable(Exception):
    """There is no vector; `sentence` says why, for an owner or an agent.

    It holds nothing of the provider's own text, of the key, or of the address. `status` is the provider's, where it
    answered with one; `wait` the seconds that it asked for; `code` its own short name for the fault.
    """

    def __init__(
        self,
        reason: Reason,
        sentence: str,
        *,
        status: int | None = None,
        wait: float | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(sentence)
        self.reason: Final = reason
        self.sentence: Final = sentence
        self.status: Final = status
        self.wait: Final = wait
        self.code: Final = code


class Endpoint:
    """Where vectors are asked for, of which model, with which key."""

    def __init__(self, settings: Settings) -> None:
        known = known_model(settings.embedding_model)
        self.model = settings.embedding_model
        self.dimensions: Final = settings.embedding_dimensions or known.dimensions
        """The length that the vectors should have; None where only the model knows."""
        asked = settings.embedding_dimensions
        self.asked_dimensions: Final = asked if asked != known.dimensions else None
        """The length to ask for; None for the model's own, since many servers refuse to be asked."""
        self.query_prefix = _prefix(settings.embedding_query_prefix, known.query_prefix)
        self.document_prefix = _prefix(settings.embedding_document_prefix, known.document_prefix)
        self.base_url = settings.openai_base_url or OPENAI_URL
        at_openai = self.base_url.rstrip("/") == OPENAI_URL
        self.dollars_per_million_tokens = known.dollars_per_million_tokens if at_openai else None
        self._key = settings.openai_api_key.get_secret_value() if settings.openai_api_key else None
        self._arn = None if self._key else settings.openai_api_key_arn
        self._store: Literal["keychain", "file"] | None = None
        if not self._key and not self._arn:
            self._store = settings.openai_api_key_store
        self._lock = threading.Lock()
        self.configured = bool(self._key or self._arn or self._store or settings.openai_base_url)

    def key(self) -> str:
        """The key; the first call may wait for AWS or a keychain. Raises `EmbeddingUnavailable` not_configured."""
        if not self.configured:
            raise EmbeddingUnavailable("not_configured", NOT_CONFIGURED)
        with self._lock:
            if self._key is None:
                try:
                    if self._arn is not None:
                        self._key = read_secret(self._arn)
                    elif self._store is not None:
                        from retrieval.keychain import read_key

                        self._key = read_key(self._store)
                except SecretUnavailable as error:
                    raise EmbeddingUnavailable("not_configured", str(error)) from None
            return self._key or _NO_KEY

    def forget_key(self) -> bool:
        """Whether another key may be there: one that is kept elsewhere is read again, in case it was replaced."""
        with self._lock:
            kept_elsewhere = bool(self._arn or self._store)
            if kept_elsewhere:
                self._key = None
            return kept_elsewhere

    def body(self, texts: Sequence[str]) -> dict[str, Any]:
        """The arguments of `embeddings.create` for `texts`, which have their prefix already."""
        # Asked for by name, so that the package leaves the decoding to `unit_vectors`, which trusts nothing.
        asked: dict[str, Any] = {"model": self.model, "input": list(texts), "encoding_format": "base64"}
        if self.asked_dimensions is not None:
            asked["dimensions"] = self.asked_dimensions
        return asked


def _prefix(configured: str | None, known: str) -> str:
    if configured is None:
        return known
    return "" if configured.strip().lower() == NO_PREFIX else configured


def keep_quiet() -> None:
    """Keeps the package and its HTTP client from logging: at their level `debug` they write what was sent."""
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


@dataclass(frozen=True, slots=True)
class Answer:
    """Vectors of float32 and unit length, in the order of the texts, and the tokens that the provider counted."""

    vectors: list[array[float]]
    tokens: int


def checked(response: object, texts: Sequence[str], dimensions: int | None) -> Answer:
    """What the provider answered for `texts`, each vector of `dimensions` numbers where that is known.

    Raises `EmbeddingUnavailable`: bad_vector, or provider_error where it is no answer at all.
    """
    data = cast("object", getattr(response, "data", None))
    if not isinstance(data, list):
        raise EmbeddingUnavailable("provider_error", "The embeddings provider's answer holds no vectors.")
    items = cast("list[object]", data)
    if len(items) != len(texts):
        raise EmbeddingUnavailable(
            "provider_error",
            f"The embeddings provider gave a wrong number of vectors: {len(items):,} in place of {len(texts):,}.",
        )
    places = [getattr(item, "index", None) for item in items]
    if sorted(place for place in places if isinstance(place, int)) == list(range(len(items))):
        ordered = sorted(items, key=lambda item: cast("int", cast("Any", item).index))
    else:
        # Servers that number nothing answer in order.
        ordered = items
    vectors = [unit_vector(getattr(item, "embedding", None), dimensions) for item in ordered]
    if len({len(vector) for vector in vectors}) > 1:
        raise EmbeddingUnavailable("bad_vector", "The embeddings provider gave vectors of several lengths.")
    counted = getattr(getattr(response, "usage", None), "total_tokens", None)
    tokens = counted if isinstance(counted, int) and counted > 0 else sum(map(estimated_tokens, texts))
    return Answer(vectors, tokens)


def unit_vector(raw: object, dimensions: int | None) -> array[float]:
    """`raw`, a list of numbers or the base64 of float32, as float32 of length 1. Raises `EmbeddingUnavailable`."""
    values = array("f")
    try:
        if isinstance(raw, str):
            values.frombytes(base64.b64decode(raw, validate=True))
            if sys.byteorder == "big":  # pragma: no cover
                values.byteswap()
        else:
            values.extend(cast("list[float]", raw))
    except (TypeError, ValueError, OverflowError, binascii.Error):
        raise EmbeddingUnavailable(
            "bad_vector", "The embeddings provider gave something that is no vector of numbers."
        ) from None
    if dimensions is not None and len(values) != dimensions:
        raise EmbeddingUnavailable(
            "bad_vector",
            f"The embeddings provider gave a vector of {len(values):,} numbers where {dimensions:,} are wanted (for "
            "the server's owner: check EMBEDDING_MODEL and EMBEDDING_DIMENSIONS).",
        )
    length = math.hypot(*values)
    if not math.isfinite(length):
        raise EmbeddingUnavailable(
            "bad_vector", "The embeddings provider gave a vector that holds something other than finite numbers."
        )
    if length == 0:
        raise EmbeddingUnavailable("bad_vector", "The embeddings provider gave a vector of zeros, which has no angle.")
    return array("f", (value / length for value in values))


def unavailable(error: Exception, now: datetime) -> EmbeddingUnavailable:
    """What an exception of the `openai` package means, in a sentence of ours. `now` is aware of its zone."""
    import openai

    match error:
        case EmbeddingUnavailable():
            return error
        case openai.APITimeoutError():
            return EmbeddingUnavailable("timeout", "The embeddings provider did not answer in time.")
        case openai.APIConnectionError():
            return EmbeddingUnavailable(
                "provider_error",
                "The embeddings provider could not be reached (for the server's owner: check OPENAI_BASE_URL and the "
                "network).",
            )
        case openai.APIStatusError():
            return _status(error, retry_after(error.response.headers, now))
        case _:
            return EmbeddingUnavailable("provider_error", "The embeddings provider's answer could not be understood.")


def _status(error: APIStatusError, wait: float | None) -> EmbeddingUnavailable:
    reason: Reason = "provider_error"
    status = error.status_code
    match status:
        case 401 | 403:
            reason = "refused"
            sentence = (
                f"The embeddings provider refused the key (status {status}; for the server's owner: check "
                "OPENAI_API_KEY)."
            )
        case 404:
            sentence = (
                "The embeddings provider does not know the model or the address (status 404; for the server's "
                "owner: check EMBEDDING_MODEL and OPENAI_BASE_URL)."
            )
        case 429:
            reason = "rate_limited"
            sentence = "The embeddings provider's rate limit or quota is used up (status 429)."
        case _:
            sentence = f"The embeddings provider answered with status {status}."
    return EmbeddingUnavailable(reason, sentence, status=status, wait=wait, code=_code(error))


def _code(error: APIStatusError) -> str | None:
    """The provider's `code` or `type` of a fault. Its message is left alone: some quote what was sent to them."""
    found: tuple[object, ...] = (error.code, error.type)
    return next((name for name in found if isinstance(name, str) and _CODE.fullmatch(name)), None)


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """The seconds that the provider asks to wait; None where it does not say, or says nothing sensible."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) * scale
        except (KeyError, ValueError):
            continue
        return seconds if 0 <= seconds < math.inf else None
    try:
        return max(0.0, (parsedate_to_datetime(headers["retry-after"]) - now).total_seconds())
    except (KeyError, ValueError, TypeError):
        return None
