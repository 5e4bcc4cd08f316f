"""Checks of the URL and the headers of a client, done when the client is made and not when it first connects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, cast
from urllib.parse import urlsplit

__all__ = ["checked_headers", "checked_url", "has_scheme", "is_bare_address"]

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://")
_BARE_ADDRESS: Final = re.compile(r"(?:[\w.\-]+|\[[0-9A-Fa-f:.]+\]):\d{1,5}(?:[/?]\S*)?")


def has_scheme(text: str) -> bool:
    """Return whether a text is meant as a URL."""
    return _SCHEME.match(text) is not None


def is_bare_address(text: str) -> bool:
    """Return whether a text is an address without its scheme, such as ``localhost:8000/mcp``."""
    return _BARE_ADDRESS.fullmatch(text) is not None


def checked_url(url: str) -> str:
    """Return the URL if a client can connect to it.

    Raises:
        TypeError: it is not text.
        ValueError: it has no ``http`` or ``https`` scheme, no host, or an invalid port.
    """
    if not isinstance(cast("object", url), str):
        raise TypeError(f"A URL is text, not {type(url).__name__}")
    shown = url.partition("?")[0]
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise ValueError(f"{shown!r} is not a URL: {error}") from None
    if not is_usable or any(char.isspace() for char in url):
        raise ValueError(f"{shown!r} is not a URL of a server: that begins with http:// or https:// and a host")
    return url


def checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return a copy of headers that can be sent.

    Raises:
        TypeError: a name or value is not text.
        ValueError: a name is not a token (RFC 9110, section 5.6.2), or a value has a line end or NUL.
    """
    for name, value in cast("Mapping[Any, Any]", headers).items():
        if not isinstance(name, str) or not isinstance(value, str):
            what = "no value: leave it out" if value is None else f"a value of the type {type(value).__name__}"
            raise TypeError(f"The header {name!r} has {what}; names and values are text")
        if not _HEADER_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a name of a header")
        if any(char in value for char in "\r\n\0"):
            raise ValueError(f"The value of the header {name!r} has a line end or NUL in it")
    return dict(headers)
