"""Which document an author means who names another: by path, file, number, title or address, in whatever form.

Of several documents that a name fits, the nearest is taken.
"""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import unquote

from retrieval.search import text as lexicon

if TYPE_CHECKING:
    from retrieval.catalog import Document

Kind = Literal["path", "name", "url", "title", "number"]

MAX_NAME_CHARS: Final = 1_000
_MAX_FORMS: Final = 32
_MOST_CALLED: Final = 3
"""Documents that one name of a question may fit: what more are called says of none that it is meant."""

_MAX_MENTIONS: Final = 16
_SHORTEST_FILE: Final = 6
"""Letters of the name of a file that is looked for within a question, where nothing but letters is in it."""

_TITLE_WORDS: Final = range(3, 13)
"""Words of a title that is looked for within a question."""

_NUMBERED: Final = re.compile(r"(?:([a-z]+)[\s_.-]*+)?(?:no\.?\s*+)?#?\s*0*(\d{1,9})(?![a-z0-9])", re.ASCII)
_LABELLED: Final = re.compile(r"\b([a-z]{2,})[\s_.-]*+#?0*(\d{1,9})(?![a-z0-9]|\.\d)", re.ASCII)
_MARKDOWN: Final = re.compile(r"\[([^\]\[]*)\]\(<?([^)>\s]++)>?[^)]*+\)")
_WIKI: Final = re.compile(r"\[\[([^\]\[|]++)(?:\|([^\]\[]*+))?\]\]")
_RST: Final = re.compile(r"(?::([\w-]+):)?`([^`<]*)(?:<([^>`]+)>)?`_{0,2}")
_BRACKETED: Final = re.compile(r"<((?:https?://|[\w./-])[^<>\s]*)>")
_SEPARATORS: Final = re.compile(r"[,;|]|(?<!\s)\s++(?:and|or|und|oder|et|ou|y|o)\s+", re.IGNORECASE)
_FOLDER_PAGES: Final = frozenset({"index", "readme", "_index"})
_MAX_SCANNED: Final = 100_000
"""Characters of a catalog's paths and titles that are looked through for a name: of 1,000 documents and more."""
_SPACES: Final = {code: " " if chr(code) != "\n" else " \n " for code in range(128) if not re.match(r"\w", chr(code))}
_LABELS: Final = {"decisions": "adr"}
_ROLES: Final = frozenset({"pep", "rfc"})


