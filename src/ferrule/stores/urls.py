"""URLs of stores in messages: they may hold passwords, which no message contains."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

__all__ = ["without_password"]


def without_password(url: str) -> str:
    """Return a URL for messages, without its user and password if it has a password."""
    parts = urlsplit(url)
    credentials, _, address = parts.netloc.rpartition("@")
    options = parse_qsl(parts.query, keep_blank_values=True)
    # In the query, too, libpq reads a password.
    if ":" not in credentials and all(name != "password" for name, _ in options):
        return url
    query = urlencode([(name, "***" if name == "password" else value) for name, value in options])
    return urlunsplit(parts._replace(netloc=f"***@{address}" if credentials else address, query=query))
