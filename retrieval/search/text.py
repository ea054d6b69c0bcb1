"""Words and identifiers of a text, found the same way when a table is built and when it is asked."""

from __future__ import annotations

import re
import unicodedata


def nfc(text: str) -> str:
    """`text` in Unicode's composed form: the index's tokenizer splits decomposed letters."""
    return unicodedata.normalize("NFC", text)


def identifiers(text: str) -> list[str]:
    """Identifiers in `text`, in order of first appearance, as written."""
    raise NotImplementedError


def identifier_terms(text: str) -> str:
    """The `idents` column for `text`: its identifiers and their parts, lower-cased, once each, separated by spaces."""
    raise NotImplementedError
