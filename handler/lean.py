"""Imports without what packages load for others: an `__init__` that waits, modules kept out, models built late.

Nothing is replaced. A package that waits runs its own `__init__` as soon as anything asks it for a name, a module that
was kept out can be imported afterwards, and a model is built when it is used for the first time.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from types import ModuleType, UnionType
from typing import Any, Union, cast, get_origin

_running = threading.RLock()


class _Waiting(ModuleType):
    """A package in `sys.modules` that has not run yet; its submodules can be imported all the same."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the package holds
        # Double underscores are asked for by the import system itself, and by those who only look.
        if name.startswith("__"):
            raise AttributeError(name)
        with _running:
            namespace = vars(self)
            if "__running__" in namespace:
                raise AttributeError(f"{self.__name__} is being imported and has no {name} yet")
            if type(self) is _Waiting:
                namespace["__running__"] = True
                try:
                    cast("Any", cast("ModuleSpec", self.__spec__).loader).exec_module(self)
                finally:
                    del namespace["__running__"]
                cast("Any", self).__class__ = ModuleType
        return getattr(self, name)


def wait_with(*packages: str) -> None:
    """Puts off the `__init__` of each of `packages`, parents first, that is installed and not imported yet."""
    for name in packages:
        parent, _, child = name.rpartition(".")
        if name in sys.modules or (parent and parent not in sys.modules):
            continue
        spec = PathFinder.find_spec(name, sys.modules[parent].__path__ if parent else None)
        if spec is None or spec.loader is None or spec.submodule_search_locations is None:
            continue
        package = module_from_spec(spec)
        cast("Any", package).__class__ = _Waiting
        sys.modules[name] = package
        if parent:
            setattr(sys.modules[parent], child, package)


def wait_with_remote_catalogs() -> None:
    """Puts off what LanceDB loads to speak to servers, which is half of its import: databases here are folders."""
    wait_with("lance_namespace_urllib3_client")


@contextmanager
def without(*modules: str) -> Generator[None]:
    """Within, to import one of `modules` raises ImportError, unless it has been imported before."""
    kept_out = [name for name in modules if name not in sys.modules]
    for name in kept_out:
        cast("dict[str, object]", sys.modules)[name] = None
    try:
        yield
    finally:
        for name in kept_out:
            sys.modules.pop(name, None)


@contextmanager
def models_built_late() -> Generator[None]:
    """Within, pydantic's models are defined but not built: the MCP SDK has five hundred, and a call uses twenty.

    The same of adapters, which the SDK has for unions of very many models, and of models that a module builds at its
    end, when the names in them are known: each finds them when it is used.
    """
    from pydantic import BaseModel, ConfigDict, TypeAdapter

    model, adapter = cast("Any", BaseModel), cast("Any", TypeAdapter)
    config, rebuild, make = model.model_config, vars(BaseModel)["model_rebuild"], adapter.__init__

    # Both look for names where they were called, which is one call further now.

    def rebuilt(cls: type[BaseModel], *, _parent_namespace_depth: int = 2, **given: Any) -> bool | None:  # noqa: ANN401 - pydantic's
        # What is used, pydantic builds with options of its own.
        return rebuild.__func__(cls, _parent_namespace_depth=_parent_namespace_depth + 1, **given) if given else None

    def made(self: TypeAdapter[Any], type: Any, *, _parent_depth: int = 2, **given: Any) -> None:  # noqa: A002, ANN401 - the same
        late = {"config": ConfigDict(defer_build=True)} if get_origin(type) in {Union, UnionType} else {}
        make(self, type, _parent_depth=_parent_depth + 1, **{**late, **given})

    model.model_config = {**config, "defer_build": True}
    model.model_rebuild = classmethod(rebuilt)
    adapter.__init__ = made
    try:
        yield
    finally:
        model.model_config = config
        model.model_rebuild = rebuild
        adapter.__init__ = make


@contextmanager
def only_to_serve() -> Generator[None]:
    """Within, imports load what a server needs of the MCP SDK, of pyarrow and of pydantic, and no more."""
    # Its clients, and a second way to write servers; and the stemmers of thirty languages, of which one is asked.
    wait_with("mcp", "mcp.server", "snowballstemmer")
    # pyarrow and the SDK do without: they ask for numpy to convert arrays, and for uvicorn to be told when it stops.
    with without("numpy", "uvicorn"), models_built_late():
        yield
