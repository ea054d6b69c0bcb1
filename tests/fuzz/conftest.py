"""The profile of `make fuzz`."""

from __future__ import annotations

from hypothesis import settings

from tests.fuzz.examples import PROFILE

settings.register_profile(PROFILE, deadline=None, print_blob=True)
