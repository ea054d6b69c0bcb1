"""The endpoint as the settings describe it, and what of an answer is taken for a vector."""

from __future__ import annotations

import base64
import math
from array import array
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx2
import openai
import pytest

from retrieval.embedding import QueryEmbedder
from retrieval.provider import (
    OPENAI_URL,
    EmbeddingUnavailable,
    Endpoint,
    checked,
    retry_after,
    unavailable,
    unit_vector,
)
from retrieval.settings import load_settings
from tests.planted import EMBEDDING_KEY

NOW = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)


@dataclass
class Item:
    embedding: object
    index: object = None


@dataclass
class Usage:
    total_tokens: object


@dataclass
class Answer:
    data: object
    usage: object = None


def test_the_price_holds_at_openai_alone() -> None:
    model = "text-embedding-3-small"
    assert Endpoint(load_settings(embedding_model=model)).dollars_per_million_tokens == 0.02
    named = load_settings(embedding_model=model, openai_base_url=f"{OPENAI_URL}/")
    assert Endpoint(named).dollars_per_million_tokens == 0.02
    elsewhere = load_settings(embedding_model=model, openai_base_url="http://127.0.0.1:1/v1")
    assert Endpoint(elsewhere).dollars_per_million_tokens is None


@pytest.mark.parametrize(("configured", "wanted", "asked"), [(None, 1536, None), (1536, 1536, None), (512, 512, 512)])
def test_a_length_is_asked_for_where_it_is_not_the_models_own(
    configured: int | None, wanted: int, asked: int | None
) -> None:
    endpoint = Endpoint(load_settings(embedding_model="text-embedding-3-small", embedding_dimensions=configured))
    assert (endpoint.dimensions, endpoint.asked_dimensions) == (wanted, asked)


@pytest.mark.parametrize(
    ("settings", "configured"),
    [({}, False), ({"openai_api_key": "k"}, True), ({"openai_base_url": "http://127.0.0.1:1/v1"}, True)],
)
def test_a_key_or_an_address_of_ones_own_is_a_provider(settings: dict[str, Any], configured: bool) -> None:
    assert Endpoint(load_settings(**settings)).configured is configured


def test_neither_the_endpoint_nor_what_asks_it_shows_the_key() -> None:
    settings = load_settings(openai_api_key=EMBEDDING_KEY)
    assert Endpoint(settings).key() == EMBEDDING_KEY
    for holder in (Endpoint(settings), QueryEmbedder(settings)):
        assert EMBEDDING_KEY not in f"{holder!r} {holder}"


def test_answers_are_put_in_the_order_of_their_numbers() -> None:
    answer = checked(Answer([Item([0.0, 2.0], 1), Item([3.0, 0.0], 0)]), ["a", "b"], 2)
    assert [vector.tolist() for vector in answer.vectors] == [[1.0, 0.0], [0.0, 1.0]]


def test_answers_without_numbers_are_taken_in_order() -> None:
    answer = checked(Answer([Item([3.0, 0.0]), Item([0.0, 2.0])]), ["a", "b"], None)
    assert [vector.tolist() for vector in answer.vectors] == [[1.0, 0.0], [0.0, 1.0]]


def test_answers_that_are_numbered_wrongly_are_taken_in_order() -> None:
    answer = checked(Answer([Item([3.0, 0.0], 0), Item([0.0, 2.0], 0)]), ["a", "b"], None)
    assert [vector.tolist() for vector in answer.vectors] == [[1.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize(("usage", "tokens"), [(Usage(7), 7), (Usage(None), 1), (Usage(0), 1), (None, 1)])
def test_tokens_are_estimated_where_the_provider_does_not_count(usage: object, tokens: int) -> None:
    assert checked(Answer([Item([1.0])], usage), ["word"], None).tokens == tokens


@pytest.mark.parametrize("data", [None, "text", [], [Item([1.0])] * 3])
def test_what_is_no_answer_is_a_failure_of_the_provider(data: object) -> None:
    with pytest.raises(EmbeddingUnavailable) as caught:
        checked(Answer(data), ["a", "b"], None)
    assert caught.value.reason == "provider_error"


def test_vectors_of_several_lengths_are_refused() -> None:
    with pytest.raises(EmbeddingUnavailable) as caught:
        checked(Answer([Item([1.0]), Item([1.0, 2.0])]), ["a", "b"], None)
    assert caught.value.reason == "bad_vector"


def test_base64_and_a_list_make_the_same_vector() -> None:
    numbers = [0.5, -1.25, 3.0]
    encoded = base64.b64encode(array("f", numbers).tobytes()).decode()
    assert unit_vector(encoded, 3) == unit_vector(numbers, 3)
    assert math.hypot(*unit_vector(numbers, 3)) == pytest.approx(1)


@pytest.mark.parametrize(
    "raw",
    [None, 7, ["x"], [None], "!!", "AAA", "AAAA", [math.nan, 1.0], [math.inf, 1.0], [1e300, 1.0], [0.0, 0.0], [], ""],
)
def test_what_has_no_direction_is_no_vector(raw: object) -> None:
    with pytest.raises(EmbeddingUnavailable) as caught:
        unit_vector(raw, None)
    assert caught.value.reason == "bad_vector"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Sun, 29 Nov 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Sun, 29 Nov 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
def test_the_wait_is_read_from_seconds_milliseconds_or_a_date(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ({"code": "model_not_found", "type": "invalid_request_error"}, "model_not_found"),
        ({"code": None, "type": "invalid_request_error"}, "invalid_request_error"),
        ({"code": "Alpha policy", "type": "not_found"}, "not_found"),
        ({"code": 404, "type": ["a"]}, None),
        ({"code": "a" * 41}, None),
        ("Alpha policy", None),
    ],
)
def test_of_a_provider_that_fails_its_short_name_for_it_is_kept_and_no_text(error: object, code: str | None) -> None:
    response = httpx2.Response(404, request=httpx2.Request("POST", "http://127.0.0.1/v1/embeddings"))
    failure = unavailable(openai.NotFoundError("Alpha policy", response=response, body=error), NOW)
    assert (failure.status, failure.code) == (404, code)
    assert "Alpha" not in f"{failure.sentence}{failure}"
