"""What the text of a setting is read as: lists, paths, levels, and texts by name."""

from __future__ import annotations

from typing import Annotated, Final, Literal, cast

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import NoDecode

# Lancelot's logger had npm's levels; each finds its nearest of ours.
_LOG_LEVELS: Final = {"warn": "warning", "http": "info", "verbose": "debug", "silly": "debug"}


def _split_commas(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _lower(value: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.lower() for part in value))


def _log_level(value: object) -> object:
    if isinstance(value, str):
        level = value.strip().lower()
        return _LOG_LEVELS.get(level, level)
    return value


def _url_path(value: str) -> str:
    """`value` with one leading and no trailing slash; "" stays "" (no base path)."""
    segments = [segment for segment in value.split("/") if segment]
    if any(
        segment in {".", ".."} or not segment.isprintable() or set(segment) & set("?#%:\\ ") for segment in segments
    ):
        raise ValueError("a URL path such as /docs, without . or .., spaces, ?, #, %, : or \\")
    return "/" + "/".join(segments) if segments else ""


def _endpoint_path(value: str) -> str:
    path = _url_path(value)
    if not path:
        raise ValueError("a URL path such as /mcp")
    return path


def _boosts(value: object) -> object:
    if not isinstance(value, str):
        return value
    pairs = [part.rpartition("=") for part in cast("tuple[str, ...]", _split_commas(value))]
    return {prefix.strip(): factor.strip() for prefix, _, factor in pairs}


PathBoosts = Annotated[
    dict[Annotated[str, Field(min_length=1)], Annotated[float, Field(ge=0.1, le=10)]],
    NoDecode,
    BeforeValidator(_boosts),
]


def _private(value: object) -> object:
    if not isinstance(value, str):
        return value
    pairs = [part.rpartition("=") for part in cast("tuple[str, ...]", _split_commas(value))]
    scopes = {collection.strip(): scope.strip() for collection, _, scope in pairs}
    if len(scopes) != len(pairs):
        # Whichever of two scopes were taken, somebody meant the other.
        raise ValueError("a collection is named twice")
    return scopes


PrivateCollections = Annotated[
    dict[Annotated[str, Field(min_length=1)], Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}$")]],
    NoDecode,
    BeforeValidator(_private),
]
CommaSeparated = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split_commas)]
LowerCase = Annotated[CommaSeparated, AfterValidator(_lower)]
LogLevel = Annotated[Literal["error", "warning", "info", "debug"], BeforeValidator(_log_level)]
UrlPath = Annotated[str, AfterValidator(_url_path)]
EndpointPath = Annotated[str, AfterValidator(_endpoint_path)]
