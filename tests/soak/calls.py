"""The calls of the soak, and what the answer to each must be under one edition of the documents."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from tests.soak.editions import SUBJECTS, Edition, marks, path_of

FEWEST_PAGES: Final = Edition(1).pages
"""Pages that every edition has."""
_PAGE_OF_CATALOG: Final = 10

Reply = Mapping[str, Any]
Check = Callable[[Edition, str], str | None]
"""Says what is wrong with an answer under the release `edition`, which has that id; None where nothing is."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool and its arguments, what its reply is checked by, and the call that reads on, where there is more."""

    tool: str
    arguments: Mapping[str, object]
    check: Callable[[Reply], Check]
    then: Callable[[Reply], Call | None] = lambda _: None
    kind: str = ""
    """What it counts as in the figures; the tool where it is empty."""


def calls(random: Random) -> Call:
    """The next call of a steady mix."""
    page = random.randrange(FEWEST_PAGES)
    make = random.choice((_search, _search, _hybrid, _hybrid, _query, _fetch, _catalog, _status, _nothing))
    return make(page)


def _search(page: int) -> Call:
    def check(reply: Reply) -> Check:
        found = [(hit["path"], tuple(marks(hit["snippet"]))) for hit in reply["hits"]]

        def wrong(edition: Edition, _: str) -> str | None:
            expected = edition.page(page)
            seen = sorted(mark for _, of_hit in found for mark in of_hit)
            return _differs(seen, expected) or _differs({path for path, _ in found}, {path_of(page)})

        return wrong

    arguments = {"query": f"the {SUBJECTS[page]}", "searchType": "text", "limit": 20}
    return Call("lancedb_search", arguments, check, kind="search, text")


def _hybrid(page: int) -> Call:
    def check(reply: Reply) -> Check:
        ran, degraded = reply["searchType"], reply["degraded"]
        paths = [hit["path"] for hit in reply["hits"]]
        seen = [mark for hit in reply["hits"] for mark in marks(hit["snippet"])]

        def wrong(edition: Edition, _: str) -> str | None:
            if (ran, degraded) not in {("hybrid", False), ("text", True)}:
                return f"search {ran}, degraded {degraded}"
            # What is near by meaning comes before it at times: the words of the caller are random.
            lost = None if path_of(page) in paths else f"{path_of(page)} is not among {paths}"
            return lost or _other_edition(seen, edition)

        return wrong

    arguments = {"query": f"where is the {SUBJECTS[page]} kept {secrets.token_hex(4)}", "searchType": "hybrid"}
    return Call("lancedb_search", arguments, check, kind="search, hybrid")


def _query(page: int) -> Call:
    def check(reply: Reply) -> Check:
        seen = marks(reply["context"])
        paths = [source["path"] for source in reply["sources"]]

        def wrong(edition: Edition, _: str) -> str | None:
            here = [mark for mark in seen if mark.page == page]
            lost = None if path_of(page) in paths else f"{path_of(page)} is not among {paths}"
            return lost or _other_edition(seen, edition) or _differs(sorted(here), edition.page(page))

        return wrong

    return Call("lancedb_query", {"question": f"where is the {SUBJECTS[page]}?", "contextBudget": 12_000}, check)


def _fetch(page: int, before: tuple[str, ...] = (), cursor: str | None = None) -> Call:
    def read_so_far(reply: Reply) -> tuple[str, ...]:
        return (*before, reply["text"])

    def check(reply: Reply) -> Check:
        seen, over = marks(" ".join(read_so_far(reply))), reply.get("cursor") is None

        def wrong(edition: Edition, _: str) -> str | None:
            expected = edition.page(page)
            return _differs(seen, expected if over else expected[: len(seen)])

        return wrong

    def then(reply: Reply) -> Call | None:
        following = reply.get("cursor")
        return _fetch(page, read_so_far(reply), following) if following else None

    # So few characters that each section is a page of its own.
    place = {"cursor": cursor} if cursor else {"path": path_of(page)}
    return Call("lancedb_fetch", {**place, "maxChars": 1000}, check, then)


def _catalog(_: int, before: tuple[str, ...] = (), cursor: str | None = None) -> Call:
    def listed(reply: Reply) -> tuple[str, ...]:
        return (*before, *(entry["path"] for entry in reply["documents"]))

    def check(reply: Reply) -> Check:
        paths, total, over = list(listed(reply)), reply["total"], reply.get("cursor") is None

        def wrong(edition: Edition, _: str) -> str | None:
            expected = edition.paths if over else edition.paths[: len(paths)]
            return _differs(total, edition.pages) or _differs(paths, expected)

        return wrong

    def then(reply: Reply) -> Call | None:
        following = reply.get("cursor")
        return _catalog(0, listed(reply), following) if following else None

    more = {"cursor": cursor} if cursor else {}
    return Call("lancedb_catalog", {"limit": _PAGE_OF_CATALOG, **more}, check, then)


def _status(_: int) -> Call:
    def check(reply: Reply) -> Check:
        release, rows = reply["release"]["id"], [table.get("rows") for table in reply["tables"]]

        def wrong(edition: Edition, named: str) -> str | None:
            return _differs(release, named) or _differs(rows, [edition.pages * edition.sections])

        return wrong

    return Call("lancedb_status", {}, check)


def _nothing(_: int) -> Call:
    def check(reply: Reply) -> Check:
        count = len(reply["hits"])
        return lambda _, __: f"{count} hits for words that no document holds" if count else None

    # Letters alone: digits would be looked for as parts of identifiers.
    words = " ".join("".join(secrets.choice("jkqvxz") for _ in range(10)) for _ in range(3))
    return Call("lancedb_search", {"query": words, "searchType": "text"}, check, kind="search, nothing")


def _differs(seen: object, expected: object) -> str | None:
    return None if seen == expected else f"{seen} in place of {expected}"


def _other_edition(seen: list[Any], edition: Edition) -> str | None:
    """What is wrong where there are no marks, or marks of another edition."""
    others = sorted({mark.edition for mark in seen} - {edition.number})
    if others:
        return f"marks of editions {others} in place of {edition.number}"
    return None if seen else "no marks"
