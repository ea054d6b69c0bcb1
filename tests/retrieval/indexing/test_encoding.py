"""Every encoding that documents come in is read as it was meant, and what is no text is refused."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.indexing.document import Unreadable
from retrieval.indexing.encoding import decode

KOREAN = "서버 로그파일을 설정한다. 똠방각하"
JAPANESE = "これは日本語の文書です。①サーバを設定する。"
CHINESE = "这是一个中文文档，用于测试编码检测。"
RUSSIAN = "Привет, мир! Это документ на русском языке."
FRENCH = "Le café était très agréable, à côté de l’église."


@pytest.mark.parametrize(
    ("mark", "codec"),
    [
        (b"", "utf-8"),
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
    ],
)
def test_unicode_is_read_with_and_without_a_byte_order_mark(mark: bytes, codec: str) -> None:
    assert decode(mark + "Größe 🚀".encode(codec)) == "Größe 🚀"


def test_a_byte_order_mark_outweighs_the_declaration() -> None:
    assert decode(codecs.BOM_UTF16_LE + "é".encode("utf-16-le"), "iso-8859-1") == "é"


def test_half_a_character_at_the_end_costs_only_that_character() -> None:
    assert decode(codecs.BOM_UTF16_LE + "ab".encode("utf-16-le") + b"c") == "ab\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize(
    ("text", "codec", "label"),
    [
        ("“smart” – dash €", "cp1252", "ISO-8859-1"),
        ("“smart” – dash €", "cp1252", "us-ascii"),
        (KOREAN, "cp949", "euc-kr"),
        (KOREAN, "cp949", "ks_c_5601-1987"),
        (KOREAN, "cp949", "windows-949"),
        (JAPANESE, "cp932", " Shift_JIS "),
        (JAPANESE, "cp932", "x-sjis"),
        (CHINESE + "㐀", "gb18030", "gb2312"),
        ("İstanbul ğ", "cp1254", "iso-8859-9"),
        ("Привет", "koi8-r", "koi8-r"),
    ],
)
def test_a_declared_charset_is_read_as_browsers_read_it(text: str, codec: str, label: str) -> None:
    assert decode(text.encode(codec), label) == text


def test_a_page_that_declares_utf_16_in_ascii_is_utf_8() -> None:
    assert decode("né".encode(), "utf-16") == "né"


@pytest.mark.parametrize("label", ["utf-8", "euc-kr", "no-such-charset", "rot13", "unicode_escape", "", "a\0b", None])
def test_a_wrong_or_unknown_declaration_does_not_lose_the_document(label: str | None) -> None:
    assert decode(FRENCH.encode("cp1252"), label) == FRENCH


def test_utf_8_under_a_left_over_latin_1_label_is_utf_8() -> None:
    assert decode(FRENCH.encode(), "iso-8859-1") == FRENCH


@pytest.mark.parametrize(
    ("text", "codec"),
    [(FRENCH, "cp1252"), (KOREAN, "cp949"), (JAPANESE, "cp932"), (CHINESE, "gb18030"), (RUSSIAN, "cp1251")],
)
def test_undeclared_text_is_detected_by_its_lines_that_are_not_ascii(text: str, codec: str) -> None:
    data = (b"plain line\n" * 5000) + text.encode(codec) + b"\nplain line\n"

    assert text in decode(data).split("\n")


def test_bytes_of_no_encoding_are_still_text() -> None:
    text = decode(b"good words \x81\xff\xfe\x8d and \x90\x9d\xff more words\n" * 3)

    assert "good words" in text


def test_much_undeclared_text_is_detected_by_a_sample_of_it() -> None:
    line = FRENCH + "\n"

    assert decode(line.encode("cp1252") * 5000) == line * 5000


@pytest.mark.parametrize(
    "data",
    [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"text\0", bytes(range(1, 32)) * 3, codecs.BOM_UTF16_LE + b"a\0\0\0"],
)
def test_what_is_no_text_is_refused(data: bytes) -> None:
    with pytest.raises(Unreadable, match=r"^binary, not text$"):
        decode(data)


def test_no_bytes_are_no_text_and_no_error() -> None:
    assert decode(b"") == ""


def test_lines_end_in_line_feeds_whatever_they_ended_in() -> None:
    assert decode(b"a\r\nb\rc\n\r\n") == "a\nb\nc\n\n"


def test_decomposed_letters_are_composed() -> None:
    assert decode("e\N{COMBINING ACUTE ACCENT}".encode()) == "é"


@given(st.binary(max_size=300), st.none() | st.sampled_from(["utf-8", "euc-kr", "latin1", "gb2312", "big5", "x"]))
def test_any_bytes_are_text_or_refused(data: bytes, label: str | None) -> None:
    try:
        text = decode(data, label)
    except Unreadable:
        return
    assert "\0" not in text
    assert "\r" not in text
    text.encode()


@pytest.mark.parametrize("declared", [None, "utf-8", "iso-8859-1"])
@pytest.mark.parametrize("bad", [b"\xe9", b"\x80", b"\xff\xfe"])
def test_a_few_bad_bytes_cost_only_themselves(bad: bytes, declared: str | None) -> None:
    line = f"{FRENCH} {KOREAN}\n"

    assert decode(line.encode() * 3 + bad + line.encode(), declared) == line * 3 + "\ufffd" * len(bad) + line


def test_half_a_character_at_the_end_of_utf_8_costs_only_that_character() -> None:
    assert decode("Größe für alle, ganz schön 🚀".encode()[:-1]) == "Größe für alle, ganz schön \ufffd"


def test_a_bad_byte_under_a_byte_order_mark_costs_only_itself() -> None:
    assert decode(codecs.BOM_UTF8 + b"a\xe9b") == "a\ufffdb"


def test_replacement_characters_that_were_written_are_no_bad_bytes() -> None:
    text = "\ufffd" * 50 + FRENCH

    assert decode(text.encode() + b"\xe9") == text + "\ufffd"


@pytest.mark.parametrize(
    ("text", "codec"),
    [(FRENCH, "cp1252"), (KOREAN, "cp949"), (JAPANESE, "cp932"), (CHINESE, "gb18030"), (RUSSIAN, "cp1251")],
)
def test_text_of_another_encoding_is_no_utf_8_with_bad_bytes_however_rare_it_is(text: str, codec: str) -> None:
    data = b"plain line\n" * 5000 + text.encode(codec)

    assert decode(data, "utf-8").split("\n")[-1] == text


def test_a_long_run_of_marks_is_parted_lest_composing_it_takes_minutes_and_loses_none() -> None:
    marks = "\N{COMBINING COMMA ABOVE RIGHT}\N{COMBINING GRAVE ACCENT}" * 100_000
    text = decode(f"A{marks}".encode())

    assert max(map(len, text.split("\N{COMBINING GRAPHEME JOINER}"))) <= 31
    assert text.count("\N{COMBINING COMMA ABOVE RIGHT}") == 100_000
    assert sum(text.count(char) for char in "\N{COMBINING GRAVE ACCENT}À") == 100_000
