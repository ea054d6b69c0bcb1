"""The profile of `make fuzz`, and the front door that is fuzzed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.fuzz.door import Door
from tests.fuzz.examples import PROFILE

settings.register_profile(PROFILE, deadline=None, print_blob=True)


@pytest.fixture(scope="module")
def door(handbook: Path) -> Iterator[Door]:
    door = Door(handbook)
    yield door
    door.handler.close()
