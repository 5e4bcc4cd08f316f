"""Tokens and client identities as values, and the requests to a token endpoint.

Both are kept under what they belong to: tokens under the resource (the MCP server), client identities under the issuer
that gave them. An identity of one authorization server never reaches another (2026-07-28, "Client registration").
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
from ferrule.wire.codec import decode, encode_str
from ferrule.wire.faults import DecodeError

__all__ = ["ClientIdentity", "TokenEndpoint", "TokenMethod", "TokenSet", "choose_method", "request_token"]

TokenMethod: TypeAlias = Literal["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]

METHODS: Final = ("client_secret_basic", "client_secret_post", "private_key_jwt", "none")
JWT_BEARER_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_MAX_QUOTE: Final = 200
_MAX_FIELDS: Final = 100


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """Who we are to one authorization server.

    Attributes:
        client_id: given by it, agreed with it, or the URL of our metadata document.
        client_secret: ``None`` for a public client.
        method: how we authenticate at the token endpoint.
        private_key: PEM, JWK or key for ``private_key_jwt``; never stored.
        algorithm: of its signatures; ``None`` takes the usual one of the key.
        redirect_uri: registered for us; ``None`` where none was.
        secret_expires_at: seconds since the epoch; 0 is never.
        source: ``"given"`` by the program, ``"document"`` or ``"registered"``.
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
        """For storage; without the private key."""
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
        """What `to_json` made; ``None`` for anything else."""
        found = _object(text)
        if found is None or not isinstance(found.get("client_id"), str) or found.get("method") not in METHODS:
            return None
        return cls(
            found["client_id"],
            found.get("client_secret"),
            cast("TokenMethod", found["method"]),
            redirect_uri=found.get("redirect_uri"),
            secret_expires_at=float(found.get("secret_expires_at") or 0),
            source=found.get("source", "registered"),
        )


@dataclass(frozen=True, slots=True)
class TokenSet:
    """Tokens for one resource, with everything that refreshing them takes.

    Attributes:
        access_token, token_type: ``"bearer"`` or ``"dpop"``.
        expires_at: seconds since the epoch; ``None`` if the authorization server does not say.
        refresh_token: ``None`` if it gave none.
        scope: granted, as far as known; ``None`` if neither asked for nor told.
        requested: the scopes that were asked for; what a step-up adds to.
        resource: whom the token is for.
        issuer: whose token it is; ``None`` for a server without metadata (2025-03-26).
        token_endpoint: where it is refreshed.
        identity: who we are there.
        dpop_key: private JWK that the tokens are bound to.
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
        """Whether the access token ends within ``leeway_s`` seconds."""
        return self.expires_at is not None and now >= self.expires_at - leeway_s

    def to_json(self) -> str:
        """For storage."""
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
        """What `to_json` made; ``None`` for anything else."""
        found = _object(text)
        if found is None:
            return None
        identity = ClientIdentity.from_json(found.pop("identity", None))
        requested = found.pop("requested", None)
        if identity is None:
            return None
        try:
            return cls(identity=identity, requested=None if requested is None else tuple(requested), **found)
        except TypeError:
            return None


def _object(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        found = decode(text)
    except DecodeError:
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


@dataclass(slots=True)
class TokenEndpoint:
    """Where tokens come from, and how to speak to it.

    Attributes:
        url: of the endpoint.
        issuer: whose it is; the audience of assertions.
        policy, host_class: what the URL may be.
        dpop_key: bind the tokens to this key; ``None``: plain bearer tokens.
        nonce: the last DPoP nonce of this server; kept up to date.
        clock: gives the time for proofs.
    """

    url: str
    issuer: str | None
    policy: UrlPolicy
    host_class: HostClass
    now: float
    dpop_key: Any = field(default=None, repr=False)
    nonce: str | None = field(default=None, repr=False)


def choose_method(identity: ClientIdentity, supported: list[str] | None) -> ClientIdentity:
    """The identity with a method that the authorization server lists; basic where it lists none (RFC 8414, 2).

    Raises:
        AuthError: it lists none that these credentials can do.
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
    if able == ("none",):  # many list only the methods of confidential clients and take public ones all the same
        return replace(identity, method="none")
    raise AuthError(
        f"The authorization server takes {', '.join(supported) or 'no client'} at its token endpoint; "
        f"these credentials can do {' or '.join(able)}"
    )


def authenticated_fields(
    identity: ClientIdentity, fields: Mapping[str, str | None], audience: str, now: float
) -> tuple[dict[str, str | None], dict[str, str]]:
    """The fields and headers of a request that this client makes."""
    sent, headers = dict(fields), {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
    if identity.method == "client_secret_basic":
        pair = f"{quote(identity.client_id, safe='')}:{quote(identity.client_secret or '', safe='')}"
        headers["authorization"] = f"Basic {b64encode(pair.encode()).decode('ascii')}"
    elif identity.method == "private_key_jwt":
        from ferrule.auth.jose import client_assertion, import_private_key

        if identity.private_key is None:
            raise AuthError(f"The private key of the client {identity.client_id!r} is needed, and is not stored")
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
    """One token request, repeated once where the server wants a DPoP nonce; the response as JSON.

    Raises:
        TokenRequestFailed: refused; nothing of the request is in the message.
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
        wants_nonce = found.get("error") == "use_dpop_nonce" and endpoint.dpop_key is not None
        if not wants_nonce or attempt or "dpop-nonce" not in response.headers:
            raise _refusal(endpoint.url, response.status, found)
    raise AssertionError


def _answer_of(response: AuthResponse) -> dict[str, Any]:
    """The members of a token response: JSON, or the form that some servers answer with whatever is asked for."""
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
    # Servers that answer with a form tell errors with 200 as well; what is refused is refused.
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
    """The tokens of a successful response.

    A response without refresh token keeps the one in use (RFC 6749, 6); one without scope grants what was asked for
    (RFC 6749, 5.1).

    Raises:
        AuthError: the token is of a type that cannot be used.
    """
    kind = str(found.get("token_type", "bearer")).lower()
    if kind not in ("bearer", "dpop"):
        raise AuthError(f"The authorization server gave a token of the unknown type {kind[:40]!r}")
    if kind == "dpop" and endpoint.dpop_key is None:
        raise AuthError("The authorization server gave a DPoP-bound token that was not asked for")
    lifetime_s = _seconds(found.get("expires_in"))
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


def _seconds(value: Any) -> float | None:
    """``expires_in`` as real servers write it: a number, a number in quotation marks, nothing."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if found > 0 and found < 1e10 else None
