"""A few of the kills and power cuts of `make kill-tests`: the old state or the new one, and the next run repairs."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.kills.moments import cut, killed, length
from tests.kills.power import Disk, write_image
from tests.kills.victims import VICTIMS, make_base

pytestmark = pytest.mark.e2e

SEEDS = (1, 2)
CUTS = 2


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_base(tmp_path_factory.mktemp("kills") / "base")


@pytest.mark.parametrize("name", VICTIMS)
def test_a_run_that_is_killed_leaves_the_old_state_or_the_new_and_the_next_repairs(
    base: Path, tmp_path: Path, name: str
) -> None:
    of = length(VICTIMS[name], base, tmp_path / "length")
    left = [killed(VICTIMS[name], base, tmp_path / "run", of, Random(seed)) for seed in SEEDS]

    assert [each for each in left if each.problem] == []


@pytest.mark.parametrize("name", VICTIMS)
def test_a_power_cut_leaves_the_old_state_or_the_new_and_the_next_run_repairs(
    base: Path, tmp_path: Path, name: str
) -> None:
    left = list(cut(VICTIMS[name], base, tmp_path / "cut", Random(1), CUTS))

    assert [each for each in left if each.problem] == []


def test_a_disk_that_forgets_loses_what_was_not_flushed_before_it_was_named(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "named").write_text("old")
    disk = Disk(root)
    with disk.watched():
        (root / "fresh").write_text("new")
        (root / "fresh").replace(root / "named")

    assert disk.images["strict"] == [{"named": b"old"}]
    assert disk.images["empty"][-1] == {"named": b""}
    assert disk.images["zeros"][-1] == {"named": b"\0\0\0"}
    write_image(disk.images["strict"][0], tmp_path / "found")
    assert (tmp_path / "found/named").read_text() == "old"
