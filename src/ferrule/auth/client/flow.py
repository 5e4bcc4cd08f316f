"""The flows of an OAuth client: obtain tokens after a refused request, refresh them, revoke them.

No I/O happens here: a flow yields requests and questions (`ferrule.auth.http`) and returns a `TokenSet`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ferrule.auth.challenges import Challenge
from ferrule.auth.client.discovery import Discovered, discover
from ferrule.auth.client.grants import Grant, GrantContext
from ferrule.auth.client.registration import ClientMetadata
from ferrule.auth.client.tokens import ClientIdentity, TokenEndpoint, TokenSet, request_token, token_set
from ferrule.auth.errors import AuthError, DiscoveryFailed, TokenRequestFailed
from ferrule.auth.http import AuthRequest, Flow
from ferrule.auth.urls import UrlPolicy
from ferrule.protocol.errors import LocalError

__all__ = ["FlowSettings", "choose_scopes", "obtain_tokens", "refresh_tokens", "revoke_tokens", "union_of_scopes"]


@dataclass(slots=True, kw_only=True)
class FlowSettings:
    """Settings that all flows of one client share.

    Attributes:
        grant: the grant with which tokens are obtained.
        metadata: this client's metadata, for registration.
        policy: limits on discovered URLs.
        scopes: scopes that the program set; used instead of ``scopes_supported``, and extended by a step-up.
        dpop: bind tokens to a key: always, never, or (``"auto"``) where the resource requires it.
        choose_issuer: selects one of several authorization servers; ``None`` takes the first.
        stored, remember: read and keep the identity that was registered with an issuer.
    """

    grant: Grant
    metadata: ClientMetadata
    policy: UrlPolicy
    stored: Callable[[str], Awaitable[ClientIdentity | None]]
    remember: Callable[[str, ClientIdentity], Awaitable[None]]
    scopes: tuple[str, ...] | None = None
    dpop: bool | Literal["auto"] = "auto"
    choose_issuer: Callable[[Sequence[str]], str] | None = None
    dpop_key: Any = field(default=None, repr=False)


def union_of_scopes(*groups: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return every scope once, in order of appearance; ``None`` if no group names any."""
    found = dict.fromkeys(scope for group in groups if group is not None for scope in group)
    return tuple(found) if any(group is not None for group in groups) else None


def choose_scopes(
    challenge: Challenge | None,
    found: Discovered,
    *,
    own: tuple[str, ...] | None,
    previous: tuple[str, ...] | None,
) -> tuple[str, ...] | None:
    """Return the scopes to request: the challenge's, else all that the resource lists; ``None`` requests none.

    The challenge is authoritative for its request. Scopes that were requested before are added, so that a step-up keeps
    them (2026-07-28, "Scope selection" and "Step-up"). The URL of the metadata is never a scope.

    Args:
        challenge: the challenge of the refused request; ``None`` without one.
        found: the result of discovery.
        own: scopes that the program set.
        previous: scopes requested before.
    """
    demanded = None if challenge is None else challenge.scopes
    if demanded is None and own is None and previous is None and found.protected is not None:
        listed = found.protected.scopes_supported
        demanded = tuple(listed) if listed else None
    return union_of_scopes(previous, own, demanded)


def obtain_tokens(
    settings: FlowSettings,
    server_url: str,
    challenge: Challenge | None,
    *,
    now: float,
    previous: tuple[str, ...] | None = None,
    bound_issuer: str | None = None,
) -> Flow[TokenSet]:
    """Discover the authorization server, and return tokens from it.

    Args:
        settings: the settings of the client.
        server_url: URL of the MCP server.
        challenge: the challenge of the refused request; ``None`` if it had none that could be parsed.
        now: seconds since the epoch.
        previous: scopes requested before.
        bound_issuer: the authorization server that has received the program's credentials; they are sent to no other.

    Raises:
        AuthError: no token was obtained; the subclass names the step that failed.
    """
    hint = None if challenge is None else challenge.resource_metadata
    found = yield from discover(server_url, settings.policy, hint=hint, choose=settings.choose_issuer)
    if found.server.token_endpoint is None:
        raise DiscoveryFailed(f"{found.issuer} has no token endpoint")
    host_class = settings.policy.class_for(server_url)
    endpoint = TokenEndpoint(
        found.server.token_endpoint,
        found.issuer if found.has_metadata else None,
        settings.policy,
        host_class,
        now,
        dpop_key=_dpop_key(settings, found),
    )
    context = GrantContext(
        found,
        endpoint,
        choose_scopes(challenge, found, own=settings.scopes, previous=previous),
        settings.policy,
        host_class,
        settings.metadata,
        settings.stored,
        settings.remember,
        bound_issuer,
    )
    granted = yield from settings.grant.obtain(context)
    tokens = token_set(
        granted.answer,
        endpoint=endpoint,
        identity=granted.identity,
        resource=found.resource,
        requested=granted.requested,
    )
    # A stolen bearer token can be used by any party; the program or the resource requires more (RFC 9449, 5).
    if endpoint.dpop_key is not None and tokens.token_type != "dpop":
        raise AuthError(f"{found.issuer} gave a plain bearer token where a DPoP-bound one was asked for")
    return tokens


