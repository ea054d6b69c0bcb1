"""The stages of a cold start, watched from outside: each of some functions says when it began and ended."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from inspect import iscoroutinefunction
from operator import attrgetter
from types import ModuleType
from typing import Any, Final

Moments = dict[str, tuple[float, float]]
"""When each stage began and ended for the first time, on the monotonic clock."""

WATCHED: Final = {
    "handler.app": {"create_app": "app made"},
    "retrieval.settings": {"load_settings": "settings read"},
    "retrieval.release.s3_reader": {"open_reader": "S3 client made"},
    "retrieval.release.sync": {"read_pointer": "pointer read", "fetch": "release fetched"},
    "retrieval.core": {"open_table": "table opened"},
    "retrieval.table": {"Table.vocabulary": "vocabulary read", "Table.search_text": "first query"},
}
"""The functions that take time in a cold start, by module."""


def watch_stages() -> Moments:
    """Has the modules of `WATCHED`, as they are imported from now on, tell about their stages in what is returned."""
    moments: Moments = {}
    sys.meta_path.insert(0, _Finder(moments))
    return moments


class _Finder(MetaPathFinder):
    def __init__(self, moments: Moments) -> None:
        self._moments = moments

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in WATCHED:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, WATCHED[fullname], self._moments)
        return spec


class _Loader(Loader):
    def __init__(self, real: Loader, stages: dict[str, str], moments: Moments) -> None:
        self._real = real
        self._stages = stages
        self._moments = moments

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._real.exec_module(module)
        for name, stage in self._stages.items():
            place, _, function = name.rpartition(".")
            owner = attrgetter(place)(module) if place else module
            setattr(owner, function, _watched(getattr(owner, function), stage, self._moments))


def _watched(real: Callable[..., Any], stage: str, moments: Moments) -> Callable[..., Any]:
    async def awaited(*args: object, **kwargs: object) -> object:
        began = time.monotonic()
        try:
            return await real(*args, **kwargs)
        finally:
            moments.setdefault(stage, (began, time.monotonic()))

    def called(*args: object, **kwargs: object) -> object:
        began = time.monotonic()
        try:
            return real(*args, **kwargs)
        finally:
            moments.setdefault(stage, (began, time.monotonic()))

    return awaited if iscoroutinefunction(real) else called
