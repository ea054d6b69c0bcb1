"""`make deploy` with stand-ins for the programs that it runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

REGION = "eu-central-1"
API = "https://abc.execute-api.eu-central-1.amazonaws.com/mcp"
OUTPUTS = {
    "McpUrl": API,
    "ApiUrl": API,
    "DatasetUri": "s3://bucket/bedivere",
    "PublishCommand": "bedivere publish build/database s3://bucket/bedivere",
    "ClaudeCommand": f"claude mcp add --transport http bedivere {API}",
}
DOMAIN = {"McpUrl": "https://mcp.example.com/mcp", "DomainTarget": "d-1.execute-api.eu-central-1.amazonaws.com"}
RECORD = {"DnsRecord": "mcp.example.com CNAME d-1.execute-api.eu-central-1.amazonaws.com"}


def always(answer: bool) -> Callable[..., bool]:
    def of(*_: object) -> bool:
        return answer

    return of


class Programs:
    """Stands for sam and bedivere: remembers what each was told, and lists the outputs."""

    def __init__(self, module: ModuleType, outputs: Mapping[str, str]) -> None:
        self._names = {module.SAM: "sam", module.BEDIVERE: "bedivere"}
        self._outputs = outputs
        self.told: list[list[str]] = []
        self.variables: list[Mapping[str, str]] = []

    def run(self, program: Path, *arguments: str | Path, variables: Mapping[str, str], capture: bool = False) -> str:
        self.told.append([self._names[program], *map(str, arguments)])
        self.variables.append(variables)
        listed = [{"OutputKey": key, "OutputValue": text} for key, text in self._outputs.items()]
        return json.dumps(listed) if capture else ""

    def one(self, *begin: str) -> list[str]:
        (found,) = [words for words in self.told if words[: len(begin)] == list(begin)]
        return found[len(begin) :]


def deployed(
    module: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    *sam_arguments: str,
    outputs: Mapping[str, str] = OUTPUTS,
    **order: Any,
) -> Programs:
    programs = Programs(module, outputs)
    monkeypatch.setattr(module, "run", programs.run)
    given = {"environment": "default", "database": None, "keep": "", **order}
    module.deploy(module.Order(**given, sam_arguments=sam_arguments))
    return programs


def parameters(words: Sequence[str]) -> list[str]:
    begin = words.index("--parameter-overrides") + 1
    end = next((place for place in range(begin, len(words)) if words[place].startswith("-")), len(words))
    return list(words[begin:end])
