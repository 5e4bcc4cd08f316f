"""URLs of stores: their parts, and their form in messages, since they may hold passwords, which no message contains."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, unquote_plus, urlsplit

__all__ = ["split_url", "without_password"]

_SECRET_WORDS = ("pass", "secret", "key", "token")

_ADDRESS = re.compile(r"(?:\[[^\[\]]*\]|[^:\[\]]*)(?::(\d{1,5}))?")


def split_url(url: str) -> SplitResult | None:
    """Return the parts of a URL; ``None`` if one of its hosts is malformed, or the port is no number up to 65535.

    So it is also after a password with an unescaped ``/``: the beginning of the password is then the port. Libraries
    quote it in their errors, so that they must not get such a URL.
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # a bracket that is not closed
        return None
    for address in parts.netloc.rpartition("@")[2].split(","):  # PostgreSQL takes several
        found = _ADDRESS.fullmatch(address)
        if found is None or int(found[1] or 0) > 65_535:
            return None
    return parts


def without_password(url: str) -> str:
    """Return a URL for messages, without its user and password if it has a password.

    Also without the values of options whose names have ``pass``, ``secret``, ``key`` or ``token`` in them, as
    ``sslpassword`` of libpq. Where a URL is not well formed, more of it is left out.
    """
    mark = "://" if "://" in url else ":"
    scheme, colon, rest = url.partition(mark)
    # The last "@" of the whole text, and not of the host's part: a password with an unescaped "/", "?" or "#" ends
    # that part too early.
    credentials, _, address = rest.rpartition("@")
    if ":" in credentials:
        rest = f"***@{address}"
    place, has_query, query = rest.partition("?")
    return f"{scheme}{colon}{place}{has_query}{_without_secrets(query)}"


def _without_secrets(query: str) -> str:
    made: list[str] = []
    hides = False
    for option in query.split("&"):
        name, has_value, _ = option.partition("=")
        if not has_value and hides:
            continue  # the rest of a secret with an unescaped "&"
        hides = any(word in unquote_plus(name).lower() for word in _SECRET_WORDS)
        made.append(f"{name}=***" if hides and has_value else option)
    return "&".join(made)
