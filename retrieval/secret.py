"""Reads the one secret there is, the key of the embeddings provider, from AWS: Secrets Manager or an SSM parameter."""

# boto3 ships no types: what comes out of it is checked where it enters our own types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import json
from typing import Any, Final, cast

_FIELD: Final = "OPENAI_API_KEY"
_DENIED: Final = ("AccessDenied", "NotAuthorized", "UnrecognizedClient", "ExpiredToken", "InvalidClientToken")
_ABSENT: Final = ("ResourceNotFound", "ParameterNotFound")


class SecretUnavailable(Exception):
    """The secret cannot be read; the text is a sentence for the owner, without the ARN or anything of the secret."""


def read_secret(arn: str) -> str:
    """The text of the secret or parameter that `arn` names; of a JSON object its `OPENAI_API_KEY`, or its only value.

    Takes at most about two seconds for each of connecting and reading. Raises `SecretUnavailable`.
    """
    # A cold start of a server that never embeds must not pay for them.
    from boto3.session import Session
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    _, _, service, region, _, resource = arn.split(":", 5)
    right = "secretsmanager:GetSecretValue" if service == "secretsmanager" else "ssm:GetParameter"
    config = Config(connect_timeout=2, read_timeout=2, retries={"total_max_attempts": 2, "mode": "standard"})
    try:
        client: Any = Session().client(cast("Any", service), region_name=region, config=config)
        if service == "secretsmanager":
            text = client.get_secret_value(SecretId=arn).get("SecretString")
        else:
            name = resource.removeprefix("parameter/")
            # In an ARN, a name within a hierarchy has lost the slash that it begins with.
            answer = client.get_parameter(Name=f"/{name}" if "/" in name else name, WithDecryption=True)
            text = answer["Parameter"]["Value"]
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        if code.startswith(_DENIED):
            raise SecretUnavailable(
                f"The key that OPENAI_API_KEY_ARN names may not be read: allow {right} on it, and kms:Decrypt where a "
                "key of your own encrypts it."
            ) from None
        if code.startswith(_ABSENT):
            raise SecretUnavailable("There is no secret or parameter of the ARN in OPENAI_API_KEY_ARN.") from None
        raise SecretUnavailable("The key that OPENAI_API_KEY_ARN names could not be read from AWS.") from None
    except BotoCoreError:
        raise SecretUnavailable(
            "AWS could not be asked for the key that OPENAI_API_KEY_ARN names: check the credentials and the network."
        ) from None
    key = _key_in(text).strip() if isinstance(text, str) else ""
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise SecretUnavailable(
            f"What OPENAI_API_KEY_ARN names is no key: store the key as plain text, or as JSON with {_FIELD}."
        )
    return key


def _key_in(text: str) -> str:
    try:
        held = json.loads(text)
    except ValueError:
        return text
    if not isinstance(held, dict):
        return text
    values = cast("dict[str, object]", held)
    value = values.get(_FIELD, next(iter(values.values())) if len(values) == 1 else "")
    return value if isinstance(value, str) else ""
