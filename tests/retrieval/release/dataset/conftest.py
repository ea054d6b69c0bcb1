"""A store in memory, a later state of the handbook, and datasets that hurry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from retrieval.dataset import (
    ReleasedDataset,
)
from retrieval.indexing.build import build_table
from retrieval.indexing.job import Options
from retrieval.settings import Settings, load_settings
from tests.retrieval.release.crafted import MemoryStore
from tests.retrieval.release.dataset.watching import QUICK, URI, MakeDataset


@pytest.fixture(scope="module")
def later(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A later state of the handbook, with one page that the first has not."""
    folder = tmp_path_factory.mktemp("later")
    (folder / "docs").mkdir()
    (folder / "docs" / "zeppelin.md").write_text("# Zeppelins\n\nA zeppelin is kept in hangar nine.\n")
    build_table(Options(source=folder / "docs", database=folder / "database"))
    return folder / "database"


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings(database=URI, sync_folder=str(tmp_path / "sync"), refresh_seconds=1, dataset_wait_seconds=5.0)


@pytest.fixture
def make_dataset(store: MemoryStore, settings: Settings) -> MakeDataset:
    def make(*, refresh_seconds: float = 0.0, first_pause: float = 0.0, **changes: Any) -> ReleasedDataset:
        # Intervals below a second, which the setting has not, keep these tests quick.
        changed = settings.model_copy(update={"refresh_seconds": refresh_seconds, **changes})
        return ReleasedDataset(changed, make_store=lambda: store, patience=QUICK, first_pause=first_pause)

    return make
