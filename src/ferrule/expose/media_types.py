"""Media types of bodies: their kinds, and the choice of one of several."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable

__all__ = [
    "choose",
    "decoded",
    "is_form",
    "is_json",
    "is_multipart",
    "is_text",
    "is_wildcard",
    "may_be_json",
    "name_of",
    "plain",
]

_NAME = re.compile(r"[\w!#$&^.+-]{1,127}/[\w!#$&^.+-]{1,127}", re.ASCII)
_CHARSETS = re.compile(
    r"ascii|utf-8|utf-8-sig|utf-16(-[bl]e)?|utf-32(-[bl]e)?|iso8859-\d+|cp\d+|koi8-[rtu]|mac-\w+|gbk|gb2312|gb18030|hz"
    r"|big5\w*|euc_\w+|iso2022_\w+|shift_jis\w*|johab|tis-620|ptcp154|kz1048|hp-roman8"
)
"""Character sets, as Python names them. It has further text encodings, which are none: one that takes quadratic time
(``punycode``), ones that make lone surrogates (``utf-7``, ``unicode_escape``)."""


def plain(content_type: str) -> str:
    """Return a media type in lower case, without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def name_of(content_type: str) -> str | None:
    """Return the media type of an answer for a client, without parameters; ``None`` if it is not one type's name."""
    kind = plain(content_type)
    return kind if _NAME.fullmatch(kind) else None


def decoded(body: bytes, content_type: str) -> str | None:
    """Return a text by its ``charset``, UTF-8 without one; ``None`` if it is no text in it, or the charset is unknown.

    Args:
        body: the bytes of the text.
        content_type: the media type with its parameters.
    """
    charset = "utf-8"
    for parameter in content_type.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            charset = value.strip().strip("\"'")
    try:
        known = codecs.lookup(charset).name
        return body.decode(known) if _CHARSETS.fullmatch(known) else None
    except (LookupError, ValueError):  # an error of the text is a ValueError, too
        return None


def is_json(content_type: str) -> bool:
    """Return whether a media type is JSON: ``application/json``, ``…+json``, or an unofficial spelling of it."""
    kind = plain(content_type)
    return kind in ("application/json", "text/json", "application/x-json") or kind.endswith("+json")


def may_be_json(content_type: str, body: bytes) -> bool:
    """Return whether a body that JSON cannot be decoded from may still have members: lines of JSON, a cut or wrong one.

    Args:
        content_type: the media type of the body.
        body: the body, without a byte order mark.
    """
    return "json" in content_type.lower() or body.lstrip()[:1] == b"{"


def is_form(content_type: str) -> bool:
    """Return whether a media type is that of an URL-encoded form."""
    return plain(content_type) == "application/x-www-form-urlencoded"


def is_multipart(content_type: str) -> bool:
    """Return whether a media type has parts."""
    return plain(content_type).startswith("multipart/")


def is_text(content_type: str) -> bool:
    """Return whether a media type is text, XML and its like included."""
    kind = plain(content_type)
    known = ("application/xml", "application/yaml", "application/x-yaml", "application/javascript", "application/sql")
    return kind.startswith("text/") or kind in known or kind.endswith(("+xml", "+yaml"))


def is_wildcard(content_type: str) -> bool:
    """Return whether a media type is a pattern: ``*/*``, ``image/*``."""
    return "*" in content_type


def choose(content_types: Iterable[str]) -> str | None:
    """Return the media type that a request body is sent with; ``None`` if there is none.

    The order is: ``application/json``, another JSON type, multipart, an URL-encoded form, text, anything else; of one
    rank the first in the description.
    """

    def rank(content_type: str) -> int:
        if plain(content_type) == "application/json":
            return 0
        if is_json(content_type):
            return 1
        if is_multipart(content_type):
            return 2
        if is_form(content_type):
            return 3
        if is_wildcard(content_type):
            return 4
        return 5 if is_text(content_type) else 6

    return min(content_types, key=rank, default=None)
