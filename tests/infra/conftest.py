"""The program that deploys and the template of the stack, as the tests of each take them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.infra.cloudformation import TEMPLATE, read
from tests.infra.deploying import REGION, always
from tests.infra.programs import loaded


@pytest.fixture
def deploying(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The program, with a region that is set, an engine that builds for arm64 and names that resolve."""
    module = loaded("deploy", monkeypatch)
    monkeypatch.setattr(module, "running_engine", lambda: module.Engine("arm64", "Debian"))
    monkeypatch.setattr(module, "resolves", always(True))
    monkeypatch.setattr(module, "has_release", always(True))
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    return module


@pytest.fixture(scope="module")
def template() -> Mapping[str, Any]:
    return read(TEMPLATE)


@pytest.fixture(scope="module")
def resources(template: Mapping[str, Any]) -> Mapping[str, Any]:
    return template["Resources"]


@pytest.fixture(scope="module")
def environment(resources: Mapping[str, Any]) -> Mapping[str, Any]:
    return resources["Function"]["Properties"]["Environment"]["Variables"]
