"""`bedivere releases`: what has been published to a store, and which of it is current."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from handler.cli.progress import size_text
from handler.cli.publish import STORE_HELP, naming
from handler.cli.terminal import fail, print_whole
from retrieval.errors import BedivereError
from retrieval.release.store import open_store

if TYPE_CHECKING:
    from retrieval.release.history import Release


def releases(
    store: Annotated[str, typer.Argument(metavar="STORE", help=STORE_HELP, show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Print the list as one JSON array.")] = False,
) -> None:
    """List the releases of a store, the newest first.

    Nothing published yet is an answer: it prints so and exits with 0. Where it is not known which release is current,
    a note on standard error says why, and how to choose one.
    """
    from retrieval.release.history import survey

    try:
        seen = survey(open_store(store))
    except BedivereError as error:
        fail(error, as_json=as_json)
    if as_json:
        sys.stdout.write(json.dumps([_record(release) for release in seen.releases]) + "\n")
    else:
        _show(Console(highlight=False, soft_wrap=True), seen.releases)
    if seen.problem:
        typer.echo(f"note: {naming(store, str(seen.problem))}", err=True)


def _record(release: Release) -> dict[str, Any]:
    manifest = release.manifest
    return {
        "release": release.id,
        "current": release.current,
        "published_at": manifest.created_at if manifest else None,
        "rows": manifest.rows if manifest else None,
        "tables": {table.name: table.rows for table in manifest.tables} if manifest else None,
        "packed_bytes": manifest.packed_bytes if manifest else None,
        "unpacked_bytes": manifest.unpacked_bytes if manifest else None,
        "models": _models(release),
        "problem": str(release.problem.code) if release.problem else None,
    }


def _models(release: Release) -> list[str]:
    """The embedding models of the release's tables, each once."""
    tables = release.manifest.tables if release.manifest else ()
    embeddings: list[dict[str, Any]] = [(table.provenance or {}).get("embedding") or {} for table in tables]
    return sorted({str(embedding["model"]) for embedding in embeddings if "model" in embedding})


def _show(console: Console, found: tuple[Release, ...]) -> None:
    if not found:
        console.print("Nothing has been published there.")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("", "release", "published", "rows", "size", "model"):
        table.add_column(name, justify="right" if name in {"rows", "size"} else "left")
    for release in found:
        mark = "*" if release.current else ""
        if release.manifest is None:
            problem = str(release.problem.code) if release.problem else ""
            table.add_row(mark, release.id, "", "", "", problem)
            continue
        manifest = release.manifest
        model = escape(", ".join(_models(release))) or "text only"
        size = size_text(manifest.packed_bytes)
        table.add_row(mark, release.id, manifest.created_at, f"{manifest.rows:,}", size, model)
    print_whole(console, table)
    if any(release.current for release in found):
        console.print("* is current")
