"""`bedivere prune`: removes releases that nobody needs any more."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict
from datetime import timedelta
from typing import Annotated

import typer

from handler.cli.progress import size_text
from handler.cli.publish import STORE_HELP, naming
from handler.cli.terminal import ExitCode, fail
from retrieval.errors import BedivereError, ErrorCode
from retrieval.notes import counted
from retrieval.release.store import open_store


def prune(
    store: Annotated[str, typer.Argument(metavar="STORE", help=STORE_HELP, show_default=False)],
    keep: Annotated[int, typer.Option(min=1, help="How many of the newest releases to keep.", show_default=False)],
    grace_hours: Annotated[
        float,
        typer.Option(min=0, max=87_600, help="Spare what was published, or was current, within so many hours."),
    ] = 24,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be removed, and remove nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was done as one JSON object.")] = False,
) -> None:
    """Remove old releases, and what interrupted runs of publish left.

    Never the current release, nor one that servers may still be reading, nor a part that another release refers to.
    Where it is not known which release is current, nothing is removed.
    """
    from retrieval.release.pruning import Reason
    from retrieval.release.pruning import prune as prune_store

    try:
        if math.isnan(grace_hours):
            raise BedivereError(ErrorCode.INVALID_ARGUMENT, "The grace is a number of hours.")  # noqa: TRY301
        pruned = prune_store(open_store(store), keep, grace=timedelta(hours=grace_hours), dry_run=dry_run)
    except BedivereError as error:
        fail(BedivereError(error.code, naming(store, error.sentence)), as_json=as_json)
    except KeyboardInterrupt:
        typer.echo("Interrupted: the current release is untouched; run it again to remove the rest.", err=True)
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    if as_json:
        sys.stdout.write(json.dumps({**asdict(pruned), "dry_run": dry_run}) + "\n")
        return
    for release in pruned.releases:
        typer.echo(release)
    verb = "would be removed" if dry_run else "removed"
    releases, objects = counted(len(pruned.releases), "release"), counted(pruned.objects, "object")
    typer.echo(f"{releases} {verb}: {objects}, {size_text(pruned.bytes)}")
    for spared in pruned.spared:
        typer.echo(f"{spared.release} stays: {spared.reason}")
    if any(spared.reason in {Reason.PUBLISHED, Reason.REPLACED} for spared in pruned.spared):
        typer.echo(
            f"The grace is {grace_hours:g} {'hour' if grace_hours == 1 else 'hours'} (--grace-hours): servers may "
            "still be reading what was published or current within it."
        )
    for note in pruned.notes:
        typer.echo(f"note: {note}", err=True)
