"""The documents whose paths are most like one that is not there, for a refusal that helps."""

from __future__ import annotations

import difflib
import heapq
from typing import Final
from urllib.parse import unquote

from retrieval.catalog import Catalog

_NEAREST: Final = 3
_MAX_LOOKED_AT: Final = 20_000
_COMPARED_PATHS: Final = 200
_MAX_COMPARED_CHARS: Final = 100
_SHOWN_CHARS: Final = 200


def shown(name: str) -> str:
    """A name in quotes, as much of it as a sentence can hold."""
    return repr(name if len(name) <= _SHOWN_CHARS else f"{name[:_SHOWN_CHARS]}…")


def path_in(name: str) -> str:
    """The path in an id as the indexer makes them: `collection@version:path#n`."""
    return unquote(name.rpartition("#")[0].rpartition(":")[2] or name)


def nearest(path: str, catalog: Catalog) -> str:
    """A sentence that names the documents whose paths are most like `path`."""
    paths: list[str] = list(dict.fromkeys(catalog.columns["path"]))
    if path in paths:
        return f"Its document is {shown(path)}: fetch it by path."
    name = _file_name(path)
    same = [known for known in paths if _file_name(known) == name]
    asked = path[-_MAX_COMPARED_CHARS:].casefold()
    # Comparing letter by letter takes a tenth of a millisecond each: only those that share most pieces are worth it.
    pieces = {asked[at : at + 3] for at in range(len(asked) - 2)}

    def shared(known: str) -> int:
        folded = known.casefold()
        return sum(piece in folded for piece in pieces)

    likely = heapq.nlargest(_COMPARED_PATHS, paths[:_MAX_LOOKED_AT], key=shared)
    like = difflib.get_close_matches(path[-_MAX_COMPARED_CHARS:], likely, n=_NEAREST)
    best = list(dict.fromkeys([*same[:_NEAREST], *like]))[:_NEAREST]
    if not best:
        return "lancedb_catalog lists the documents there are."
    return f"Nearest: {', '.join(shown(known) for known in best)}; lancedb_catalog lists all."


def _file_name(path: str) -> str:
    return path.rpartition("/")[2].casefold()
