"""Tokens, client identities, and requests to a token endpoint.

Tokens are stored per resource (the MCP server), client identities per issuer. An identity of one authorization server
is never sent to another (2026-07-28, "Client registration").
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias, cast
from urllib.parse import parse_qsl, quote

from ferrule.auth.errors import AuthError, TokenRequestFailed
from ferrule.auth.http import AuthRequest, AuthResponse, Flow, form_body
from ferrule.auth.urls import HostClass, UrlPolicy
from ferrule.wire.codec import convert, decode, encode_str
from ferrule.wire.faults import ConvertError, DecodeError

__all__ = ["ClientIdentity", "TokenEndpoint", "TokenMethod", "TokenSet", "choose_method", "request_token"]

TokenMethod: TypeAlias = Literal["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]

METHODS: Final = ("client_secret_basic", "client_secret_post", "private_key_jwt", "none")
JWT_BEARER_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_MAX_QUOTE: Final = 200
_MAX_FIELDS: Final = 100


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """The client's identity at one authorization server.

    Attributes:
        client_id: the client id, issued by the server or its operator, or the URL of the client's metadata document.
        client_secret: the secret; ``None`` for a public client.
        method: the method of client authentication at the token endpoint.
        private_key: PEM, JWK or key object for ``private_key_jwt``; never stored.
        algorithm: the algorithm of its signatures; ``None`` takes the usual one of the key.
        redirect_uri: the registered redirect URI; ``None`` without registration.
        secret_expires_at: end of the secret in seconds since the epoch; 0 for no end.
        source: where it comes from: ``"given"`` (by the program), ``"document"`` or ``"registered"``.
    """

    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    method: TokenMethod = "none"
    private_key: Any = field(default=None, repr=False)
    algorithm: str | None = None
    redirect_uri: str | None = None
    secret_expires_at: float = 0.0
    source: Literal["given", "document", "registered"] = "given"

    def to_json(self) -> str:
        """Return the identity as JSON for the storage, without the private key."""
        return encode_str(
            {
                "client_id": self.client_id,
                "client_secret": self.client_secret,
                "method": self.method,
                "redirect_uri": self.redirect_uri,
                "secret_expires_at": self.secret_expires_at,
                "source": self.source,
            }
        )

    @classmethod
    def from_json(cls, text: str | None) -> ClientIdentity | None:
        """Return the identity from the result of `to_json`; ``None`` for any other text."""
        found = _object(text)
        if found is None or "method" not in found:
            return None
        try:
            return convert({"source": "registered", **found, "private_key": None}, cls)
        except ConvertError:
            return None


@dataclass(frozen=True, slots=True)
class TokenSet:
    """Tokens for one resource, with all facts that a refresh needs.

    Attributes:
        access_token: the access token.
        token_type: ``"bearer"`` or ``"dpop"``.
        resource: identifier of the resource that the token is for.
        issuer: the authorization server; ``None`` for a server without metadata (2025-03-26).
        token_endpoint: URL at which it is refreshed.
        identity: the client identity at that authorization server.
        expires_at: end of the access token in seconds since the epoch; ``None`` if the response did not state it.
        refresh_token: the refresh token; ``None`` if the server issued none.
        scope: the granted scope; ``None`` if no scope was requested and the response named none.
        requested: the scopes that were requested; a step-up adds to them.
        dpop_key: private JWK that the tokens are bound to; ``None`` for bearer tokens.
    """

    access_token: str = field(repr=False)
    token_type: str
    resource: str
    issuer: str | None
    token_endpoint: str
    identity: ClientIdentity
    expires_at: float | None = None
    refresh_token: str | None = field(default=None, repr=False)
    scope: str | None = None
    requested: tuple[str, ...] | None = None
    dpop_key: Mapping[str, Any] | None = field(default=None, repr=False)

    def is_expired(self, now: float, leeway_s: float = 0.0) -> bool:
        """Return whether the access token expires within ``leeway_s`` seconds of ``now`` (seconds since the epoch)."""
        return self.expires_at is not None and now >= self.expires_at - leeway_s

    def to_json(self) -> str:
        """Return the tokens as JSON for the storage."""
        return encode_str(
            {
                "access_token": self.access_token,
                "token_type": self.token_type,
                "resource": self.resource,
                "issuer": self.issuer,
                "token_endpoint": self.token_endpoint,
                "identity": self.identity.to_json(),
                "expires_at": self.expires_at,
                "refresh_token": self.refresh_token,
                "scope": self.scope,
                "requested": None if self.requested is None else list(self.requested),
                "dpop_key": self.dpop_key,
            }
        )

    @classmethod
    def from_json(cls, text: str | None) -> TokenSet | None:
        """Return the tokens from the result of `to_json`; ``None`` for any other text."""
        found = _object(text)
        identity = None if found is None else ClientIdentity.from_json(found.get("identity"))
        if found is None or identity is None:
            return None
        try:
            return replace(convert({**found, "identity": {"client_id": ""}}, cls), identity=identity)
        except ConvertError:
            return None


def _object(text: Any) -> dict[str, Any] | None:
    if not isinstance(text, str):
        return None
    try:
        found = decode(text)
    except DecodeError:
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


@dataclass(slots=True)
class TokenEndpoint:
    """A token endpoint and the state of the exchange with it.

    Attributes:
        url: the URL of the endpoint.
        issuer: the issuer of the authorization server; the audience of assertions.
        policy, host_class: limits on the URL.
        now: seconds since the epoch, for expiry and proofs.
        dpop_key: the private key that the tokens are bound to; ``None`` for bearer tokens.
        nonce: the last DPoP nonce of this server; updated by each response.
    """

    url: str
    issuer: str | None
    policy: UrlPolicy
    host_class: HostClass
    now: float
    dpop_key: Any = field(default=None, repr=False)
    nonce: str | None = field(default=None, repr=False)


def choose_method(identity: ClientIdentity, supported: list[str] | None) -> ClientIdentity:
    """Return the identity with an authentication method of the server; basic where it lists none (RFC 8414, 2).

    Args:
        identity: the client identity, with a secret, a private key, or neither.
        supported: ``token_endpoint_auth_methods_supported`` of the server; ``None`` without it.

    Raises:
        AuthError: these credentials support none of the listed methods.
    """
    if identity.private_key is not None:
        able: tuple[TokenMethod, ...] = ("private_key_jwt",)
    elif identity.client_secret is not None:
        able = ("client_secret_basic", "client_secret_post")
    else:
        able = ("none",)
    if supported is None:
        return replace(identity, method=able[0])
    for method in able:
        if method in supported:
            return replace(identity, method=method)
    if able == ("none",):  # many servers list only the methods of confidential clients and accept public ones too
        return replace(identity, method="none")
    raise AuthError(
        f"The authorization server takes {', '.join(supported) or 'no client'} at its token endpoint; "
        f"these credentials can do {' or '.join(able)}"
    )


def authenticated_fields(
    identity: ClientIdentity, fields: Mapping[str, str | None], audience: str, now: float
) -> tuple[dict[str, str | None], dict[str, str]]:
    """Return fields and headers of a request with the client's authentication added (RFC 6749, 2.3; RFC 7523, 2.2).

    Args:
        identity: the client identity.
        fields: the fields of the request.
        audience: the audience of a client assertion.
        now: seconds since the epoch.

    Raises:
        AuthError: the method is ``private_key_jwt`` and the program gave no private key.
    """
    sent, headers = dict(fields), {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
    if identity.method == "client_secret_basic":
        pair = f"{quote(identity.client_id, safe='')}:{quote(identity.client_secret or '', safe='')}"
        headers["authorization"] = f"Basic {b64encode(pair.encode()).decode('ascii')}"
    elif identity.method == "private_key_jwt":
        from ferrule.auth.jose import client_assertion, import_private_key

        if identity.private_key is None:
            raise AuthError(
                f"The private key of the client {identity.client_id!r} is needed (it is never stored): private_key=…"
            )
        key = import_private_key(identity.private_key)
        sent["client_assertion_type"] = JWT_BEARER_ASSERTION
        sent["client_assertion"] = client_assertion(
            identity.client_id, audience, key, algorithm=identity.algorithm, now=now
        )
    else:
        if identity.client_id:
            sent["client_id"] = identity.client_id
        if identity.method == "client_secret_post":
            sent["client_secret"] = identity.client_secret
    return sent, headers


def request_token(
    endpoint: TokenEndpoint, identity: ClientIdentity, fields: Mapping[str, str | None]
) -> Flow[dict[str, Any]]:
    """Send a token request, once more if the server requires a DPoP nonce (RFC 9449, 8); return the response's members.

    Raises:
        TokenRequestFailed: the endpoint refused. The message contains no value of the request.
        AuthError: see `authenticated_fields`.
        UnsafeUrl: the endpoint may not be used.
    """
    endpoint.policy.check(endpoint.url, endpoint.host_class)
    for attempt in range(2):
        sent, headers = authenticated_fields(identity, fields, endpoint.issuer or endpoint.url, endpoint.now)
        if endpoint.dpop_key is not None:
            from ferrule.auth.dpop_proof import make_proof

            headers["dpop"] = make_proof(
                endpoint.dpop_key, "POST", endpoint.url, now=endpoint.now, nonce=endpoint.nonce
            )
        response: AuthResponse = yield AuthRequest(
            "POST",
            endpoint.url,
            headers,
            form_body(sent),
            host_class=endpoint.host_class,
            timeout_s=max(endpoint.policy.timeout_s, 30.0),
        )
        endpoint.nonce = response.headers.get("dpop-nonce", endpoint.nonce)
        found = _answer_of(response)
        if response.status in (200, 201) and isinstance(found.get("access_token"), str) and found["access_token"]:
            return found
        needs_nonce = found.get("error") == "use_dpop_nonce" and endpoint.dpop_key is not None
        if not needs_nonce or attempt or "dpop-nonce" not in response.headers:
            raise _refusal(endpoint.url, response.status, found)
    raise AssertionError


def _answer_of(response: AuthResponse) -> dict[str, Any]:
    """Return the members of a token response: JSON, or the form encoding that some servers use for every response."""
    found = response.json()
    if found is not None or not response.body or response.body.lstrip()[:1] in (b"{", b"[", b"<"):
        return found or {}
    try:
        return dict(parse_qsl(response.body.decode(), max_num_fields=_MAX_FIELDS))
    except ValueError:
        return {}


def _refusal(url: str, status: int, found: Mapping[str, Any]) -> TokenRequestFailed:
    error = found.get("error")
    code = error[:64] if isinstance(error, str) else None
    detail = found.get("error_description")
    said = f": {' '.join(detail.split())[:_MAX_QUOTE]}" if isinstance(detail, str) and code else ""
    shown = url.partition("?")[0]
    if code is None:
        return TokenRequestFailed(f"{shown} answered HTTP {status} and no token", error=None, status=status)
    # Servers that answer with form encoding also send errors with status 200.
    return TokenRequestFailed(f"{shown} refused ({code}){said}", error=code, status=status if status >= 400 else 400)


def token_set(
    found: Mapping[str, Any],
    *,
    endpoint: TokenEndpoint,
    identity: ClientIdentity,
    resource: str,
    requested: tuple[str, ...] | None,
    previous: TokenSet | None = None,
) -> TokenSet:
    """Return the tokens of a successful token response.

    A response without refresh token keeps the present one (RFC 6749, 6); a response without scope grants the requested
    one (RFC 6749, 5.1).

    Args:
        found: the members of the response.
        endpoint: the token endpoint that sent it.
        identity: the client identity of the request.
        resource: the identifier of the resource.
        requested: the requested scopes; ``None`` if none were requested.
        previous: the tokens that were refreshed; ``None`` for a new grant.

    Raises:
        AuthError: the token type is unknown, or a DPoP token was not requested.
    """
    kind = str(found.get("token_type", "bearer")).lower()
    if kind not in ("bearer", "dpop"):
        raise AuthError(f"The authorization server gave a token of the unknown type {kind[:40]!r}")
    if kind == "dpop" and endpoint.dpop_key is None:
        raise AuthError("The authorization server gave a DPoP-bound token that was not asked for")
    lifetime_s = lifetime_s_of(found.get("expires_in"))
    refresh = found.get("refresh_token")
    scope = found.get("scope")
    kept = None if previous is None else previous.refresh_token
    asked = None if requested is None else " ".join(requested)
    return TokenSet(
        found["access_token"],
        kind,
        resource,
        endpoint.issuer,
        endpoint.url,
        identity,
        expires_at=None if lifetime_s is None else endpoint.now + lifetime_s,
        refresh_token=refresh if isinstance(refresh, str) and refresh else kept,
        scope=scope if isinstance(scope, str) else (previous.scope if previous is not None else asked),
        requested=requested,
        dpop_key=None if endpoint.dpop_key is None else endpoint.dpop_key.as_dict(private=True),
    )


def lifetime_s_of(value: Any) -> float | None:
    """Return ``expires_in`` in seconds: servers send a number, a number as text, or nothing (``None``)."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if found > 0 and found < 1e10 else None
