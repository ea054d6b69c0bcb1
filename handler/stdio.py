"""The server over standard input and output, where every line that is no message is answered too."""

from __future__ import annotations

import json
import logging
from collections import Counter
from types import TracebackType
from typing import Any, Final, Self, cast

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp.shared.message import SessionMessage
from mcp_types import (
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from pydantic import ValidationError

from retrieval.errors import ErrorCode

logger: Final = logging.getLogger("bedivere")

_REFUSAL: Final = ErrorData(
    code=PARSE_ERROR,
    message=f"{ErrorCode.BODY_NOT_JSON}: The line is not one JSON-RPC message in UTF-8.",
    data={"code": ErrorCode.BODY_NOT_JSON},
)

_LAST_ANSWERS_SECONDS: Final = 5.0
"""What requests that were read get to be answered once standard input has ended."""


async def serve_stdio(server: Server[Any]) -> None:
    """Answers until standard input ends, and then what was read before it did, for some seconds."""
    async with stdio_server() as (read, write):
        inlet, outlet = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        answers = _Answers(write)
        async with anyio.create_task_group() as group:
            group.start_soon(_sift, read, inlet, answers)
            await server.run(outlet, answers, server.create_initialization_options())


async def _sift(
    read: ReadStream[SessionMessage | Exception],
    inlet: MemoryObjectSendStream[SessionMessage | Exception],
    answers: _Answers,
) -> None:
    """Passes messages on; what is none the SDK would drop without a word, and its sender would wait for ever."""
    async with inlet:
        async for item in read:
            if isinstance(item, Exception):
                logger.warning("A line on standard input is not a JSON-RPC message")
                refusal = JSONRPCError(jsonrpc="2.0", id=_request_in(item), error=_REFUSAL)
                await answers.send(SessionMessage(refusal))
            else:
                answers.expect(item.message)
                await inlet.send(item)
        # With the end of its input the SDK cancels what it is at.
        with anyio.move_on_after(_LAST_ANSWERS_SECONDS):
            await answers.complete()


def _request_in(error: Exception) -> RequestId | None:
    """The id of the request that a refused line all but is; None where there is none.

    The SDK's parser takes no lone surrogates and bounds the nesting; Python's own does neither. Who sent such a line
    waits for an answer with its id.
    """
    line: object = error.errors()[0]["input"] if isinstance(error, ValidationError) else None
    try:
        message: Any = json.loads(line) if isinstance(line, str | bytes) else line
    except (ValueError, RecursionError):
        return None
    request = cast("dict[str, object]", message) if isinstance(message, dict) else {}
    request_id = request.get("id") if "method" in request else None
    if isinstance(request_id, str) and request_id.isascii():
        return request_id
    return request_id if isinstance(request_id, int) and not isinstance(request_id, bool) else None


class _Answers:
    """The stream that the SDK writes to, which knows what requests it owes an answer."""

    def __init__(self, write: WriteStream[SessionMessage]) -> None:
        self._write = write
        self._owed = Counter[RequestId]()
        self._paid = anyio.Event()

    def expect(self, message: JSONRPCMessage) -> None:
        """Notes that `message`, if it is a request, is to be answered; one that its sender cancels is not."""
        if isinstance(message, JSONRPCRequest):
            self._owed[coerce_request_id(message.id)] += 1
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._settle(cancelled_request_id_from_params(message.params))

    async def complete(self) -> None:
        """Waits until every request has its answer."""
        while self._owed:
            self._paid = anyio.Event()
            await self._paid.wait()

    def _settle(self, request: RequestId | None) -> None:
        # To the SDK 7 and "7" are one request.
        if request is not None and (known := coerce_request_id(request)) in self._owed:
            self._owed -= Counter([known])
            self._paid.set()

    async def send(self, item: SessionMessage, /) -> None:
        await self._write.send(item)
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self._settle(item.message.id)

    async def aclose(self) -> None:
        await self._write.aclose()

    async def __aenter__(self) -> Self:
        await self._write.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        return await self._write.__aexit__(exc_type, exc_val, exc_tb)
