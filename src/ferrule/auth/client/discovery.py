"""From a server's refusal to its authorization server.

The order (2026-07-28, "Authorization server discovery"):

1. protected resource metadata: the URL in the challenge; else the well-known URI with the server's path; else without;
2. the authorization server: one of those that the metadata list;
3. its metadata, for an issuer with a path: OAuth with the path inserted, OpenID Connect with the path inserted, OpenID
   Connect with the path before; for one without: the first two.

A server of 2025-03-26 has no such metadata: its origin is the issuer, and where that has no metadata either, the
endpoints are ``/authorize``, ``/token`` and ``/register``.

A document whose ``issuer`` is not, character for character, the one that led to it is discarded (RFC 8414, 3.3); only
the slash behind a host may be there or not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from ferrule.auth.documents import (
    AuthorizationServer,
    ProtectedResource,
    read_authorization_server,
    read_protected_resource,
)
from ferrule.auth.errors import DiscoveryFailed
from ferrule.auth.http import Flow, get, get_json
from ferrule.auth.urls import (
    HostClass,
    UrlPolicy,
    canonical_resource,
    covers_resource,
    is_same_issuer,
    origin_of,
    well_known_url,
)

__all__ = ["Discovered", "authorization_server_urls", "discover", "discover_authorization_server", "discover_resource"]

FALLBACK_VERSION = "2025-03-26"


@dataclass(frozen=True, slots=True)
class Discovered:
    """What discovery found.

    Attributes:
        resource: the identifier to ask tokens for.
        protected: the resource's metadata; ``None`` for a server of 2025-03-26.
        server: the authorization server's metadata, or its default endpoints.
        has_metadata: whether ``server`` was read and not assumed.
    """

    resource: str
    protected: ProtectedResource | None
    server: AuthorizationServer
    has_metadata: bool = True

    @property
    def issuer(self) -> str:
        """The authorization server's identifier."""
        return self.server.issuer


def discover_resource(server_url: str, policy: UrlPolicy, hint: str | None = None) -> Flow[ProtectedResource | None]:
    """The metadata of the MCP server as a protected resource; ``None`` if it has none.

    Args:
        hint: ``resource_metadata`` of its challenge.

    Raises:
        DiscoveryFailed: they are those of another resource, or malformed, or the place that the challenge names has
            something else.
    """
    host_class = policy.class_for(server_url)
    suffix = "oauth-protected-resource"
    urls = [well_known_url(server_url, suffix), f"{origin_of(server_url)}/.well-known/{suffix}"]
    if hint is not None:
        urls.insert(0, hint)
    for url in dict.fromkeys(urls):
        response = yield from get(url, policy, host_class)
        document = response.json() if response.status == 200 else None
        found = None if document is None else read_protected_resource(document)
        if found is None and url == hint and (response.status == 200 or response.status >= 500):
            # The server has metadata and says where: it is no server of 2025-03-26, which would be its own issuer.
            why = f"HTTP {response.status}" if response.status >= 500 else "no metadata of a protected resource"
            raise DiscoveryFailed(f"{url.partition('?')[0]}, which the server names for its metadata, answered {why}")
        if found is None:
            continue
        if not covers_resource(found.resource, server_url):
            raise DiscoveryFailed(
                f"The metadata at {url.partition('?')[0]} are those of {found.resource.partition('?')[0]!r}, "
                f"not of {canonical_resource(server_url)!r}"
            )
        return found
    return None


def authorization_server_urls(issuer: str) -> list[str]:
    """Where the metadata of an issuer may be, in the order to try."""
    urls = [well_known_url(issuer, "oauth-authorization-server"), well_known_url(issuer, "openid-configuration")]
    path = urlsplit(issuer).path.rstrip("/")
    if path:
        urls.append(f"{origin_of(issuer)}{path}/.well-known/openid-configuration")
    return urls


def discover_authorization_server(
    issuer: str, policy: UrlPolicy, host_class: HostClass, *, version: str | None = None
) -> Flow[AuthorizationServer | None]:
    """The metadata of an authorization server; ``None`` if it has none.

    Args:
        version: sent as ``mcp-protocol-version`` (2025-03-26 wanted that).

    Raises:
        DiscoveryFailed: documents were found, and none is this issuer's, or one is malformed.
    """
    stray: str | None = None
    headers = None if version is None else {"mcp-protocol-version": version}
    for url in authorization_server_urls(issuer):
        document = yield from get_json(url, policy, host_class, headers)
        found = None if document is None else read_authorization_server(document)
        if found is None:
            continue
        if not is_same_issuer(found.issuer, issuer):
            stray = found.issuer
            continue
        for endpoint in (found.authorization_endpoint, found.token_endpoint, found.registration_endpoint):
            if endpoint is not None:
                policy.check(endpoint, host_class)
        return found
    if stray is not None:
        raise DiscoveryFailed(f"The metadata found for the issuer {issuer!r} name the issuer {stray!r}")
    return None


def discover(
    server_url: str,
    policy: UrlPolicy,
    *,
    hint: str | None = None,
    choose: Callable[[Sequence[str]], str] | None = None,
) -> Flow[Discovered]:
    """Everything, from the MCP server's URL on.

    Args:
        hint: ``resource_metadata`` of its challenge.
        choose: picks one of several issuers; the first without it.

    Raises:
        DiscoveryFailed, UnsafeUrl: there is no authorization server that can be used.
    """
    protected = yield from discover_resource(server_url, policy, hint)
    host_class = policy.class_for(server_url)
    if protected is None or not protected.authorization_servers:
        return (yield from _legacy(server_url, policy, host_class, protected))
    issuers = protected.authorization_servers
    issuer = issuers[0] if choose is None else choose(issuers)
    policy.check(issuer, host_class)
    server = yield from discover_authorization_server(issuer, policy, host_class)
    if server is None:
        raise DiscoveryFailed(f"The authorization server {issuer!r} publishes no metadata")
    return Discovered(protected.resource, protected, server)


def _legacy(
    server_url: str, policy: UrlPolicy, host_class: HostClass, protected: ProtectedResource | None
) -> Flow[Discovered]:
    """A server that is its own authorization server."""
    issuer = origin_of(server_url)
    server = yield from discover_authorization_server(issuer, policy, host_class, version=FALLBACK_VERSION)
    resource = canonical_resource(server_url)
    if server is not None:
        return Discovered(resource, protected, server)
    assumed = AuthorizationServer(
        issuer=issuer,
        authorization_endpoint=f"{issuer}/authorize",
        token_endpoint=f"{issuer}/token",
        registration_endpoint=f"{issuer}/register",
        code_challenge_methods_supported=["S256"],
    )
    return Discovered(resource, protected, assumed, has_metadata=False)
