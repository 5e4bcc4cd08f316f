"""Media types of bodies: which kind each one is, and which of several is used."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["choose", "is_form", "is_json", "is_multipart", "is_text", "is_wildcard", "plain"]


def plain(content_type: str) -> str:
    """Return a media type in lower case, without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def is_json(content_type: str) -> bool:
    """Return whether a media type is JSON: ``application/json``, ``…+json``, or an unofficial spelling of it."""
    kind = plain(content_type)
    return kind in ("application/json", "text/json", "application/x-json") or kind.endswith("+json")


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
    """Return whether a media type stands for many: ``*/*``, ``image/*``."""
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
