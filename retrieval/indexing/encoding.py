"""From the bytes of a text file to text: which encoding they are in, and whether they are text at all."""

from __future__ import annotations

import codecs
import re
from typing import Final

from charset_normalizer import from_bytes

from retrieval.indexing.document import Unreadable
from retrieval.search.text import nfc

_BOMS: Final = (
    # UTF-32's little-endian mark starts with UTF-16's, so it is asked first.
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

_WEB_CODECS: Final = {
    # The WHATWG Encoding Standard reads these labels as a superset of what they name, because pages do.
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "euc_kr": "cp949",
    "shift_jis": "cp932",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "big5": "big5hkscs",
    # A page whose declaration could be read as ASCII is not in UTF-16, whatever it says.
    "utf-16": "utf-8",
    "utf-16-le": "utf-8",
    "utf-16-be": "utf-8",
}

_LABELS: Final = {"windows-949": "cp949", "x-sjis": "shift_jis", "x-gbk": "gbk", "x-euc-jp": "euc_jp"}
"""Labels of the web that Python does not know."""

_KNOWN_CODECS: Final = frozenset(
    {
        *("utf-8", "gb18030", "big5hkscs", "cp932", "euc_jp", "iso2022_jp", "cp949", "koi8-r", "koi8-u"),
        *("cp866", "cp874", "mac-roman", "mac-cyrillic"),
        *(f"cp125{n}" for n in range(9)),
        *(f"iso8859-{n}" for n in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)),
    }
)
"""Encodings a document may declare; Python's other codecs (`unicode_escape`, `utf-7`, `rot13`) are no charsets."""

_DETECTABLE: Final = [
    *("cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "koi8_r"),
    *("cp932", "euc_jp", "cp949", "gb18030", "big5"),
]

_SAMPLE_BYTES: Final = 64 * 1024

_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
_MOST_BAD_BYTES: Final = 0.01
_GOOD_FOR_A_BAD: Final = 3

_NOT_IN_TEXT: Final = re.compile(r"[\x01-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_MOST_CONTROLS: Final = 0.05


def decode(data: bytes, declared: str | None = None) -> str:
    """The text of `data`: NFC, lines ended by `\\n`, no byte order mark.

    Asked in turn: a byte order mark, the `declared` charset, UTF-8, UTF-8 with a few bad bytes, a detector. A
    declaration that the bytes belie is passed over. Raises `Unreadable` for what is not text.
    """
    text = _decode(data, declared)
    if "\0" in text or len(_NOT_IN_TEXT.findall(text)) > _MOST_CONTROLS * len(text):
        raise Unreadable("binary, not text")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return nfc(text)


def _decode(data: bytes, declared: str | None) -> str:
    for mark, name in _BOMS:
        if data.startswith(mark):
            # Nothing else can be meant: a broken unit costs that unit, not the document.
            return data[len(mark) :].decode(name, errors="replace")
    if b"\0" in data:
        raise Unreadable("binary, not text")
    codec = _codec(declared) if declared else None
    utf8 = _utf8(data, expected=codec == "utf-8")
    # Any bytes are cp1252, but hardly any cp1252 is by chance UTF-8: where both fit, the label is a left-over.
    if codec and codec != "utf-8" and not (codec == "cp1252" and utf8 is not None):
        text = _strict(data, codec)
        if text is not None:
            return text
    return _detect(data) if utf8 is None else utf8


def _utf8(data: bytes, *, expected: bool) -> str | None:
    """`data` as UTF-8, in which a bad byte among many good characters is a slip; None where it is something else.

    In no other encoding do most of the bytes that are not ASCII make characters of UTF-8 by chance.
    """
    text = _strict(data, "utf-8")
    if text is not None:
        return text
    text = data.decode("utf-8", errors="replace")
    bad = text.count(_REPLACEMENT) - data.count(_REPLACEMENT.encode())
    good = len(text) - len(text.encode("ascii", errors="ignore")) - text.count(_REPLACEMENT)
    fits = bad <= max(1, _MOST_BAD_BYTES * len(data)) and good >= bad * (1 if expected else _GOOD_FOR_A_BAD)
    return text if fits else None


def _codec(label: str) -> str | None:
    label = label.strip().lower()
    try:
        name = codecs.lookup(_LABELS.get(label, label)).name
    except (LookupError, ValueError):
        return None
    name = _WEB_CODECS.get(name, name)
    return name if name in _KNOWN_CODECS else None


def _strict(data: bytes, name: str) -> str | None:
    try:
        return data.decode(name)
    except UnicodeDecodeError:
        return None


def _detect(data: bytes) -> str:
    match = from_bytes(_sample(data), cp_isolation=_DETECTABLE).best()
    if match is not None and (text := _strict(data, match.encoding)) is not None:
        return text
    return data.decode("cp1252", errors="replace")


def _sample(data: bytes) -> bytes:
    """The lines that are not ASCII, up to a limit: the others say nothing about the encoding and only cost time."""
    lines: list[bytes] = []
    size = 0
    for line in data.splitlines(keepends=True):
        if not line.isascii():
            lines.append(line[:_SAMPLE_BYTES])
            size += len(lines[-1])
            if size >= _SAMPLE_BYTES:
                break
    return b"".join(lines)
