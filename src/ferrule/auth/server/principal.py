"""`Principal`: the party that an access token represents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

__all__ = ["Principal"]


@dataclass(frozen=True, slots=True)
class Principal:
    """The party that an access token represents.

    Two principals are equal if tenant, issuer, subject and client are equal. A refreshed token, or one with other
    scopes, therefore has the same principal; sessions are bound to it. A token that names neither subject nor client
    has a principal of its own, which changes with a refresh.

    Attributes:
        issuer: the authorization server that issued the token.
        subject: the user or the program, unique within its issuer; ``None`` if the token names none.
        client_id: the OAuth client that acts; ``None`` if the token names none.
        scopes: the token's scopes, with all scopes that they imply.
        claims: all claims of the token or of its introspection.
        expires_at: end of the token, seconds since the epoch; ``None`` if it has none.
        confirmation: thumbprint of the key that the token is bound to (DPoP); ``None``: a bearer token.
        token: the token of this request, for a token exchange (RFC 8693). Never send it to another service: a service
            that accepts it could be used with the tokens of its own callers (2026-07-28, "Token passthrough").
        tenant: the tenant of the request, on a server with ``tenant=``; ``None`` on others.
    """

    issuer: str
    subject: str | None
    client_id: str | None = None
    scopes: frozenset[str] = field(default=frozenset(), compare=False)
    claims: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False, repr=False, hash=False)
    expires_at: float | None = field(default=None, compare=False)
    confirmation: str | None = field(default=None, compare=False, repr=False)
    token: str = field(default="", compare=False, repr=False)
    tenant: str | None = None
    _own: str = field(default="", init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.subject and not self.client_id:
            object.__setattr__(self, "_own", sha256(self.token.encode("utf-8", "replace")).hexdigest())

    @property
    def id(self) -> str:
        """A text that identifies the party, equal in every process: issuer, subject and client, each escaped.

        On a server with tenants the tenant stands in front, so that everything that is kept under this text is kept
        for each tenant.

        If the token names neither subject nor client, a hash of the token is part of it.
        """
        parts = (self.issuer, self.subject or "", self.client_id or "", *((self._own,) if self._own else ()))
        if self.tenant is not None:
            parts = (f"tenant:{self.tenant}", *parts)
        return " ".join(part.replace("%", "%25").replace(" ", "%20") for part in parts)

    def has_scopes(self, *scopes: str) -> bool:
        """Return whether the token allows all of these."""
        return self.scopes.issuperset(scopes)
