"""`bedivere keys`: makes, lists and revokes the API keys of a server that is not open to everyone."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from handler.access.caller import EVERY_TOOL
from handler.access.key_file import KeyRecord, place_of_keys
from handler.cli.terminal import Command, fail
from retrieval.errors import BedivereError
from retrieval.settings import load_settings

keys = typer.Typer(
    name="keys",
    help="Make, list and revoke API keys, for a server with BEDIVERE_ACCESS=keys.",
    no_args_is_help=True,
)

_Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Whose key it is, or what for. Logs show it.", show_default=False)
]
_To = Annotated[
    str | None,
    typer.Option(
        "--to",
        help="Where keys are kept: s3://BUCKET/PREFIX, file:///FOLDER or a file. Default: BEDIVERE_KEYS, else the "
        "store of the releases, else bedivere/keys.json in the configuration folder.",
        show_default=False,
    ),
]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@keys.command(cls=Command)
def create(
    name: _Name,
    to: _To = None,
    scopes: Annotated[
        str, typer.Option(help="What it may do, separated by commas: tools, and scopes of private collections.")
    ] = ",".join(EVERY_TOOL),
    expires: Annotated[
        str | None, typer.Option(help="How long it is good, such as 12h, 90d or 1y. Default: for ever.")
    ] = None,
    limit: Annotated[
        str | None,
        typer.Option(help="How often it may ask each instance, such as 60/min. Default: BEDIVERE_CALLER_LIMIT."),
    ] = None,
    as_json: _Json = False,
) -> None:
    """Make a key and show it, this once: what is kept of it does not give it back.

    Servers let it in within their refresh interval.
    """
    from handler.access.issuing import create as make

    try:
        named = tuple(part.strip() for part in scopes.split(",") if part.strip())
        key, record = make(_place(to), name, scopes=named, expires=expires, limit=limit)
    except BedivereError as error:
        fail(error, as_json=as_json)
    if as_json:
        sys.stdout.write(json.dumps({**_record(record), "key": key}) + "\n")
        return
    # The key alone on standard output, so that it can be piped into a keeper of secrets.
    typer.echo(f"Key {record.name}, for {', '.join(record.scopes)}. It is shown this once; keep it now:", err=True)
    sys.stdout.write(f"{key}\n")


@keys.command("list", cls=Command)
def list_keys(to: _To = None, as_json: _Json = False) -> None:
    """List the keys: names, scopes and times, never the keys themselves."""
    from handler.access.issuing import listed

    try:
        records = listed(_place(to))
    except BedivereError as error:
        fail(error, as_json=as_json)
    if as_json:
        sys.stdout.write(json.dumps({"keys": [_record(record) for record in records]}) + "\n")
        return
    if not records:
        typer.echo("There are no keys.")
        return
    rows = [("name", "scopes", "created", "expires", "limit"), *map(_row, records)]
    # Lined up by hand: a table of the terminal's width would cut names that are to be copied.
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


@keys.command(cls=Command)
def revoke(name: _Name, to: _To = None, as_json: _Json = False) -> None:
    """Forget a key. Servers refuse it within their refresh interval."""
    from handler.access.issuing import revoke as forget

    try:
        forget(_place(to), name)
    except BedivereError as error:
        fail(error, as_json=as_json)
    if as_json:
        sys.stdout.write(json.dumps({"revoked": name}) + "\n")
    else:
        typer.echo(f"Key {name} is revoked; servers refuse it within their refresh interval.")


def _place(to: str | None) -> str:
    return place_of_keys(load_settings(), to)


def _row(record: KeyRecord) -> tuple[str, ...]:
    ends = record.expires or "never"
    if record.is_expired(datetime.now(UTC)):
        ends += " (expired)"
    return (record.name, ",".join(record.scopes), record.created, ends, record.limit or "")


def _record(record: KeyRecord) -> dict[str, Any]:
    return record.model_dump(exclude={"salt", "hash"})
