"""The bench runs from end to end, on tables too small for its figures to mean anything."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.bench import cold, corpus
from tests.bench.__main__ import QUICK, main
from tests.bench.timing import Cost, Spread, interleave
from tests.bench.waterfall import imports
from tests.e2e.conformance import npm

SPREADS = ("wall", "cpu", "against_wall", "against_cpu", "wall_ratio", "cpu_ratio")


def names(report: dict[str, Any]) -> list[tuple[str, str]]:
    return [(comparison["what"], comparison["against"]) for comparison in report["comparisons"]]


@pytest.mark.e2e
def test_a_quick_run_compares_everything_and_writes_what_it_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "figures.json"

    main(["--quick", "--json", str(file), "--cache", str(tmp_path / "cache")])

    report = json.loads(file.read_text())
    shown = capsys.readouterr().out
    assert report["quick"] is True
    assert report["machine"].keys() == {"cpu", "cores", "python", "lancedb"}
    assert names(report) == [
        *[
            ("handler call", "bare LanceDB query"),
            ("retriever's text search", "bare LanceDB query"),
            ("text search, three words", "LIKE scan"),
            ("text search, three words", "LIKE scan of all rows"),
            ("text search, an identifier", "LIKE scan"),
            ("text search, an identifier", "LIKE scan of all rows"),
        ]
        * len(QUICK.sizes),
        ("index a folder", "LanceDB's write of its rows"),
        ("index it again, unchanged", "index a folder"),
        ("start to first answer", "plain imports, all"),
        ("start to first answer", "plain imports, as loaded"),
    ]
    for comparison in report["comparisons"]:
        for name in SPREADS:
            assert 0 < comparison[name]["p25"] <= comparison[name]["median"] <= comparison[name]["p75"]
        assert comparison["what"] in shown
    assert report["chunks_per_second"]["median"] > 0
    assert f"lancedb {report['machine']['lancedb']}" in shown


@pytest.mark.e2e
def test_a_quick_run_of_cold_starts_shows_each_kind_and_draws_its_stages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_node() -> npm.Node:
        raise npm.NodeUnavailable("npm is missing")

    monkeypatch.setattr(npm, "find_node", no_node)
    file, drawing = tmp_path / "figures.json", tmp_path / "stages.svg"

    cold.main(["--quick", "--json", str(file), "--svg", str(drawing), "--cache", str(tmp_path / "cache")])

    report = json.loads(file.read_text())
    shown = capsys.readouterr()
    names = [kind["name"] for kind in report["kinds"]]
    assert [name[0] for name in names] == ["a", "b", "c", "d", "e"]
    for kind in report["kinds"]:
        assert kind["cpu_ms"]["median"] > 0
        assert kind["wall_ms"]["median"] > 0
        assert kind["peak_mb"]["median"] > 10
        assert f"({kind['name']})" in shown.out
    assert report["kinds"][0]["ratios"]["a"]["cpu"]["median"] == 1
    local, synced = ({stage["name"] for stage in one["stages"]} for one in report["waterfalls"])
    assert {"settings read", "app made", "table opened", "vocabulary read", "first query"} <= local
    assert {"S3 client made", "pointer read", "release fetched"} <= synced - local
    assert all(0 <= stage["begin"] <= stage["end"] for one in report["waterfalls"] for stage in one["stages"])
    assert "(f) is left out: npm is missing" in shown.err
    assert len(ElementTree.fromstring(drawing.read_text()).findall("{*}rect")) > 10


def test_a_report_of_imports_is_added_up_by_package() -> None:
    report = (
        "import time: self [us] | cumulative | imported package\n"
        "import time:      1500 |       1500 |   mcp.types\n"
        "import time:       500 |       2000 | mcp\n"
        "import time:      1000 |       1000 | anyio\n"
        "something else\n"
    )

    assert imports(report) == [("mcp", 2.0), ("anyio", 1.0)]


def test_the_corpus_is_the_same_every_time(tmp_path: Path) -> None:
    corpus.write(tmp_path / "once", 16)
    corpus.write(tmp_path / "twice", 24)

    once, twice = (
        {file.relative_to(tmp_path / name): file.read_bytes() for file in (tmp_path / name).rglob("*.md")}
        for name in ("once", "twice")
    )

    assert len(once) == 2
    assert once.items() < twice.items()


def test_every_question_is_of_words_that_the_corpus_holds(tmp_path: Path) -> None:
    corpus.write(tmp_path, 16)
    text = "".join(file.read_text() for file in tmp_path.rglob("*.md"))

    asked = corpus.questions(5, 16)

    asked_for = re.findall(r"How do I (\w+) the (\w+) of a (\w+)\?", "\n".join(asked.prose))
    assert len(asked_for) == len(asked.identifiers) == 5
    assert [word for words in asked_for for word in words if word not in text.lower()] == []
    assert [identifier for identifier in asked.identifiers if identifier not in text] == []


def test_measures_take_turns_and_each_comes_first_in_its_turn() -> None:
    said: list[str] = []

    def measure(name: str, number: int) -> Cost:
        said.append(f"{name}{number}")
        return Cost(number, 0)

    costs = interleave(2, [lambda number: measure("a", number), lambda number: measure("b", number)])

    assert said == ["a0", "b0", "b1", "a1"]
    assert costs == [[Cost(0, 0), Cost(1, 0)]] * 2


def test_a_spread_of_one_measurement_is_that_measurement() -> None:
    assert Spread.of([3.0]) == Spread(3.0, 3.0, 3.0)
    assert Spread.of([1.0, 2.0, 3.0, 4.0, 5.0]) == Spread(2.0, 3.0, 4.0)
