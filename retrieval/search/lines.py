"""Sorted lines of text in which one is looked up without any other being read."""

from __future__ import annotations

from collections.abc import Iterator


class SortedLines:
    """`text`, whose lines are in order and end with a line feed each. Nothing is done until a line is looked up."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __iter__(self) -> Iterator[str]:
        return iter(self._text.split("\n")[:-1])

    def beginning_with(self, start: str) -> str:
        """The lines that begin with `start`, as they stand, the first of them after a line feed too."""
        first = self._place(start)
        return "\n" + self._text[first : self._place(f"{start}\U0010ffff")]

    def _place(self, edge: str) -> int:
        """Where the first line begins that does not come before `edge`."""
        text = self._text
        low, high = 0, len(text)
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
