"""`bedivere search`: ranked passages on a terminal, the same that an agent gets."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.text import Text

from handler.cli.terminal import fail
from handler.cli.waiting import ready
from retrieval.errors import BedivereError
from retrieval.retriever import Retriever
from retrieval.search.snippet import matched_spans
from retrieval.settings import load_settings
from retrieval.types import Hit, SearchReply, SearchRequest


def search(
    question: Annotated[str, typer.Argument(help="What to look for, in plain words.", show_default=False)],
    db: Annotated[
        str | None,
        typer.Option("--db", "--database", help="The database folder. Default: LANCEDB_PATH.", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="Most passages to print.")] = 5,
    table: Annotated[str | None, typer.Option(help="The table. Default: LANCEDB_TABLE.", show_default=False)] = None,
    path_prefix: Annotated[
        str | None, typer.Option(help="Only documents whose path starts so.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the reply as one JSON object.")] = False,
) -> None:
    """Search a database and print ranked passages with their source.

    Nothing found is an answer: it prints so and exits with 0.
    """
    try:
        settings = load_settings(database=db)
        request = SearchRequest(query=question, limit=limit, table=table, path_prefix=path_prefix)
        reply = asyncio.run(_search(Retriever(settings), request))
    except BedivereError as error:
        fail(error, as_json=as_json)
    if as_json:
        typer.echo(reply.model_dump_json(exclude_none=True))
    else:
        _print(reply, question)


# What would move the cursor, colour the screen or set its title: a document is not to be trusted with a terminal.
_CONTROLS: Final = dict.fromkeys([*range(0x20), *range(0x7F, 0xA0)])


async def _search(retriever: Retriever, request: SearchRequest) -> SearchReply:
    return await (await ready(retriever)).search(request)


def _print(reply: SearchReply, question: str) -> None:
    console = Console(highlight=False, soft_wrap=True)
    if not reply.hits:
        console.print("No passage matches.")
    for number, hit in enumerate(reply.hits, start=1):
        console.print(_heading(number, hit))
        if place := hit.url or hit.path:
            console.print(Text(f"   {_shown(place)}", style="cyan"))
        snippet = _shown(hit.snippet)
        passage = Text(f"   {snippet}")
        for start, end in matched_spans(snippet, question):
            passage.stylize("bold yellow", start + 3, end + 3)
        console.print(passage)
        console.print()
    for note in reply.notes:
        Console(stderr=True, highlight=False, soft_wrap=True).print(Text(f"note: {note}", style="dim"))


def _shown(text: str) -> str:
    return text.translate(_CONTROLS)


def _heading(number: int, hit: Hit) -> Text:
    line = Text.assemble((f"{number}. ", "dim"), (_shown(hit.title or hit.path or hit.id), "bold"))
    if hit.heading:
        line.append(f" > {_shown(hit.heading)}")
    if of := " ".join(str(hit.metadata[name]) for name in ("collection", "version", "status") if name in hit.metadata):
        line.append(f"  [{_shown(of)}]", style="magenta")
    line.append(f"  {hit.score:.2f}", style="dim")
    return line
