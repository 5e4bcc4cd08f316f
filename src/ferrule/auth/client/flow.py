"""From a refused request to tokens, and from tokens to newer ones: the two flows of a client.

Pure: they yield requests and questions (`ferrule.auth.http`) and end with a `TokenSet`.
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
    """What stays the same from flow to flow.

    Attributes:
        grant: the way to a token.
        metadata: of this client.
        policy: limits on discovered URLs.
        scopes: the program's own wish; it wins over what the server suggests, and step-ups add to it.
        dpop: bind tokens to a key: always, never, or where the resource demands it.
        choose_issuer: picks one of several authorization servers.
        stored, remember: keep registered identities by issuer.
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
    """Every scope once, in order of appearance; ``None`` if no group names any."""
    found = dict.fromkeys(scope for group in groups if group is not None for scope in group)
    return tuple(found) if any(group is not None for group in groups) else None


def choose_scopes(
    challenge: Challenge | None,
    found: Discovered,
    *,
    own: tuple[str, ...] | None,
    previous: tuple[str, ...] | None,
) -> tuple[str, ...] | None:
    """What to ask for: the challenge's scopes, else all that the resource lists, else nothing in particular.

    The challenge is authoritative for its request; what was asked for before is added, so that a step-up loses nothing
    (2026-07-28, "Scope selection" and "Step-up"). The URL of the metadata is never a scope.
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
    """Everything from discovery to tokens.

    Args:
        challenge: of the refused request; ``None`` if it had none that could be read.
        now: seconds since the epoch.
        previous: scopes asked for before.
        bound_issuer: the authorization server that has seen the program's own credentials; no other may.

    Raises:
        AuthError: it did not work.
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
    """New tokens for old ones: same scope, same resource, same way to authenticate; needs nothing but what was stored.

    A failure that says nothing about the refresh token (connection lost, 5xx, 429) is tried once more: the
    authorization server may have rotated the token already, and only asking again finds out.

    Raises:
        TokenRequestFailed: refused.
        LocalError: not reachable, twice.
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
    """Who we are to the server that gave these tokens; private keys are not stored but the program's to give."""
    identity, given = tokens.identity, settings.grant.identity
    if given is not None and given.client_id == identity.client_id:
        return replace(identity, private_key=given.private_key, algorithm=given.algorithm)
    return identity


def _refreshed_scope(tokens: TokenSet) -> str | None:
    """What was granted; it may be less than was asked for, and more is refused (RFC 6749, 6)."""
    if tokens.scope is not None:
        return tokens.scope or None
    return " ".join(tokens.requested) if tokens.requested else None


def revoke_tokens(tokens: TokenSet, settings: FlowSettings, server_url: str, *, now: float) -> Flow[bool]:
    """Tell the authorization server that the tokens are no longer used (RFC 7009); whether it was told."""
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
    told = True
    for token, hint in ((tokens.refresh_token, "refresh_token"), (tokens.access_token, "access_token")):
        if token is None:
            continue
        fields, headers = authenticated_fields(
            _identity_of(tokens, settings), {"token": token, "token_type_hint": hint}, tokens.issuer, now
        )
        response = yield AuthRequest(
            "POST", server.revocation_endpoint, headers, form_body(fields), host_class=host_class
        )
        told = told and response.status == 200
    return told
