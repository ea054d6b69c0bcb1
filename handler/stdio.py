"""The server over standard input and output, where every line that is no message is answered too."""

from __future__ import annotations

import logging
from collections import Counter
from types import TracebackType
from typing import Any, Final, Self

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

from retrieval.errors import ErrorCode

logger: Final = logging.getLogger("bedivere")

_REFUSAL: Final = JSONRPCError(
    jsonrpc="2.0",
    id=None,
    error=ErrorData(
        code=PARSE_ERROR,
        message=f"{ErrorCode.BODY_NOT_JSON}: The line is not one JSON-RPC message in UTF-8.",
        data={"code": ErrorCode.BODY_NOT_JSON},
    ),
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
                await answers.send(SessionMessage(_REFUSAL))
            else:
                answers.expect(item.message)
                await inlet.send(item)
        # With the end of its input the SDK cancels what it is at.
        with anyio.move_on_after(_LAST_ANSWERS_SECONDS):
            await answers.complete()


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
