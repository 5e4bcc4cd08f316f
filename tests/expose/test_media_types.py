"""ferrule.expose.media_types: names of media types, and texts by their character sets."""

from __future__ import annotations

import pytest

from ferrule.expose.media_types import decoded, name_of


@pytest.mark.parametrize(
    ("content_type", "name"),
    [
        ("image/PNG; q=1", "image/png"),
        ("application/vnd.api+json", "application/vnd.api+json"),
        ("image/*", None),
        ("image/png\r\nx: y", None),
        ("image/png\x00", None),
        ("image", None),
        ("", None),
        ("a/" + "b" * 200, None),
    ],
)
def test_a_client_gets_the_name_of_one_media_type_or_none(content_type: str, name: str | None) -> None:
    """What is in the header is the API's; what is in the result is ours."""
    assert name_of(content_type) == name


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        ("ü".encode(), "text/plain", "ü"),
        (b"\xfc", "text/plain; charset='latin-1'", "ü"),
        (b"\x80", 'text/plain; Charset="windows-1252"', "€"),
        ("日本".encode("shift_jis"), "text/html;charset=Shift_JIS", "日本"),
        ("ü".encode("utf-16"), "text/plain;charset=utf-16", "ü"),
        (b"\xff", "text/plain", None),
        (b"a", "text/plain; charset=klingon", None),
        (b"a", "text/plain; charset=a\x00b", None),
    ],
)
def test_a_text_is_decoded_by_its_charset(body: bytes, content_type: str, text: str | None) -> None:
    assert decoded(body, content_type) == text


@pytest.mark.parametrize(
    "charset",
    ["punycode", "idna", "undefined", "unicode_escape", "raw_unicode_escape", "utf-7", "zlib", "hex", "rot13"],
)
def test_an_encoding_that_is_only_pythons_is_no_charset(charset: str) -> None:
    """One takes quadratic time, one always fails, and some make lone surrogates, which no JSON text has."""
    assert decoded(rb"a-\ud800+2AA-", f"text/plain; charset={charset}") is None
