"""A disk that forgets: what would be left of a folder if the power failed now.

The system calls by which the code under test flushes, renames and removes are watched, and after each of them the
folder is imagined as it would be found after a power cut, in three ways that file systems know:

- `strict`: a file has the content, and a folder the entries, of when it was last flushed; all else never happened.
- `empty`: folders are as they were last seen, but a file that was not flushed since it was written has no content.
- `zeros`: the same with as many zeros as it had bytes.

That proves that whatever is relied on was flushed before it was named, in this order and by this code. It proves
nothing about a disk that lies about flushing, nor about a file system that keeps half of a rename.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal
from unittest.mock import patch

Loss = Literal["strict", "empty", "zeros"]
LOSSES: Final[tuple[Loss, ...]] = ("strict", "empty", "zeros")

_WATCHED: Final = ("fsync", "replace", "rename", "symlink", "mkdir", "unlink", "remove", "rmdir")

Image = dict[str, bytes | str | None]
"""By relative path: a file's content, a link's target, or None for a folder."""


@dataclass
class Disk:
    """What is known to have reached the disk below `root`, by inode, and the images that were taken."""

    root: Path
    images: dict[Loss, list[Image]] = field(default_factory=lambda: {loss: [] for loss in LOSSES})
    _files: dict[int, tuple[bytes, int]] = field(default_factory=dict[int, tuple[bytes, int]])
    """Content and time of the last change that were flushed."""
    _folders: dict[int, dict[str, int | str]] = field(default_factory=dict[int, dict[str, int | str]])
    """Entries that were flushed: the inode of each, or the target of a link."""
    _kept: list[int] = field(default_factory=list[int])
    """Descriptors that keep inodes from being given to another file."""

    @contextmanager
    def watched(self) -> Generator[None]:
        """Takes images of the disk as long as the context lasts; what is there before is on the disk."""
        for place, _, names in os.walk(self.root):
            for path in (Path(place), *(Path(place, name) for name in names)):
                if not path.is_symlink():
                    self._flushed(os.open(path, os.O_RDONLY))
        self._take()
        with ExitStack() as stack:
            for name in _WATCHED:
                stack.enter_context(patch.object(os, name, self._watching(name)))
            stack.callback(self._close)
            yield

    def _watching(self, name: str) -> Callable[..., Any]:
        real: Callable[..., Any] = getattr(os, name)

        def call(*arguments: Any, **options: Any) -> Any:
            result = real(*arguments, **options)
            if name == "fsync":
                self._flushed(os.dup(arguments[0]))
            self._take()
            return result

        return call

    def _flushed(self, descriptor: int) -> None:
        self._kept.append(descriptor)
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            self._folders[status.st_ino] = _entries(descriptor)
        elif stat.S_ISREG(status.st_mode):
            content = Path(f"/proc/self/fd/{descriptor}").read_bytes()
            self._files[status.st_ino] = content, status.st_mtime_ns

    def _take(self) -> None:
        for loss in LOSSES:
            image = self._strict() if loss == "strict" else self._loose(zeros=loss == "zeros")
            if image not in self.images[loss]:
                self.images[loss].append(image)

    def _strict(self) -> Image:
        image: Image = {}

        def descend(inode: int, prefix: str) -> None:
            for name, entry in self._folders.get(inode, {}).items():
                path = f"{prefix}{name}"
                if isinstance(entry, str):
                    image[path] = entry
                elif name.endswith("/"):
                    image[path.rstrip("/")] = None
                    descend(entry, path)
                else:
                    image[path] = self._files.get(entry, (b"", 0))[0]

        descend(self.root.stat().st_ino, "")
        return image

    def _loose(self, *, zeros: bool) -> Image:
        image: Image = {}
        for place, folders, names in os.walk(self.root):
            for name in (*folders, *names):
                path = Path(place, name)
                key = path.relative_to(self.root).as_posix()
                try:
                    if path.is_symlink():
                        image[key] = str(path.readlink())
                    elif path.is_dir():
                        image[key] = None
                    else:
                        status = path.stat()
                        content, changed = self._files.get(status.st_ino, (b"", -1))
                        lost = b"\0" * status.st_size if zeros else b""
                        image[key] = content if changed == status.st_mtime_ns else lost
                except FileNotFoundError:
                    # Another thread removed it just now.
                    continue
        return image

    def _close(self) -> None:
        for descriptor in self._kept:
            os.close(descriptor)


def write_image(image: Image, folder: Path) -> None:
    """Makes `folder`, which must not exist, what the image says."""
    folder.mkdir()
    for name, content in sorted(image.items()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.mkdir(exist_ok=True)
        elif isinstance(content, str):
            path.symlink_to(content)
        else:
            path.write_bytes(content)


def _entries(descriptor: int) -> dict[str, int | str]:
    """A folder's entries; the names of folders end with a slash."""
    entries: dict[str, int | str] = {}
    with os.scandir(descriptor) as found:
        for entry in found:
            if entry.is_symlink():
                entries[entry.name] = os.readlink(entry.name, dir_fd=descriptor)
            elif entry.is_dir():
                entries[f"{entry.name}/"] = entry.inode()
            else:
                entries[entry.name] = entry.inode()
    return entries
