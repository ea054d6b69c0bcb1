"""What is known of embedding models, and the estimate of tokens."""

from __future__ import annotations

import pytest

from retrieval.models import EmbeddingModel, estimated_tokens, known_model


@pytest.mark.parametrize(
    ("name", "query", "document"),
    [
        ("intfloat/multilingual-e5-small", "query: ", "passage: "),
        ("intfloat/e5-base-v2", "query: ", "passage: "),
        ("BAAI/bge-small-en-v1.5", "Represent this sentence for searching relevant passages: ", ""),
        ("nomic-embed-text:v1.5", "search_query: ", "search_document: "),
        ("mixedbread-ai/mxbai-embed-large-v1", "Represent this sentence for searching relevant passages: ", ""),
        ("Snowflake/snowflake-arctic-embed-l-v2.0", "query: ", ""),
        ("snowflake-arctic-embed2", "query: ", ""),
        ("snowflake-arctic-embed-m-v1.5", "Represent this sentence for searching relevant passages: ", ""),
        ("google/embeddinggemma-300m", "task: search result | query: ", "title: none | text: "),
        ("BAAI/bge-m3", "", ""),
        ("text-embedding-3-small", "", ""),
    ],
)
def test_a_model_is_known_by_its_name_without_owner_tag_or_case(name: str, query: str, document: str) -> None:
    model = known_model(name)
    assert (model.query_prefix, model.document_prefix) == (query, document)
    assert known_model(name.upper()) == model


@pytest.mark.parametrize("name", ["Qwen/Qwen3-Embedding-0.6B", "intfloat/multilingual-e5-large-instruct"])
def test_a_model_that_follows_instructions_gets_one_with_the_question_alone(name: str) -> None:
    model = known_model(name)
    assert model.query_prefix.startswith("Instruct: ")
    assert model.document_prefix == ""


def test_a_model_that_nobody_knows_has_no_facts() -> None:
    assert known_model("in-house/tabby-7") == EmbeddingModel()


@pytest.mark.parametrize(
    ("name", "price"), [("text-embedding-3-small", 0.02), ("text-embedding-3-large", 0.13), ("bge-m3", None)]
)
def test_a_price_is_known_for_openais_own_models_only(name: str, price: float | None) -> None:
    assert known_model(name).dollars_per_million_tokens == price


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("日本語", 3), ("né", 2)])
def test_tokens_are_estimated_from_above(text: str, tokens: int) -> None:
    assert estimated_tokens(text) == tokens
