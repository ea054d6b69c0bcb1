"""The command line: one module a command, registered here."""

from __future__ import annotations

import signal
import sys
import traceback

# First of all, so that it counts what the imports below take.
from handler.cli import clock  # noqa: F401  # pyright: ignore[reportUnusedImport]

# Nothing can answer Ctrl-C before everything is imported, and libraries take a KeyboardInterrupt for what they please.
_answering = signal.getsignal(signal.SIGINT)
if _answering is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

try:
    import typer
except ImportError:  # pragma: no cover - seen only where the extra is not installed
    sys.exit("EXTRA_NOT_INSTALLED: The command line needs the extra 'index': pip install 'bedivere[index]'.")

from handler import __version__
from handler.cli.eval import evaluate
from handler.cli.index import index
from handler.cli.init import init
from handler.cli.keys import keys
from handler.cli.prune import prune
from handler.cli.publish import publish
from handler.cli.releases import releases
from handler.cli.rollback import rollback
from handler.cli.search import search
from handler.cli.serve import serve
from handler.cli.smoke import smoke
from handler.cli.status import status
from handler.cli.terminal import Command, Commands, ExitCode, tell
from retrieval.errors import BedivereError, ErrorCode

if _answering is signal.default_int_handler:
    signal.signal(signal.SIGINT, _answering)

app = typer.Typer(
    name="bedivere",
    help="Serve your documents to AI agents over MCP: index a folder, search it, serve it.",
    no_args_is_help=True,
    cls=Commands,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command(cls=Command)(init)
app.command(cls=Command)(index)
app.command(cls=Command)(search)
app.command("eval", cls=Command)(evaluate)
app.command(cls=Command)(serve)
app.command(cls=Command)(publish)
app.command(cls=Command)(releases)
app.command(cls=Command)(rollback)
app.command(cls=Command)(prune)
app.command(cls=Command)(smoke)
app.add_typer(keys)
app.command(cls=Command)(status)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"bedivere {__version__}")
        raise typer.Exit


@app.callback()
def _root(  # pyright: ignore[reportUnusedFunction] - typer calls it
    version: bool = typer.Option(False, "--version", help="Print the version and exit.", callback=_print_version),
) -> None:
    pass


def main() -> None:
    """Runs the command line of this process."""
    try:
        app()
    except KeyboardInterrupt:
        # It came before the command could answer it, such as during its imports.
        sys.exit(ExitCode.INTERRUPTED)
    except Exception:
        traceback.print_exc()
        tell(BedivereError(ErrorCode.INTERNAL_ERROR, "A fault of Bedivere itself: report it with the lines above."))
        sys.exit(ExitCode.FAILURE)
