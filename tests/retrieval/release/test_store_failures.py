"""What a folder and S3 fail with: each has its code, and a sentence that quotes nothing."""

# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
from __future__ import annotations

import hashlib
import os
import socket
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    NoCredentialsError,
    ProfileNotFound,
    ResponseStreamingError,
    UnauthorizedSSOTokenError,
)

from retrieval.errors import BedivereError, ErrorCode
from retrieval.release.faults import Denied
from retrieval.release.folder import FolderStore
from retrieval.release.store import Conflict, S3Store, Store, TooLarge
from tests.retrieval.release.storing import code_of, get, upload
from tests.s3_server import S3Server

# Failures of a folder


def test_a_folder_that_does_not_exist_is_not_made(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "missing")

    for ask in (
        lambda: store.get("current.json", max_bytes=1),
        lambda: store.put("current.json", b""),
        lambda: list(store.list("")),
        lambda: store.size("current.json"),
        lambda: store.delete(["current.json"]),
        lambda: store.abandon("releases/", datetime.now(UTC)),
    ):
        assert code_of(ask) == ErrorCode.STORE_NOT_FOUND
    assert not (tmp_path / "missing").exists()


@pytest.mark.parametrize("key", ["", "/etc/passwd", "../x", "releases/../../x", ".lock"])
def test_a_key_never_leaves_the_folder(tmp_path: Path, key: str) -> None:
    with pytest.raises(ValueError, match="not a key"):
        FolderStore(tmp_path).get(key, max_bytes=1)


def test_what_the_file_system_refuses_is_denied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "open", refuse)

    assert code_of(lambda: FolderStore(tmp_path).get("current.json", max_bytes=1)) == ErrorCode.STORE_DENIED


def test_a_full_disk_is_unreachable_and_leaves_the_old_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FolderStore(tmp_path)
    store.put("current.json", b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)

    assert code_of(lambda: store.put("current.json", b"new")) == ErrorCode.STORE_UNREACHABLE
    assert get(store, "current.json").data == b"old"
    assert list((tmp_path / ".unfinished").iterdir()) == []


@pytest.mark.parametrize("times", [1, 2])
def test_a_folder_that_is_removed_just_before_it_is_written_to_is_made_again_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    store, real, left = FolderStore(tmp_path), Path.replace, [times]

    def replace(file: Path, target: Path) -> Path:
        left[0] -= 1
        if left[0] >= 0:
            target.parent.rmdir()
        return real(file, target)

    monkeypatch.setattr(Path, "replace", replace)
    if times == 1:
        store.put("releases/a/1", b"1")
        assert get(store, "releases/a/1").data == b"1"
    else:
        assert code_of(lambda: store.put("releases/a/1", b"1")) == ErrorCode.STORE_UNREACHABLE


def test_a_file_that_is_lost_on_its_way_is_unreachable(tmp_path: Path) -> None:
    assert (
        code_of(lambda: FolderStore(tmp_path).upload("a", tmp_path / "none", sha256="0" * 64))
        == ErrorCode.STORE_UNREACHABLE
    )


def test_a_copy_that_is_not_what_was_sent_is_unreachable(tmp_path: Path, part: Path) -> None:
    store = FolderStore(tmp_path)

    assert code_of(lambda: store.upload("a", part, sha256="0" * 64)) == ErrorCode.STORE_UNREACHABLE


