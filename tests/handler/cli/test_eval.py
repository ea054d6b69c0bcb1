"""`bedivere eval` at a terminal and in a script."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from handler.cli import app
from handler.cli.terminal import ExitCode

QUERIES: list[dict[str, Any]] = [
    {
        "id": "1",
        "kind": "question",
        "text": "how often is the signing key rotated",
        "relevant": [{"path": "keys.md", "heading": "Rotation"}],
        "answerable": True,
    },
    {"id": "2", "kind": "keyword", "text": "nightly backup schedule", "relevant": [{"path": "backup.md"}]},
    {
        "id": "3",
        "kind": "keyword",
        "text": "restore snapshot",
        "relevant": [{"path": "backup.md", "heading": "Restore"}],
    },
    {"id": "4", "kind": "noanswer", "text": "zeppelin", "relevant": [], "answerable": False},
]


def run(*arguments: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["eval", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    return written(tmp_path, QUERIES)


def written(folder: Path, queries: list[dict[str, Any]]) -> Path:
    file = folder / "queries.jsonl"
    file.write_text("".join(json.dumps(query) + "\n" for query in queries), encoding="utf-8")
    return file


def test_figures_are_printed_by_kind_with_confidence_and_latency(handbook: Path, queries: Path) -> None:
    code, out, _ = run("--db", handbook, "--queries", queries)
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line.strip()}

    assert code == 0
    assert rows["text"] == ["queries", *"ndcg@10 recall@5 recall@10 recall@100 mrr@10 hit@1 section_hit@5".split()]
    assert rows["all"] == ["3", *["1.000"] * 7]
    assert rows["keyword"][0] == "2"
    assert "95% from" in out
    assert "Share of unanswerable queries that were answered: 0.000 of 1" in out
    assert "Milliseconds at p50, p95, p99: search " in out


def test_a_single_query_has_no_interval(handbook: Path, tmp_path: Path) -> None:
    queries = written(tmp_path, [{"id": "1", "text": "keel sail mast", "relevant": []}])
    lines = run("--db", handbook, "--queries", queries, "--mode", "text")[1].splitlines()

    assert [line for line in lines if line.endswith(" of 1")]
    assert "()" not in "".join(lines)


def test_a_figure_of_one_query_beside_figures_of_several_has_no_bounds(handbook: Path, tmp_path: Path) -> None:
    one_heading = [QUERIES[0], *({**query, "relevant": [{"path": "backup.md"}]} for query in QUERIES[1:3])]
    queries = written(tmp_path, one_heading)
    code, out, _ = run("--db", handbook, "--queries", queries)
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line.strip()}
    baseline = tmp_path / "baseline.json"
    baseline.write_text(run("--db", handbook, "--queries", queries, "--json")[1])

    assert code == 0
    assert rows["95%"] == ["from", *["1.000"] * 6]
    assert run("--db", handbook, "--queries", queries, "--compare", baseline)[0] == 0


def test_json_holds_every_querys_figures(handbook: Path, queries: Path) -> None:
    code, out, _ = run("--db", handbook, "--queries", queries, "--json")
    report = json.loads(out)

    assert code == 0
    assert report["corpus"]["documents"] == 4
    assert [query["id"] for query in report["modes"]["text"]["queries"]] == ["1", "2", "3", "4"]


def test_a_run_against_itself_has_lost_nothing(handbook: Path, queries: Path, tmp_path: Path) -> None:
    baseline = tmp_path / "baseline.json"
    baseline.write_text(run("--db", handbook, "--queries", queries, "--json")[1])
    code, out, _ = run("--db", handbook, "--queries", queries, "--compare", baseline)

    assert code == 0
    assert out.endswith("No figure lost more than noise.\n")


@pytest.fixture
def better_baseline(handbook: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Queries that find nothing, and a baseline in which they all did."""
    queries = written(
        tmp_path,
        [{"id": str(number), "text": f"turbines {number}", "relevant": [{"path": "index.md"}]} for number in range(8)],
    )
    report = json.loads(run("--db", handbook, "--queries", queries, "--json")[1])
    for query in report["modes"]["text"]["queries"]:
        query["values"]["mrr@10"] = 1.0
    baseline = tmp_path / "baseline.json"
    baseline.write_text(json.dumps(report))
    return queries, baseline


