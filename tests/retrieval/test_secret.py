"""The key of the provider, read from stand-ins for Secrets Manager and SSM on loopback."""

# boto3 ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import json
import uuid
from typing import Any, cast

import boto3
import pytest
from botocore.exceptions import ClientError

from retrieval.provider import EmbeddingUnavailable, Endpoint
from retrieval.secret import SecretUnavailable, read_secret
from retrieval.settings import load_settings
from tests.s3_server import S3Server

REGION = "eu-west-1"


@pytest.fixture
def aws(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    return s3


def client(service: str, server: S3Server) -> Any:
    make = cast("Any", boto3.client)
    return make(
        service,
        endpoint_url=server.endpoint,
        region_name=REGION,
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    )


def secret(server: S3Server, text: str) -> str:
    name = f"key-{uuid.uuid4().hex[:8]}"
    return client("secretsmanager", server).create_secret(Name=name, SecretString=text)["ARN"]


def parameter(server: S3Server, name: str, text: str) -> str:
    client("ssm", server).put_parameter(Name=name, Value=text, Type="SecureString")
    return f"arn:aws:ssm:{REGION}:123456789012:parameter/{name.removeprefix('/')}"


@pytest.mark.parametrize(
    "text",
    ["sk-1", " sk-1\n", json.dumps({"OPENAI_API_KEY": "sk-1", "other": "x"}), json.dumps({"key": "sk-1"})],
)
def test_a_secret_holds_the_key_as_text_or_as_json(aws: S3Server, text: str) -> None:
    assert read_secret(secret(aws, text)) == "sk-1"


@pytest.mark.parametrize("name", ["key", "/bedivere/prod/key"])
def test_a_parameter_is_found_by_its_arn(aws: S3Server, name: str) -> None:
    unique = f"{name}-{uuid.uuid4().hex[:8]}"
    assert read_secret(parameter(aws, unique, "sk-2")) == "sk-2"


@pytest.mark.parametrize("text", ['{"a": "x", "b": "y"}', "two words", "schlüssel", '{"OPENAI_API_KEY": 7}'])
def test_what_is_no_key_is_refused_without_showing_it(aws: S3Server, text: str) -> None:
    with pytest.raises(SecretUnavailable, match="is no key") as caught:
        read_secret(secret(aws, text))
    assert text not in str(caught.value)


def test_a_secret_that_is_not_there_is_told(aws: S3Server) -> None:
    with pytest.raises(SecretUnavailable, match="no secret or parameter"):
        read_secret(f"arn:aws:secretsmanager:{REGION}:123456789012:secret:gone-abcdef")


@pytest.mark.parametrize(
    ("arn", "right"),
    [
        (f"arn:aws:secretsmanager:{REGION}:123456789012:secret:k-abcdef", "secretsmanager:GetSecretValue"),
        (f"arn:aws:ssm:{REGION}:123456789012:parameter/k", "ssm:GetParameter"),
    ],
)
def test_a_missing_right_is_named(monkeypatch: pytest.MonkeyPatch, arn: str, right: str) -> None:
    class Denying:
        def __getattr__(self, _name: str) -> Any:
            def denied(**_arguments: object) -> None:
                raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "secret words"}}, "Read")

            return denied

    def denying(*_arguments: object, **_options: object) -> Denying:
        return Denying()

    monkeypatch.setattr("boto3.session.Session.client", denying)
    with pytest.raises(SecretUnavailable) as caught:
        read_secret(arn)
    assert right in str(caught.value)
    assert "secret words" not in str(caught.value)


def test_aws_out_of_reach_is_told(aws: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(SecretUnavailable, match="credentials and the network"):
        read_secret(f"arn:aws:ssm:{REGION}:123456789012:parameter/k")


class TestEndpoint:
    def test_the_key_is_read_once_and_kept(self, aws: S3Server) -> None:
        arn = secret(aws, "sk-3")
        endpoint = Endpoint(load_settings(openai_api_key_arn=arn))
        assert endpoint.key() == "sk-3"
        client("secretsmanager", aws).put_secret_value(SecretId=arn, SecretString="sk-4")
        assert endpoint.key() == "sk-3"

    def test_a_key_that_was_refused_is_read_again(self, aws: S3Server) -> None:
        arn = secret(aws, "sk-3")
        endpoint = Endpoint(load_settings(openai_api_key_arn=arn))
        endpoint.key()
        client("secretsmanager", aws).put_secret_value(SecretId=arn, SecretString="sk-4")
        assert endpoint.forget_key()
        assert endpoint.key() == "sk-4"

    def test_a_key_in_the_environment_wins(self) -> None:
        arn = f"arn:aws:ssm:{REGION}:123456789012:parameter/k"
        endpoint = Endpoint(load_settings(openai_api_key="sk-own", openai_api_key_arn=arn))
        assert endpoint.key() == "sk-own"
        assert not endpoint.forget_key()

    def test_a_key_that_cannot_be_read_leaves_embeddings_unavailable(
        self, aws: S3Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        arn = f"arn:aws:ssm:{REGION}:123456789012:parameter/k"
        with pytest.raises(EmbeddingUnavailable) as caught:
            Endpoint(load_settings(openai_api_key_arn=arn)).key()
        assert caught.value.reason == "not_configured"
