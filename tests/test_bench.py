"""The bench runs from end to end, on tables too small for its figures to mean anything."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from retrieval.search.plan import MAX_QUERY_CHARS
from tests.bench import cold, corpus, docs, drawn, index, pages, rivals, warm
from tests.bench.__main__ import QUICK, main
from tests.bench.timing import Cost, Spread, interleave
from tests.bench.warm_report import Aim, Calls
from tests.bench.waterfall import imports
from tests.bench.worst import worst_questions
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


@pytest.mark.e2e
def test_a_quick_run_of_warm_calls_asks_every_kind_and_says_which_aims_are_reached(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The engines of the make target may be there or not.
    monkeypatch.setattr(rivals, "PACKAGES", tmp_path / "nothing")
    file = tmp_path / "figures.json"

    warm.main(["--quick", "--json", str(file), "--cache", str(tmp_path / "cache")])

    report = json.loads(file.read_text())
    shown = capsys.readouterr().out
    by_words = ["text", "the bare query", "SQLite FTS5", *warm.SLOW, "text, an identifier"]
    by_place = ["fetch", "the bare rows", "catalog"]
    by_meaning = ["vector, 16", "the bare query, 16", "hybrid, 16"]
    for size in warm.QUICK.sizes:
        names = [one["name"] for one in report["calls"] if one["chunks"] == size]
        assert names[: len(by_words + by_place + by_meaning)] == [*by_words, *by_place, *by_meaning]
    assert {one["name"] for one in report["calls"]} >= worst_questions(1).keys()
    for one in report["calls"]:
        assert 0 < one["p50"] <= one["p95"] <= one["p99"]
        assert one["name"] in shown
    assert [(one["kind"], one["clients"], one["errors"]) for one in report["throughput"]] == [
        ("text", 1, 0),
        ("text", 2, 0),
        ("hybrid", 1, 0),
        ("hybrid", 2, 0),
    ]
    assert report["memory"]["late_mb"] > 50
    assert all(aim["what"] in shown for aim in report["aims"])


def test_a_drawn_table_is_the_beginning_of_a_larger_one_and_its_vectors_are_near_those_of_their_words() -> None:
    few, more = (next(iter(drawn.blocks(size)))[0].batch(size) for size in (16, 24))
    assert more.slice(0, 16).equals(few)

    block = drawn.Block(0)
    vectors = block.vectors(400, 32)
    nearness = vectors @ drawn.vector_of(f"{few['title'][0]} {few['heading'][0]}", 32)

    # Its own document comes before most others.
    assert sorted(nearness.tolist(), reverse=True).index(nearness[0]) < 20


def test_what_is_asked_of_drawn_tables_stands_in_them() -> None:
    batch = drawn.Block(0).batch(80)
    text = "\n".join(batch["search_text"].to_pylist()).lower()

    asked = drawn.asking(5, 80)

    words = [word for question in asked.prose for word in re.findall(r"I (\w+) the (\w+) of a (\w+)\?", question)[0]]
    assert len(words) == 15
    assert [word for word in (*words, *asked.identifiers) if word not in text] == []
    assert set(asked.paths) <= set(batch["path"].to_pylist())


def test_the_worst_questions_are_no_longer_than_a_question_may_be() -> None:
    kinds = worst_questions(3)

    assert all(len(questions) == 3 for questions in kinds.values())
    assert max(len(question) for questions in kinds.values() for question in questions) == MAX_QUERY_CHARS


def test_what_a_call_takes_over_another_is_taken_question_by_question() -> None:
    slow = Calls.of("slow", 1, [Cost(0.001, 0.010), Cost(0.002, 0.002), Cost(0.003, 0.003)])
    quick = Calls.of("quick", 1, [Cost(0.001, 0.009), Cost(0.001, 0.001), Cost(0.001, 0.001)])

    assert slow.p50 == pytest.approx(2)
    assert slow.cpu_p50 == pytest.approx(3)
    assert slow.over(quick) == pytest.approx(1)


def test_an_aim_is_reached_from_its_own_side() -> None:
    assert Aim("ratio", 1.5, 1.5).reached
    assert not Aim("ratio", 1.6, 1.5).reached
    assert Aim("times", 5.1, 5, at_least=True).reached
    assert not Aim("times", 4.9, 5, at_least=True).reached


@pytest.mark.e2e
def test_a_quick_run_of_indexing_shows_each_format_its_parts_and_the_transfers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "figures.json"

    index.main(["--quick", "--json", str(file), "--cache", str(tmp_path / "cache")])

    report = json.loads(file.read_text())
    shown = capsys.readouterr().out
    assert [one["suffix"] for one in report["indexed"]] == [".md", ".html", ".rst"]
    for one in report["indexed"]:
        assert one["first"]["chunks"] == one["again"]["chunks"] == one["alone"]["chunks"] > 50
        assert (one["first"]["unchanged"], one["again"]["unchanged"]) == (False, True)
        assert one["first"]["cpu"] > 0
        assert one["first"]["peak_mb"] > 50
        assert one["first"]["stages"].keys() >= {"Reading documents", "Writing the table", "Indexing"}
        assert all(cost["wall"] > 0 for cost in one["parts"].values())
        assert f"{one['first']['files']} {one['suffix']}" in shown
    moved = report["transfers"]
    assert moved["packed_bytes"] > 0
    assert {len(moved[name]) for name in ("publish", "upload", "sync", "download")} == {1}
    assert "MB unpacked" in shown


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"code": "b"}, "code was changed between two runs"),
        ({"reused": 9, "unchanged": False}, "9 of 10 files as they were"),
        ({"chunks": 79}, "79 chunks after 80"),
    ],
)
def test_a_second_run_that_reads_anything_anew_ends_the_bench_with_the_reason(
    changed: dict[str, Any], reason: str
) -> None:
    first = index.Run(80, 10, 0, False, "a", 1.0, 1.0, 1.0, {})
    again = replace(first, reused=10, unchanged=True)
    index.check_again(first, again)

    with pytest.raises(RuntimeError, match=reason):
        index.check_again(first, replace(again, **changed))


@pytest.mark.parametrize("suffix", [".html", ".rst"])
def test_pages_of_every_format_say_what_the_markdown_says(suffix: str) -> None:
    markdown = corpus.document(7)

    page = pages.SUFFIXES[suffix](markdown)

    words = re.findall(r"\w{4,}", markdown.partition("---\n\n")[2].replace("```sh", ""))
    assert len(words) > 500
    assert [word for word in words if word not in page] == []


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


def test_figures_of_a_run_go_into_the_rows_that_have_them_and_nothing_else_changes() -> None:
    costs = [{"wall": 2.0, "cpu": 1.0}]
    moved = {"sync": costs, "download": costs, "publish": costs * 2, "upload": [{"wall": 1.0, "cpu": 1.0}] * 2}
    page = "Sync | is prose\n| Sync | 9 | 9 | 9 | 1.2: reached |\n| Publish |  |  |  |  |\n| Other | 1 |\n"

    rows = docs.rows_of({"indexed": [], "transfers": moved})

    assert docs.renewed(page, rows) == (
        "Sync | is prose\n| Sync | 2.00 | 2.00 | 1.00 (1.00 to 1.00) | 1.2: reached |\n"
        "| Publish | 2.00 | 1.00 | 2.00 (2.00 to 2.00) |  |\n| Other | 1 |\n"
    )


def test_every_row_that_a_run_has_figures_for_is_in_the_page() -> None:
    calls = [
        {"name": name, "chunks": 1_000, "cpu_p50": 1.0, "cpu_p99": 2.0}
        for name in (*warm.SLOW, "text", "tantivy", "fetch", "vector, 384", "hybrid, 1536")
    ]
    crowds = [{"kind": kind, "calls_a_second": 1.0, "server_ms": 1.0, "python_ms": 1.0} for kind in ("text", "hybrid")]

    rows = docs.rows_of({"calls": calls, "throughput": crowds})

    page = docs.PAGE.read_text(encoding="utf-8")
    assert len(rows) == len(calls) + len(crowds)
    assert [row for row in rows if f"\n| {row} | " not in page] == []
