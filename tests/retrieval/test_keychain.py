"""The key that `bedivere init` stored, read back from a keychain or from a file of the user's own."""

from __future__ import annotations

from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked

from retrieval.keychain import key_file, read_key
from retrieval.provider import EmbeddingUnavailable, Endpoint
from retrieval.secret import SecretUnavailable
from retrieval.settings import load_settings


class Locked(KeyringBackend):
    priority = 1.0  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride] - as keyring's docs have it

    def get_password(self, service: str, username: str) -> str | None:
        raise KeyringLocked

    def set_password(self, service: str, username: str, password: str) -> None:
        raise KeyringLocked


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def in_file(key: str, mode: int = 0o600) -> None:
    key_file().parent.mkdir()
    key_file().write_text(key, encoding="utf-8")
    key_file().chmod(mode)


def test_a_stored_key_is_what_the_provider_is_asked_with() -> None:
    in_file("sk-1\n")
    endpoint = Endpoint(load_settings(openai_api_key_store="file"))
    assert endpoint.configured
    assert endpoint.key() == "sk-1"


def test_a_key_in_the_environment_counts_before_a_stored_one(monkeypatch: pytest.MonkeyPatch) -> None:
    in_file("sk-1\n")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-2")
    assert Endpoint(load_settings(openai_api_key_store="file")).key() == "sk-2"


def test_after_a_refusal_the_key_is_read_again() -> None:
    in_file("sk-1\n")
    endpoint = Endpoint(load_settings(openai_api_key_store="file"))
    endpoint.key()
    key_file().write_text("sk-2\n", encoding="utf-8")

    assert endpoint.forget_key()
    assert endpoint.key() == "sk-2"


@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_a_file_that_others_can_read_is_not_used(mode: int) -> None:
    in_file("sk-1\n", mode)
    with pytest.raises(SecretUnavailable, match="can be read by others"):
        read_key("file")


def test_a_key_that_is_gone_is_told_with_the_way_out() -> None:
    with pytest.raises(EmbeddingUnavailable, match="run bedivere init again"):
        Endpoint(load_settings(openai_api_key_store="file")).key()


def test_a_locked_keychain_is_told_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyring.core, "_keyring_backend", Locked())
    with pytest.raises(SecretUnavailable, match="unlock it"):
        read_key("keychain")
