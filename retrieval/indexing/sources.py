"""Finds the documents under a folder, in a fixed order, and says why one is left out. Reads bytes, parses nothing."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Final

from pathspec import GitIgnoreSpec

from retrieval.errors import BedivereError, ErrorCode
from retrieval.indexing.document import Unreadable
from retrieval.search.text import nfc
from retrieval.search.visible import seen

MAX_FILE_BYTES: Final = 50_000_000
"""A larger file is a dump or an archive rather than a document, and would be held in memory whole."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """By what a file is taken for the one it was: the system's own time and number, too, which nobody sets back."""

    size: int
    mtime_ns: int
    ctime_ns: int | None
    inode: int | None

    @classmethod
    def of(cls, found: os.stat_result) -> Stamp:
        return cls(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A document that was found: `path` is relative to the source, POSIX and NFC; `location` is where to open it.

    A document that is a line of a file is the `stamp.size` bytes from `offset` on, and its `path` is its id.
    """

    path: str
    location: str
    stamp: Stamp
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file or folder that is not indexed, and why, in words for the person who indexes."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Found:
    """What a walk brought home, each sorted by path."""

    files: tuple[SourceFile, ...]
    skipped: tuple[Skipped, ...]
    alike: tuple[str, ...] = ()
    """Paths of `files` that differ from another's in upper and lower case only."""


@dataclass(frozen=True, slots=True)
class Content:
    """A file's bytes, with the stamp that it had just before it was read."""

    data: bytes
    sha256: str
    stamp: Stamp


class Unavailable(Exception):
    """A file that was found cannot be read any more; the message is the reason."""


def find(
    source: Path,
    *,
    suffixes: Collection[str],
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    database: Path | None = None,
) -> Found:
    """The documents under `source` whose suffix is one of `suffixes` (lower case, with the dot).

    `include` and `exclude` are gitignore patterns against the relative path. Names that start with a dot are passed
    over, and so is what belongs to `database`. A symbolic link is followed where it stays within `source`, by its own
    name: a mounted Kubernetes ConfigMap links into a folder with a dot. Every real file comes once, under its own name
    where it has one within reach. Raises `INVALID_ARGUMENT` for a bad pattern.
    """
    exclude = tuple(exclude)
    excluded = _matcher(exclude, empty=False)
    walk = _Walk(
        root=os.path.realpath(source),
        suffixes=frozenset(suffixes),
        included=_matcher(include, empty=True),
        excluded=excluded,
        # A pattern that takes something back in may speak of what lies within an excluded folder.
        pruned=_matcher((), empty=False) if any(pattern.startswith("!") for pattern in exclude) else excluded,
        is_ours=_database_files(os.path.realpath(source), database),
    )
    walk.run()
    paths = sorted(walk.files)
    folded = Counter(path.casefold() for path in paths)
    return Found(
        tuple(walk.files[path] for path in paths),
        tuple(sorted(walk.skipped, key=lambda skipped: skipped.path)),
        tuple(path for path in paths if folded[path.casefold()] > 1),
    )


def find_lines(
    source: Path, identify: Callable[[bytes], str], *, include: Iterable[str] = (), exclude: Iterable[str] = ()
) -> Found:
    """The documents of a file that holds one a line, by what `identify` reads as their ids, in the order of the ids.

    `include` and `exclude` are matched against the ids. Empty lines are passed over. Of two lines with one id the first
    counts. What is skipped is named by the number of its line. Raises `INVALID_ARGUMENT` for a bad pattern and
    `SOURCE_NOT_FOUND` where the file cannot be read.
    """
    included, excluded = _matcher(include, empty=True), _matcher(exclude, empty=False)
    files: dict[str, SourceFile] = {}
    skipped: list[Skipped] = []
    try:
        with source.open("rb") as stream:
            found = Stamp.of(os.fstat(stream.fileno()))
            offset = 0
            for number, (size, line) in enumerate(_lines(stream), start=1):
                start, offset = offset, offset + size
                try:
                    path = _identified(line, identify, files)
                except Unreadable as reason:
                    skipped.append(Skipped(f"{source.name}:{number}", str(reason)))
                    continue
                if path is not None and included(path) and not excluded(path):
                    # The times and the inode are the file's: where they are those of the last run, no line has changed.
                    files[path] = SourceFile(path, str(source), replace(found, size=size), start)
    except OSError as error:
        raise BedivereError(
            ErrorCode.SOURCE_NOT_FOUND, f"The file to index cannot be read: {_reason(error)}."
        ) from None
    return Found(tuple(files[path] for path in sorted(files)), tuple(skipped))


def read(file: SourceFile) -> Content:
    """The bytes of `file`, as it was at one time.

    Raises `Unavailable` when it vanished, changed its kind, may not be read, or was written each time that it was read.
    """
    for _ in range(_READS):
        content, steady = _read(file)
        if steady:
            return content
    raise Unavailable(_CHANGED)


def _read(file: SourceFile) -> tuple[Content, bool]:
    """The bytes of `file`, and whether it stayed the same while they were read."""
    # Non-blocking, because a pipe may have taken the file's place since it was found. So may a link, and it may lead
    # out of the source; but the one file of many lines is where its owner says, link or not.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (os.O_NOFOLLOW if file.offset is None else 0)
    try:
        descriptor = os.open(file.location, flags)
        with os.fdopen(descriptor, "rb") as stream:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise Unavailable("not a regular file")
            stamp = Stamp.of(found)
            if file.offset is not None:
                stamp = replace(stamp, size=file.stamp.size)
                if stamp != file.stamp:
                    raise Unavailable(_CHANGED)
                stream.seek(file.offset)
            data = stream.read(MAX_FILE_BYTES + 1 if file.offset is None else file.stamp.size)
            steady = Stamp.of(os.fstat(descriptor)) == Stamp.of(found)
    except OSError as error:
        raise Unavailable(_reason(error)) from None
    if len(data) > MAX_FILE_BYTES:
        raise Unavailable(_TOO_LARGE)
    return Content(data, hashlib.sha256(data).hexdigest(), stamp), steady


_READS: Final = 3
"""Times that a file is read which is being written."""

_CHANGED: Final = "changed while it was read"
_TOO_LARGE: Final = f"larger than {MAX_FILE_BYTES // 1_000_000} MB"


def _lines(stream: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """The length of each line of `stream` and the line, None where it is too large to be held in memory."""
    while line := stream.readline(MAX_FILE_BYTES + 1):
        size = len(line)
        while not line.endswith(b"\n") and (rest := stream.readline(MAX_FILE_BYTES)):
            size += len(rest)
            line = rest
        yield size, line if size <= MAX_FILE_BYTES else None


def _identified(line: bytes | None, identify: Callable[[bytes], str], known: Collection[str]) -> str | None:
    """The id of a line's document; None for an empty line. Raises `Unreadable` where the line must be skipped."""
    if line is None:
        raise Unreadable(_TOO_LARGE)
    if not line.strip():
        return None
    path = identify(line)
    if path in known:
        raise Unreadable("an earlier line has the same id")
    return path


@dataclass(slots=True)
class _Walk:
    """One walk: real files and folders first, then links, so that a real name wins over a link's."""

    root: str
    suffixes: frozenset[str]
    included: Callable[[str], bool]
    excluded: Callable[[str], bool]
    pruned: Callable[[str], bool]
    is_ours: Callable[[str], bool]
    files: dict[str, SourceFile] = field(default_factory=dict[str, SourceFile])
    skipped: list[Skipped] = field(default_factory=list[Skipped])
    links: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    entered: set[str] = field(default_factory=set[str])
    taken: set[str] = field(default_factory=set[str])

    def run(self) -> None:
        self.folder(self.root, "")
        while self.links:
            # Sorted level by level: which of two links to the same file wins must not hang on the disk's order.
            level, self.links = sorted(self.links), []
            for path, location in level:
                self.link(path, location)

    def skip(self, path: str, reason: str) -> None:
        self.skipped.append(Skipped(path, reason))

    def folder(self, location: str, prefix: str) -> None:
        pending = [(location, prefix)]
        while pending:
            location, prefix = pending.pop()
            self.entered.add(location)
            try:
                with os.scandir(location) as entries:
                    found = sorted(entries, key=lambda entry: entry.name)
            except OSError as error:
                self.skip(prefix or ".", _reason(error))
                continue
            for entry in found:
                path = self.named(entry.name, prefix)
                if path is None or self.is_ours(entry.path):
                    continue
                if entry.is_symlink():
                    self.links.append((path, entry.path))
                elif not entry.is_dir(follow_symlinks=False):
                    self.file(path, entry.path)
                elif entry.path not in self.entered and not self.pruned(f"{path}/"):
                    pending.append((entry.path, f"{path}/"))

    def named(self, name: str, prefix: str) -> str | None:
        """The relative path of an entry; None where its name rules it out."""
        if name.startswith("."):
            return None
        try:
            name.encode()
        except UnicodeEncodeError:
            shown = os.fsencode(name).decode("utf-8", "replace")
            self.skip(f"{prefix}{shown}", "its name is not UTF-8")
            return None
        if seen(name) != name or "\n" in name or "\t" in name:
            # Such a name shows another than it is, or breaks the line that cites it.
            plain = (char if char.isprintable() and seen(char) == char else f"\\u{ord(char):04x}" for char in name)
            self.skip(f"{prefix}{''.join(plain)}", "its name holds control or invisible characters")
            return None
        return prefix + nfc(name)

    def link(self, path: str, location: str) -> None:
        try:
            target = os.path.realpath(location, strict=True)
            is_folder = stat.S_ISDIR(Path(target).stat().st_mode)
        except OSError:
            self.skip_link(path, "broken symbolic link")
            return
        if not _within(target, self.root):
            self.skip_link(path, "symbolic link that leaves the source")
        elif self.is_ours(target):
            return
        elif not is_folder:
            self.file(path, target)
        elif target not in self.entered and not self.pruned(f"{path}/"):
            self.folder(target, f"{path}/")

    def skip_link(self, path: str, reason: str) -> None:
        """Of a link only its name is known: it is told where a document of that name would have been read."""
        if self.included(path) and not self.excluded(path):
            self.skip(path, reason)

    def file(self, path: str, location: str) -> None:
        if location in self.taken or self.excluded(path) or not self.included(path):
            return
        try:
            found = os.lstat(location)
        except OSError as error:
            self.skip(path, _reason(error))
            return
        suffix = _suffix(path)
        if not stat.S_ISREG(found.st_mode):
            self.skip(path, "not a regular file")
        elif suffix not in self.suffixes:
            self.skip(path, f"no reader for {suffix} files" if suffix else "no reader for files without a suffix")
        elif found.st_size > MAX_FILE_BYTES:
            self.skip(path, _TOO_LARGE)
        elif path in self.files:
            self.skip(path, "another file has the same name in composed Unicode")
        else:
            self.taken.add(location)
            self.files[path] = SourceFile(path, location, Stamp.of(found))


def _suffix(path: str) -> str:
    """The suffix of a relative path in lower case, as pathlib has it, whose objects are too dear for each of a walk."""
    name = path.rpartition("/")[2]
    dot = name.rfind(".")
    return name[dot:].lower() if 0 < dot < len(name) - 1 else ""


def _matcher(patterns: Iterable[str], *, empty: bool) -> Callable[[str], bool]:
    """Whether a path matches one of the patterns; `empty` is the answer where there are none."""
    lines = [nfc(pattern) for pattern in patterns]
    if not lines:
        return lambda _path: empty
    try:
        return GitIgnoreSpec.from_lines(lines).match_file
    except ValueError:
        raise BedivereError(ErrorCode.INVALID_ARGUMENT, "An include or exclude pattern is not a valid glob.") from None


def _database_files(root: str, database: Path | None) -> Callable[[str], bool]:
    """Whether a location belongs to the database, so that a run never indexes its own output."""
    if database is None:
        return lambda _location: False
    place = os.path.realpath(database)
    if place != root and _within(place, root):
        return lambda location: _within(location, place)
    # The source is the database's folder or lies within it: only the tables themselves are out of bounds.
    return lambda location: (
        (
            os.path.dirname(location) == place and location.endswith(".lance")  # noqa: PTH120
        )
        or _within(location, f"{place}/.bedivere")
    )


def _within(location: str, folder: str) -> bool:
    return location == folder or location.startswith(f"{folder.rstrip('/')}/")


def _reason(error: OSError) -> str:
    """An operating system's error as a reason, without the path that its own text would show."""
    match error:
        case PermissionError():
            return "permission denied"
        case FileNotFoundError():
            return "vanished while it was read"
        case OSError(errno=errno.ELOOP):
            return "a symbolic link took its place"
        case _:
            return (error.strerror or "cannot be read").lower()
