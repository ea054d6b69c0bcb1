"""What the commands share at the terminal: exit codes and how a failure is told."""

from __future__ import annotations

import json
from enum import IntEnum
from typing import Final, NoReturn

import typer

from retrieval.errors import BedivereError, ErrorCode


class ExitCode(IntEnum):
    """What a command ends with, for scripts."""

    DONE = 0
    FAILURE = 1
    USAGE = 2
    NOTHING_INDEXED = 3
    WORSE = 4
    INTERRUPTED = 130
    TERMINATED = 143


_EXIT_CODES: Final = {
    ErrorCode.SETTING_INVALID: ExitCode.USAGE,
    ErrorCode.INVALID_ARGUMENT: ExitCode.USAGE,
    ErrorCode.INVALID_QUERY: ExitCode.USAGE,
    ErrorCode.NOTHING_INDEXED: ExitCode.NOTHING_INDEXED,
}


def fail(error: BedivereError, *, as_json: bool = False) -> NoReturn:
    """Ends the command with the exit code of `error`, told as one line, or as one JSON object for scripts."""
    if as_json:
        typer.echo(json.dumps({"code": str(error.code), "message": error.sentence}))
    else:
        typer.echo(str(error), err=True)
    raise typer.Exit(_EXIT_CODES.get(error.code, ExitCode.FAILURE))
