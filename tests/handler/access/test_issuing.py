"""Making and revoking keys, and what is kept of them."""

from __future__ import annotations

import json
import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from handler.access import issuing
from handler.access.issuing import create, duration, listed, revoke
from handler.access.key import is_key
from handler.access.key_file import MAX_KEYS, KeyFile, open_place, place_of_keys
from retrieval.errors import BedivereError, ErrorCode
from retrieval.release.store import Store
from retrieval.settings import Settings

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def made(place: str, name: str = "ci", scopes: tuple[str, ...] = ("search",)) -> str:
    return create(place, name, scopes=scopes, now=NOW)[0]


def test_a_key_that_was_made_is_found_with_what_it_may_do(tmp_path: Path) -> None:
    place = str(tmp_path / "keys.json")
    key, _ = create(place, "ci", scopes=("search", "hr.read"), expires="90d", limit="60/min", now=NOW)
    found = KeyFile.load(Path(place).read_bytes()).find(key)
    assert is_key(key)
    assert found is not None
    assert (found.name, found.scopes, found.limit) == ("ci", ("search", "hr.read"), "60/min")
    assert found.created == "2026-11-30T12:00:00Z"
    assert found.expires == "2027-02-28T12:00:00Z"


def test_neither_the_key_nor_a_plain_hash_of_it_is_kept(tmp_path: Path) -> None:
    place = tmp_path / "keys.json"
    one, two = made(str(place), "one"), made(str(place), "two")
    kept = place.read_text()
    assert one[4:] not in kept
    assert two[4:] not in kept
    records = json.loads(kept)["keys"]
    assert len({record["salt"] for record in records}) == 2


def test_a_local_file_of_keys_is_its_owners_alone(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "keys.json"
    made(str(place))
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700


def test_a_revoked_key_is_found_no_more_and_the_others_are(tmp_path: Path) -> None:
    place = str(tmp_path / "keys.json")
    one, two = made(place, "one"), made(place, "two")
    revoke(place, "one")
    file = KeyFile.load(Path(place).read_bytes())
    assert file.find(one) is None
    assert file.find(two) is not None
    assert [record.name for record in listed(place)] == ["two"]


def test_a_key_is_expired_from_its_last_second_on(tmp_path: Path) -> None:
    _, record = create(str(tmp_path / "keys.json"), "ci", scopes=("search",), expires="12h", now=NOW)
    assert not record.is_expired(NOW + timedelta(hours=12, seconds=-1))
    assert record.is_expired(NOW + timedelta(hours=12))


@pytest.mark.parametrize(
    ("text", "hours"), [("12h", 12), ("90d", 90 * 24), ("6w", 6 * 7 * 24), ("1y", 365 * 24), ("100y", 876_000)]
)
def test_durations_are_read(text: str, hours: int) -> None:
    assert duration(text) == timedelta(hours=hours)


@pytest.mark.parametrize("text", ["", "90", "0d", "-1d", "1m", "1 d", "101y", "99999y", "1.5d", "d"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(BedivereError) as caught:
        duration(text)
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("name", "scopes", "limit"),
    [
        ("", ("search",), None),
        ("a b", ("search",), None),
        ("-a", ("search",), None),
        ("a\n", ("search",), None),
        ("a" * 65, ("search",), None),
        ("ci", (), None),
        ("ci", ("two words",), None),
        ("ci", ('"', "search"), None),
        ("ci", tuple(f"s{number}" for number in range(51)), None),
        ("ci", ("search",), "often"),
        ("ci", ("search",), "0/min"),
        ("ci", ("search",), ""),
    ],
)
def test_what_no_key_can_have_is_refused_before_anything_is_written(
    tmp_path: Path, name: str, scopes: tuple[str, ...], limit: str | None
) -> None:
    place = tmp_path / "keys.json"
    with pytest.raises(BedivereError) as caught:
        create(str(place), name, scopes=scopes, limit=limit)
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT
    assert not place.exists()


def test_a_time_that_is_empty_is_not_for_ever(tmp_path: Path) -> None:
    # As a shell writes it whose variable is not set.
    with pytest.raises(BedivereError) as caught:
        create(str(tmp_path / "keys.json"), "ci", scopes=("search",), expires="")
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT


def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    place = str(tmp_path / "keys.json")
    first = made(place)
    with pytest.raises(BedivereError) as caught:
        made(place)
    assert caught.value.code is ErrorCode.KEY_EXISTS
    assert KeyFile.load(Path(place).read_bytes()).find(first) is not None


def test_to_revoke_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BedivereError) as caught:
        revoke(str(tmp_path / "keys.json"), "ci")
    assert caught.value.code is ErrorCode.KEY_NOT_FOUND


def test_no_more_keys_are_made_than_are_quick_to_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issuing, "MAX_KEYS", 2)
    place = str(tmp_path / "keys.json")
    made(place, "one")
    made(place, "two")
    with pytest.raises(BedivereError) as caught:
        made(place, "three")
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT
    assert MAX_KEYS == 1000


