"""Imports that wait, that are kept out and that build late, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def in_python(code: str, *, path: Path | None = None) -> Any:
    """What `code` says in a fresh process, of JSON."""
    lines = [f"import sys; sys.path.insert(0, {str(path)!r})" if path else "import sys", "import json", code]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "\n".join(lines)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def package(tmp_path: Path, init: str) -> Path:
    """A folder with the package `slow`, which has `slow.sub`."""
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow" / "__init__.py").write_text(init)
    (tmp_path / "slow" / "sub.py").write_text("VALUE = 1\n")
    return tmp_path


def test_a_package_that_waits_does_not_run_for_its_submodules_and_runs_once_for_a_name(tmp_path: Path) -> None:
    path = package(tmp_path, "import builtins\nbuiltins.ran = getattr(builtins, 'ran', 0) + 1\nNAME = 'name'\n")

    said = in_python(
        "import builtins\nfrom handler.lean import wait_with\nwait_with('slow')\n"
        "from slow.sub import VALUE\nbefore = getattr(builtins, 'ran', 0)\n"
        "import slow\nfrom slow import NAME\n"
        "print(json.dumps([VALUE, before, NAME, slow.NAME, slow.sub.VALUE, builtins.ran, hasattr(slow, 'other')]))",
        path=path,
    )

    assert said == [1, 0, "name", "name", 1, 1, False]


def test_a_package_that_fails_fails_for_whoever_asks_and_is_tried_again(tmp_path: Path) -> None:
    path = package(
        tmp_path, "import builtins\nbuiltins.ran = getattr(builtins, 'ran', 0) + 1\n1 / (builtins.ran - 1)\nNAME = 2\n"
    )

    said = in_python(
        "from handler.lean import wait_with\nwait_with('slow')\nimport slow\nfailed = []\n"
        "try:\n    slow.NAME\nexcept ZeroDivisionError:\n    failed.append(True)\n"
        "print(json.dumps([failed, slow.NAME]))",
        path=path,
    )

    assert said == [[True], 2]


def test_a_package_is_whole_for_every_thread_that_asks_at_the_same_time(tmp_path: Path) -> None:
    path = package(tmp_path, "import time\ntime.sleep(0.05)\nNAME = 'name'\n")

    said = in_python(
        "from concurrent.futures import ThreadPoolExecutor\nfrom handler.lean import wait_with\n"
        "wait_with('slow')\nimport slow\n"
        "with ThreadPoolExecutor(8) as pool:\n    found = [*pool.map(lambda _: slow.NAME, range(8))]\n"
        "print(json.dumps(found))",
        path=path,
    )

    assert said == ["name"] * 8


def test_what_is_imported_already_or_not_installed_or_no_package_does_not_wait() -> None:
    said = in_python(
        "import email\nfrom handler.lean import wait_with\nbefore = type(email)\n"
        "wait_with('email', 'no_such_package', 'no_such_package.part', 'this')\n"
        "print(json.dumps([type(email) is before, 'no_such_package' in sys.modules, 'this' in sys.modules]))"
    )

    assert said == [True, False, False]


def test_the_sdk_is_whole_behind_a_wait() -> None:
    said = in_python(
        "from handler.lean import only_to_serve\n"
        "with only_to_serve():\n    import mcp.server.lowlevel\n"
        "before = [name for name in ('mcp.client', 'mcp.server.mcpserver') if name in sys.modules]\n"
        "import mcp\nfrom mcp import ClientSession\nfrom mcp.server import MCPServer, Server\n"
        "whole = Server is mcp.server.lowlevel.Server and mcp.ClientSession is ClientSession\n"
        "print(json.dumps([before, whole, MCPServer('x').name, sorted({*mcp.__all__} - {*dir(mcp)})]))"
    )

    assert said == [[], True, "x", []]


def test_a_module_that_is_kept_out_can_be_imported_afterwards() -> None:
    said = in_python(
        "from handler.lean import without\nkept = []\n"
        "with without('colorsys', 'json'):\n"
        "    try:\n        import colorsys\n    except ImportError:\n        kept.append('colorsys')\n"
        "    import json as again\n"
        "import colorsys\nprint(json.dumps([kept, colorsys.__name__, again is json]))"
    )

    assert said == [["colorsys"], "colorsys", True]


def test_a_model_that_is_built_late_validates_as_any_other_and_later_ones_are_built_at_once() -> None:
    said = in_python(
        "from handler.lean import models_built_late\nfrom pydantic import BaseModel, ValidationError\n"
        "with models_built_late():\n    class Late(BaseModel):\n"
        "        number: int\n        inner: 'Late | None' = None\n"
        "class Soon(BaseModel):\n    number: int\n"
        "built = [Late.__pydantic_complete__, Soon.__pydantic_complete__]\n"
        "late = Late.model_validate({'number': '1', 'inner': {'number': 2}})\n"
        "try:\n    Late(number='x')\nexcept ValidationError as error:\n    built.append(error.error_count())\n"
        "print(json.dumps([built, late.model_dump(), Late.model_json_schema()['$defs']['Late']['required']]))"
    )

    assert said == [[False, True, 1], {"number": 1, "inner": {"number": 2, "inner": None}}, ["number"]]


def test_an_adapter_of_a_union_is_built_late_validates_as_any_other_and_later_ones_are_built_at_once() -> None:
    said = in_python(
        "from handler.lean import models_built_late\nfrom pydantic import BaseModel, TypeAdapter, ValidationError\n"
        "with models_built_late():\n    class One(BaseModel):\n        one: 'int'\n"
        "    class Two(BaseModel):\n        two: 'list[Two] | None' = None\n"
        "    late, plain = TypeAdapter[One | Two](One | Two), TypeAdapter(list[int])\n"
        "soon = TypeAdapter(One | Two)\n"
        "said = [late.pydantic_complete, plain.pydantic_complete, soon.pydantic_complete]\n"
        "said += [late.validate_python({'one': '1'}).one, late.validate_json('{\"two\": [{}]}').two[0].two]\n"
        "try:\n    late.validate_python(3)\nexcept ValidationError as error:\n    said.append(error.error_count())\n"
        "print(json.dumps([*said, late.pydantic_complete, late.json_schema() == soon.json_schema()]))"
    )

    assert said == [False, True, True, 1, None, 2, True, True]


def test_a_model_that_its_module_builds_at_the_end_is_built_when_it_is_used() -> None:
    said = in_python(
        "from handler.lean import models_built_late\nfrom pydantic import BaseModel\n"
        "with models_built_late():\n    class Early(BaseModel):\n        later: 'Later'\n"
        "    class Later(BaseModel):\n        number: int\n"
        "    Early.model_rebuild()\n    said = [Early.__pydantic_complete__]\n"
        "    said.append(Early(later={'number': '2'}).later.number)\n"
        "class Next(BaseModel):\n    following: 'Following'\n"
        "class Following(BaseModel):\n    number: int\n"
        "Next.model_rebuild()\n"
        "print(json.dumps([*said, Early.__pydantic_complete__, Next.__pydantic_complete__]))"
    )

    assert said == [False, 2, True, True]
