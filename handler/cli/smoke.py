"""`bedivere smoke`: whether an endpoint serves its clients and refuses the others, as a table or as JSON."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from handler.cli.terminal import ExitCode, fail
from retrieval.errors import BedivereError, ErrorCode
from retrieval.notes import counted

if TYPE_CHECKING:
    from handler.smoke import Check


def smoke(
    url: Annotated[
        str,
        typer.Argument(metavar="URL", help="The endpoint, such as https://docs.example.com/mcp.", show_default=False),
    ],
    query: Annotated[
        str | None,
        typer.Option(help="What to search for. Default: a title from the documents' overview.", show_default=False),
    ] = None,
    without_dataset: Annotated[
        bool,
        typer.Option("--without-dataset", help="Search nothing: for an endpoint that nothing is published to yet."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the checks as one JSON object.")] = False,
) -> None:
    """Check a running endpoint: both protocol eras, a search, a context block, and what it must refuse.

    Exits with 0 where every check passed, else with 1. An endpoint that not everyone may call is asked with the API key
    or the token in the variable BEDIVERE_BEARER.
    """
    if not _is_url(url):
        raise typer.BadParameter("URL must start with http:// or https:// and name a host")
    # Imported where it is needed: `bedivere --help` loads no client.
    from handler.smoke import Unreachable
    from handler.smoke import smoke as checks_of

    # No option: what stands on a command line is seen by every process of the machine.
    bearer = os.environ.get("BEDIVERE_BEARER", "").strip() or None
    try:
        checks = asyncio.run(checks_of(url, query, dataset=not without_dataset, bearer=bearer))
    except Unreachable as reason:
        if as_json:
            _print_json(url, [], ErrorCode.ENDPOINT_UNREACHABLE, problem=str(reason))
            raise typer.Exit(ExitCode.FAILURE) from None
        sentence = f"Cannot reach {url}: {reason}. Check the URL, and that the server runs."
        fail(BedivereError(ErrorCode.ENDPOINT_UNREACHABLE, sentence))
    failed = sum(not check.passed for check in checks)
    if as_json:
        _print_json(url, checks, ErrorCode.CHECKS_FAILED if failed else None)
    else:
        _print(checks)
    if failed and not as_json:
        sentence = f"{failed} of {counted(len(checks), 'check')} failed: mend what their lines name, and run it again."
        fail(BedivereError(ErrorCode.CHECKS_FAILED, sentence))
    raise typer.Exit(ExitCode.FAILURE if failed else ExitCode.DONE)


def _print_json(url: str, checks: list[Check], code: ErrorCode | None, **problem: str) -> None:
    record = {"url": url, "passed": code is None, "checks": [asdict(check) for check in checks], **problem}
    typer.echo(json.dumps({**record, "code": str(code)} if code else record))


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for one that is no number
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)


def _print(checks: list[Check]) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("Check")
    table.add_column("Result")
    table.add_column("ms", justify="right")
    table.add_column("Found", overflow="fold")
    for check in checks:
        result = Text("pass", style="green") if check.passed else Text("FAIL", style="bold red")
        table.add_row(Text(check.name), result, f"{check.milliseconds:.0f}", Text(check.detail))
    console = Console(highlight=False)
    console.print(table)
    if all(check.passed for check in checks):
        console.print(f"All {counted(len(checks), 'check')} passed.")
