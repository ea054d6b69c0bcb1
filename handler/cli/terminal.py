"""What the commands share at the terminal: exit codes and how a failure is told."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final, NoReturn, cast

import typer
from typer.core import TyperGroup

from handler.cli.wording import in_own_words
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


_UsageError: Final = cast("type[Exception]", typer.BadParameter.__base__)
"""What typer raises for wrong usage; it has no public name for all of it."""


class Commands(TyperGroup):
    """The commands, of which wrong usage is told as every other failure is."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,  # noqa: ANN401 - typer's
    ) -> Any:  # noqa: ANN401 - typer's
        given = sys.argv[1:] if args is None else args
        # Without any argument it is the help that is shown.
        if not standalone_mode or not given:
            return super().main(args, prog_name, complete_var, standalone_mode, windows_expand_args, **extra)
        try:
            code = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        except _UsageError as error:
            refused = cast("Any", error)
            command = refused.ctx.command_path if refused.ctx else self.name
            said = str(refused.format_message()).rstrip(".")
            sentence = f"{said if said.endswith('?') else f'{said}.'} See {command} --help."
            tell(BedivereError(ErrorCode.INVALID_ARGUMENT, sentence), as_json="--json" in given)
            code = ExitCode.USAGE
        sys.exit(code or ExitCode.DONE)


def tell(error: BedivereError, *, as_json: bool = False) -> None:
    """Prints `error` as one line, or as one JSON object for scripts."""
    sentence = in_own_words(error.sentence)
    if as_json:
        typer.echo(json.dumps({"code": str(error.code), "message": sentence}))
    else:
        typer.echo(f"{error.code}: {sentence}", err=True)


def fail(error: BedivereError, *, as_json: bool = False) -> NoReturn:
    """Tells `error` and ends the command with its exit code."""
    tell(error, as_json=as_json)
    raise typer.Exit(_EXIT_CODES.get(error.code, ExitCode.FAILURE))
