"""What proxies say of a request that they pass on: the host that was asked for, the client, the stripped prefix.

Read are ``X-Forwarded-Host``, ``X-Forwarded-For`` and ``X-Forwarded-Prefix``, and ``Forwarded`` (RFC 7239) where the
first two are absent. ``X-Forwarded-Proto`` is not: nothing here depends on the scheme, since no redirect is ever sent
and the URL of a protected resource is said by its operator, never derived from a request.

Nothing of this may be believed unless the peer of the socket is a trusted proxy, which the caller checks. Each proxy
appends, so only the end of a list is what the trusted one wrote.
"""

from collections.abc import Mapping

__all__ = ["forwarded_chain", "forwarded_host", "forwarded_prefix"]


def forwarded_host(headers: Mapping[str, str]) -> str | None:
    """The host that the nearest proxy was asked for; ``None`` when it does not say."""
    found = headers.get("x-forwarded-host")
    if found is not None:
        return found.rpartition(",")[2].strip()
    elements = _elements(headers.get("forwarded", ""))
    return elements[-1].get("host") if elements else None


def forwarded_chain(headers: Mapping[str, str]) -> list[str]:
    """Addresses that the request came through, nearest first, as written but without ports; empty when none says."""
    found = headers.get("x-forwarded-for")
    if found is not None:
        chain = [entry.strip() for entry in found.split(",")]
    else:
        chain = [element.get("for", "") for element in _elements(headers.get("forwarded", ""))]
    return [_without_port(entry) for entry in reversed(chain)]


def forwarded_prefix(headers: Mapping[str, str]) -> str:
    """Return the path that the nearest proxy took off, without a slash at its end; empty when it took none."""
    prefix = headers.get("x-forwarded-prefix", "").rpartition(",")[2].strip().rstrip("/")
    is_path = prefix.startswith("/") and not prefix.startswith("//") and prefix.isprintable()
    return prefix if is_path and "?" not in prefix and "#" not in prefix else ""


def _elements(header: str) -> list[dict[str, str]]:
    """The elements of ``Forwarded``. No value that matters here holds a comma or a semicolon, so none is looked for."""
    found: list[dict[str, str]] = []
    for element in header.split(",") if header else ():
        pairs = (pair.partition("=") for pair in element.split(";"))
        found.append({name.strip().lower(): value.strip().strip('"') for name, mark, value in pairs if mark})
    return found


def _without_port(entry: str) -> str:
    if entry.startswith("["):
        return entry[1:].partition("]")[0]
    return entry.partition(":")[0] if entry.count(":") == 1 else entry
