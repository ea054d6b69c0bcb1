"""The front door of a deployment: the Lambda handler in this process, and what every answer of it must be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from time import thread_time
from typing import Any, Final, cast

import httpx2
from jsonschema import Draft202012Validator

from handler.main import AppHandler, make_handler
from handler.tools import TOOLS
from retrieval.errors import ErrorCode
from retrieval.settings import Settings
from tests.lambda_bridge import http_event

HOST: Final = "a1b2c3d4e5.execute-api.eu-west-1.amazonaws.com"
SECONDS: Final = 3.0
"""Of the processor, for one call: a busy machine is no hang."""

STATUSES: Final = frozenset({200, 202, 204, 400, 403, 404, 405, 406, 413, 415})
"""What is answered to whatever comes in; 500 is for faults of ours."""

_LEAKS: Final = (
    "site-packages",
    "Traceback",
    "LanceError",
    "lance::",
    "panicked",
    "pydantic",
    "DataFusion",
    '.py\\"',
    "/rustc/",
)


@dataclass
class Door:
    """A handler, and the database behind it."""

    database: Path
    handler: AppHandler = field(init=False)

    def __post_init__(self) -> None:
        self.handler = make_handler(Settings(database=str(self.database)))

    @cached_property
    def outputs(self) -> Mapping[str, Draft202012Validator]:
        return {name: Draft202012Validator(tool.output_schema()) for name, tool in TOOLS.items()}

    def answer(self, event: object) -> dict[str, Any]:
        """The answer to `event`: of a known status, JSON or nothing, in time, and without a word of the inside."""
        began = thread_time()
        answer = json.loads(json.dumps(self.handler(event, None)))
        assert thread_time() - began < SECONDS
        assert answer["statusCode"] in STATUSES, answer
        said = answer["body"]
        assert not [leak for leak in (*_LEAKS, str(self.database)) if leak in said], said
        return answer

    def post(self, body: bytes, **headers: str) -> dict[str, Any]:
        sent = {"content-type": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
        return self.answer(http_event(httpx2.Request("POST", f"https://{HOST}/mcp", headers=sent), body))

    def _message(self, tool: str, arguments: object) -> dict[str, Any]:
        params = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return json.loads(self.post(json.dumps(message).encode())["body"])

    def result(self, tool: str, arguments: object) -> dict[str, Any]:
        """The structured result of a call that has one."""
        return self._message(tool, arguments)["result"]["structuredContent"]

    def call(self, tool: str, arguments: object) -> str:
        """The code of the error that a call ends in, or "" where it has a result, which is as its schema says."""
        answer = self._message(tool, arguments)
        if "error" in answer:
            told: object = answer["error"].get("data")
            code = str(cast("dict[str, Any]", told).get("code", "")) if isinstance(told, dict) else ""
            # What is no object of arguments is refused by the protocol, in its own terms.
            assert code in set(ErrorCode) - {"INTERNAL_ERROR"} or answer["error"]["code"] in {-32602, -32600}, answer
            return code or "INVALID_PARAMS"
        result = answer["result"]
        if not result.get("isError"):
            self.outputs[tool].validate(result["structuredContent"])
            return ""
        assert "structuredContent" not in result
        code = result["_meta"]["code"]
        (content,) = result["content"]
        assert content["text"].startswith(f"{code}: ")
        assert code in set(ErrorCode) - {"INTERNAL_ERROR"}, content["text"]
        return code