def test_a_file_that_becomes_shorter_while_it_is_read_is_unreachable(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.put("releases/a", bytes(100_000))
    stream = store.stream("releases/a", chunk_bytes=1000)
    next(stream)
    os.truncate(tmp_path / "releases/a", 10)

    assert code_of(lambda: list(stream)) == ErrorCode.STORE_UNREACHABLE


# Failures of S3


def test_a_bucket_that_does_not_exist_is_not_found(s3: S3Server) -> None:
    store = S3Store("no-such-bucket-here")

    assert code_of(lambda: store.get("current.json", max_bytes=1)) == ErrorCode.STORE_NOT_FOUND
    assert code_of(lambda: list(store.list(""))) == ErrorCode.STORE_NOT_FOUND
    assert code_of(lambda: store.put("current.json", b"")) == ErrorCode.STORE_NOT_FOUND


def test_a_server_that_is_not_there_is_unreachable(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{unused.getsockname()[1]}")
        store = S3Store("some-bucket", attempts=1)

        assert code_of(lambda: store.get("current.json", max_bytes=1)) == ErrorCode.STORE_UNREACHABLE


@pytest.mark.parametrize("endpoint", ["nonsense", "ftp://127.0.0.1:9", "file:///etc"])
@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"])
def test_an_endpoint_that_is_no_address_of_http_is_said_so(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, name: str, endpoint: str
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3")
    monkeypatch.setenv(name, endpoint)

    with pytest.raises(BedivereError) as caught:
        S3Store("some-bucket", attempts=1).get("current.json", max_bytes=1)

    assert caught.value.code == ErrorCode.INVALID_ARGUMENT
    assert "not an http or https address" in caught.value.sentence


def test_a_profile_that_does_not_exist_is_denied(s3: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_PROFILE", "nobody")

    assert code_of(lambda: S3Store("some-bucket")) == ErrorCode.STORE_DENIED


def test_missing_credentials_are_denied(s3: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))

    assert code_of(lambda: S3Store("some-bucket").get("a", max_bytes=1)) == ErrorCode.STORE_DENIED


@dataclass(frozen=True)
class Misconfigured:
    """Settings of AWS that cannot be used, `HERE` standing for a folder with `files`; what is said of them."""

    name: str
    settings: dict[str, str]
    code: ErrorCode
    says: str
    files: dict[str, str] = field(default_factory=dict[str, str])


SSO_CONFIG = (
    "[default]\nsso_start_url = https://x.awsapps.com/start\nsso_region = eu-west-1\n"
    "sso_account_id = 123456789012\nsso_role_name = r\n"
)
SSO_TOKEN = '{"accessToken": "secret", "region": "eu-west-1", "expiresAt": "2020-01-01T00:00:00Z"}'
MISCONFIGURED = [
    Misconfigured(
        "a malformed configuration file",
        {"AWS_CONFIG_FILE": "HERE/config"},
        ErrorCode.SETTING_INVALID,
        "AWS_CONFIG_FILE",
        {"config": "nonsense\n[profile"},
    ),
    Misconfigured(
        "a malformed credentials file",
        {"AWS_SHARED_CREDENTIALS_FILE": "HERE/credentials"},
        ErrorCode.SETTING_INVALID,
        "AWS_SHARED_CREDENTIALS_FILE",
        {"credentials": "[default\n"},
    ),
    Misconfigured("a missing CA bundle", {"AWS_CA_BUNDLE": "HERE/none"}, ErrorCode.SETTING_INVALID, "AWS_CA_BUNDLE"),
    Misconfigured(
        "a CA bundle without certificates",
        {"AWS_CONFIG_FILE": "HERE/config"},
        ErrorCode.SETTING_INVALID,
        "ca_bundle",
        {"config": "[default]\nca_bundle = HERE/config\n"},
    ),
    Misconfigured(
        "a region that is none",
        {"AWS_DEFAULT_REGION": "eu west!"},
        ErrorCode.SETTING_INVALID,
        "AWS_DEFAULT_REGION",
    ),
    Misconfigured(
        "a profile that does not exist", {"AWS_PROFILE": "secret"}, ErrorCode.STORE_DENIED, "AWS_PROFILE names"
    ),
    Misconfigured("half of the credentials", {"AWS_SECRET_ACCESS_KEY": ""}, ErrorCode.STORE_DENIED, "only half"),
    Misconfigured(
        "a sign-in that has expired",
        {"AWS_CONFIG_FILE": "HERE/config", "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""},
        ErrorCode.STORE_DENIED,
        "aws sso login",
        {
            "config": SSO_CONFIG,
            # Named by the SHA-1 of the address.
            f".aws/sso/cache/{hashlib.sha1(b'https://x.awsapps.com/start').hexdigest()}.json": SSO_TOKEN,
        },
    ),
    Misconfigured(
        "a sign-in that never was",
        {"AWS_CONFIG_FILE": "HERE/config", "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""},
        ErrorCode.STORE_DENIED,
        "aws sso login",
        {"config": SSO_CONFIG},
    ),
    Misconfigured(
        "a program for credentials that is not there",
        {"AWS_CONFIG_FILE": "HERE/config", "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""},
        ErrorCode.STORE_DENIED,
        "no valid AWS credentials",
        {"config": "[default]\ncredential_process = HERE/secret\n"},
    ),
    Misconfigured(
        "a token file that is not there",
        {
            "AWS_WEB_IDENTITY_TOKEN_FILE": "HERE/secret",
            "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/secret",
            "AWS_ACCESS_KEY_ID": "",
            "AWS_SECRET_ACCESS_KEY": "",
        },
        ErrorCode.STORE_DENIED,
        "no valid AWS credentials",
    ),
    Misconfigured(
        "a role without the profile that it comes from",
        {"AWS_CONFIG_FILE": "HERE/config", "AWS_PROFILE": "p", "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""},
        ErrorCode.SETTING_INVALID,
        "a setting of AWS",
        {"config": "[profile p]\nrole_arn = arn:aws:iam::1:role/secret\nsource_profile = q\n"},
    ),
]


@pytest.mark.parametrize("wrong", MISCONFIGURED, ids=lambda wrong: wrong.name)
def test_settings_of_aws_that_cannot_be_used_are_named_as_the_cause(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wrong: Misconfigured
) -> None:
    for name, text in wrong.files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace("HERE", str(tmp_path)))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in wrong.settings.items():
        if value:
            monkeypatch.setenv(name, value.replace("HERE", str(tmp_path)))
        else:
            monkeypatch.delenv(name)

    with pytest.raises(BedivereError) as caught:
        S3Store("some-bucket", attempts=1).get("current.json", max_bytes=1)

    assert caught.value.code == wrong.code
    assert wrong.says in caught.value.sentence
    assert "some-bucket" in caught.value.sentence
    assert str(tmp_path) not in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("operation", "right"),
    [("PutObject", "s3:PutObject"), ("ListObjectsV2", "s3:ListBucket"), ("SomethingElse", None)],
)
def test_a_refusal_names_the_right_that_is_lacking(
    s3_store: S3Store, monkeypatch: pytest.MonkeyPatch, operation: str, right: str | None
) -> None:
    def fail(**_: object) -> None:
        raise answer("AccessDenied", operation)

    monkeypatch.setattr(client_of(s3_store), "get_object", fail)

    with pytest.raises(Denied) as caught:
        s3_store.get("current.json", max_bytes=1)
    assert caught.value.right == right
    assert ("s3:" in caught.value.sentence) == (right is not None)


def test_an_object_that_is_too_large_can_be_replaced_by_its_tag(store: Store) -> None:
    tag = store.put("current.json", b"12345")

    with pytest.raises(TooLarge) as caught:
        store.get("current.json", max_bytes=4)
    assert caught.value.tag == tag
    store.put("current.json", b"1", if_tag=caught.value.tag)
    assert get(store, "current.json").data == b"1"


def answer(code: str, operation: str = "GetObject") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "arn:aws:iam::1:user/secret"}}, operation)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (answer("AccessDenied"), ErrorCode.STORE_DENIED),
        (answer("403"), ErrorCode.STORE_DENIED),
        (answer("ExpiredToken"), ErrorCode.STORE_DENIED),
        (answer("InvalidAccessKeyId"), ErrorCode.STORE_DENIED),
        (answer("SignatureDoesNotMatch"), ErrorCode.STORE_DENIED),
        (answer("PermanentRedirect"), ErrorCode.STORE_DENIED),
        (answer("NoSuchBucket"), ErrorCode.STORE_NOT_FOUND),
        (answer("SlowDown"), ErrorCode.STORE_UNREACHABLE),
        (answer("InternalError"), ErrorCode.STORE_UNREACHABLE),
        (answer("503"), ErrorCode.STORE_UNREACHABLE),
        (NoCredentialsError(), ErrorCode.STORE_DENIED),
        (ProfileNotFound(profile="secret"), ErrorCode.STORE_DENIED),
        (UnauthorizedSSOTokenError(), ErrorCode.STORE_DENIED),
        (ConnectTimeoutError(endpoint_url="http://secret"), ErrorCode.STORE_UNREACHABLE),
        (ResponseStreamingError(error="secret"), ErrorCode.STORE_UNREACHABLE),
    ],
    ids=lambda value: str(value)[:40],
)
def test_each_failure_has_its_code_and_a_sentence_that_names_the_bucket_and_quotes_nothing(
    s3_store: S3Store, monkeypatch: pytest.MonkeyPatch, error: Exception, code: ErrorCode
) -> None:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(client_of(s3_store), "get_object", fail)

    with pytest.raises(BedivereError) as caught:
        s3_store.get("current.json", max_bytes=1)
    assert caught.value.code == code
    assert "releases-" in caught.value.sentence
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def client_of(store: S3Store) -> Any:
    return store._client  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("wrong", [{"ContentLength": 3}, {"ContentLength": 4000, "ChecksumSHA256": "AAAA"}])
