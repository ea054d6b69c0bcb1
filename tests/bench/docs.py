"""`python -m tests.bench.docs`: writes the figures of a run into the tables of docs/performance.md, row by row.

A row is known by its first cell. What no run has measured stays as it is, and so does all that is not a table.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from tests.bench.timing import Spread

PAGE: Final = Path(__file__).parents[2] / "docs" / "performance.md"

Rows = Mapping[str, Sequence[str]]
"""By the first cell of a row, or by the letter in brackets at its beginning, the cells that follow it."""

_CALLS: Final = {
    "Text": "text",
    "The bare query": "the bare query",
    "Text, an identifier": "text, an identifier",
    "Fetch, a document": "fetch",
    "Catalog, 20 documents": "catalog",
    "SQLite FTS5, the telling words": "SQLite FTS5",
    "SQLite FTS5, all words": "SQLite FTS5, all words",
    "tantivy, the telling words": "tantivy",
    "bm25s, the telling words": "bm25s",
    "`LIKE` scan of all rows": "LIKE scan",
    "`LIKE` scan to the first 20 rows": "LIKE scan, first 20",
    "Vector, 384 dimensions": "vector, 384",
    "The bare query, 384": "the bare query, 384",
    "Vector, 1,536 dimensions": "vector, 1536",
    "The bare query, 1,536": "the bare query, 1536",
    "Hybrid, 384 dimensions": "hybrid, 384",
    "Hybrid, 1,536 dimensions": "hybrid, 1536",
}
"""The rows of the warm calls, and what the bench calls them."""

_CROWDS: Final = {"Text: 1 / 8 / 32": "text", "Hybrid, provider of 50 ms: 1 / 8 / 32": "hybrid"}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.docs", description="Figures of a run, into the page")
    parser.add_argument("reports", type=Path, nargs="+", metavar="FILE", help="what --json of the benches wrote")
    parser.add_argument("--page", type=Path, default=PAGE, metavar="FILE")
    options = parser.parse_args(arguments)
    rows: dict[str, Sequence[str]] = {}
    for file in options.reports:
        rows |= rows_of(json.loads(file.read_text(encoding="utf-8")))
    page = options.page.read_text(encoding="utf-8")
    options.page.write_text(renewed(page, rows), encoding="utf-8")


def renewed(page: str, rows: Rows) -> str:
    """`page` with the cells of `rows` in the rows of its tables; cells beyond those that are given stay."""
    return "\n".join(_renewed(line, rows) for line in page.split("\n"))


def rows_of(report: Mapping[str, Any]) -> Rows:
    """The rows for which a report of the cold, the warm or the indexing bench has figures."""
    if "kinds" in report:
        return {f"({kind['name']})": _cold(kind) for kind in report["kinds"]}
    if "calls" in report:
        return dict([*_calls(report["calls"]), *_crowds(report["throughput"])])
    return dict([*_indexed(report["indexed"]), *_moved(report["transfers"])])


def _renewed(line: str, rows: Rows) -> str:
    if not line.startswith("| "):
        return line
    first, *others = line.removeprefix("| ").removesuffix(" |").split(" | ")
    marked = re.match(r"\(\w+\)", first)
    cells = rows.get(marked[0] if marked else first, ())
    return f"| {' | '.join([first, *cells, *others[len(cells) :]])} |"


def _cold(kind: Mapping[str, Any]) -> list[str]:
    to_a, to_b = (kind["ratios"][name] for name in "ab")
    spread = " to ".join(f"{to_a['cpu'][name]:.2f}" for name in ("p25", "p75"))
    return [
        f"{kind['cpu_ms']['median']:,.0f}",
        f"{to_a['cpu']['median']:.2f} ({spread})",
        f"{to_a['wall']['median']:.2f}",
        f"{to_b['cpu']['median']:.2f}",
        f"{kind['peak_mb']['median']:.0f}",
    ]


def _calls(calls: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Sequence[str]]]:
    sizes = sorted({call["chunks"] for call in calls if call["name"] in _CALLS.values()})
    measured = {(call["name"], call["chunks"]): call for call in calls}
    for row, name in _CALLS.items():
        if any((name, size) in measured for size in sizes):
            found = (measured.get((name, size)) for size in sizes)
            yield row, [f"{_ms(call['cpu_p50'])} ({_ms(call['cpu_p99'])})" if call else "" for call in found]


def _ms(value: float) -> str:
    return f"{value:,.0f}" if value >= 30 else f"{value:.1f}"


def _crowds(throughput: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Sequence[str]]]:
    for row, kind in _CROWDS.items():
        crowds = [crowd for crowd in throughput if crowd["kind"] == kind]
        shown = (("calls_a_second", "{:.0f}"), ("server_ms", "{:.1f}"), ("python_ms", "{:.1f}"))
        if crowds:
            yield row, [" / ".join(form.format(crowd[name]) for crowd in crowds) for name, form in shown]


def _indexed(indexed: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Sequence[str]]]:
    names = {".md": "Markdown", ".html": "HTML", ".rst": "reStructuredText"}
    for one in indexed:
        first, again, parts = (one[name] for name in ("first", "again", "parts"))
        rates = (first["chunks"] / max(parts[name]["cpu"], 1e-6) for name in parts)
        yield (
            f"{names[one['suffix']]}, {round(first['chunks'], -3):,} chunks",
            [
                f"{first['chunks'] / first['seconds']:,.0f}",
                f"{first['cpu']:.0f}",
                f"{first['peak_mb']:.0f}",
                f"{again['cpu']:.1f}, {again['cpu'] / first['cpu']:.3f}",
            ],
        )
        yield f"{names[one['suffix']]}, {round(first['chunks'], -3):,}, by part", [f"{rate:,.0f}" for rate in rates]


def _moved(moved: Mapping[str, Any] | None) -> Iterator[tuple[str, Sequence[str]]]:
    for row, ours, plain in (("Sync", "sync", "download"), ("Publish", "publish", "upload")):
        if moved:
            walls = [[cost["wall"] for cost in moved[name]] for name in (ours, plain)]
            ratio = Spread.of(one / other for one, other in zip(*walls, strict=True))
            spread = f"{ratio.median:.2f} ({ratio.p25:.2f} to {ratio.p75:.2f})"
            yield row, [*(f"{median(wall):.2f}" for wall in walls), spread]


if __name__ == "__main__":
    main()
