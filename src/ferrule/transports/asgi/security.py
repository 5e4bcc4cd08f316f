"""Protection against web pages: Origin and Host checks, CORS, and forwarded headers.

A web page can make a browser send requests anywhere, also to a server on the user's own machine (DNS rebinding). The
browser then sends ``Origin``, so a request with an Origin that is not allowed gets 403 (2026-07-28, "Streamable HTTP",
security). On loopback the ``Host`` header is checked as well, because a rebound name is sent as a foreign Host.

What is allowed with each setting:

====================  ======================================  =======================================================
setting               Host                                    Origin, when present
====================  ======================================  =======================================================
nothing               any                                     none
``loopback=True``     localhost, 127.0.0.0/8, ::1             the same names, any scheme and port
``allowed_hosts=``    the listed names                        a listed name that equals the request's own Host
``allowed_origins=``  no change                               the listed ones as well
====================  ======================================  =======================================================

A forwarded header (see `ferrule.transports.asgi.headers.forwarded`) is used only if the peer of the socket is one of
``trusted_proxies``, because any client can send one.
"""

import ipaddress
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ferrule.transports.asgi.headers.forwarded import forwarded_chain, forwarded_host, forwarded_scheme

__all__ = ["SecurityPolicy", "is_loopback_name", "split_host"]

log = logging.getLogger("ferrule.http")

_MEMO_LIMIT: Final = 512
# Clients choose the names, so that the log is bounded.
_MAX_LOGGED_NAMES: Final = 100
_EXPOSED_HEADERS: Final = b"mcp-session-id, mcp-protocol-version, www-authenticate"
_ALLOWED_METHODS: Final = b"GET, POST, DELETE, OPTIONS"
_ALLOWED_HEADERS: Final = b"authorization, content-type, accept, last-event-id, mcp-session-id, mcp-protocol-version"
# The longest time that Chrome keeps a preflight response.
_PREFLIGHT_AGE_S: Final = b"7200"

RawHeaders = list[tuple[bytes, bytes]]


