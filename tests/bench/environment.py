"""The environment of this process, for a while another."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager


@contextmanager
def environment_of(variables: Mapping[str, str]) -> Generator[None]:
    """Sets `variables`, and puts back at the end what there was."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
