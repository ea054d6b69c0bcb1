"""`bedivere rollback`: an earlier release becomes the current one again."""

from __future__ import annotations

import json
import shlex
import sys
from typing import Annotated

import typer

from handler.cli.publish import STORE_HELP, naming
from handler.cli.terminal import ExitCode, fail
from retrieval.errors import BedivereError
from retrieval.release.store import open_store


def rollback(
    store: Annotated[str, typer.Argument(metavar="STORE", help=STORE_HELP, show_default=False)],
    release: Annotated[
        str | None,
        typer.Argument(
            metavar="RELEASE", help="The release to go to. Default: the one before the current.", show_default=False
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was done as one JSON object.")] = False,
) -> None:
    """Make an earlier release the current one, in one step.

    Nothing is copied or removed; a later release can be gone to in the same way. Where current.json is damaged or
    missing, name the release: it is written anew.
    Servers follow within their refresh interval.
    """
    from retrieval.release.history import rollback as roll_back

    try:
        before, after = roll_back(open_store(store), release)
    except BedivereError as error:
        fail(BedivereError(error.code, naming(store, error.sentence)), as_json=as_json)
    except KeyboardInterrupt:
        typer.echo("Interrupted: bedivere releases says which release is current.", err=True)
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    if as_json:
        sys.stdout.write(json.dumps({"before": before, "current": after}) + "\n")
    elif before == after:
        typer.echo(f"Release {after} is current already.")
    else:
        typer.echo(f"Release {after} is current; before it was {before or 'one that cannot be read'}.")
        if before:
            typer.echo(f"To go back: bedivere rollback {shlex.quote(store)} {before}")
