"""Where a user's own files are: the settings file, and the folder that holds it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from retrieval.errors import BedivereError, ErrorCode

SETTINGS_FILE_VARIABLE: Final = "BEDIVERE_SETTINGS_FILE"


def config_folder() -> Path:
    """The folder of what belongs to this user; it need not exist."""
    config_home = os.environ.get("XDG_CONFIG_HOME", "").strip() or os.path.expanduser("~/.config")  # noqa: PTH111 - Path.expanduser raises where there is no home
    return Path(config_home) / "bedivere"


def settings_file() -> Path:
    """Where the settings file is, or would be; it need not exist."""
    named = os.environ.get(SETTINGS_FILE_VARIABLE, "").strip()
    return Path(os.path.expanduser(named)) if named else config_folder() / "settings.toml"  # noqa: PTH111 - Path.expanduser raises for a user there is not


def found_settings_file() -> Path | None:
    """The settings file, or None where there is none and none is asked for. Raises SETTING_INVALID."""
    named = os.environ.get(SETTINGS_FILE_VARIABLE, "").strip()
    if named:
        if "\0" in named or not settings_file().is_file():
            raise BedivereError(
                ErrorCode.SETTING_INVALID, f"{SETTINGS_FILE_VARIABLE} names a file that does not exist or is no file."
            )
        return settings_file()
    return settings_file() if settings_file().is_file() else None
