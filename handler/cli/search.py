"""`bedivere search`: ranked passages on a terminal, the same that an agent gets."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.text import Text

from handler.cli.terminal import DB_HELP, fail
from handler.cli.waiting import ready
from handler.cli.wording import in_own_words
from retrieval.errors import BedivereError, ErrorCode
from retrieval.notes import Nothing
from retrieval.settings import load_settings
from retrieval.types import Hit, Narrowing, SearchReply, SearchRequest, SearchType

if TYPE_CHECKING:
    from retrieval.retriever import Retriever

_CONDITION: Final = re.compile(r"(?P<field>[^=!<>]+)(?P<comparison>!=|>=|<=|=)(?P<value>.*)", re.DOTALL)
_COMPARISONS: Final = {"=": "eq", "!=": "neq", ">=": "gte", "<=": "lte"}


def search(
    question: Annotated[
        str, typer.Argument(metavar="QUESTION", help="What to look for, in plain words.", show_default=False)
    ],
    db: Annotated[
        str | None,
        typer.Option("--db", "--database", help=DB_HELP, show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="Most passages to print.")] = 5,
    search_type: Annotated[
        SearchType, typer.Option("--search-type", "--mode", help="By words, by meaning, both, or the best there is.")
    ] = "auto",
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            metavar="FIELD=VALUE",
            help="Only documents with this value; also !=, >= and <=, in quotes: 'year>=2020'. Repeatable: all must "
            "hold.",
            show_default=False,
        ),
    ] = None,
    path_prefix: Annotated[
        str | None, typer.Option(help="Only documents whose path starts so.", show_default=False)
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(help="No documents whose path holds this. Repeatable.", show_default=False)
    ] = None,
    collection: Annotated[str | None, typer.Option(help="Only this collection.", show_default=False)] = None,
    version: Annotated[
        str | None, typer.Option(help="This version. Default: the newest of each collection.", show_default=False)
    ] = None,
    include_outdated: Annotated[
        bool, typer.Option("--include-outdated", help="Superseded, withdrawn and draft documents too.")
    ] = False,
    collapse: Annotated[bool, typer.Option("--collapse", help="The best passage of each document only.")] = False,
    min_score: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Least relevance that counts, 0 for all. Default: what was calibrated.",
            show_default=False,
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Why each passage is there, and how long each stage took.")
    ] = False,
    table: Annotated[str | None, typer.Option(help="The table. Default: LANCEDB_TABLE.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the reply as one JSON object.")] = False,
) -> None:
    """Search a database and print ranked passages with their source.

    Nothing found is an answer: it prints so and exits with 0.
    """
    # Imported here, because it loads what reads tables, and other commands should not wait for that.
    from retrieval.retriever import Retriever

    try:
        settings = load_settings(database=db)
        request = SearchRequest(
            query=question,
            limit=limit,
            search_type=search_type,
            table=table,
            narrowing=Narrowing(
                filters=_filters(where or []),
                path_prefix=path_prefix,
                exclude=tuple(exclude or ()),
                collection=collection,
                version=version,
                include_outdated=include_outdated,
            ),
            collapse=collapse,
            min_score=min_score,
            explain=explain,
        )
        reply = asyncio.run(_search(Retriever(settings), request))
    except BedivereError as error:
        fail(error, as_json=as_json)
    if as_json:
        typer.echo(reply.model_dump_json(exclude_none=True))
    else:
        _print(reply, question, explain=explain)


# What would move the cursor, colour the screen or set its title: a document is not to be trusted with a terminal.
_CONTROLS: Final = dict.fromkeys([*range(0x20), *range(0x7F, 0xA0)])


def _filters(conditions: Sequence[str]) -> dict[str, object]:
    """The filters of a request. Raises `BedivereError` INVALID_ARGUMENT where a condition is none."""
    filters: dict[str, dict[str, object]] = {}
    for condition in conditions:
        found = _CONDITION.fullmatch(condition)
        if found is None:
            raise BedivereError(
                ErrorCode.INVALID_ARGUMENT, f"--filter {condition[:60]!r} must be FIELD=VALUE, or with !=, >= or <=."
            )
        name, comparison = found["field"].strip(), _COMPARISONS[found["comparison"]]
        compared = filters.setdefault(name, {})
        if comparison in compared:
            raise BedivereError(
                ErrorCode.INVALID_ARGUMENT,
                f"--filter compares {name[:60]!r} with {found['comparison']} twice: all filters must hold.",
            )
        compared[comparison] = found["value"].strip()
    return dict(filters)


async def _search(retriever: Retriever, request: SearchRequest) -> SearchReply:
    return await (await ready(retriever)).search(request)


def _print(reply: SearchReply, question: str, *, explain: bool) -> None:
    from retrieval.search.snippet import matched_spans

    console = Console(highlight=False, soft_wrap=True)
    for one in reply.corrections:
        console.print(Text(f"Read {_shown(one.written)} as {_shown(one.read)}.", style="yellow"))
    notes = [in_own_words(note) for note in reply.notes]
    if not reply.hits:
        notes = _print_nothing(console, reply, notes)
    asked = " ".join([question, *(one.read for one in reply.corrections)])
    for number, hit in enumerate(reply.hits, start=1):
        console.print(_heading(number, hit))
        if place := hit.url or hit.path:
            console.print(Text(f"   {_shown(place)}", style="cyan"))
        for label in _labels(hit):
            console.print(Text(f"   {label}", style="yellow"))
        if explain:
            console.print(Text(f"   {_why(hit)}", style="dim"))
        snippet = _shown(hit.snippet)
        passage = Text(f"   {snippet}")
        for start, end in matched_spans(snippet, asked):
            passage.stylize("bold yellow", start + 3, end + 3)
        console.print(passage)
        console.print()
    if explain:
        _print_explanation(console, reply)
    for note in notes:
        Console(stderr=True, highlight=False, soft_wrap=True).print(Text(f"note: {_shown(note)}", style="dim"))


def _print_explanation(console: Console, reply: SearchReply) -> None:
    """What is to be said of the reply as a whole."""
    if sure := reply.relevance:
        told = f"relevance: {sure.score:.2f} of 1; {sure.threshold:.2f} is needed"
        console.print(Text(told, style="dim"))
    for one in reply.outdated_left_out or ():
        console.print(Text(f"left out as outdated: {_shown(one.id)}, which would have been #{one.place}", style="dim"))
    if reply.timings:
        stages = ", ".join(f"{stage} {milliseconds:.1f} ms" for stage, milliseconds in reply.timings.items())
        console.print(Text(f"{reply.search_type} search: {stages}", style="dim"))


def _print_nothing(console: Console, reply: SearchReply, notes: Sequence[str]) -> list[str]:
    """Says that there is nothing and why, which is the answer; returns the notes that are not said by then."""
    why = next((note for note in notes if note.startswith(tuple(Nothing))), "No passage matches.")
    console.print(Text(_shown(why)))
    rejected = reply.rejected
    if rejected is not None and rejected.id is not None:
        named = _shown(rejected.title or rejected.id)
        nearest = (
            f"The nearest is {named}, with a relevance of {rejected.score:.2f}; {rejected.threshold:.2f} is needed."
        )
        console.print(Text(f"   {nearest}", style="dim"))
    return [note for note in notes if note != why]


def _shown(text: str) -> str:
    return text.translate(_CONTROLS)


def _heading(number: int, hit: Hit) -> Text:
    line = Text.assemble((f"{number}. ", "dim"), (_shown(hit.title or hit.path or hit.id), "bold"))
    if hit.heading:
        line.append(f" > {_shown(hit.heading)}")
    if of := " ".join(str(hit.metadata[name]) for name in ("collection", "version", "status") if name in hit.metadata):
        line.append(f"  [{_shown(of)}]", style="magenta")
    line.append(f"  {_score(hit, hit.score)}", style="dim")
    return line


def _labels(hit: Hit) -> list[str]:
    """What a reader must know before he relies on the passage, and what else of its document matched."""
    labels: list[str] = []
    if hit.outdated:
        labels.append(f"outdated: {_shown(hit.outdated)}")
    if hit.stands_for:
        labels.append(f"in place of {_shown(hit.stands_for)}, which is outdated")
    if hit.matching_chunk_count and hit.matching_chunk_count > 1:
        also = "; ".join(_shown(heading) for heading in hit.matched_headings or ())
        labels.append(f"{hit.matching_chunk_count} passages match" + (f": {also}" if also else ""))
    return labels


def _why(hit: Hit) -> str:
    told = [f"why: {hit.why}"]
    if hit.matched_words:
        told.append(f"words: {', '.join(_shown(word) for word in hit.matched_words)}")
    if hit.text_rank is not None:
        told.append(f"text #{hit.text_rank} ({hit.text_score or 0:.2f})")
    if hit.vector_rank is not None:
        told.append(f"vector #{hit.vector_rank} ({hit.vector_score or 0:.3f})")
    told.append(f"{hit.score_type} {_score(hit, hit.score)}")
    if hit.stub:
        told.append("a stub, placed by half of that")
    if hit.boost is not None:
        told.append(f"its path's boost places it by {hit.boost:g} times that")
    return " · ".join(told)


def _score(hit: Hit, score: float) -> str:
    # Fused scores are sums of hundredths.
    return f"{score:.2f}" if hit.score_type == "bm25" else f"{score:.4f}"
