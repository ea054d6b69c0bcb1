"""Error codes: one meaning each, and a sentence beside the code."""

from __future__ import annotations

from retrieval.errors import MEANINGS, BedivereError, ErrorCode


def test_every_code_has_a_meaning_and_no_meaning_lacks_its_code() -> None:
    assert set(MEANINGS) == set(ErrorCode)


def test_an_error_reads_as_code_and_sentence() -> None:
    assert str(BedivereError(ErrorCode.INVALID_QUERY, "The query is empty.")) == "INVALID_QUERY: The query is empty."
