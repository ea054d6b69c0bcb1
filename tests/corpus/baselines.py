"""The judged handbook, measured in every search type: what the committed baselines are made of and compared with.

`make baselines` writes them anew. Commit them with the change that moved them, and say in its message why.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from unittest import mock

from retrieval.dataset import open_dataset
from retrieval.evaluation import judgements
from retrieval.evaluation.comparison import compare
from retrieval.evaluation.measuring import Asking, measure
from retrieval.evaluation.report import ALL, Report
from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options
from retrieval.provider import Endpoint
from retrieval.settings import load_settings
from retrieval.types import Ran
from tests import static_model
from tests.embedding_server import running_embedding_server

FOLDER: Final = Path(__file__).parent
HANDBOOK: Final = FOLDER / "handbook"
QUERIES: Final = FOLDER / "queries.jsonl"
MODES: Final[tuple[Ran, ...]] = ("text", "vector", "hybrid")

_SETTINGS: Final = ("BEDIVERE_", "LANCELOT_", "LANCEDB_", "OPENAI_", "EMBEDDING_")
_INNERMOST: Final = re.compile(r"\{[^{}]*\}")


def measured(database: Path) -> Mapping[Ran, Report]:
    """A report for each search type over the handbook, which is indexed and embedded into `database`."""
    with _no_settings(database), running_embedding_server() as server:
        server.model = static_model.embed
        settings = load_settings(
            database=str(database),
            openai_api_key="unused",
            openai_base_url=server.url,
            embedding_model=static_model.NAME,
        )
        build_table(Options(HANDBOOK, database, embed=True, endpoint=Endpoint(settings)))
        asked = judgements.read(QUERIES)
        return {mode: asyncio.run(measure(settings, open_dataset(settings), Asking(asked, [mode]))) for mode in MODES}


def committed(mode: Ran) -> Report:
    """The baseline of `mode`."""
    return Report.load(_file(mode).read_text(encoding="utf-8"))


def write(mode: Ran, report: Report) -> None:
    """Writes `report` as the baseline of `mode`, without latencies, which are the machine's, a query on few lines."""
    lean = report.model_copy(
        update={"modes": {name: kept.model_copy(update={"latency": None}) for name, kept in report.modes.items()}}
    )
    text = json.dumps(lean.model_dump(mode="json"), indent=1, ensure_ascii=False)
    one_line = _INNERMOST.sub(lambda found: " ".join(found[0].split()), text)
    _file(mode).write_text(f"{one_line}\n", encoding="utf-8")


def _file(mode: Ran) -> Path:
    return FOLDER / "baselines" / f"{mode}.json"


@contextmanager
def _no_settings(folder: Path) -> Generator[None]:
    """No setting of the machine moves a figure."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_SETTINGS)}
    with mock.patch.dict(os.environ, {**kept, "XDG_CONFIG_HOME": str(folder / "none")}, clear=True):
        yield


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        reports = measured(Path(folder) / "database")
    for mode, report in reports.items():
        if _file(mode).exists():
            for change in compare(committed(mode), report).changes:
                if change.kind == ALL and change.before != change.after:
                    sys.stdout.write(f"{mode} {change.metric}: {change.before:.3f} -> {change.after:.3f}\n")
        write(mode, report)
    sys.stdout.write(f"{len(reports)} baselines are written to {FOLDER / 'baselines'}\n")


if __name__ == "__main__":
    main()
