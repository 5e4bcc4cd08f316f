"""Checks of URLs that a server sent, and the identifier of a resource.

A client gets most URLs of an OAuth flow from a server that it does not trust yet. Each of them, and each redirect, is
checked here (2026-07-28, security best practices, "Server-side request forgery"). The limit follows from the URL of the
MCP server, which a person chose: a server on the public internet must not send its client to a private network or to
the client's own machine; a server on loopback may name other loopback addresses.

Identifiers are compared as strings, without normalization: two spellings of one URL are two issuers (RFC 8414, 3.3; RFC
9207, 2.4). The one exception is the slash behind a host, which many servers write in one place and omit in another:
`is_same_issuer`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from unicodedata import category
from urllib.parse import SplitResult, urljoin, urlsplit

from ferrule.auth.errors import UnsafeUrl

__all__ = [
    "HostClass",
    "UrlPolicy",
    "canonical_resource",
    "class_of_address",
    "class_of_host",
    "covers_resource",
    "is_same_issuer",
    "join_url",
    "origin_of",
    "split_url",
    "well_known_url",
]


class HostClass(IntEnum):
    """How private a host is; a larger value is more private."""

    PUBLIC = 0
    PRIVATE = 1
    LOOPBACK = 2
    FORBIDDEN = 3
    """Addresses that are never used: link-local (cloud metadata services), multicast, unspecified, reserved."""


_SHARED = ipaddress.ip_network("100.64.0.0/10")
_PRIVATE_SUFFIXES = (".local", ".internal", ".lan", ".home", ".corp", ".intranet", ".home.arpa")


def class_of_address(address: str) -> HostClass:
    """Return the class of an IP address; an IPv4 address inside an IPv6 one is used.

    Raises:
        ValueError: it is not an IP address.
    """
    ip: ipaddress.IPv4Address | ipaddress.IPv6Address = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if inner is None and ip in ipaddress.ip_network("64:ff9b::/96"):
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        ip = inner or ip
    if ip.is_loopback:
        return HostClass.LOOPBACK
    if ip.is_link_local or ip.is_multicast or ip.is_unspecified or (ip.is_reserved and not ip.is_private):
        return HostClass.FORBIDDEN
    if str(ip) == "255.255.255.255":
        return HostClass.FORBIDDEN
    if ip.is_private or (isinstance(ip, ipaddress.IPv4Address) and ip in _SHARED) or not ip.is_global:
        return HostClass.PRIVATE
    return HostClass.PUBLIC


def class_of_host(host: str) -> HostClass:
    """Return the class of a URL's host by its text; the address that a name resolves to is checked later."""
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return HostClass.LOOPBACK
    try:
        return class_of_address(name)
    except ValueError:
        pass
    if _is_odd_number(name):
        return HostClass.FORBIDDEN
    if "." not in name or name.endswith(_PRIVATE_SUFFIXES):
        return HostClass.PRIVATE
    return HostClass.PUBLIC


