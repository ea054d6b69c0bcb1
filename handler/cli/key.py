"""Stores the key of the embeddings provider, in the keychain where there is one, and forgets it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from retrieval.keychain import ACCOUNT, SERVICE, Store, key_file

PLACES: Final = {"keychain": "the keychain of this machine", "file": "a file that only you can read"}


def store_key(key: str) -> Store:
    """Stores `key` and says where; one that was stored elsewhere before is gone. Raises `OSError`."""
    if _in_keychain(key):
        key_file().unlink(missing_ok=True)
        return "keychain"
    write_privately(key_file(), key + "\n")
    return "file"


def forget_key() -> list[Store]:
    """Removes the key from wherever it is, and says where it was. Raises `OSError`."""
    import keyring
    from keyring.errors import KeyringError

    found: list[Store] = []
    with suppress(KeyringError):
        if keyring.get_password(SERVICE, ACCOUNT) is not None:
            keyring.delete_password(SERVICE, ACCOUNT)
            found.append("keychain")
    with suppress(FileNotFoundError):
        key_file().unlink()
        found.append("file")
    return found


def write_privately(file: Path, text: str) -> None:
    """Writes `file` whole or not at all, readable by its owner alone from its first byte on. Raises `OSError`."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        # With O_EXCL no link that somebody put there is followed.
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as writing:
            writing.write(text)
            writing.flush()
            os.fsync(writing.fileno())
        part.replace(file)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _in_keychain(key: str) -> bool:
    """Whether a keychain took the key, and gives it back: some accept it and have lost it by the next process."""
    import keyring
    from keyring.errors import KeyringError

    try:
        keyring.set_password(SERVICE, ACCOUNT, key)
        return keyring.get_password(SERVICE, ACCOUNT) == key
    except KeyringError:
        return False
