"""`bedivere init`: asks for what a machine needs to know once, stores it, and says how clients connect."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from handler.cli.terminal import fail
from retrieval.errors import BedivereError, ErrorCode
from retrieval.setting_files import SETTINGS_FILE_VARIABLE, settings_file
from retrieval.settings import Settings, load_settings, variables

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

_STORED: Final = ("database", "openai_base_url", "embedding_model", "openai_api_key_store")
"""The settings that `init` writes, and that `--forget` takes away."""

_CLIENTS: Final = ("claude-code", "claude-desktop", "cursor", "vscode")
_ADDRESSES: Final = ("s3://", "file://")
_PLACES: Final = (SETTINGS_FILE_VARIABLE, "XDG_CONFIG_HOME")
"""The variables that say where settings and key lie; a client starts the server without those of this shell."""


def init(
    database: Annotated[
        str | None,
        typer.Option(
            "--db", "--database", help="The database folder, or the store of its releases.", show_default=False
        ),
    ] = None,
    key_from_stdin: Annotated[
        bool, typer.Option("--key-from-stdin", help="Read the key from standard input, for scripts; asks nothing.")
    ] = False,
    base_url: Annotated[
        str | None, typer.Option(help="The provider's URL, where it is not OpenAI.", show_default=False)
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The model that the documents were embedded with.", show_default=False)
    ] = None,
    client: Annotated[
        list[str] | None,
        typer.Option(help=f"A client to connect: {', '.join(_CLIENTS)}. Repeatable.", show_default=False),
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Say what is stored and where; the key is never shown.")] = False,
    forget: Annotated[bool, typer.Option("--forget", help="Remove the key and what else init stored.")] = False,
) -> None:
    """Ask for database, key and clients; store the first two for every later command.

    The key goes into the keychain of the operating system or, where there is none, into a file that only you can
    read. What is in the environment counts before what is stored. Nothing else of Bedivere stores anything of the kind.
    """
    try:
        _refuse_strangers(client or ())
        if show:
            _show()
        elif forget:
            _forget()
        else:
            _ask(database, key_from_stdin, base_url, model, client)
    except BedivereError as error:
        fail(error)
    except OSError as error:
        why = (error.strerror or "unknown reason").lower()
        fail(BedivereError(ErrorCode.NOT_STORED, f"{_shown(Path(error.filename or settings_file()))}: {why}."))


def _ask(
    database: str | None, key_from_stdin: bool, base_url: str | None, model: str | None, clients: list[str] | None
) -> None:
    from handler.cli.key import PLACES, store_key

    asks = _at_terminal() and not key_from_stdin
    stored = _read()
    had_key = "openai_api_key_store" in stored
    before = str(stored.unwrap().get("database", ""))
    if database is None and asks:
        question = "Database, a folder or s3://BUCKET/PREFIX"
        database = typer.prompt(question, default=before, show_default=bool(before))
    if not (database or "").strip() and not before:
        why = "No database was named" if asks or database is not None else "Nobody can be asked here"
        raise BedivereError(ErrorCode.INVALID_ARGUMENT, f"{why}: name the database's folder or store with --db.")
    key = ""
    if key_from_stdin:
        key = _checked(sys.stdin.readline())
        if not key:
            raise BedivereError(ErrorCode.INVALID_ARGUMENT, "No key came on standard input: nothing is stored.")
    elif asks:
        empty = "empty keeps the stored one" if had_key else "empty for text search only"
        key = _checked(
            typer.prompt(f"Key of the embeddings provider ({empty})", "", show_default=False, hide_input=True)
        )
    if clients is None and asks:
        # What is mistyped is asked for again: a key that was typed once should not be lost for it.
        clients = typer.prompt(
            f"Clients to connect ({', '.join(_CLIENTS)})", "", show_default=False, value_proc=_clients
        )
    chosen = {
        "database": None if database is None else _absolute(database),
        "openai_base_url": base_url,
        "embedding_model": model,
    }
    for name, value in chosen.items():
        if value:
            stored[name] = value
    # What would stop every later command must not be written.
    load_settings(**{name: value for name, value in chosen.items() if value})
    if key:
        stored["openai_api_key_store"] = place = store_key(key)
        typer.echo(f"The key is in {PLACES[place]}{f', {_shown_key_file()}' if place == 'file' else ''}.")
    _write(stored)
    typer.echo(f"Settings are in {_shown(settings_file())}.")
    _tell_of_environment()
    _tell_of_database(str(stored["database"]))
    for name in dict.fromkeys(clients or ()):
        typer.echo(f"\n{_connection(name)}")


def _at_terminal() -> bool:
    return sys.stdin.isatty()


def _clients(named: str) -> list[str]:
    """The clients of a list with commas. Raises `typer.BadParameter`, for which the prompt asks again."""
    names = [name.strip() for name in named.split(",") if name.strip()]
    try:
        _refuse_strangers(names)
    except BedivereError as error:
        raise typer.BadParameter(error.sentence) from None
    return names


def _refuse_strangers(clients: list[str] | tuple[()]) -> None:
    if strangers := [name for name in clients if name not in _CLIENTS]:
        raise BedivereError(
            ErrorCode.INVALID_ARGUMENT,
            f"There is no client {strangers[0][:40]!r} here; there are {', '.join(_CLIENTS)}. Others read a file of "
            "the same form, see docs/serving.md.",
        )


def _checked(given: str) -> str:
    key = given.strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise BedivereError(ErrorCode.INVALID_ARGUMENT, "That is no key: it holds spaces or characters no key has.")
    return key


def _absolute(database: str) -> str:
    """A folder by its whole path: clients start the server wherever they are."""
    if database.startswith(_ADDRESSES) or not database.strip():
        return database.strip()
    return _whole(database)


def _whole(path: str) -> str:
    return str(Path(path).expanduser().absolute())


def _tell_of_environment() -> None:
    fields = Settings.model_fields
    names = [name for field in _STORED for name in variables(fields[field])]
    set_there = [name for name in [*names, "OPENAI_API_KEY"] if os.environ.get(name, "").strip()]
    if set_there:
        are = "is" if len(set_there) == 1 else "are"
        typer.echo(f"In this shell {', '.join(set_there)} {are} set, which counts before what is stored.", err=True)


def _tell_of_database(database: str) -> None:
    if not database.startswith(_ADDRESSES) and not Path(database).is_dir():
        typer.echo(f"No database is there yet: bedivere index FOLDER {_shown(Path(database))}", err=True)


def _connection(client: str) -> str:
    """What to paste where, so that `client` starts this very program."""
    program = shutil.which(sys.argv[0]) or shutil.which("bedivere") or "bedivere"
    program = str(Path(program).absolute()) if os.sep in program else program
    places = {name: _whole(os.environ[name].strip()) for name in _PLACES if os.environ.get(name, "").strip()}
    server: dict[str, Any] = {"command": program, "args": ["serve", "--stdio"], **({"env": places} if places else {})}
    if client == "claude-code":
        # Behind the name, since -e takes every word up to the next option.
        given = "".join(f" -e {shlex.quote(f'{name}={place}')}" for name, place in places.items())
        return f"Claude Code, in a terminal:\n  claude mcp add bedivere{given} -- {shlex.quote(program)} serve --stdio"
    entry = json.dumps({"mcpServers": {"bedivere": server}})
    if client == "claude-desktop":
        return f"Claude Desktop, in claude_desktop_config.json (Settings, Developer, Edit Config):\n  {entry}"
    if client == "cursor":
        return f"Cursor, in ~/.cursor/mcp.json:\n  {entry}"
    return f"VS Code, in .vscode/mcp.json:\n  {json.dumps({'servers': {'bedivere': {'type': 'stdio', **server}}})}"


def _show() -> None:
    from handler.cli.key import PLACES

    stored: dict[str, Any] = _read().unwrap()
    typer.echo(f"Settings  {_shown(settings_file())}{'' if settings_file().is_file() else ', which is not there'}")
    for name, value in stored.items():
        if name not in {"openai_api_key", "openai_api_key_store"}:
            typer.echo(f"          {name} = {value}")
    place = stored.get("openai_api_key_store")
    where = PLACES.get(str(place)) if place else "the settings file" if "openai_api_key" in stored else "none is stored"
    typer.echo(f"Key       {where}{f', {_shown_key_file()}' if place == 'file' else ''}")
    _tell_of_environment()


def _forget() -> None:
    from handler.cli.key import PLACES, forget_key

    for place in (gone := forget_key()):
        typer.echo(f"The key was removed from {PLACES[place]}.")
    stored = _read()
    removed = [name for name in _STORED if stored.pop(name, None) is not None]
    if removed:
        if stored.as_string().strip():
            _write(stored)
        else:
            settings_file().unlink()
        typer.echo(f"Settings no longer hold {', '.join(removed)}: {_shown(settings_file())}")
    if not gone and not removed:
        typer.echo("Nothing was stored.")
    if "openai_api_key" in stored:
        typer.echo("A key that you wrote into the settings file yourself is still there.", err=True)


def _read() -> TOMLDocument:
    """The settings file with its comments. Raises `BedivereError` SETTING_INVALID."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        return tomlkit.parse(settings_file().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return tomlkit.document()
    except (TOMLKitError, UnicodeDecodeError):
        raise BedivereError(ErrorCode.SETTING_INVALID, "The settings file is not a readable TOML file.") from None


def _write(settings: TOMLDocument) -> None:
    import tomlkit

    from handler.cli.key import write_privately

    write_privately(settings_file(), tomlkit.dumps(settings))


def _shown_key_file() -> str:
    from retrieval.keychain import key_file

    return _shown(key_file())


def _shown(path: Path) -> str:
    try:
        return f"~/{path.relative_to(Path.home())}"
    except (ValueError, RuntimeError):
        return str(path)
