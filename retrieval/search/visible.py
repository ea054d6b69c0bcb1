"""What of a text is seen: characters that hide words from a reader, or turn them round, are taken out.

A model reads what nobody sees, and text that nobody sees can instruct it. What a script needs to be written stays where
that script has it: a joiner after a letter that joins, one variation selector after a sign that has variants. Marks of
Unicode's bidirectional algorithm all go: the order of a text is that of its characters.
"""

from __future__ import annotations

import re
from typing import Final

# After these, a joiner or non-joiner changes a shape: letters and marks from Hebrew to Mongolian, Indic and CJK letters
# further on, and signs that emoji are composed of.
_JOINS: Final = (
    "\u0590-\u08ff\u0900-\u109f\u1780-\u18af\ua800-\ua9ff\uaa00-\uabff\ufb1d-\ufdff\ufe70-\ufefc\U00011000-\U00011fff"
)
_EMOJI: Final = "\u00a9\u00ae\u203c\u2049\u2100-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_HAN: Final = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"

# Format characters that are seen (Arabic and Kaithi signs that stand around numbers) or that place signs of hieroglyphs
# are not in here, and neither is the grapheme joiner, which parts long runs of marks.
_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f"  # controls that do not part words
    "\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff0-\ufffb"
    "\u17b4\u17b5\u3164\uffa0\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]"
    f"|(?<![{_JOINS}{_EMOJI}\U0001f3fb-\U0001f3ff\ufe0f])[\u200c\u200d]"
    f"|(?<![#*0-9{_EMOJI}])[\ufe0e\ufe0f]"
    f"|(?<![{_HAN}\u0030\u1000-\u109f\u2205-\u2aff\u3001\u3002\ua840-\ua87f\uff01-\uff1f])[\ufe00-\ufe0d]"
    f"|(?<![{_HAN}])[\U000e0100-\U000e01ef]"
    "|(?<![\u1820-\u18aa])[\u180b-\u180f]"
    "|(?<![\u1100-\u115e\u1161-\u11ff\ua960-\ua97c])[\u115f\u1160](?![\u1161-\u11ff])"
)
_PLAIN: Final = re.compile(
    "[\t\n -~\xa0-\xac\xae-\u02ff\u0370-\u0589\u2010-\u2027\u2030-\u205e\u20a0-\u20bf\u2190-\u21ff]*+"
)
"""Letters and signs of which none is taken out or turned: most texts are of these, and to see that is quick."""

_PARTING: Final = re.compile("\r\n?|[\x0b\x0c\x1c-\x1f\x85\u2028\u2029]")
"""Ends a line to some readers and not to others."""


def seen(text: str) -> str:
    """`text` without what nobody sees; what ends a line in any reader's eyes ends it in all."""
    return text if _PLAIN.fullmatch(text) else counted(text)[0]


def counted(text: str) -> tuple[str, int]:
    """`seen` of `text`, and how many characters were taken out of it."""
    if _PLAIN.fullmatch(text):
        return text, 0
    # What is left may stand beside what it did not stand beside before, and hide there.
    shown, removed = _HIDDEN.subn("", text)
    while removed and (again := _HIDDEN.subn("", shown))[1]:
        shown, removed = again[0], removed + again[1]
    return _PARTING.sub("\n", shown), removed


def on_one_line(text: str) -> str:
    """`seen` of `text` on one line; spaces stay, for a path with two of them is another path."""
    return seen(text).replace("\n", " ")