class References:
    """Finds the documents of one catalog by what others call them: their places in its columns.

    Each kind of name has an index of its own, made when it is first asked for: most names are paths, and a large
    catalog takes a tenth of a second for each kind.
    """

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self._columns = columns
        self._making = threading.Lock()

    def find(self, written: str, by: Document) -> list[int]:
        """What the author of `by` means by `written`, which may list several: those that are there, in its order."""
        found = (self._nearest(form, by) for form in _forms(written[:MAX_NAME_CHARS]))
        return list(dict.fromkeys(place for place in found if place is not None))

    def called(self, question: str) -> list[int]:
        """The documents that a reader's `question` calls by title, path, file or number; none for what many are called.

        A title of one or two words is a name only where it is all of the question, and the longest title counts.
        """
        return list(dict.fromkeys(itertools.chain.from_iterable(self.names_in(question).values())))

    def names_in(self, question: str, is_odd: Callable[[str], bool] = lambda _: False) -> dict[str, list[int]]:
        """The names in `question`, in lower case, each with the documents that it calls.

        A word is a file's name without its suffix only where `is_odd` says that it is no word of any text.
        """
        named: dict[str, list[int]] = {}
        for name, forms in _mentions(question):
            named[name] = self._few(forms)
        for word in _plain_words(question):
            few = self._few([("name", word)])
            if few and is_odd(word):
                named[word] = few
        for title in _titles_in(question):
            if few := self._few([("title", title)]):
                named[title] = few
                break
        return {name: few for name, few in named.items() if few}

    def _few(self, names: Iterable[tuple[Kind, str]]) -> list[int]:
        there = {
            place for kind, asked in names if self._may_be(kind, asked) for place in self._index(kind).get(asked, ())
        }
        # The collections and versions of a document stand under one path.
        return sorted(there) if len({self._columns["path"][place] for place in there}) <= _MOST_CALLED else []

    @property
    def answers_at_once(self) -> bool:
        """Whether a question waits for no names to be gathered, or for those of a small catalog alone."""
        known = self.__dict__
        return "_titles" in known or known.get("_written") is not None

    def _may_be(self, kind: Kind, asked: str) -> bool:
        """False where it is seen without an index that no document is called so.

        Most questions call none, and the first of a process need not wait for the indexes of a small catalog.
        """
        attribute = {"path": "_paths", "name": "_names", "title": "_titles"}.get(kind)
        if attribute is None or attribute in self.__dict__ or self._written is None:
            return True
        paths, words = self._written
        return f" {asked} " in words if kind == "title" else asked in paths

    @cached_property
    def _written(self) -> tuple[str, str] | None:
        """All paths, and the words of all titles and paths in their order; None of a catalog that is large or foreign.

        What documents are called is part of these, without what stands before it or behind.
        """
        paths = "\n".join(self._columns["path"]).casefold()
        titles = "\n".join(filter(None, self._columns["title"])).casefold()
        if len(paths) + len(titles) > _MAX_SCANNED or not paths.isascii() or not titles.isascii():
            return None
        # As `_words` does, in one go.
        words = f" {paths}\n{titles} ".translate(_SPACES).split(" ")
        return paths, f" {' '.join(filter(None, words))} "

    def leads_back(self, written: str, by: Document) -> bool:
        """Whether `written` is a name of `by` itself; asked where `find` finds nothing, for others go before it."""
        return any(
            self._is(place, by)
            for form in _forms(written[:MAX_NAME_CHARS])
            for questions in _questions(form, by)
            for kind, asked in questions
            for place in self._index(kind).get(asked, ())
        )

    def _nearest(self, name: str, by: Document) -> int | None:
        for questions in _questions(name, by):
            there = {
                place
                for kind, asked in questions
                for place in self._index(kind).get(asked, ())
                if not self._is(place, by)
            }
            if there:
                return min(there, key=lambda place: (*self._distance(place, by), place))
        return None

    def _is(self, place: int, by: Document) -> bool:
        return all(self._columns[name][place] == getattr(by, name) for name in ("path", "prefix", "first_id"))

    def _distance(self, place: int, by: Document) -> tuple[bool, bool, int]:
        """Its own collection and version first, then the folders nearest to it."""
        columns = self._columns
        return (
            columns["collection"][place] != by.collection,
            columns["prefix"][place] != by.prefix,
            -_shared(columns["path"][place], by.path),
        )

    def _index(self, kind: Kind) -> Mapping[str, Sequence[int]]:
        with self._making:
            return self._made(kind)

    def _made(self, kind: Kind) -> Mapping[str, Sequence[int]]:
        match kind:
            case "path":
                return self._paths
            case "name":
                return self._names
            case "url":
                return self._addresses
            case "title":
                return self._titles
            case "number":
                return self._numbers

    @cached_property
    def _paths(self) -> Mapping[str, Sequence[int]]:
        return _indexed(map(_path_names, self._columns["path"]))

    @cached_property
    def _names(self) -> Mapping[str, Sequence[int]]:
        return _indexed({name.rpartition("/")[2] for name in _path_names(path)} for path in self._columns["path"])

    @cached_property
    def _addresses(self) -> Mapping[str, Sequence[int]]:
        return _indexed({_address(url)} if url else () for url in self._columns["url"])

    @cached_property
    def _titles(self) -> Mapping[str, Sequence[int]]:
        return _indexed(map(_title_names, self._columns["title"], self._columns["path"]))

    @cached_property
    def _numbers(self) -> Mapping[str, Sequence[int]]:
        return _indexed(map(_number_names, self._columns["title"], self._columns["path"]))


def _indexed(names: Iterable[Iterable[str]]) -> dict[str, list[int]]:
    index: dict[str, list[int]] = {}
    for place, its in enumerate(names):
        for name in its:
            if name:
                index.setdefault(name, []).append(place)
    return index


def _path_names(path: str) -> set[str]:
    folded = path.casefold()
    return {folded, _bare(folded)}


def _stem(path: str) -> str:
    return _bare(path.casefold()).rpartition("/")[2]


def _title_names(title: str | None, path: str) -> set[str]:
    """The title in words, also without a number in front, and what a file is called after its number."""
    names = {_words(title)} if title else set[str]()
    for text in (_stem(path), title.casefold() if title else ""):
        match = _NUMBERED.match(text)
        if match:
            names.add(_words(text[match.end() :]))
    return names


def _number_names(title: str | None, path: str) -> set[str]:
    """`adr 12` and ` 12`, which is what a bare number finds where no document is labelled as the asking one is."""
    names: set[str] = set()
    for text in (_stem(path), title.casefold() if title else ""):
        match = _NUMBERED.match(text)
        if match:
            names |= {f"{match[1] or ''} {match[2]}", f"* {match[2]}"}
        if match and not match[1]:
            names |= {f"{label} {match[2]}" for label in _labels_of_folder(path)}
    return names


def _labels_of_folder(path: str) -> set[str]:
    """What a numbered file is called for the folder it is in: `adr/0003-use-x.md` is ADR 3."""
    folder = path.casefold().rpartition("/")[0].rpartition("/")[2]
    return {label for label in (folder, folder.removesuffix("s"), _LABELS.get(folder)) if label}


