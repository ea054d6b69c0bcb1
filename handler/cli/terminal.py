"""What the commands share at the terminal: exit codes and how a failure is told."""

from __future__ import annotations

import json
from typing import Final, NoReturn

import typer

from retrieval.errors import BedivereError

FAILURE: Final = 1
USAGE: Final = 2
NOTHING_INDEXED: Final = 3


def fail(error: BedivereError, code: int, *, as_json: bool = False) -> NoReturn:
    """Ends the command with exit code `code`, and `error` as one line, or as one JSON object for scripts."""
    if as_json:
        typer.echo(json.dumps({"code": str(error.code), "message": error.sentence}))
    else:
        typer.echo(str(error), err=True)
    raise typer.Exit(code)
