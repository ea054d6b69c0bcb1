"""`bedivere status`: what serves, how old it is and what limits it, the same that lancedb_status tells an agent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from handler.cli.progress import size_text
from handler.cli.terminal import DB_HELP, ExitCode, fail, print_whole
from handler.cli.waiting import ready
from handler.cli.wording import in_own_words
from retrieval.errors import BedivereError
from retrieval.notes import counted
from retrieval.settings import Settings, load_settings

if TYPE_CHECKING:
    from retrieval.retriever import Retriever
    from retrieval.status_reply import ReleaseStatus, StatusReply, TableStatus, VectorsStatus


def status(
    db: Annotated[
        str | None,
        typer.Option("--db", "--database", help=DB_HELP, show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the status as one JSON object.")] = False,
) -> None:
    """Show which release serves, its age, the figures of its sync, and the tables.

    A release that is not on this machine's disk is fetched first, as the server would. Exits with 1 where nothing can
    be served.
    """
    # Imported here, because it loads what reads tables, and other commands should not wait for that.
    from retrieval.retriever import Retriever

    try:
        settings = load_settings(database=db)
        reply = asyncio.run(_status(Retriever(settings)))
    except BedivereError as error:
        fail(error, as_json=as_json)
    if as_json:
        typer.echo(reply.model_dump_json(exclude_none=True))
    else:
        _print(reply, settings)
    if not reply.connected:
        raise typer.Exit(ExitCode.FAILURE)


async def _status(retriever: Retriever) -> StatusReply:
    return await (await ready(retriever)).status(verbose=False)


def _print(reply: StatusReply, settings: Settings) -> None:
    console = Console(highlight=False, soft_wrap=True)
    facts = [("Dataset", settings.database or "not set"), *_facts(reply.release)]
    for name, value in facts:
        console.print(Text.assemble((f"{name:<10}", "dim"), value))
    if reply.tables:
        console.print()
        print_whole(console, _table(reply.tables, reply.default_table))
        for table in reply.tables:
            for vectors in table.vectors:
                console.print(Text.assemble((f"{table.name}.{vectors.column}", "dim"), f"  {_vectors_text(vectors)}"))
    notes = [f"{table.name}: {note}" for table in reply.tables for note in (table.problem, *table.notes) if note]
    for note in (reply.problem, *notes):
        if note:
            Console(stderr=True, highlight=False, soft_wrap=True).print(Text(in_own_words(note), style="yellow"))


def _facts(release: ReleaseStatus | None) -> list[tuple[str, str]]:
    if release is None or release.id is None:
        return []
    age = "" if release.age_seconds is None else f", {_duration(release.age_seconds)} ago"
    fetched = f"{size_text(release.sync_bytes)} fetched" if release.sync_bytes else "it was on this disk"
    return [
        ("Release", release.id),
        ("Published", f"{release.created_at}{age}"),
        ("Sync", f"{fetched}, {release.sync_ms or 0:,} ms"),
    ]


def _table(tables: list[TableStatus], default: str) -> Table:
    shown = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("Table", "Chunks", "Built", "Revision", "Model"):
        shown.add_column(column, justify="right" if column == "Chunks" else "left")
    for table in tables:
        origin = table.provenance
        shown.add_row(
            Text(table.name, style="bold" if table.name == default else ""),
            "?" if table.rows is None else f"{table.rows:,}",
            origin.built_at if origin else "by another tool",
            (origin.revision or "")[:10] if origin else "",
            (origin.embedding_model or "text only") if origin else "",
        )
    return shown


def _vectors_text(vectors: VectorsStatus) -> str:
    recall = "" if vectors.recall_at_10 is None else f", recall@10 {vectors.recall_at_10:.3f}"
    calibrated = "" if vectors.calibrated else ", not calibrated"
    return f"{vectors.dimensions:,} dimensions, {vectors.index}{recall}{calibrated}"


def _duration(seconds: int) -> str:
    """`seconds` in the largest unit of which there are two."""
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return counted(seconds, "second")
