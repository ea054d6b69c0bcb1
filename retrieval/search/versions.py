"""Versions of a collection side by side: which is the newest, and which rows a request is about.

Rows are told apart by what their ids begin with: the column `version` may be a document's own word and hides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from retrieval.catalog import Catalog
from retrieval.notes import Advice
from retrieval.search.filters import NOTHING, AllOf, AnyOf, Condition, Not, Where

_UNRELEASED: Final = frozenset(
    {"main", "master", "trunk", "head", "tip", "dev", "devel", "develop", "development"}
    | {"next", "nightly", "edge", "canary", "unreleased", "snapshot", "unstable"}
)
_RELEASED: Final = ("latest", "current", "stable")
"""Names of whatever was released last, the surer ones later: where there are both, `latest` is often the branch."""

_TAGS: Final = {
    **dict.fromkeys(_UNRELEASED, -4),
    **dict.fromkeys(("a", "alpha"), -3),
    **dict.fromkeys(("b", "beta"), -2),
    **dict.fromkeys(("c", "rc", "cr", "pre", "preview", "m", "milestone"), -1),
    **dict.fromkeys(("post", "patch", "p", "sp", "hotfix", "rev"), 1),
}
_WORD: Final = re.compile(r"[a-z]+|[0-9]+|\*")
_NUMBERED: Final = re.compile(r"v?([0-9]{1,18}(?:\.[0-9]{1,18})*)(.*)", re.DOTALL)
_MARKS: Final = re.compile(r"[-._ ]+")
_TAG_MARK: Final = re.compile(r"^\.|(?<=[a-z])\.(?=[0-9])")
"""What may stand between a number and its tag, or be left out: `1.0-rc.1` is `1.0rc1`."""

_WILDCARD: Final = 10**18
_BY_WORD, _BY_BRANCH, _BY_NUMBER, _BY_NAME = range(4)
_MAX_CHARS: Final = 200
_MAX_DIGITS: Final = 18
_LISTED: Final = 12

Order = tuple[int, tuple[int, ...], int, tuple[int, ...], str]
Among = Callable[[str, Sequence[str]], Where]
"""The condition that a column holds one of several values, each as a reply writes it."""


def _as_text(column: str, asked: Sequence[str]) -> Where:
    return Condition(column, "eq", asked[0]) if len(asked) == 1 else Condition(column, "in", tuple(asked))


@dataclass(frozen=True, slots=True)
class Choice:
    """The rows that a request is about, and what to tell of the choice.

    `where` None leaves nothing out. `versions` has the version served of each collection that has versions, "" being
    the documents without a collection; empty where no choice was made. `others` are those left out, newest first.
    """

    where: Where | None = None
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    others: tuple[str, ...] = ()
    note: str | None = None


@dataclass(frozen=True, slots=True)
class _Set:
    """The documents of one run of the indexer."""

    prefix: str
    collection: str | None
    version: str | None


def order(version: str) -> Order:
    """A key by which versions sort, oldest first; equal for equal texts only.

    Numbers count as numbers (2.9 < 2.10, 2.1 = 2.1.0, a date is three of them), a pre-release comes before its release
    and a patch after it, `2.x` after all of 2. What stands before the first digit (`v2`, `release-2.1`) and after a `+`
    is passed over. Words for what is unreleased (`main`, `next`, `nightly`) come before all numbers, and `latest`,
    `current` and `stable`, in this order, after them. Any other word comes first of all.
    """
    folded = version[:_MAX_CHARS].strip().casefold()
    if folded in _RELEASED:
        return (_BY_NAME, (_RELEASED.index(folded),), 0, (), version)
    if folded in _UNRELEASED:
        return (_BY_BRANCH, (), 0, (), version)
    words = _WORD.findall(folded.partition("+")[0])
    while words and not words[0][0].isdigit():
        del words[0]
    if not words:
        return (_BY_WORD, (), 0, (), version)
    release: list[int] = []
    while words and (words[0][0].isdigit() or (words[0] in {"x", "*"} and release)):
        word = words.pop(0)
        release.append(int(word[:_MAX_DIGITS]) if word[0].isdigit() else _WILDCARD)
    while release and release[-1] == 0:
        del release[-1]
    tag = next((_TAGS[word] for word in words if word in _TAGS), 0)
    numbers = tuple(int(word[:_MAX_DIGITS]) for word in words if word[0].isdigit())
    return (_BY_NUMBER, tuple(release), tag, numbers, version)


def preference(version: str) -> tuple[bool, Order]:
    """A key by which the version that is served where none is asked for comes last: the newest that is released.

    A pre-release, a branch and a word that says nothing are served only where there is no release.
    """
    placed = order(version)
    kind, _, tag, *_ = placed
    return (kind == _BY_NAME or (kind == _BY_NUMBER and tag >= 0), placed)


def newest(catalog: Catalog) -> dict[str, str]:
    """The version of each collection that is served by default; "" is the collection of documents without one.

    It is the newest release, or the newest of all where nothing is released.
    """
    found: dict[str, str] = {}
    for one in _sets(catalog):
        if one.version is not None:
            held = found.setdefault(one.collection or "", one.version)
            found[one.collection or ""] = max(held, one.version, key=preference)
    return found


def chosen(
    catalog: Catalog,
    collection: str | None,
    version: str | None,
    *,
    asked: Where | None = None,
    among: Among = _as_text,
) -> Choice:
    """The rows of `collection`, or of all, in `version`, or the newest release of each.

    Without either, documents that were indexed without a version stay beside the newest of the others. Where `version`
    or `collection` is asked for and not there, no row passes and the note lists those there are. `asked` is what the
    caller filters by: a comparison with the column `version` is a choice of its own, and then no older one is left
    out; one with the column `collection` says of which collections there is something to tell. `among` compares columns
    of a table of others, which need not hold text.
    """
    if collection is not None:
        known = catalog.collections()
        if collection not in known:
            return Choice(NOTHING, note=_unknown("collection", collection, sorted(known)))
    sets = [one for one in _sets(catalog) if collection is None or one.collection == collection]
    within = among("collection", [collection]) if collection is not None else None
    if version is not None:
        return _asked(catalog, sets, within, collection, version, among)
    if asked is not None:
        if _chooses(asked):
            return Choice(within, note=_mixed(asked, sets))
        sets = [one for one in sets if _lets_through(asked, one.collection)]
    latest = newest(catalog)
    left_out = [one for one in sets if one.version is not None and one.version != latest[one.collection or ""]]
    if not left_out:
        return Choice(within)
    older = Not(_any(Condition("id", "prefix", one.prefix) for one in left_out))
    served = {one.collection or "": latest[one.collection or ""] for one in sets if one.version is not None}
    others = tuple(_newest_first(one.version for one in left_out if one.version is not None))
    return Choice(
        where=older if within is None else AllOf((within, older)),
        versions=dict(sorted(served.items())),
        others=others,
        note=_served(served, left_out, others),
    )


def _asked(
    catalog: Catalog, sets: list[_Set], within: Where | None, collection: str | None, version: str, among: Among
) -> Choice:
    by_run = {one.version for one in sets if one.version is not None}
    # Where nothing was indexed by version, the documents' own words are what there is to go by.
    said = catalog.versions(collection)
    known = by_run or said
    meant = {version} & known or {there for there in known if same(there, version)}
    others = tuple(_newest_first(known - meant))
    words = said - by_run
    own = {version} & words or {there for there in words if same(there, version)}
    if not meant and not own:
        return Choice(NOTHING, others=others, note=_unknown("version", version, _newest_first(known)))
    if not meant or not by_run:
        its = among("version", sorted(meant or own))
        return Choice(its if within is None else AllOf((within, its)), others=others)
    serving = [one for one in sets if one.version in meant]
    return Choice(
        where=_any(Condition("id", "prefix", one.prefix) for one in serving),
        versions=dict(sorted((one.collection or "", one.version) for one in serving if one.version is not None)),
        others=others,
    )


def same(one: str, other: str) -> bool:
    """Whether two spellings are of one version: `v2.1`, `2.1` and `2.1.0`, or `v2.1-rc.1` and `2.1rc1`."""
    return _spelled(one) == _spelled(other)


def _spelled(version: str) -> tuple[tuple[int, ...], str]:
    """A version without what makes no difference to it: a `v` in front, zeros at the end, marks around its tag."""
    folded = version.strip().casefold()
    match = _NUMBERED.fullmatch(folded)
    if match is None:
        return ((), folded)
    numbers = [int(number) for number in match[1].split(".")]
    while numbers and numbers[-1] == 0:
        del numbers[-1]
    return (tuple(numbers), _TAG_MARK.sub("", _MARKS.sub(".", match[2])))


def _chooses(asked: Where) -> bool:
    """Whether `asked` compares the column `version` with anything; that it is there at all chooses none."""
    match asked:
        case AllOf(parts) | AnyOf(parts):
            return any(_chooses(part) for part in parts)
        case Not(part):
            return _chooses(part)
        case Condition(column, op, value):
            return column == "version" and op != "exists" and value != ""


def _lets_through(asked: Where, collection: str | None) -> bool:
    """Whether rows of `collection` may pass `asked`, by what it requires of the column `collection`."""
    match asked:
        case AllOf(parts):
            return all(_lets_through(part, collection) for part in parts)
        case Condition("collection", "eq", value):
            return value == collection
        case Condition("collection", "in", tuple(values)):
            return collection in values
        case _:
            return True


def _sets(catalog: Catalog) -> list[_Set]:
    """The sets of documents that runs of the indexer wrote with a collection or a version."""
    sets: list[_Set] = []
    for prefix in sorted(catalog.prefixes):
        if prefix:
            collection, at, version = prefix.removesuffix(":").partition("@")
            sets.append(_Set(prefix, collection or None, version if at else None))
    return sets


def _any(parts: Iterable[Where]) -> Where:
    given = tuple(parts)
    return given[0] if len(given) == 1 else AnyOf(given)


def _newest_first(versions: Iterable[str]) -> list[str]:
    return sorted(set(versions), key=order, reverse=True)


def _unknown(what: str, asked: str, known: list[str]) -> str:
    if not known:
        return f"The documents have no {what}: {Advice(f'leave {what} out')}."
    near = _of_same_number(asked, known) if what == "version" else None
    there = f"did you mean {near[:100]!r}? There" if near else "there"
    be = "are" if len(known) > 1 else "is only"
    return f"There is no {what} {asked[:100]!r}; {there} {be} {_listed(known)}."


def _of_same_number(asked: str, known: Sequence[str]) -> str | None:
    """The newest of `known` with the numbers of `asked`, of which it is a pre-release or a patch."""
    match = _NUMBERED.fullmatch(asked.strip().casefold())
    if match is None or match[2]:
        return None
    return next((one for one in known if order(one)[:2] == order(asked)[:2]), None)


def _mixed(asked: Where, sets: Sequence[_Set]) -> str | None:
    """What to say where a filter by version may let several versions of one collection through."""
    through = [one for one in sets if one.version is not None and _may_pass(asked, one.version)]
    collections = [one.collection for one in through]
    if len(set(collections)) == len(collections):
        return None
    versions = _listed(_newest_first(one.version for one in through if one.version is not None))
    return f"Several versions are searched at once, as the filter by version asks: {versions}."


def _may_pass(asked: Where, version: str) -> bool:
    """Whether rows of `version` may pass what `asked` says of the column `version`; bounds are compared as text is."""
    match asked:
        case AllOf(parts):
            return all(_may_pass(part, version) for part in parts)
        case AnyOf(parts):
            return any(_may_pass(part, version) for part in parts)
        case Not(Condition("version") as part):
            return not _may_pass(part, version)
        case Condition("version", "eq", value):
            return value == version
        case Condition("version", "in", tuple(values)):
            return version in values
        case Condition("version", "prefix", str(value)):
            return version.startswith(value)
        case Condition("version", "gte", str(value)):
            return version >= value
        case Condition("version", "lte", str(value)):
            return version <= value
        case _:
            return True


def _served(served: Mapping[str, str], left_out: Sequence[_Set], others: tuple[str, ...]) -> str:
    several = {one.collection or "" for one in left_out}
    named = ", ".join(
        f"{version} of {collection}" if collection else version
        for collection, version in sorted(served.items())[: _LISTED + 1]
        if collection in several
    )
    newer = any(
        one.version is not None and order(one.version) > order(served[one.collection or ""]) for one in left_out
    )
    what = "the newest release" if newer else "the newest version"
    return f"Searched in {what}, {named}; {Advice.ANOTHER_VERSION} for another: {_listed(others)}."


def _listed(names: Iterable[str]) -> str:
    given = [name[:100] for name in names]
    more = f" and {len(given) - _LISTED} more" if len(given) > _LISTED else ""
    return f"{', '.join(given[:_LISTED])}{more}"
