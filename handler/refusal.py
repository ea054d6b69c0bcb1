"""A refused request: its status, its stable code and its one sentence, as JSON-RPC-shaped JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from mcp_types import INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR, RequestId

from retrieval.errors import BedivereError, ErrorCode

Headers = tuple[tuple[str, str], ...]

JSON_HEADERS: Final[Headers] = (
    ("content-type", "application/json"),
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
)

_LONGEST_EXCERPT: Final = 60


class Refused(Exception):
    """What a caller is told instead of an answer.

    `sentence` never holds a path of the machine or a library's text, and what it repeats of the request has been
    through `excerpt`. `rpc_code` and `data` are for the few refusals that MCP itself gives a number and a shape.
    """

    def __init__(
        self,
        status: int,
        code: ErrorCode | None,
        sentence: str,
        *,
        headers: Headers = (),
        request_id: RequestId | None = None,
        rpc_code: int | None = None,
        data: dict[str, object] | None = None,
    ) -> None:
        super().__init__(sentence)
        self.status = status
        self.code = code
        self.sentence = sentence
        self.headers = (*JSON_HEADERS, *headers)
        self._request_id = request_id
        self._rpc_code = _rpc_code(status, code) if rpc_code is None else rpc_code
        self._data = data or {}

    @classmethod
    def from_error(cls, error: BedivereError, status: int = 500) -> Refused:
        return cls(status, error.code, error.sentence)

    @classmethod
    def internal(cls) -> Refused:
        return cls(500, ErrorCode.INTERNAL_ERROR, "Bedivere failed to answer; its log says why.")

    def body(self) -> bytes:
        """ASCII only: nothing that a caller sent can leave the JSON string it is quoted in."""
        message = f"{self.code}: {self.sentence}" if self.code else self.sentence
        data = {"code": self.code, **self._data} if self.code else self._data
        error = {"code": self._rpc_code, "message": message, "data": data}
        return json.dumps({"jsonrpc": "2.0", "id": self._request_id, "error": error}, separators=(",", ":")).encode()


def _rpc_code(status: int, code: ErrorCode | None) -> int:
    if code is ErrorCode.BODY_NOT_JSON:
        return PARSE_ERROR
    return INTERNAL_ERROR if status >= 500 else INVALID_REQUEST


def excerpt(text: str) -> str:
    """`text` as it may be repeated to its sender and to a log: short, on one line, printable ASCII."""
    shown = "".join(char if " " <= char <= "~" else "?" for char in text[:_LONGEST_EXCERPT])
    return f"{shown}..." if len(text) > _LONGEST_EXCERPT else shown


def encode_headers(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