def _shared(path: str, other: str) -> int:
    shared = 0
    for one, two in zip(path.split("/")[:-1], other.split("/")[:-1], strict=False):
        if one != two:
            break
        shared += 1
    return shared


def _bare(path: str) -> str:
    """A path without its suffix, that of a folder's own page being the folder."""
    folder, _, name = path.rpartition("/")
    stem, dot, suffix = name.rpartition(".")
    stem = stem if dot and stem and not suffix.isdigit() else name
    return folder if folder and stem in _FOLDER_PAGES else f"{folder}/{stem}" if folder else stem


def _questions(name: str, by: Document) -> Iterator[list[tuple[Kind, str]]]:
    """Groups of names to ask for in turn, the surest first."""
    folded = name.casefold().strip()
    if "://" in folded:
        yield [("url", _address(folded))]
        folded = "/" + folded.partition("://")[2].partition("/")[2]
    place = unquote(re.split(r"[?#]", folded, maxsplit=1)[0]).strip() or folded
    if place and not any(mark in place for mark in "\n\r\0"):
        here = str(PurePosixPath(by.path.casefold()).parent)
        segments = place.strip("/").split("/")
        yield [("path", _resolved(f"{here}/{place}")), ("path", _resolved(place))]
        yield [("path", _bare(_resolved(f"{here}/{place}"))), ("path", _bare(_resolved(place)))]
        # A link as the site has it, or the path from another folder: its last parts are enough.
        for first in range(1, len(segments)):
            yield [("path", "/".join(segments[first:])), ("path", _bare("/".join(segments[first:])))]
        yield [("name", segments[-1]), ("name", _bare(segments[-1]))]
    title = _words(folded)
    if title:
        yield [("title", title)]
    match = _NUMBERED.match(folded.lstrip("#"))
    if match and (match[1] or match.end() == len(folded.lstrip("#"))):
        label, number = match[1], match[2]
        if label:
            yield [("number", f"{label} {number}")]
            yield [("number", f" {number}")]
        else:
            own = _NUMBERED.match(_stem(by.path))
            yield [("number", f"{(own[1] if own else None) or ''} {number}")]
            yield [("number", f"* {number}")]


def _mentions(question: str) -> Iterator[tuple[str, list[tuple[Kind, str]]]]:
    """What in a `question` may be the path, the file or the number of a document, and how it may be asked for."""
    whole = question.strip(" \t\n\"'`“”«».?!").casefold()
    names = [whole, *(one.casefold() for one in lexicon.identifiers(question)[:_MAX_MENTIONS])]
    for name in dict.fromkeys(names):
        place = _resolved(name.partition("#")[0])
        yield name, [("path", place), ("name", place)]
    for match in itertools.islice(_LABELLED.finditer(question.casefold()), _MAX_MENTIONS):
        yield match[0], [("number", f"{match[1]} {match[2]}")]


def _plain_words(question: str) -> list[str]:
    """The words of a question that may be the name of a file: letters alone, and not few of them."""
    words = dict.fromkeys(_words(question).split()[: lexicon.MAX_TERMS])
    return [word for word in words if word.isalpha() and len(word) >= _SHORTEST_FILE]


def _titles_in(question: str) -> Iterator[str]:
    """What in a `question` may be a title, the longest first."""
    words = _words(question).split()[: lexicon.MAX_TERMS]
    yield " ".join(words)
    for size in reversed(_TITLE_WORDS):
        for first in range(max(0, len(words) - size + 1)):
            yield " ".join(words[first : first + size])


def _resolved(place: str) -> str:
    segments: list[str] = []
    for segment in place.split("/"):
        if segment == "..":
            del segments[-1:]
        elif segment not in {"", "."}:
            segments.append(segment)
    return "/".join(segments)


def _forms(written: str) -> list[str]:
    """The names in `written`, likeliest first: where links lead, all of it as one name, and then its parts."""
    links: list[str] = []
    for match in _MARKDOWN.finditer(written):
        links += [match[2], match[1]]
    for match in _WIKI.finditer(written):
        links += [match[1], match[2] or ""]
    for match in _RST.finditer(written):
        role = match[1] if match[1] in _ROLES else ""
        links += [match[3] or "", f"{role} {match[2]}".strip()]
    links += [match[1] for match in _BRACKETED.finditer(written)]
    names = links or [written, *_SEPARATORS.split(written)]
    stripped = (name.strip(" \t\"'`*_.") if "/" not in name else name.strip(" \t\"'`*") for name in names)
    return list(dict.fromkeys(name for name in stripped if name))[:_MAX_FORMS]


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def _address(url: str) -> str:
    """A URL for comparing: without scheme, query, fragment and trailing slash."""
    place = re.split(r"[?#]", url.casefold().partition("://")[2] or url.casefold(), maxsplit=1)[0]
    return re.sub(r"/(?:index\.html?)?$", "", place)