def test_a_loss_ends_with_a_code_of_its_own(handbook: Path, better_baseline: tuple[Path, Path]) -> None:
    queries, baseline = better_baseline
    code, out, _ = run("--db", handbook, "--queries", queries, "--compare", baseline)

    assert code == ExitCode.WORSE
    assert out.endswith("Lost more than noise: text mrr@10\n")


def test_a_loss_is_in_the_json_too(handbook: Path, better_baseline: tuple[Path, Path]) -> None:
    queries, baseline = better_baseline
    code, out, _ = run("--db", handbook, "--queries", queries, "--compare", baseline, "--json")
    verdicts = {change["metric"]: change["verdict"] for change in json.loads(out)["comparison"]["changes"]}

    assert code == ExitCode.WORSE
    assert verdicts["mrr@10"] == "worse"
    assert verdicts["hit@1"] == "same"


def test_a_report_with_a_comparison_is_a_baseline_too(
    handbook: Path, better_baseline: tuple[Path, Path], tmp_path: Path
) -> None:
    queries, baseline = better_baseline
    compared = tmp_path / "compared.json"
    compared.write_text(run("--db", handbook, "--queries", queries, "--compare", baseline, "--json")[1])

    assert run("--db", handbook, "--queries", queries, "--compare", compared)[0] == 0


def test_topics_are_measured_with_their_qrels(handbook: Path, tmp_path: Path) -> None:
    topics, qrels = tmp_path / "topics.tsv", tmp_path / "judged.qrels"
    topics.write_text("1\tsigning key\n")
    qrels.write_text("1 0 keys.md 1\n")
    _, out, _ = run("--db", handbook, "--queries", topics, "--qrels", qrels, "--json")

    assert json.loads(out)["modes"]["text"]["figures"]["all"]["mrr@10"]["mean"] == 1.0


def test_a_judged_document_that_is_not_there_is_a_failure(handbook: Path, tmp_path: Path) -> None:
    queries = written(tmp_path, [{"id": "1", "text": "key", "relevant": [{"path": "kyes.md"}]}])
    code, out, err = run("--db", handbook, "--queries", queries)

    assert (code, out) == (1, "")
    assert err.startswith("JUDGEMENTS_INVALID: 1 judged document is not in the table: kyes.md.")


def test_a_search_type_that_cannot_run_is_a_failure_and_no_figure(handbook: Path, queries: Path) -> None:
    code, out, _ = run("--db", handbook, "--queries", queries, "--mode", "text,vector", "--json")

    assert code == 1
    assert json.loads(out)["code"] == "EMBEDDING_FAILED"


def test_an_unknown_search_type_is_a_usage_error(handbook: Path, queries: Path) -> None:
    code, _, err = run("--db", handbook, "--queries", queries, "--mode", "text,fuzzy")

    assert code == ExitCode.USAGE
    assert "'fuzzy'" in err


def test_a_line_that_is_no_query_is_told_with_its_number_in_words_of_ours(handbook: Path, tmp_path: Path) -> None:
    queries = written(tmp_path, [QUERIES[0], {"id": "2", "text": "key", "relevant": "keys.md"}])
    code, _, err = run("--db", handbook, "--queries", queries)

    assert code == 1
    assert err == "JUDGEMENTS_INVALID: Line 2 of the queries is wrong: 'relevant' must be a list of objects.\n"


@pytest.mark.parametrize("content", [None, "{}"])
def test_a_baseline_that_is_none_is_a_failure(
    handbook: Path, queries: Path, tmp_path: Path, content: str | None
) -> None:
    baseline = tmp_path / "baseline.json"
    if content is not None:
        baseline.write_text(content)
    code, _, err = run("--db", handbook, "--queries", queries, "--compare", baseline)

    assert code == 1
    assert err.startswith("JUDGEMENTS_INVALID: The baseline ")


def test_fewer_passages_may_be_asked_for(handbook: Path, queries: Path) -> None:
    _, out, _ = run("--db", handbook, "--queries", queries, "--limit", "1", "--json")

    assert json.loads(out)["depth"] == 1


def test_another_threshold_is_part_of_the_report(handbook: Path, queries: Path) -> None:
    _, out, _ = run("--db", handbook, "--queries", queries, "--min-score", "0", "--json")

    assert json.loads(out)["min_score"] == 0
