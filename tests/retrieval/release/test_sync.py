"""Fetching a release: whole, verified and in its place, or not there at all."""

from __future__ import annotations

import errno
import os
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from retrieval.errors import BedivereError, ErrorCode
from retrieval.release import sync
from retrieval.release.disk import MARKER, SyncFolder, hold
from retrieval.release.manifest import POINTER_KEY, Manifest
from retrieval.release.sync import Patience, fetch, read_pointer
from tests.retrieval.release.crafted import (
    LATER_RELEASE,
    RELEASE,
    MemoryStore,
    manifest_of,
    packed,
    point_at,
    small_disk,
)

QUICK = Patience(stall=0.4, pointer=0.2, lock=0.2, attempts=3, pause=0.01)

ONE = {"a.lance/data/one.lance": b"1" * 5000, "a.lance/_versions/1": b"v"}
TWO = {"a.lance/data/two.lance": b"2" * 9000}


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def manifest(store: MemoryStore) -> Manifest:
    return stored(store, RELEASE)


def stored(store: MemoryStore, release: str) -> Manifest:
    """A release of two parts, in the store and current."""
    parts = [packed(files, number=number, release=release) for number, files in enumerate((ONE, TWO))]
    for part, data in parts:
        store.objects[part.key] = data
    made = manifest_of([part for part, _ in parts], release=release)
    point_at(store, made)
    return made


