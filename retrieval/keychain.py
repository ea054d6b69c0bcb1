"""Reads the key that `bedivere init` stored: from the operating system's keychain, or from a file of the user's own.

It only reads; `handler.cli.key` stores and forgets.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final, Literal

from retrieval.secret import SecretUnavailable
from retrieval.setting_files import config_folder

Store = Literal["keychain", "file"]

SERVICE: Final = "bedivere"
ACCOUNT: Final = "openai_api_key"
"""The names that the key has in a keychain."""

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def key_file() -> Path:
    """Where the key lies on machines without a keychain."""
    return config_folder() / "openai_api_key"


def read_key(store: Store) -> str:
    """The stored key. Raises `SecretUnavailable`."""
    key = _from_keychain() if store == "keychain" else _from_file()
    if not key:
        raise SecretUnavailable("The key that bedivere init stored is gone: run bedivere init again.")
    return key


def _from_keychain() -> str | None:
    try:
        # Absent from what a server without the command line installs.
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        raise SecretUnavailable("Keychains are read only where the extra 'index' is installed.") from None
    try:
        return keyring.get_password(SERVICE, ACCOUNT)
    except KeyringError:
        raise SecretUnavailable(
            "The keychain with the key cannot be read: unlock it, or set OPENAI_API_KEY in its place."
        ) from None


def _from_file() -> str | None:
    try:
        with key_file().open(encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode
            if mode & _OTHERS:
                raise SecretUnavailable(
                    "The file with the key can be read by others, so it is not used: chmod 600 it, or run bedivere "
                    "init again."
                )
            return file.read().strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError):
        raise SecretUnavailable("The file with the key cannot be read: run bedivere init again.") from None
