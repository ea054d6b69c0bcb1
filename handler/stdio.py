"""The server over standard input and output, where every line that is no message is answered too."""

from __future__ import annotations

import logging
from typing import Any, Final

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError

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


async def serve_stdio(server: Server[Any]) -> None:
    """Answers until standard input ends."""
    async with stdio_server() as (read, write):
        inlet, outlet = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        async with anyio.create_task_group() as group:
            group.start_soon(_sift, read, inlet, write)
            await server.run(outlet, write, server.create_initialization_options())


async def _sift(
    read: ReadStream[SessionMessage | Exception],
    inlet: MemoryObjectSendStream[SessionMessage | Exception],
    write: WriteStream[SessionMessage],
) -> None:
    """Passes messages on; what is none the SDK would drop without a word, and its sender would wait for ever."""
    async with inlet:
        async for item in read:
            if isinstance(item, Exception):
                logger.warning("A line on standard input is not a JSON-RPC message")
                await write.send(SessionMessage(_REFUSAL))
            else:
                await inlet.send(item)