def test_more_is_never_written_than_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = str(tmp_path / "keys.json")
    made(place, "one")
    monkeypatch.setattr(issuing, "MAX_BYTES", Path(place).stat().st_size + 100)
    with pytest.raises(BedivereError) as caught:
        made(place, "two")
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT
    revoke(place, "one")
    assert listed(place) == ()


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_behind_a_link_the_file_itself_is_written(tmp_path: Path, scheme: str) -> None:
    real, link = tmp_path / "real" / "kept.json", tmp_path / "link" / "keys.json"
    real.parent.mkdir()
    link.parent.mkdir()
    link.symlink_to(real)
    place = f"file://{link.parent}" if scheme else str(link)
    key = made(place)
    assert KeyFile.load(real.read_bytes()).find(key) is not None
    revoke(place, "ci")
    assert KeyFile.load(real.read_bytes()).keys == ()
    assert link.is_symlink()


def test_a_home_that_there_is_not_is_a_place_that_there_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert listed("~nobody of this name/keys.json") == ()
    made("~nobody of this name/keys.json")
    assert len(listed("~nobody of this name/keys.json")) == 1


@pytest.mark.parametrize("data", [b"", b"[]", b'{"format":2,"keys":[]}', b'{"keys":[{"name":"ci"}]}', b"\xff"])
def test_a_damaged_object_is_neither_read_nor_written_over(tmp_path: Path, data: bytes) -> None:
    place = tmp_path / "keys.json"
    place.write_bytes(data)
    with pytest.raises(BedivereError) as caught:
        made(str(place))
    assert caught.value.code is ErrorCode.KEYS_DAMAGED
    assert place.read_bytes() == data


@pytest.mark.parametrize(
    "written", [{"expires": "2026-13-45T12:00:00Z"}, {"limit": "0/min"}, {"scopes": ["two words"]}, {"scopes": []}]
)
def test_what_no_key_was_made_with_makes_a_damaged_object(tmp_path: Path, written: dict[str, object]) -> None:
    place = tmp_path / "keys.json"
    made(str(place))
    record = json.loads(place.read_text())
    record["keys"][0] |= written
    with pytest.raises(BedivereError) as caught:
        KeyFile.load(json.dumps(record).encode())
    assert caught.value.code is ErrorCode.KEYS_DAMAGED


def test_before_the_first_key_there_is_neither_a_file_nor_a_folder_and_the_list_is_empty(tmp_path: Path) -> None:
    place = tmp_path / "nowhere" / "keys.json"
    assert listed(str(place)) == ()
    assert not place.parent.exists()


def test_a_store_that_is_not_there_is_an_error_and_not_an_empty_list(tmp_path: Path) -> None:
    with pytest.raises(BedivereError) as caught:
        listed((tmp_path / "nowhere").as_uri())
    assert caught.value.code is ErrorCode.STORE_NOT_FOUND


@pytest.mark.parametrize("place", ["ftp://x", "s3://", "/", "folder/.hidden", "a\0b"])
def test_what_is_no_place_for_keys_is_refused(place: str) -> None:
    with pytest.raises(BedivereError) as caught:
        open_place(place)
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT


def test_two_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    place = str(tmp_path / "keys.json")
    writers = [threading.Thread(target=made, args=(place, f"key{number}")) for number in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [record.name for record in listed(place)] == [f"key{number}" for number in range(8)]


def test_in_s3_a_writer_that_came_between_is_not_written_over(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = f"s3://{bucket}/docs"
    store, key = open_place(place)
    assert key == "keys.json"
    read = issuing._read  # pyright: ignore[reportPrivateUsage] - where another writer comes between
    others = iter(["between"])

    def read_and_lose(store: Store, key: str) -> tuple[KeyFile, str | None]:
        seen = read(store, key)
        for name in others:
            made(place, name)
        return seen

    monkeypatch.setattr(issuing, "_read", read_and_lose)
    made(place, "mine")
    assert [record.name for record in listed(place)] == ["between", "mine"]
    fetched = store.get(key, max_bytes=10_000)
    assert fetched is not None


def test_keys_lie_beside_the_releases_unless_the_settings_say_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert place_of_keys(Settings(database="s3://bucket/docs")) == "s3://bucket/docs"
    assert place_of_keys(Settings(database="s3://bucket/docs", keys="s3://keys/docs")) == "s3://keys/docs"
    assert place_of_keys(Settings(database="/data")) == str(tmp_path / "bedivere" / "keys.json")
    assert place_of_keys(Settings(database="/data"), "mine.json") == "mine.json"
