"""The cache of vectors: what was added is there after a crash, and what is damaged is as good as not there."""

# pyarrow ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

from array import array
from pathlib import Path

import pytest

from retrieval.indexing.vectors import VectorCache, Way

WAY = Way("model", None, "")


def vector(*values: float) -> array[float]:
    return array("f", values)


def filled(folder: Path, count: int = 3, way: Way = WAY) -> list[bytes]:
    """Adds vectors of two numbers, one for each key."""
    cache = VectorCache(folder, way)
    keys = [way.key(f"text {number}") for number in range(count)]
    cache.add(keys, [vector(number, 1) for number in range(count)])
    cache.close()
    return keys


def values(cache: VectorCache, keys: list[bytes]) -> list[list[float]]:
    return cache.column(keys).to_pylist()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "documents.vectors"


def only_file(folder: Path) -> Path:
    (file,) = folder.iterdir()
    return file


def test_what_was_added_is_there_for_the_next_run_in_any_order(folder: Path) -> None:
    keys = filled(folder)
    cache = VectorCache(folder, WAY)
    assert values(cache, [keys[2], keys[0], keys[2]]) == [[2, 1], [0, 1], [2, 1]]
    cache.close()


def test_a_cache_that_is_only_read_makes_no_file(folder: Path) -> None:
    assert len(VectorCache(folder, WAY)) == 0
    assert not folder.exists()


def test_what_is_added_is_on_the_disk_at_once(folder: Path) -> None:
    writing = VectorCache(folder, WAY)
    writing.add([WAY.key("a")], [vector(1, 2)])
    reading = VectorCache(folder, WAY)
    assert WAY.key("a") in reading
    writing.close()
    reading.close()


@pytest.mark.parametrize("cut", [1, 8, 27])
def test_a_record_that_was_cut_short_is_dropped_and_adding_goes_on(folder: Path, cut: int) -> None:
    keys = filled(folder)
    file = only_file(folder)
    file.write_bytes(file.read_bytes()[:-cut])
    cache = VectorCache(folder, WAY)
    assert [key in cache for key in keys] == [True, True, False]
    cache.add([keys[2]], [vector(9, 9)])
    cache.close()
    again = VectorCache(folder, WAY)
    assert values(again, keys) == [[0, 1], [1, 1], [9, 9]]
    again.close()


def test_a_damaged_record_is_dropped_and_its_neighbours_are_kept(folder: Path) -> None:
    keys = filled(folder)
    file = only_file(folder)
    data = bytearray(file.read_bytes())
    data[-30] ^= 0xFF
    file.write_bytes(data)
    cache = VectorCache(folder, WAY)
    assert [key in cache for key in keys] == [True, False, True]
    cache.close()


@pytest.mark.parametrize("content", [b"", b"not ours", b"[]\n", b'{"format": 0}\n', b"\xff\xfe\n"])
def test_a_file_that_cannot_be_understood_is_begun_anew(folder: Path, content: bytes) -> None:
    filled(folder)
    only_file(folder).write_bytes(content)
    assert len(VectorCache(folder, WAY)) == 0
    keys = filled(folder)
    cache = VectorCache(folder, WAY)
    assert len(cache) == len(keys)
    cache.close()


@pytest.mark.parametrize("other", [Way("other", None, ""), Way("model", 8, ""), Way("model", None, "passage: ")])
def test_another_way_of_embedding_has_vectors_of_its_own(folder: Path, other: Way) -> None:
    keys = filled(folder)
    cache = VectorCache(folder, other)
    assert keys[0] not in cache
    cache.close()


def test_what_is_no_longer_used_is_swept_with_all_other_ways(folder: Path) -> None:
    keys = filled(folder, 20)
    filled(folder, 2, Way("other", None, ""))
    cache = VectorCache(folder, WAY)
    size = (folder / WAY.file_name).stat().st_size
    cache.sweep({keys[3], keys[7]})
    assert only_file(folder).stat().st_size < size
    assert values(cache, [keys[7], keys[3]]) == [[7, 1], [3, 1]]
    cache.add([WAY.key("new")], [vector(5, 5)])
    cache.close()
    again = VectorCache(folder, WAY)
    assert values(again, [WAY.key("new"), keys[3]]) == [[5, 5], [3, 1]]
    assert len(again) == 3
    again.close()


def test_a_few_unused_vectors_are_not_worth_writing_everything_anew(folder: Path) -> None:
    keys = filled(folder, 20)
    cache = VectorCache(folder, WAY)
    cache.sweep(set(keys[1:]))
    assert keys[0] in cache
    cache.close()


def test_asking_for_what_is_not_there_is_an_error(folder: Path) -> None:
    filled(folder)
    cache = VectorCache(folder, WAY)
    with pytest.raises(KeyError):
        cache.column([WAY.key("unknown")])
    cache.close()
