"""Manifests and pointers as JSON, and what is not taken for one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.errors import BedivereError, ErrorCode
from retrieval.release import manifest as module
from retrieval.release.manifest import (
    READER_FORMAT,
    Manifest,
    PackedFile,
    Part,
    Pointer,
    TableEntry,
    is_release_id,
    is_safe,
    manifest_key,
    part_key,
    release_id,
)

RELEASE = "20261129T181500Z-3f2a9c1b"
FILES = (PackedFile("documents.lance/data/1.lance", 70), PackedFile("documents.lance/_versions/1.manifest", 30))
MANIFEST = Manifest(
    release=RELEASE,
    created_at="2026-11-29T18:15:00Z",
    minimum_reader=READER_FORMAT,
    tool_version="0.1.0",
    corpus="3f2a9c1b" + "0" * 56,
    parts=(Part(part_key(RELEASE, 0), 50, "a" * 64, FILES),),
    tables=(TableEntry("documents", 3, ("id", "text"), {"text": 3}, {"embedding": None}),),
)


def code_of(ask: Callable[[], object]) -> ErrorCode:
    with pytest.raises(BedivereError) as caught:
        ask()
    return caught.value.code


def test_a_manifest_reads_as_it_was_written() -> None:
    assert Manifest.from_json(MANIFEST.to_json()) == MANIFEST


def test_a_pointer_reads_as_it_was_written() -> None:
    pointer = Pointer(RELEASE, MANIFEST, {"20261128T181500Z-3f2a9c1b": "2026-11-29T18:15:00Z"})

    assert Pointer.from_json(pointer.to_json()) == pointer


@pytest.mark.parametrize("replaced", [None, [], {"a": 1}, "x"])
def test_a_pointer_serves_without_a_history_that_can_be_read(replaced: object) -> None:
    record = {**asdict(Pointer(RELEASE, MANIFEST)), "replaced": replaced}

    assert Pointer.from_json(json.dumps(record).encode()) == Pointer(RELEASE, MANIFEST)


def test_a_manifest_adds_up_its_sizes_and_rows() -> None:
    assert (MANIFEST.packed_bytes, MANIFEST.unpacked_bytes, MANIFEST.rows) == (50, 100, 3)


def test_a_manifest_of_a_newer_format_is_too_new_whatever_else_it_holds() -> None:
    newer = json.dumps({"minimum_reader": READER_FORMAT + 1, "shape": "unknown"}).encode()
    pointer = json.dumps({"release": "x", "manifest": json.loads(newer)}).encode()

    assert code_of(lambda: Manifest.from_json(newer)) == ErrorCode.RELEASE_TOO_NEW
    assert code_of(lambda: Pointer.from_json(pointer)) == ErrorCode.RELEASE_TOO_NEW


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b"1", b"{}", b'{"manifest": 1}', b"[" * 100_000])
def test_what_is_no_manifest_is_damaged(data: bytes) -> None:
    assert code_of(lambda: Manifest.from_json(data)) == ErrorCode.RELEASE_DAMAGED
    assert code_of(lambda: Pointer.from_json(data)) == ErrorCode.RELEASE_DAMAGED


def test_a_manifest_larger_than_any_is_not_even_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_POINTER_BYTES", 10)

    assert code_of(lambda: Manifest.from_json(MANIFEST.to_json())) == ErrorCode.RELEASE_DAMAGED


@pytest.mark.parametrize("moment", ["\x1b]0;owned\x07", "2026-11-29T18:15:00Z\n", "\u202e", "x" * 41])
def test_a_time_that_could_steer_a_terminal_is_damaged(moment: str) -> None:
    data = json.dumps({**asdict(MANIFEST), "created_at": moment}).encode()

    assert code_of(lambda: Manifest.from_json(data)) == ErrorCode.RELEASE_DAMAGED


def test_a_pointer_that_names_another_release_than_it_holds_is_damaged() -> None:
    pointer = Pointer("20261129T181500Z-00000000", MANIFEST)

    assert code_of(lambda: Pointer.from_json(pointer.to_json())) == ErrorCode.RELEASE_DAMAGED


def with_part(**changes: Any) -> dict[str, Any]:
    return {"parts": (replace(MANIFEST.parts[0], **changes),)}


@pytest.mark.parametrize(
    "changes",
    [
        {"release": "latest"},
        {"release": "../20261129T181500Z-3f2a9c1b"},
        {"corpus": "3f2a"},
        {"minimum_reader": "1"},
        {"minimum_reader": -1},
        {"tables": None},
        with_part(key="releases/../../secret"),
        with_part(key="current.json"),
        with_part(key=manifest_key(RELEASE)),
        with_part(sha256="A" * 64),
        with_part(bytes=-1),
        with_part(bytes=1.5),
        with_part(files=(FILES[0], FILES[0])),
        with_part(files=(PackedFile("../x", 1),)),
        with_part(files=(PackedFile("/etc/passwd", 1),)),
    ],
    ids=str,
)
def test_a_manifest_with_an_impossible_value_is_damaged(changes: dict[str, Any]) -> None:
    record = {**asdict(MANIFEST), **{name: value for name, value in changes.items() if name != "parts"}}
    if "parts" in changes:
        record["parts"] = [asdict(part) for part in changes["parts"]]

    assert code_of(lambda: Manifest.from_json(json.dumps(record).encode())) == ErrorCode.RELEASE_DAMAGED


@pytest.mark.parametrize("limit", ["MAX_PARTS", "MAX_FILES"])
def test_a_manifest_with_too_many_parts_or_files_is_damaged(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(module, limit, 0)

    assert code_of(lambda: Manifest.from_json(MANIFEST.to_json())) == ErrorCode.RELEASE_DAMAGED


@given(st.text(max_size=40))
def test_a_path_that_is_safe_stays_below_its_folder(path: str) -> None:
    if is_safe(path):
        assert not path.startswith("/")
        assert not {"", ".", ".."} & set(path.split("/"))
        assert "\0" not in path


@pytest.mark.parametrize("path", ["", ".", "a/", "a//b", "./a", "a/../b", "..", "/a", "a\\b", "a\nb", "a" * 1024])
def test_a_path_that_is_not_in_normal_form_is_not_safe(path: str) -> None:
    assert not is_safe(path)


def test_an_id_is_the_time_and_the_beginning_of_the_corpus_hash() -> None:
    made = release_id("3f2a9c1b" + "0" * 56, datetime(2026, 11, 29, 18, 15, tzinfo=UTC))

    assert made == RELEASE
    assert is_release_id(release_id("0" * 64))


@pytest.mark.parametrize("text", [f"{RELEASE}-2", f"{RELEASE}-999"])
def test_an_id_may_have_a_suffix(text: str) -> None:
    assert is_release_id(text)


@pytest.mark.parametrize("text", ["", "latest", f"{RELEASE}/..", f"{RELEASE}-", f"{RELEASE}-1000", f"{RELEASE}\n"])
def test_any_other_text_is_no_id(text: str) -> None:
    assert not is_release_id(text)
