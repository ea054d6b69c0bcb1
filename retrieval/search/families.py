"""Words of one family, such as `verification` and `verify`: a stemmer keeps many of them apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_SHORTEST_ROOT: Final = 5
"""Letters that relatives share: with fewer, too many words are of no family (`replication`, `reply`)."""

# What stemming takes off needs no ending here, and of each family a few members are enough: whoever asks stems them.
_ENDINGS: Final = (
    *("", "y", "ion", "ions", "ation", "ations", "ication", "ications", "ification", "ifications", "ment", "ments"),
    *("er", "ers", "or", "ors", "ee", "ees", "al", "ance", "ence", "able", "ability"),
)
_MEMBERS: Final = ("", "e", "y", "ify", "ion", "ation", "ment", "or")


def relatives(word: str) -> Iterator[str]:
    """What `word`, in lower case, may be derived from or give rise to, once each; not all of it is words."""
    seen = {word}
    for ending in _ENDINGS:
        root = word.removesuffix(ending)
        if len(root) < _SHORTEST_ROOT or not word.endswith(ending):
            continue
        for other in _MEMBERS:
            relative = root + other
            if relative not in seen:
                seen.add(relative)
                yield relative
