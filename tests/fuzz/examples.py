"""How many examples a test of this folder takes: few and always the same, or with the profile `fuzz` many at random."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from hypothesis import HealthCheck, settings

LONGER: Final = 50
"""The examples of `make fuzz` for one of `make test`."""

PROFILE: Final = "fuzz"


def examples(number: int) -> Callable[[Any], Any]:
    """Settings for `number` examples in `make test`, and many more, made at random, in `make fuzz`."""
    long = settings.get_current_profile_name() == PROFILE
    return settings(
        max_examples=number * LONGER if long else number,
        derandomize=not long,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
    )
