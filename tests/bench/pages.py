"""The pages of `corpus` as HTML and as reStructuredText: the same words and sections, in the clothes of such pages."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tests.bench import corpus

_HEADING: Final = re.compile(r"(#+) (.+)")
_RST_LINES: Final = "=-~"

_HTML: Final = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><meta name="date" content="{date}"><title>{title}</title>
<style>body {{ margin: 0 auto; max-width: 60em }}</style>
<script>document.documentElement.className = "js"</script></head>
<body>
<nav><ul><li><a href="/">Home</a></li><li><a href="/docs/">Documentation</a></li></ul></nav>
<main>
{body}
</main>
<footer><p>Made with care.</p></footer>
</body>
</html>
"""


def write(folder: Path, chunks: int, suffix: str) -> None:
    """Writes pages of about `chunks` chunks in all; `suffix` is one of `.md`, `.html` and `.rst`."""
    corpus.write(folder, chunks)
    if suffix == ".md":
        return
    for file in sorted(folder.rglob("*.md")):
        written = file.stat()
        page = file.with_suffix(suffix)
        page.write_text(SUFFIXES[suffix](file.read_text(encoding="utf-8")), encoding="utf-8")
        os.utime(page, ns=(written.st_atime_ns, written.st_mtime_ns))
        file.unlink()


def html(markdown: str) -> str:
    """A page of `corpus` as a web page, with what stands around the text on most of them."""
    date, blocks = _parts(markdown)
    body: list[str] = []
    for block in blocks:
        if heading := _HEADING.fullmatch(block):
            level = len(heading[1])
            body.append(f'<h{level} id="section-{len(body)}">{heading[2]}</h{level}>')
        elif block.startswith("- "):
            body.append("<ul>" + "".join(f"<li>{item[2:]}</li>\n" for item in block.splitlines()) + "</ul>")
        elif block.startswith("```"):
            body.append(f"<pre><code>{block.splitlines()[1]}</code></pre>")
        else:
            body.append(f"<p>{block}</p>")
    return _HTML.format(date=date, title=blocks[0][2:], body="\n".join(body))


def rst(markdown: str) -> str:
    """A page of `corpus` as Sphinx would read it."""
    date, blocks = _parts(markdown)
    body: list[str] = []
    for block in blocks:
        if heading := _HEADING.fullmatch(block):
            body.append(f"{heading[2]}\n{_RST_LINES[len(heading[1]) - 1] * len(heading[2])}")
        elif block.startswith("```"):
            body.append(f".. code-block:: sh\n\n   {block.splitlines()[1]}")
        else:
            body.append(block)
    return "\n\n".join([f":date: {date}", *body]) + "\n"


def _parts(markdown: str) -> tuple[str, list[str]]:
    """The date in the front matter, and the blocks after it."""
    front, *blocks = markdown.strip().split("\n\n")
    return front.removeprefix("---\ndate: ").removesuffix("\n---"), blocks


SUFFIXES: Final[Mapping[str, Callable[[str], str]]] = {".md": str, ".html": html, ".rst": rst}
"""What makes a file of each suffix out of a page of `corpus`."""
