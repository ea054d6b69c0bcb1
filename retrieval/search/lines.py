"""Sorted lines of text in which one is looked up without any other being read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_NEAR: Final = 2_048
"""Characters in which the last of some lines is looked for first."""


class SortedLines:
    """`text`, whose lines are in order and end with a line feed each. Nothing is done until a line is looked up."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __iter__(self) -> Iterator[str]:
        return iter(self._text.split("\n")[:-1])

    def beginning_with(self, start: str) -> str:
        """The lines that begin with `start`, as they stand, the first of them after a line feed too."""
        text, end = self._text, f"{start}\U0010ffff"
        first = self._place(start, 0, len(text))
        # They are hardly ever many.
        near = min(first + _NEAR, len(text))
        last = self._place(end, first, near)
        return "\n" + text[first : last if last < near else self._place(end, first, len(text))]

    def _place(self, edge: str, low: int, high: int) -> int:
        """Where, from the line at `low`, the first begins that does not come before `edge`; `high` or more for none."""
        text = self._text
        while low < high:
            middle = (low + high) // 2
            begin = text.rfind("\n", low, middle) + 1 or low
            # Should the last line have no end, the search for it has.
            end = text.find("\n", middle) + 1 or len(text)
            if text[begin:end] < edge:
                low = end
            else:
                high = begin
        return low
