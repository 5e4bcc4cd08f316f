"""Headers of proxies: the host of the original request, the client's address, the stripped prefix.

``X-Forwarded-Host``, ``X-Forwarded-For`` and ``X-Forwarded-Prefix`` are read, and ``Forwarded`` (RFC 7239) if one of
the first two is missing; and ``X-Forwarded-Proto``, for applications that are called with the scheme of the request:
nothing else depends on it.

The caller must check that the peer of the socket is a trusted proxy, because a client can send these headers, too. Each
proxy appends to a list, so only its end was written by the trusted one.
"""

from collections.abc import Mapping

__all__ = ["forwarded_chain", "forwarded_host", "forwarded_prefix", "forwarded_scheme"]


def forwarded_host(headers: Mapping[str, str]) -> str | None:
    """Return the ``Host`` that the nearest proxy received; ``None`` if it did not forward it."""
    found = headers.get("x-forwarded-host")
    if found is not None:
        # Only the last entry was written by the trusted proxy.
        return found.rpartition(",")[2].strip()
    elements = _elements(headers.get("forwarded", ""))
    return elements[-1].get("host") if elements else None


def forwarded_scheme(headers: Mapping[str, str]) -> str | None:
    """Return ``http`` or ``https``, as the nearest proxy received the request; ``None`` if it did not say."""
    found = headers.get("x-forwarded-proto")
    if found is None:
        elements = _elements(headers.get("forwarded", ""))
        found = elements[-1].get("proto", "") if elements else ""
    scheme = found.rpartition(",")[2].strip().lower()
    return scheme if scheme in ("http", "https") else None


def forwarded_chain(headers: Mapping[str, str]) -> list[str]:
    """Return the client addresses that proxies received, nearest proxy first, without ports; empty without a header."""
    found = headers.get("x-forwarded-for")
    if found is not None:
        chain = [entry.strip() for entry in found.split(",")]
    else:
        chain = [element.get("for", "") for element in _elements(headers.get("forwarded", ""))]
    return [_without_port(entry) for entry in reversed(chain)]


def forwarded_prefix(headers: Mapping[str, str]) -> str:
    """Return the path prefix that the nearest proxy removed, without a final slash; empty if it removed none."""
    prefix = headers.get("x-forwarded-prefix", "").rpartition(",")[2].strip().rstrip("/")
    # `//host` would be a URL of another host where the prefix is used in links.
    is_path = prefix.startswith("/") and not prefix.startswith("//") and prefix.isprintable()
    return prefix if is_path and "?" not in prefix and "#" not in prefix else ""


def _elements(header: str) -> list[dict[str, str]]:
    """Return the elements of ``Forwarded``.

    The values used here have no comma or semicolon, so quotes are not parsed.
    """
    found: list[dict[str, str]] = []
    for element in header.split(",") if header else ():
        pairs = (pair.partition("=") for pair in element.split(";"))
        found.append({name.strip().lower(): value.strip().strip('"') for name, mark, value in pairs if mark})
    return found


def _without_port(entry: str) -> str:
    if entry.startswith("["):
        return entry[1:].partition("]")[0]
    return entry.partition(":")[0] if entry.count(":") == 1 else entry