def refused(store: MemoryStore, manifest: Manifest, folder: Path) -> BedivereError:
    """The failure of a sync, which left nothing behind."""
    before = names(folder)
    with pytest.raises(BedivereError) as raised:
        fetch(store, manifest, folder, patience=QUICK)
    assert names(folder) == before
    return raised.value


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class TestFetch:
    def test_a_release_stands_complete_in_its_place(
        self, store: MemoryStore, manifest: Manifest, tmp_path: Path
    ) -> None:
        figures = fetch(store, manifest, tmp_path)
        for name, content in {**ONE, **TWO}.items():
            assert (tmp_path / RELEASE / name).read_bytes() == content
        assert names(tmp_path) == [RELEASE]
        assert (figures.release, figures.reused) == (RELEASE, False)
        assert (figures.bytes, figures.unpacked_bytes) == (manifest.packed_bytes, 14_001)
        assert figures.seconds > 0

    def test_progress_grows_to_the_packed_bytes(self, store: MemoryStore, manifest: Manifest, tmp_path: Path) -> None:
        seen: list[tuple[int, int]] = []
        fetch(store, manifest, tmp_path, on_progress=lambda done, total: seen.append((done, total)))
        assert max(seen) == (manifest.packed_bytes, manifest.packed_bytes)

    def test_a_release_without_parts_is_no_obstacle(self, store: MemoryStore, tmp_path: Path) -> None:
        fetch(store, manifest_of([]), tmp_path)
        assert names(tmp_path) == [RELEASE]

    def test_parts_are_fetched_side_by_side(self, store: MemoryStore, manifest: Manifest, tmp_path: Path) -> None:
        both = threading.Barrier(2, timeout=5)
        store.before_stream = lambda _: both.wait()
        fetch(store, manifest, tmp_path)
        assert names(tmp_path) == [RELEASE]

    @pytest.mark.parametrize("on_lambda", [False, True])
    def test_a_release_is_on_the_disk_before_it_has_its_name_but_on_lambda_where_the_disk_goes_with_the_machine(
        self,
        store: MemoryStore,
        manifest: Manifest,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        on_lambda: bool,
    ) -> None:
        flushed: list[str] = []
        real = os.fsync

        def noting(descriptor: int) -> None:
            flushed.append(str(Path(f"/proc/self/fd/{descriptor}").readlink().relative_to(tmp_path)).partition("/")[2])
            real(descriptor)

        monkeypatch.setattr(os, "fsync", noting)
        if on_lambda:
            monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "bedivere")
        fetch(store, manifest, tmp_path)
        files = {path.relative_to(tmp_path / RELEASE).as_posix() for path in (tmp_path / RELEASE).rglob("*")}
        assert set(flushed) == (set() if on_lambda else {*files, ""})

    def test_a_release_that_is_here_is_not_fetched_again(
        self, store: MemoryStore, manifest: Manifest, tmp_path: Path
    ) -> None:
        fetch(store, manifest, tmp_path)
        store.asked.clear()
        figures = fetch(store, manifest, tmp_path)
        assert (figures.reused, figures.bytes, store.asked) == (True, 0, [])

    @pytest.mark.parametrize("damage", ["marker", "file missing", "file shorter", "marker of another manifest"])
    def test_a_release_that_is_here_in_part_is_fetched_again(
        self, store: MemoryStore, manifest: Manifest, tmp_path: Path, damage: str
    ) -> None:
        fetch(store, manifest, tmp_path)
        one = tmp_path / RELEASE / "a.lance/data/one.lance"
        match damage:
            case "marker":
                (tmp_path / RELEASE / MARKER).write_text("half of a mar")
            case "file missing":
                one.unlink()
            case "file shorter":
                one.write_bytes(b"1")
            case _:
                manifest = replace(manifest, tool_version="0.2.0")
        assert not fetch(store, manifest, tmp_path).reused
        assert one.read_bytes() == ONE["a.lance/data/one.lance"]
        assert names(tmp_path) == [RELEASE]

    def test_a_disk_too_small_is_refused_before_a_byte_is_fetched(
        self, store: MemoryStore, manifest: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(shutil, "disk_usage", small_disk)
        failure = refused(store, manifest, tmp_path)
        assert failure.code is ErrorCode.DATASET_TOO_LARGE
        assert "EphemeralStorageMb" in failure.sentence
        assert store.fetched_parts == []

    @pytest.mark.parametrize(
        ("number", "code"),
        [
            (errno.ENOSPC, ErrorCode.DATASET_TOO_LARGE),
            (errno.EDQUOT, ErrorCode.DATASET_TOO_LARGE),
            (errno.EROFS, ErrorCode.SETTING_INVALID),
            (errno.EEXIST, ErrorCode.RELEASE_DAMAGED),
        ],
    )
    def test_a_disk_that_fails_while_it_is_written_leaves_nothing(
        self,
        store: MemoryStore,
        manifest: Manifest,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        number: int,
        code: ErrorCode,
    ) -> None:
        real = os.open

        def failing(path: str | Path, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            if str(path).endswith("two.lance") and flags & os.O_CREAT:
                raise OSError(number, os.strerror(number), str(path))
            return real(path, flags, mode, dir_fd=dir_fd)

        monkeypatch.setattr(os, "open", failing)
        failure = refused(store, manifest, tmp_path)
        assert failure.code is code
        assert str(tmp_path) not in failure.sentence

    def test_a_part_that_is_not_there_is_damage(self, store: MemoryStore, manifest: Manifest, tmp_path: Path) -> None:
        del store.objects[manifest.parts[1].key]
        assert refused(store, manifest, tmp_path).code is ErrorCode.RELEASE_DAMAGED

    def test_files_whose_names_exclude_each_other_are_refused(self, store: MemoryStore, tmp_path: Path) -> None:
        part, data = packed({"a.lance": b"file", "a.lance/one": b"folder"})
        store.objects[part.key] = data
        assert refused(store, manifest_of([part]), tmp_path).code is ErrorCode.RELEASE_DAMAGED

    @pytest.mark.parametrize("name", [MARKER, "in-use.lock"])
    def test_names_that_the_folder_needs_itself_are_refused(
        self, store: MemoryStore, tmp_path: Path, name: str
    ) -> None:
        part, data = packed({name: b"{}"})
        store.objects[part.key] = data
        assert refused(store, manifest_of([part]), tmp_path).code is ErrorCode.RELEASE_DAMAGED

    def test_a_fault_of_ours_leaves_nothing_either(
        self, store: MemoryStore, manifest: Manifest, tmp_path: Path
    ) -> None:
        def fail(_: str) -> None:
            raise ZeroDivisionError

        store.before_stream = fail
        with pytest.raises(ZeroDivisionError):
            fetch(store, manifest, tmp_path)
        assert names(tmp_path) == []


class TestRetries:
    def test_a_part_that_breaks_off_is_fetched_again(
        self, store: MemoryStore, manifest: Manifest, tmp_path: Path
    ) -> None:
        breaks = iter([True, True, False])
        broken_off(store, manifest.parts[0].key, breaks)
        fetch(store, manifest, tmp_path, patience=QUICK)
        assert names(tmp_path) == [RELEASE]

    def test_a_part_that_always_breaks_off_makes_the_store_unreachable(
        self, store: MemoryStore, manifest: Manifest, tmp_path: Path
    ) -> None:
        broken_off(store, manifest.parts[0].key, iter([True] * 9))
        assert refused(store, manifest, tmp_path).code is ErrorCode.STORE_UNREACHABLE
        assert store.fetched_parts.count(manifest.parts[0].key) == QUICK.attempts

    def test_what_cannot_get_better_is_not_tried_again(
        self, store: MemoryStore, manifest: Manifest, tmp_path: Path
    ) -> None:
        key = manifest.parts[0].key
        store.objects[key] = store.objects[key][:-1] + b"x"
        assert refused(store, manifest, tmp_path).code is ErrorCode.RELEASE_DAMAGED
        assert store.fetched_parts.count(key) == 1

    def test_a_store_that_stalls_is_left_alone(self, store: MemoryStore, manifest: Manifest, tmp_path: Path) -> None:
        go = threading.Event()
        store.before_stream = lambda _: go.wait()
        started = time.monotonic()
        assert refused(store, manifest, tmp_path).code is ErrorCode.STORE_UNREACHABLE
        assert time.monotonic() - started < 3
        go.set()

    def test_a_store_that_drips_is_one_that_stalls(
        self, store: MemoryStore, manifest: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def drip(key: str, *, chunk_bytes: int = 1) -> Iterator[bytes]:
            del chunk_bytes
            for byte in store.objects[key]:
                time.sleep(0.01)
                yield bytes([byte])

        monkeypatch.setattr(store, "stream", drip)
        assert refused(store, manifest, tmp_path).code is ErrorCode.STORE_UNREACHABLE

    def test_a_store_that_is_slow_but_steady_is_waited_for(
        self, store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sync, "_STALL_BYTES", 50)
        files = {"a.lance/one": os.urandom(4500)}
        part, data = packed(files)
        whole = [data[at : at + 100] for at in range(0, len(data), 100)]

        def steady(key: str, *, chunk_bytes: int = 1) -> Iterator[bytes]:
            del key, chunk_bytes
            for chunk in whole:
                time.sleep(0.02)
                yield chunk

        monkeypatch.setattr(store, "stream", steady)
        fetch(store, manifest_of([part]), tmp_path, patience=replace(QUICK, stall=0.5))
        assert names(tmp_path) == [RELEASE]


def broken_off(store: MemoryStore, key: str, breaks: Iterator[bool]) -> None:
    """Lets the part at `key` break off after its first bytes whenever `breaks` says so."""
    real = store.stream

    def stream(asked: str, *, chunk_bytes: int = 1 << 20) -> Iterator[bytes]:
        chunks = real(asked, chunk_bytes=chunk_bytes)
        if asked != key or not next(breaks):
            return chunks

        def half() -> Iterator[bytes]:
            yield b"".join(chunks)[:40]
            raise OSError(errno.ECONNRESET, "reset")

        return half()

    store.stream = stream  # type: ignore[method-assign]


class TestPointer:
    def test_it_names_the_current_release(self, store: MemoryStore, manifest: Manifest) -> None:
        found = read_pointer(store)
        assert found is not None
        assert found[0].manifest == manifest

    def test_it_is_not_read_again_while_its_tag_is_the_same(self, store: MemoryStore, manifest: Manifest) -> None:
        del manifest
        found = read_pointer(store)
        assert found is not None
        assert read_pointer(store, unless_tag=found[1]) is None

    def test_without_one_nothing_was_published(self, store: MemoryStore) -> None:
        with pytest.raises(BedivereError) as raised:
            read_pointer(store)
        assert raised.value.code is ErrorCode.RELEASE_NOT_FOUND

    def test_one_of_a_newer_format_says_to_update(self, store: MemoryStore) -> None:
        point_at(store, manifest_of([], minimum_reader=99))
        with pytest.raises(BedivereError) as raised:
            read_pointer(store)
        assert raised.value.code is ErrorCode.RELEASE_TOO_NEW

    def test_one_that_is_no_json_is_damaged(self, store: MemoryStore) -> None:
        store.objects[POINTER_KEY] = b"<html>"
        with pytest.raises(BedivereError) as raised:
            read_pointer(store)
        assert raised.value.code is ErrorCode.RELEASE_DAMAGED

    def test_a_store_that_does_not_answer_is_unreachable(
        self, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        go = threading.Event()
        monkeypatch.setattr(store, "get", lambda *_, **__: go.wait())  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        with pytest.raises(BedivereError) as raised:
            read_pointer(store, patience=QUICK)
        assert raised.value.code is ErrorCode.STORE_UNREACHABLE
        go.set()


class TestFolder:
    def test_a_second_sync_waits_for_the_first(self, tmp_path: Path) -> None:
        order: list[str] = []
        folder, held = SyncFolder(tmp_path), threading.Event()

        def first() -> None:
            with folder.locked(0):
                held.set()
                time.sleep(0.1)
                order.append("first")

        thread = threading.Thread(target=first)
        thread.start()
        held.wait()
        with folder.locked(5):
            order.append("second")
        thread.join()
        assert order == ["first", "second"]

    def test_one_that_waited_long_enough_says_so(self, tmp_path: Path) -> None:
        folder = SyncFolder(tmp_path)
        with folder.locked(0), pytest.raises(BedivereError) as raised, folder.locked(0.1):
            pass
        assert raised.value.code is ErrorCode.DATASET_LOADING

    def test_a_folder_that_cannot_be_made_names_the_setting(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(BedivereError) as raised, SyncFolder(tmp_path / "file" / "folder").locked(0):
            pass
        assert "BEDIVERE_SYNC_FOLDER" in raised.value.sentence
        assert str(tmp_path) not in raised.value.sentence

    def test_what_crashed_syncs_left_is_cleared(self, store: MemoryStore, manifest: Manifest, tmp_path: Path) -> None:
        fetch(store, manifest, tmp_path)
        for leftover in (f"{LATER_RELEASE}.0a1b2c3d.partial", f"{LATER_RELEASE}.gone", "20250101T000000Z-00000000"):
            (tmp_path / leftover / "a.lance").mkdir(parents=True)
        (tmp_path / "not-ours").mkdir()
        with SyncFolder(tmp_path).locked(0):
            SyncFolder(tmp_path).clear(keep=RELEASE)
        assert names(tmp_path) == [RELEASE, "not-ours", "sync.lock"]

    def test_a_release_that_somebody_reads_is_not_cleared(
        self, store: MemoryStore, manifest: Manifest, tmp_path: Path
    ) -> None:
        folder = SyncFolder(tmp_path)
        fetch(store, manifest, tmp_path)
        reader = hold(tmp_path / RELEASE)
        folder.clear(keep=LATER_RELEASE)
        assert names(tmp_path) == [RELEASE]
        os.close(reader)
        folder.clear(keep=LATER_RELEASE)
        assert names(tmp_path) == []
