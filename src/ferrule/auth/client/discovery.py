"""Discovery of the authorization server that issues tokens for an MCP server.

The order (2026-07-28, "Authorization server discovery"):

1. The protected resource metadata: at the URL in the challenge, then at the well-known URI with the server's path, then
   at the one without the path.
2. The authorization server: one of those that the metadata list.
3. Its metadata. For an issuer with a path: the OAuth well-known URI with the path inserted, the OpenID Connect one with
   the path inserted, the OpenID Connect one with the path in front. For an issuer without a path: the first two.

A server of 2025-03-26 has no such metadata: its origin is the issuer, and where that has no metadata either, the
endpoints are ``/authorize``, ``/token`` and ``/register``.

A document is discarded if its ``issuer`` differs in any character from the identifier that was used to find it (RFC
8414, 3.3). A slash directly behind the host is the only difference that is accepted.
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
    """The result of discovery.

    Attributes:
        resource: the resource identifier for token requests (RFC 8707).
        protected: the resource's metadata; ``None`` for a server of 2025-03-26.
        server: the authorization server's metadata, or its default endpoints.
        has_metadata: ``True`` if ``server`` was read from metadata; ``False`` if it has the default endpoints.
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
    """Return the MCP server's metadata as a protected resource (RFC 9728), after fetching it; ``None`` without any.

    Args:
        server_url: URL of the MCP server.
        policy: limits on discovered URLs.
        hint: ``resource_metadata`` of its challenge; ``None`` if the challenge has none.

    Raises:
        DiscoveryFailed: the metadata belong to another resource or are malformed, or the URL in ``hint`` returns
            something else.
        UnsafeUrl: a URL may not be fetched.
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
            # A server that names a metadata URL is not one of 2025-03-26, so its origin must not be taken as the
            # issuer.
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
    """Return the URLs at which an issuer may publish its metadata, in the order to try them (RFC 8414, 3.1)."""
    urls = [well_known_url(issuer, "oauth-authorization-server"), well_known_url(issuer, "openid-configuration")]
    path = urlsplit(issuer).path.rstrip("/")
    if path:
        urls.append(f"{origin_of(issuer)}{path}/.well-known/openid-configuration")
    return urls


def discover_authorization_server(
    issuer: str, policy: UrlPolicy, host_class: HostClass, *, version: str | None = None
) -> Flow[AuthorizationServer | None]:
    """Return the metadata of an authorization server, after fetching it; ``None`` if it publishes none.

    Args:
        issuer: the identifier of the authorization server.
        policy: limits on discovered URLs.
        host_class: the most private kind of host that a URL may name.
        version: value for the header ``mcp-protocol-version`` (required by 2025-03-26); ``None`` sends none.

    Raises:
        DiscoveryFailed: documents were found but none belongs to this issuer, or one is malformed.
        UnsafeUrl: a URL may not be fetched, or an endpoint may not be used.
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
    """Return the resource identifier, the metadata and the authorization server of an MCP server.

    Args:
        server_url: URL of the MCP server.
        policy: limits on discovered URLs.
        hint: ``resource_metadata`` of its challenge; ``None`` if the challenge has none.
        choose: selects one of several issuers; ``None`` takes the first.

    Raises:
        DiscoveryFailed: there is no authorization server, or its metadata are missing, malformed or of another issuer.
        UnsafeUrl: a URL may not be used.
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
    """Return the server's origin as its own authorization server, as in 2025-03-26."""
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