def split_host(authority: str) -> tuple[str, str]:
    """Return ``host[:port]`` as (lower-case name without brackets and final dot, port or ``""``).

    Empty if malformed.
    """
    if authority.startswith("["):
        name, bracket, rest = authority[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            return "", ""
        port = rest[1:]
    else:
        name, _, port = authority.partition(":")
    if port and not (port.isascii() and port.isdigit()):
        return "", ""
    return name.lower().rstrip("."), port


def is_loopback_name(name: str) -> bool:
    """Return whether a host name (as `split_host` gives it) can only mean this machine."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        # By address and not by resolving: an attacker controls what a name resolves to (DNS rebinding).
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


class SecurityPolicy:
    """The Origin and Host rules of one endpoint.

    Args:
        loopback: the server is reachable on loopback only: allow loopback names and nothing else unless listed.
        allowed_hosts: names that ``Host`` may carry: ``"mcp.example.com"`` (any port), ``"mcp.example.com:8443"``,
            ``"*.example.com"`` (any name below it), ``"*"`` (no check). ``None``: no list.
        allowed_origins: origins that browsers may send: ``"https://app.example.com"``, ``"https://*.example.com"``,
            ``"http://localhost:*"``, ``"null"``, ``"*"`` (no check). ``None``: no list.
        trusted_proxies: addresses or networks whose forwarded headers are used.

    Raises:
        ValueError: an entry of ``trusted_proxies`` is not an address or network.
    """

    def __init__(
        self,
        *,
        loopback: bool = False,
        allowed_hosts: Sequence[str] | None = None,
        allowed_origins: Sequence[str] | None = None,
        trusted_proxies: Sequence[str] = (),
    ) -> None:
        self._loopback = loopback
        self._hosts = None if allowed_hosts is None else [pattern.lower() for pattern in allowed_hosts]
        self._origins = [pattern.lower() for pattern in allowed_origins or ()]
        self._any_host = (self._hosts is None and not loopback) or "*" in (self._hosts or ())
        self._any_origin = "*" in self._origins
        self._proxies = [ipaddress.ip_network(entry, strict=False) for entry in trusted_proxies]
        self.reads_forwarded = bool(self._proxies)
        # Pairs that passed are not parsed again; bounded, because clients choose the names.
        self.known_pairs: set[tuple[str | None, str | None]] = set()
        self._logged: set[str] = set()

    # --- the checks -------------------------------------------------------------------------------------------------

    def refuse(self, host: str | None, origin: str | None) -> str | None:
        """Return why a request with these headers is refused, as a sentence for the client; ``None`` if it is allowed.

        Callers may check `known_pairs` first: a pair in it is allowed.
        """
        pair = (host, origin)
        if pair in self.known_pairs:
            return None
        if not self._host_passes(host):
            self._log_once("Host", host, "allowed_hosts")
            return "The Host header names a host that this server does not serve"
        if origin is not None and not self.origin_passes(origin, host):
            self._log_once("Origin", origin, "allowed_origins")
            return "The Origin of this request is not allowed"
        if len(self.known_pairs) < _MEMO_LIMIT:
            self.known_pairs.add(pair)
        return None

    def _host_passes(self, host: str | None) -> bool:
        if self._any_host:
            return True
        if host is None:  # HTTP/1.0 or an in-process client; browsers always send Host
            return True
        name, port = split_host(host)
        if not name:
            return False
        if self._hosts is not None and any(_host_matches(pattern, name, port) for pattern in self._hosts):
            return True
        return self._loopback and is_loopback_name(name)

    def names(self, host: str) -> bool:
        """Return whether a host is certainly this server's own: a loopback name, or one that an entry names.

        ``"*"`` names none: with it, a client may write any host.
        """
        name, port = split_host(host)
        listed = [pattern for pattern in self._hosts or () if pattern != "*"]
        return bool(name) and (is_loopback_name(name) or any(_host_matches(each, name, port) for each in listed))

    def origin_passes(self, origin: str, host: str | None) -> bool:
        """Return whether a present ``Origin`` is allowed for a request to ``host``."""
        if self._any_origin:
            return True
        lowered = origin.lower()
        # Without the own-site rule below, which is for servers that list their hosts.
        if any(_origin_matches(pattern, lowered) for pattern in self._origins):
            return True
        scheme, mark, authority = lowered.partition("://")
        if not mark or scheme not in ("http", "https"):
            return False
        name, port = split_host(authority)
        if self._loopback and is_loopback_name(name):
            return True
        # A page of this server's own site; only meaningful where the Host is checked too.
        same_site = host is not None and (name, port) == split_host(host)
        return same_site and self._hosts is not None and "*" not in self._hosts

    def _log_once(self, what: str, value: str | None, option: str) -> None:
        key = f"{what} {value}"
        if key not in self._logged and len(self._logged) < _MAX_LOGGED_NAMES:
            self._logged.add(key)
            log.warning("refused requests with %s: %r; if it is yours, add it to %s", what, value, option)

    # --- proxies ----------------------------------------------------------------------------------------------------

    def trusts(self, client: Iterable[Any] | None) -> bool:
        """Return whether the peer of the socket (ASGI ``scope["client"]``) is a trusted proxy."""
        address = next(iter(client), None) if client is not None else None
        try:
            peer = ipaddress.ip_address(address)  # type: ignore[arg-type]
        except ValueError:
            return False
        # So a socket for both families shows a peer with IPv4: ::ffff:10.0.0.1 (RFC 4291, section 2.5.5.2).
        inner = peer.ipv4_mapped if isinstance(peer, ipaddress.IPv6Address) else None
        return any(peer in network or (inner is not None and inner in network) for network in self._proxies)

    def effective_host(self, headers: Mapping[str, str], client: Iterable[Any] | None) -> str | None:
        """Return the host of the client's request: forwarded by a trusted proxy, else the ``Host`` header."""
        if self.reads_forwarded and self.trusts(client):
            forwarded = forwarded_host(headers)
            if forwarded is not None:
                return forwarded
        return headers.get("host")

    def effective_scheme(self, headers: Mapping[str, str], client: Iterable[Any] | None) -> str | None:
        """Return the scheme that a trusted proxy forwards; ``None`` if the peer is none, or does not say."""
        return forwarded_scheme(headers) if self.trusts(client) else None

    def effective_client(self, headers: Mapping[str, str], client: Iterable[Any] | None) -> str | None:
        """Return the address behind the trusted proxies; ``None`` if the peer is none of them or forwards no address.

        The list of addresses is read from its end, as far as trusted proxies wrote it.
        """
        if not self.trusts(client):
            return None
        found: str | None = None
        for address in forwarded_chain(headers):
            try:
                ipaddress.ip_address(address)
            except ValueError:  # "unknown" or an obfuscated identifier (RFC 7239, section 6)
                break
            found = address
            if not self.trusts((address,)):
                break
        return found

    # --- CORS -------------------------------------------------------------------------------------------------------

    def cors_headers(self, origin: str) -> RawHeaders:
        """Return the CORS headers with which a page of this origin may read the response."""
        return [
            (b"access-control-allow-origin", origin.encode("latin-1")),
            (b"access-control-expose-headers", _EXPOSED_HEADERS),
            (b"vary", b"origin"),
        ]

    def preflight_headers(self, origin: str, requested_headers: str | None) -> RawHeaders:
        """Return the headers of a preflight response for an allowed origin; all requested headers are allowed."""
        wanted = _ALLOWED_HEADERS if requested_headers is None else requested_headers.encode("latin-1")
        return [
            *self.cors_headers(origin),
            (b"access-control-allow-methods", _ALLOWED_METHODS),
            (b"access-control-allow-headers", wanted),
            (b"access-control-max-age", _PREFLIGHT_AGE_S),
        ]


def _host_matches(pattern: str, name: str, port: str) -> bool:
    if pattern == "*":
        return True
    wanted, wanted_port = split_host(pattern.removesuffix(":*"))
    if wanted_port and wanted_port != port:
        return False
    return name.endswith(wanted[1:]) if wanted.startswith("*.") else name == wanted


def _origin_matches(pattern: str, origin: str) -> bool:
    if pattern == origin:
        return True
    scheme, mark, authority = pattern.partition("://")
    found_scheme, found_mark, found = origin.partition("://")
    if not mark or not found_mark or scheme != found_scheme:
        return False
    any_port = authority.endswith(":*")
    wanted, wanted_port = split_host(authority.removesuffix(":*"))
    name, port = split_host(found)
    if not name or (not any_port and port != wanted_port):
        return False
    return name.endswith(wanted[1:]) if wanted.startswith("*.") else name == wanted
