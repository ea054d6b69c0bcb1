"""The programs of infra/, which are no package, as modules."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest

from tests.infra.tools import ROOT


def loaded(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """infra/NAME.py, made anew for this test."""
    spec = importlib.util.spec_from_file_location(f"bedivere_{name}", ROOT / "infra" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Where a dataclass looks for the names in its annotations.
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module
