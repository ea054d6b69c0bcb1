"""What the commands share at the terminal: exit codes and how a failure is told."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from enum import IntEnum
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from handler.cli.wording import in_own_words
from retrieval.errors import BedivereError, ErrorCode

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

DB_HELP: Final = "The database folder, or the store of its releases. Default: BEDIVERE_DATASET or LANCEDB_PATH."

_UNCUT: Final = 10_000
"""Columns of which no table has more."""


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

_NUMBERS: Final = {int: "a whole number", float: "a number"}


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
            said = (_rule(refused) or str(refused.format_message())).rstrip(".")
            sentence = f"{said if said.endswith('?') else f'{said}.'} See {command} --help."
            tell(BedivereError(ErrorCode.INVALID_ARGUMENT, sentence), as_json="--json" in given)
            code = ExitCode.USAGE
        except typer.Abort:
            # Ctrl-C or Ctrl-D where something is asked: whoever pressed it knows why nothing is done.
            code = ExitCode.INTERRUPTED
        sys.exit(code or ExitCode.DONE)


class Command(TyperCommand):
    """One command, whose help reads as a page does."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ANN401 - typer's
        # Braces around what must be given look like something to type.
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - typer's
        # The lines of a docstring end where the source's do, not where the screen's do.
        paragraphs = cleandoc(self.help or "").split("\n\n")
        self.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
        super().format_help(ctx, formatter)


def _rule(refused: Any) -> str | None:  # noqa: ANN401 - of a library's private class
    """What a value must be, in the words of the tools; None where typer's own say it as well."""
    if type(refused) is not typer.BadParameter:
        return None
    parameter = getattr(refused, "param", None)
    if parameter is None:
        return str(cast("Any", refused).message)
    # An option is called by the name its page lists first, an argument as the usage line has it.
    label = next((name for name in parameter.opts if name.startswith("-")), str(parameter.name).upper())
    value = parameter.get_runtime_param()
    if choices := get_args(value.annotation):
        return f"{label} must be one of {', '.join(map(str, choices))}"
    if value.annotation not in _NUMBERS:
        return None
    number, least, most = _NUMBERS[value.annotation], value.parameter_info.min, value.parameter_info.max
    if most is not None:
        return f"{label} must be {number} from {least} to {most}"
    return f"{label} must be {number}" + ("" if least is None else f" of at least {least}")


def print_whole(console: Console, table: Table) -> None:
    """Prints `table` with nothing cut: a line that the terminal wraps says more, and a script reads all of it."""
    console.width = _UNCUT
    console.print(table)


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
