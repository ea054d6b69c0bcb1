"""`bedivere serve`: the MCP server on this machine, over stdio or HTTP."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import quote

import typer

from handler.cli.terminal import DB_HELP, ExitCode, fail
from handler.cli.wording import in_own_words
from retrieval.errors import BedivereError, ErrorCode
from retrieval.notes import counted
from retrieval.settings import Settings, load_settings

if TYPE_CHECKING:
    from retrieval.retriever import Retriever
    from retrieval.status_reply import StatusReply

DEFAULT_PORT: Final = 3000
DEFAULT_HOST: Final = "127.0.0.1"


def serve(
    port: Annotated[
        int | None,
        typer.Argument(
            metavar="PORT", min=0, max=65_535, help=f"Port for HTTP, 0 for any free one. Default: {DEFAULT_PORT}."
        ),
    ] = None,
    http: Annotated[bool, typer.Option("--http", help="Serve over HTTP, on PORT.")] = False,
    stdio: Annotated[
        bool, typer.Option("--stdio", help="Serve over standard input and output. The default without a port.")
    ] = False,
    db: Annotated[
        str | None,
        typer.Option("--db", "--database", help=DB_HELP, show_default=False),
    ] = None,
    host: Annotated[
        str | None, typer.Option(help=f"Address to listen on. Default: {DEFAULT_HOST}.", show_default=False)
    ] = None,
    path: Annotated[
        str | None, typer.Option(help="Path of the endpoint. Default: BEDIVERE_ENDPOINT, /mcp.", show_default=False)
    ] = None,
    base_path: Annotated[
        str | None,
        typer.Option(help="Path that a proxy puts in front. Default: BEDIVERE_BASE_PATH.", show_default=False),
    ] = None,
) -> None:
    """Serve a database to MCP clients: over stdio, or with --http at a URL.

    A missing or unreadable database does not stop the server: each call says what is wrong and what to do. A table
    that is indexed again is served from the next call on, without a restart.
    """
    over_http = http or port is not None
    if over_http and stdio:
        raise typer.BadParameter("Choose one of --stdio and --http")
    if not over_http and (host or path or base_path):
        raise typer.BadParameter("--host, --path and --base-path go with --http")
    try:
        settings = load_settings(database=db, endpoint=path, base_path=base_path)
        _log_to_stderr(settings)
        if over_http:
            _serve_http(settings, host or DEFAULT_HOST, DEFAULT_PORT if port is None else port)
        else:
            _serve_stdio(settings)
    except BedivereError as error:
        fail(error)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


def client_configurations(url: str, name: str = "bedivere") -> list[tuple[str, str]]:
    """What to paste where to connect a client to `url`: (client, text) pairs."""
    server = {"type": "http", "url": url}
    code_link = quote(json.dumps({"name": name, **server}, separators=(",", ":")), safe="")
    cursor_config = base64.b64encode(json.dumps({"url": url}, separators=(",", ":")).encode()).decode()
    return [
        ("Claude Code", f"claude mcp add --transport http {name} {url}"),
        (".mcp.json", json.dumps({"mcpServers": {name: server}})),
        ("VS Code", f"vscode:mcp/install?{code_link}"),
        ("Cursor", f"cursor://anysphere.cursor-deeplink/mcp/install?name={name}&config={quote(cursor_config)}"),
    ]


def _log_to_stderr(settings: Settings) -> None:
    # Standard output belongs to the protocol over stdio, and to nobody over HTTP.
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("bedivere").setLevel(settings.log_level.upper())


def _retriever(settings: Settings) -> Retriever:
    # Imported where it is needed: `bedivere --help` loads no database.
    from retrieval.retriever import Retriever

    retriever = Retriever(settings)
    # A release is fetched while the client connects.
    retriever.start()
    return retriever


def _serve_stdio(settings: Settings) -> None:
    from handler.protocol import build_server
    from handler.stdio import serve_stdio

    retriever = _retriever(settings)
    server = build_server(settings, retriever, sees_all=True)
    if sys.stdin.isatty():
        typer.echo(
            "Bedivere speaks MCP on standard input and output: a client starts it so. For a URL: bedivere serve --http",
            err=True,
        )
    _tell_of_folder(retriever)
    # A thread waits for the next line of input and cannot be woken; nothing is open that an exit could harm.
    signal.signal(signal.SIGINT, lambda _signal, _frame: os._exit(ExitCode.DONE))
    retriever.warm()
    asyncio.run(serve_stdio(server))


def _tell_of_folder(retriever: Retriever) -> None:
    """Only whether there is a database: to open its tables would keep the client waiting."""
    if retriever.dataset.state().from_releases:
        return
    try:
        retriever.dataset.served().names()
    except BedivereError as error:
        typer.echo(f"warning: {in_own_words(str(error))}", err=True)


def _serve_http(settings: Settings, host: str, port: int) -> None:
    from handler.app import create_app
    from handler.authority import local_hosts
    from handler.local import serve_http
    from handler.protocol import build_server

    host = host.strip("[]")
    listener = _listen(host, port)
    port = listener.getsockname()[1]
    hosts = local_hosts(settings, bind=host, port=port)
    retriever = _retriever(settings)
    app = create_app(settings, build_server(settings, retriever), hosts=hosts)
    if hosts.warning:
        typer.echo(f"warning: {hosts.warning}", err=True)
    _print_banner(settings, host, port)
    _print_state(asyncio.run(retriever.status(verbose=False)))

    def announce() -> None:
        typer.echo("Stop it with Ctrl-C.")
        # It listens by now.
        retriever.warm()

    serve_http(app, listener, announce=announce)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        # Of a failed bind, Python's text names the address again; of a name that is not found, the number is no errno.
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else "there is no such address"
        raise BedivereError(
            ErrorCode.ADDRESS_UNAVAILABLE,
            f"Cannot listen on {host} port {port}: {why}. Choose another port or --host.",
        ) from None


def _print_banner(settings: Settings, host: str, port: int) -> None:
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104 - compared, not bound
    url = f"http://{shown}:{port}{settings.base_path}{settings.endpoint}"
    typer.echo(f"Bedivere serves {url}\n")
    width = max(len(client) for client, _ in client_configurations(url))
    for client, text in client_configurations(url):
        typer.echo(f"  {client:<{width}}  {text}")
    typer.echo()


def _print_state(status: StatusReply) -> None:
    """What is served, or what stands in the way: a wrong folder should not wait for an agent to be found."""
    for problem in [status.problem, *(table.problem for table in status.tables)]:
        if problem and problem.startswith(ErrorCode.DATASET_LOADING):
            typer.echo("The release is being fetched; calls wait for it.")
        elif problem:
            typer.echo(f"warning: {in_own_words(problem)}", err=True)
    for table in status.tables:
        if table.rows is not None:
            typer.echo(f"Table {table.name}: {counted(table.rows, 'chunk')}")
        for note in table.notes:
            typer.echo(f"note: {table.name}: {in_own_words(note)}", err=True)
