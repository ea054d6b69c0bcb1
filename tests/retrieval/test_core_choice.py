"""Which way into LanceDB is taken: where the compiled core is not the one that is known, the public one."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import lancedb
import pytest

from retrieval import core
from retrieval.core import compiled_core, lancedb_version, open_table

if TYPE_CHECKING:
    from tests.conftest import TableMaker

TEXTS = ["a red boat", "a blue boat", "no boat"]
ROWS = len(TEXTS)


@pytest.fixture
def folder(make_table: TableMaker) -> Path:
    return make_table({"text": TEXTS})


@pytest.fixture
def unknown(monkeypatch: pytest.MonkeyPatch) -> Callable[[ModuleType | None], None]:
    """Has the core that is found be another one, until the test ends."""

    def find(found: ModuleType | None) -> None:
        monkeypatch.setattr(core, "_found", [])
        monkeypatch.setattr(core, "_load", lambda: found)

    return find


def other_core(**changes: object) -> ModuleType:
    """A core with the names of the real one, but for `changes`; None takes a name away."""
    real = vars(cast("ModuleType", compiled_core()))
    names = {name: value for name, value in {**real, **changes}.items() if value is not None}
    return cast("ModuleType", SimpleNamespace(**names))


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (lambda: other_core(__version__="0.41.0"), "0.41.0"),
        (lambda: other_core(connect=None), "connect"),
        (lambda: other_core(Query=object), "Query.nearest_to_text"),
    ],
    ids=["another version", "a function less", "a method less"],
)
def test_a_core_that_differs_is_not_used_and_the_public_way_answers(
    folder: Path,
    unknown: Callable[[ModuleType | None], None],
    caplog: pytest.LogCaptureFixture,
    found: Callable[[], ModuleType],
    said: str,
) -> None:
    unknown(found())

    with caplog.at_level(logging.WARNING, "bedivere"):
        tables = [asyncio.run(open_table(folder, "documents")) for _ in range(2)]

    assert [type(table).__name__ for table in tables] == ["_PublicTable"] * 2
    assert asyncio.run(tables[0].count(None)) == ROWS
    assert lancedb_version() == lancedb.__version__
    [line] = caplog.messages
    assert said in line


def test_a_core_that_is_not_there_is_no_obstacle(folder: Path, unknown: Callable[[ModuleType | None], None]) -> None:
    unknown(None)

    assert type(asyncio.run(open_table(folder, "documents"))).__name__ == "_PublicTable"


def in_python(code: str) -> list[Any]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_the_core_that_cannot_be_loaded_is_done_without(folder: Path) -> None:
    code = (
        "import asyncio, json, pathlib, sys\n"
        "from importlib.machinery import ExtensionFileLoader\n"
        "from retrieval import core\n"
        "real, ExtensionFileLoader.exec_module = ExtensionFileLoader.exec_module, None\n"
        "core._load.__globals__['PathFinder'].find_spec('lancedb')\n"
        "core.compiled_core()\n"
        "ExtensionFileLoader.exec_module = real\n"
        f"table = asyncio.run(core.open_table(pathlib.Path({str(folder)!r}), 'documents'))\n"
        "print(json.dumps([type(table).__name__, asyncio.run(table.count(None))]))"
    )

    assert in_python(code) == ["_PublicTable", ROWS]


def test_the_core_is_used_without_the_package_and_the_package_takes_it_afterwards(folder: Path) -> None:
    code = (
        "import asyncio, json, pathlib, sys\n"
        "from retrieval.core import open_table\n"
        f"place = pathlib.Path({str(folder)!r})\n"
        "table = asyncio.run(open_table(place, 'documents'))\n"
        "before = 'lancedb' in sys.modules\n"
        "import lancedb\n"
        "again = lancedb.connect(place).open_table('documents')\n"
        "print(json.dumps([before, asyncio.run(table.count(None)), again.count_rows()]))"
    )

    assert in_python(code) == [False, ROWS, ROWS]
