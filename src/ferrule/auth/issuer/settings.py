"""The settings of a `DemoIssuer`, its keys, and the request and reply values of its endpoints."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ferrule.auth.documents import AuthorizationServer
from ferrule.auth.errors import AuthError
from ferrule.auth.issuer.provider import Provider
from ferrule.auth.jose import SigningKey, generate_key, key_thumbprint, sign_jwt
from ferrule.wire.codec import encode

__all__ = ["Denied", "IssuerRequest", "IssuerSettings", "Reply", "hashed", "json_reply"]


@dataclass(slots=True)
class IssuerRequest:
    """A request to an endpoint.

    Attributes:
        method: HTTP method.
        url: the URL of the endpoint, as clients write it.
        headers: the headers by lower-case name.
        query, form: the decoded parameters; a request with a repeated one was refused already.
        body: the body as it was received.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    query: dict[str, str]
    form: dict[str, str]
    body: bytes = field(default=b"", repr=False)


@dataclass(slots=True)
class Reply:
    """The response of an endpoint."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes = b""


class Denied(AuthError):
    """A request is refused with an OAuth error.

    Attributes:
        error: the OAuth error code.
        status: the HTTP status.
        headers: further headers of the response.
    """

    def __init__(
        self, error: str, message: str, *, status: int = 400, headers: list[tuple[str, str]] | None = None
    ) -> None:
        super().__init__(message)
        self.error = error
        self.status = status
        self.headers = headers or []


def json_reply(value: Any, status: int = 200, headers: list[tuple[str, str]] | None = None) -> Reply:
    """Return a JSON response that must not be cached (RFC 6749, 5.1)."""
    common = [("content-type", "application/json"), ("cache-control", "no-store"), ("pragma", "no-cache")]
    return Reply(status, [*common, *(headers or ())], encode(value))


def hashed(secret: str) -> str:
    """Return the SHA-256 of a secret as hex. Records are stored under it, so the storage contains no tokens."""
    return hashlib.sha256(secret.encode()).hexdigest()


@dataclass(slots=True, kw_only=True)
class IssuerSettings:
    """The configuration of a `DemoIssuer`.

    Attributes:
        issuer: the identifier of the server: the base URL of its endpoints, without a final slash.
        provider: the storage and the decisions.
        scopes: the known scopes; others are refused. Empty allows every scope.
        default_scopes: granted if a request names none.
        resources: the allowed audiences of tokens; empty allows every resource.
        access_ttl_s, refresh_ttl_s, code_ttl_s: lifetimes in seconds.
        grace_s: seconds for which a used refresh token remains valid, for a client that lost the response.
        allows_registration: support dynamic registration.
        allows_documents: support client metadata documents.
        methods: published client authentication methods.
        key: signs access tokens; made on first use.
        clock: returns seconds since the epoch.
    """

    issuer: str
    provider: Provider
    scopes: tuple[str, ...] = ()
    default_scopes: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    access_ttl_s: float = 3600.0
    refresh_ttl_s: float = 30 * 86_400.0
    code_ttl_s: float = 60.0
    grace_s: float = 60.0
    allows_registration: bool = True
    allows_documents: bool = True
    methods: tuple[str, ...] = ("none", "client_secret_basic", "client_secret_post")
    clock: Callable[[], float] = time.time
    key: SigningKey = field(default=None, repr=False)

    @property
    def signing_key(self) -> SigningKey:
        """The private key that signs access tokens."""
        if self.key is None:
            self.key = generate_key("ES256")
        return self.key

    def key_set(self) -> dict[str, Any]:
        """Return the public key as a JWK set (RFC 7517, 5)."""
        public = self.signing_key.as_dict(private=False)
        return {"keys": [{**public, "kid": key_thumbprint(self.signing_key), "use": "sig", "alg": "ES256"}]}

    def metadata(self) -> AuthorizationServer:
        """Return the metadata of this server (RFC 8414, 2)."""
        return AuthorizationServer(
            issuer=self.issuer,
            authorization_endpoint=f"{self.issuer}/authorize",
            token_endpoint=f"{self.issuer}/token",
            registration_endpoint=f"{self.issuer}/register" if self.allows_registration else None,
            revocation_endpoint=f"{self.issuer}/revoke",
            introspection_endpoint=f"{self.issuer}/introspect",
            jwks_uri=f"{self.issuer}/jwks",
            scopes_supported=list(self.scopes) or None,
            response_types_supported=["code"],
            response_modes_supported=["query"],
            grant_types_supported=["authorization_code", "refresh_token", "client_credentials"],
            token_endpoint_auth_methods_supported=list(self.methods),
            revocation_endpoint_auth_methods_supported=list(self.methods),
            introspection_endpoint_auth_methods_supported=["client_secret_basic"],
            code_challenge_methods_supported=["S256"],
            client_id_metadata_document_supported=True if self.allows_documents else None,
            authorization_response_iss_parameter_supported=True,
            dpop_signing_alg_values_supported=["ES256"],
        )

    def sign_access_token(self, claims: Mapping[str, Any]) -> str:
        """Return an access token with these claims (RFC 9068)."""
        header = {"alg": "ES256", "typ": "at+jwt", "kid": key_thumbprint(self.signing_key)}
        now = int(self.clock())
        whole = {
            "iss": self.issuer,
            "iat": now,
            "exp": now + int(self.access_ttl_s),
            "jti": secrets.token_urlsafe(16),
            **claims,
        }
        return sign_jwt(header, {name: value for name, value in whole.items() if value is not None}, self.signing_key)
