"""The body of a request: one JSON-RPC message, or one readable line that says why it is none."""

from __future__ import annotations

from typing import Any, Final, cast

from mcp_types import INVALID_REQUEST, PROTOCOL_VERSION_META_KEY, UNSUPPORTED_PROTOCOL_VERSION, RequestId
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS
from pydantic_core import from_json

from handler.refusal import Refused, excerpt
from retrieval.errors import ErrorCode

_KINDS: Final[dict[type, str]] = {
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
}


def check_message(body: bytes, version: str | None) -> dict[str, Any]:
    """The one JSON-RPC request or notification in `body`. Raises `Refused` where it is anything else.

    What passes here is read again by the SDK, in one of two ways by era, whose own texts for what does not pass are
    dumps of its models. `version` is the MCP-Protocol-Version header.
    """
    try:
        # The stricter of the SDK's two parsers: no NaN, no lone surrogates, no other encodings, bounded nesting.
        value: object = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        too_deep = "recursion limit" in str(error)
        raise _not_an_object(
            "The body is nested too deeply to be read" if too_deep else "The body is not JSON in UTF-8"
        ) from None
    if isinstance(value, list):
        raise _not_an_object("A batch is not served: send one JSON-RPC message a request", INVALID_REQUEST)
    if not isinstance(value, dict):
        raise _not_an_object(f"The body is {_KINDS.get(type(value), 'null')}, not an object", INVALID_REQUEST)
    message = cast("dict[str, Any]", value)
    _check_envelope(message)
    if version is not None and version not in KNOWN_PROTOCOL_VERSIONS and "id" in message and not _is_modern(message):
        raise _unsupported(version, message["id"])
    return message


def _not_an_object(reason: str, rpc_code: int | None = None) -> Refused:
    return Refused(400, ErrorCode.BODY_NOT_JSON, f"{reason}: the body must be one JSON-RPC object.", rpc_code=rpc_code)


def _check_envelope(message: dict[str, Any]) -> None:
    request_id = message.get("id", "")
    if message.get("jsonrpc") != "2.0":
        reason = '"jsonrpc" must be "2.0"'
    elif not isinstance(message.get("method"), str):
        # A response has none, and has no place here: this server never asks its callers anything.
        reason = '"method" must be a string'
    elif not isinstance(request_id, str | int) or isinstance(request_id, bool):
        reason = '"id" must be a string or a whole number, or absent from a notification'
    elif not isinstance(message.get("params"), dict | None):
        reason = '"params" must be an object'
    else:
        return
    raise _not_an_object(f"Not a JSON-RPC request or notification, {reason}", INVALID_REQUEST)


def _is_modern(message: dict[str, Any]) -> bool:
    """Whether the message names its own protocol version: then the SDK knows how to refuse it."""
    params: Any = message.get("params")
    meta: Any = params.get("_meta") if params else None
    return isinstance(meta, dict) and PROTOCOL_VERSION_META_KEY in meta


def _unsupported(version: str, request_id: RequestId) -> Refused:
    served = ", ".join(KNOWN_PROTOCOL_VERSIONS)
    return Refused(
        400,
        None,
        f"Unsupported protocol version: MCP-Protocol-Version '{excerpt(version)}' is not one of {served}.",
        request_id=request_id,
        rpc_code=UNSUPPORTED_PROTOCOL_VERSION,
        data={"supported": list(KNOWN_PROTOCOL_VERSIONS), "requested": excerpt(version)},
    )