def _dpop_key(settings: FlowSettings, found: Discovered) -> Any:
    protected = found.protected
    demanded = protected is not None and bool(protected.dpop_bound_access_tokens_required)
    if settings.dpop is False or (settings.dpop == "auto" and not demanded):
        return None
    supported = found.server.dpop_signing_alg_values_supported
    if supported is not None and "ES256" not in supported:
        raise AuthError(f"{found.issuer} takes no DPoP proofs signed with ES256")
    if settings.dpop_key is None:
        from ferrule.auth.jose import generate_key

        settings.dpop_key = generate_key("ES256")
    return settings.dpop_key


def refresh_tokens(tokens: TokenSet, settings: FlowSettings, server_url: str, *, now: float) -> Flow[TokenSet]:
    """Return refreshed tokens with the same scope, resource and client authentication; only stored data is needed.

    A failure that leaves open whether the refresh token is still valid (connection lost, 5xx, 429) is retried once: the
    authorization server may have rotated the token already.

    Args:
        tokens: the tokens, with a refresh token.
        settings: the settings of the client.
        server_url: URL of the MCP server.
        now: seconds since the epoch.

    Raises:
        TokenRequestFailed: the token endpoint refused.
        LocalError, OSError: the token endpoint could not be reached in two attempts.
    """
    key = None
    if tokens.dpop_key is not None:
        from ferrule.auth.jose import import_private_key

        key = import_private_key(tokens.dpop_key)
        settings.dpop_key = key
    identity = _identity_of(tokens, settings)
    policy = settings.policy
    endpoint = TokenEndpoint(
        tokens.token_endpoint, tokens.issuer, policy, policy.class_for(server_url), now, dpop_key=key
    )
    fields = {
        "grant_type": "refresh_token",
        "refresh_token": tokens.refresh_token,
        "scope": _refreshed_scope(tokens),
        "resource": tokens.resource,
    }
    # Once more, with the same token: servers with rotation accept it for a short time (RFC 9700, 4.14.2).
    for attempt in range(2):
        try:
            answer = yield from request_token(endpoint, identity, fields)
        except TokenRequestFailed as error:
            if attempt or (error.status < 500 and error.status != 429):
                raise
        except AuthError:
            raise
        except (LocalError, OSError):
            if attempt:
                raise
        else:
            return token_set(
                answer,
                endpoint=endpoint,
                identity=identity,
                resource=tokens.resource,
                requested=tokens.requested,
                previous=tokens,
            )
    raise AssertionError


def _identity_of(tokens: TokenSet, settings: FlowSettings) -> ClientIdentity:
    """Return the client identity of the tokens, with the program's private key: private keys are not stored."""
    identity, given = tokens.identity, settings.grant.identity
    if given is not None and given.client_id == identity.client_id:
        return replace(identity, private_key=given.private_key, algorithm=given.algorithm)
    return identity


def _refreshed_scope(tokens: TokenSet) -> str | None:
    """Return the granted scope: a refresh must not request more than was granted (RFC 6749, 6)."""
    if tokens.scope is not None:
        return tokens.scope or None
    return " ".join(tokens.requested) if tokens.requested else None


def revoke_tokens(tokens: TokenSet, settings: FlowSettings, server_url: str, *, now: float) -> Flow[bool]:
    """Revoke refresh token and access token (RFC 7009); returns whether the server accepted all of them."""
    from ferrule.auth.client.discovery import discover_authorization_server
    from ferrule.auth.client.tokens import authenticated_fields
    from ferrule.auth.http import form_body

    if tokens.issuer is None:
        return False
    host_class = settings.policy.class_for(server_url)
    server = yield from discover_authorization_server(tokens.issuer, settings.policy, host_class)
    if server is None or server.revocation_endpoint is None:
        return False
    settings.policy.check(server.revocation_endpoint, host_class)
    all_revoked = True
    for token, hint in ((tokens.refresh_token, "refresh_token"), (tokens.access_token, "access_token")):
        if token is None:
            continue
        fields, headers = authenticated_fields(
            _identity_of(tokens, settings), {"token": token, "token_type_hint": hint}, tokens.issuer, now
        )
        response = yield AuthRequest(
            "POST", server.revocation_endpoint, headers, form_body(fields), host_class=host_class
        )
        all_revoked = all_revoked and response.status == 200
    return all_revoked