def _is_odd_number(name: str) -> bool:
    """Return whether it is an IPv4 spelling that some resolvers accept: ``127.1``, ``0x7f000001``, ``017700000001``."""
    return all(part and (part.isdigit() or part.startswith("0x")) for part in name.split("."))


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlPolicy:
    """Limits on discovered URLs.

    Attributes:
        allow_private: allow a server on the public internet to name hosts in private networks (an enterprise's
            authorization server behind a VPN). Loopback remains forbidden.
        insecure_hosts: host names for which plain ``http`` is allowed; it always is for loopback.
        max_bytes: the maximum number of bytes of a metadata document.
        timeout_s: seconds for one request.
    """

    allow_private: bool = False
    insecure_hosts: Sequence[str] = ()
    max_bytes: int = 256 * 1024
    timeout_s: float = 10.0

    def class_for(self, server_url: str) -> HostClass:
        """Return the most private host class that a server at this URL may name."""
        found = class_of_host(urlsplit(server_url).hostname or "")
        if found is HostClass.FORBIDDEN:  # a person chose this URL, but it does not permit other forbidden hosts
            return HostClass.PUBLIC
        return max(found, HostClass.PRIVATE) if self.allow_private else found

    def check(self, url: str, host_class: HostClass) -> None:
        """Check a URL by its text. The caller checks the address (`AuthRequest.judge_address`).

        Args:
            url: the URL.
            host_class: the most private kind of host that is allowed.

        Raises:
            UnsafeUrl: it is not http or https, has credentials, is too private, or is plain http to another host.
        """
        parts = split_url(url)
        host = parts.hostname
        if parts.scheme not in ("https", "http") or not host:
            raise UnsafeUrl(url, "only http and https URLs with a host are")
        if parts.username is not None or parts.password is not None:
            raise UnsafeUrl(f"{parts.scheme}://…@{host}", "it holds credentials")
        found = class_of_host(host)
        if found > host_class:
            raise UnsafeUrl(url, f"its host is {found.name.lower()}, and the server that named it is not")
        if parts.scheme == "http" and found is not HostClass.LOOPBACK and host not in self.insecure_hosts:
            raise UnsafeUrl(url, "plain http is for loopback only (insecure_hosts= names exceptions)")


def split_url(url: str) -> SplitResult:
    """Return the parts of a URL.

    Raises:
        UnsafeUrl: it has spaces, control or format characters (such as text direction marks) or a backslash, which a
            browser treats as a slash, or it is malformed.
    """
    if "\\" in url or any(category(char)[0] in "CZ" for char in url):
        raise UnsafeUrl(url, "it holds characters that no URL has")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise UnsafeUrl(url, "it is malformed") from None
    return parts


def join_url(base: str, reference: str) -> str:
    """Return the URL that a reference of a server names, seen from the URL of its document.

    Raises:
        UnsafeUrl: the reference is malformed.
    """
    try:
        return urljoin(base, reference)
    except ValueError:
        raise UnsafeUrl(reference, "it is malformed") from None


def origin_of(url: str) -> str:
    """Return scheme, host and port of a URL as they are written, without path."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def is_same_issuer(one: str, other: str) -> bool:
    """Return whether two identifiers are the same issuer's: equal, but for the slash of an empty path.

    RFC 3986, 6.2.3, calls these two equal; nothing else about them may differ.
    """
    return one == other or _rootless(one) == _rootless(other)


def _rootless(issuer: str) -> str:
    return issuer[:-1] if issuer.count("/") == 3 and issuer.endswith("/") else issuer


def canonical_resource(server_url: str) -> str:
    """Return the RFC 8707 identifier of an MCP server: its URL without query and fragment.

    Scheme and host are in lower case. A final slash is kept only behind a path (2026-07-28, "Canonical server URI").
    """
    parts = urlsplit(server_url)
    netloc = parts.netloc.rpartition("@")[2].lower()
    path = "" if parts.path == "/" else parts.path
    return f"{parts.scheme.lower()}://{netloc}{path}"


def covers_resource(resource: str, server_url: str) -> bool:
    """Return whether a resource identifier is this server's URL, or a parent path of it on the same origin.

    Many servers name their origin or a parent path as the resource. Any other URL belongs to another server.
    """
    named, used = urlsplit(resource), urlsplit(canonical_resource(server_url))
    if (named.scheme.lower(), named.netloc.lower()) != (used.scheme, used.netloc) or named.query or named.fragment:
        return False
    above, below = named.path.rstrip("/"), used.path.rstrip("/")
    return below == above or below.startswith(f"{above}/")


def well_known_url(url: str, suffix: str) -> str:
    """Return the well-known URI of RFC 8615 with the path of ``url`` after it (RFC 9728, 3.1; RFC 8414, 3.1)."""
    parts = urlsplit(url)
    return f"{origin_of(url)}/.well-known/{suffix}{parts.path.rstrip('/')}"
