"""The stages of one cold start, one below the other, as text and as SVG."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from typing import Final

from tests.bench.starting import Started

_LINE: Final = re.compile(r"import time:\s+(\d+) \|\s+(\d+) \| ( *)(\S+)")
_LISTED: Final = 12
_WIDTH: Final = 60

_ROW, _LEFT, _SCALE, _RIGHT = 18, 250, 560, 90


@dataclass(frozen=True, slots=True)
class Stage:
    """Milliseconds since the process was started."""

    name: str
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Waterfall:
    """A start, by its stages in wall time, and what of the imports each package took, its own parts alone."""

    title: str
    stages: list[Stage]
    packages: list[tuple[str, float]]
    """Names and milliseconds, the slowest first, from a run of its own under `-X importtime`, which is slower."""

    @classmethod
    def of(cls, title: str, traced: Started, timed: Started) -> Waterfall:
        """From a traced start and from one under `-X importtime`."""
        said = traced.said

        def stage(name: str, begin: float, end: float) -> Stage:
            return Stage(name, (begin - said["started"]) * 1000, (end - said["started"]) * 1000)

        stages = [
            stage("Python starts", said["started"], said["begun"]),
            stage("imports, and the server made", said["begun"], said["ready"]),
            *(stage(name, begin, end) for name, (begin, end) in said["moments"].items()),
            stage("first call", said["ready"], said["at"]),
        ]
        return cls(title, sorted(stages, key=lambda one: one.begin), imports(timed.said["errors"]))

    def text(self) -> str:
        """Bars of characters."""
        last = max(stage.end for stage in self.stages)
        lines = [f"{self.title}, wall time"]
        for stage in self.stages:
            begin, end = (round(moment / last * _WIDTH) for moment in (stage.begin, stage.end))
            bar = " " * min(begin, _WIDTH - 1) + "█" * max(1, end - begin)
            lines.append(f"  {stage.name:<30}{stage.end - stage.begin:7.0f} ms  {bar}")
        lines.append("  imports by package, each without what it imports, under -X importtime")
        widest = self.packages[0][1] if self.packages else 1
        for name, milliseconds in self.packages:
            lines.append(f"  {name:<30}{milliseconds:7.0f} ms  {'░' * max(1, round(milliseconds / widest * 30))}")
        return "\n".join(lines)

    def svg(self) -> str:
        """The same as a drawing."""
        last = max(stage.end for stage in self.stages)
        widest = self.packages[0][1] if self.packages else 1
        rows = [
            (stage.name, stage.begin / last, (stage.end - stage.begin) / last, stage.end - stage.begin, "#3b6ea5")
            for stage in self.stages
        ]
        rows += [(f"import {name}", 0.0, ms / widest / 2, ms, "#9a9a9a") for name, ms in self.packages]
        parts = [_text(8, 20, self.title, weight="bold")]
        for number, (name, begin, share, milliseconds, colour) in enumerate(rows):
            top = 34 + number * _ROW
            left, width = _LEFT + begin * _SCALE, max(1.0, share * _SCALE)
            parts.append(_text(8, top + 12, name))
            parts.append(
                f'<rect x="{left:.1f}" y="{top + 2}" width="{width:.1f}" height="{_ROW - 5}" fill="{colour}"/>'
            )
            parts.append(_text(left + width + 4, top + 12, f"{milliseconds:.0f} ms"))
        width, height = _LEFT + _SCALE + _RIGHT, 44 + len(rows) * _ROW
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
            f'font-size="11">\n<rect width="{width}" height="{height}" fill="#fff"/>\n'
            + "\n".join(parts)
            + "\n</svg>\n"
        )


def spent(report: str) -> dict[str, float]:
    """Milliseconds that each module took of its own in a report of `-X importtime`."""
    return {name: int(own) / 1000 for own, _, _, name in _LINE.findall(report)}


def imports(report: str) -> list[tuple[str, float]]:
    """The same by top-level package, the slowest first, and all others together."""
    packages: dict[str, float] = {}
    for module, milliseconds in spent(report).items():
        package = module.partition(".")[0]
        packages[package] = packages.get(package, 0) + milliseconds
    ranked = sorted(packages.items(), key=lambda item: -item[1])
    rest = sum(milliseconds for _, milliseconds in ranked[_LISTED:])
    return [*ranked[:_LISTED], (f"{len(ranked) - _LISTED} others", rest)] if rest else ranked


def _text(left: float, baseline: float, words: str, *, weight: str = "normal") -> str:
    return f'<text x="{left:.1f}" y="{baseline}" font-weight="{weight}" fill="#222">{escape(words)}</text>'