def test_a_part_that_did_not_arrive_as_it_was_sent_is_unreachable(
    s3_store: S3Store, monkeypatch: pytest.MonkeyPatch, part: Path, wrong: dict[str, Any]
) -> None:
    monkeypatch.setattr(client_of(s3_store), "head_object", lambda **_: wrong)

    assert code_of(lambda: upload(s3_store, "a", part)) == ErrorCode.STORE_UNREACHABLE


def test_a_deletion_that_is_refused_in_part_is_denied(s3_store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = {"Errors": [{"Key": "a", "Code": "AccessDenied"}]}
    monkeypatch.setattr(client_of(s3_store), "delete_objects", lambda **_: refusal)

    assert code_of(lambda: s3_store.delete(["a"])) == ErrorCode.STORE_DENIED


def test_a_conflict_with_a_write_at_the_same_moment_is_a_conflict(
    s3_store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: object) -> None:
        raise answer("ConditionalRequestConflict")

    monkeypatch.setattr(client_of(s3_store), "put_object", fail)

    with pytest.raises(Conflict):
        s3_store.put("current.json", b"", if_absent=True)
    assert code_of(lambda: s3_store.put("current.json", b"")) == ErrorCode.STORE_UNREACHABLE


def test_a_body_that_is_cut_short_is_unreachable(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{server.getsockname()[1]}")
        thread = threading.Thread(target=answer_in_part, args=(server,))
        thread.start()
        stream = S3Store("some-bucket", attempts=1).stream("part")

        assert code_of(lambda: list(stream)) == ErrorCode.STORE_UNREACHABLE
        thread.join()


def answer_in_part(server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(b'HTTP/1.1 200 OK\r\nETag: "a"\r\nContent-Length: 100\r\n\r\nonly this')
