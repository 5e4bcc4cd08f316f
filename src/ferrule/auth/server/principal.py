"""`Principal`: who sent a request, as its token says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

__all__ = ["Principal"]


@dataclass(frozen=True, slots=True)
class Principal:
    """The party that a token stands for.

    Two are equal when they are the same party: same issuer, subject and client. A refreshed token, or one with other
    scopes, is the same party; that is what sessions are bound to. Of tokens that name neither subject nor client each
    is a party of its own: nobody else's, and not the same one after a refresh.

    Attributes:
        issuer: who vouches for it.
        subject: the user or the program, unique within its issuer; ``None`` if the token names none.
        client_id: the program that acts; ``None`` if the token names none.
        scopes: what the token allows, with everything that a scope implies.
        claims: everything that the token, or its introspection, says.
        expires_at: end of the token, seconds since the epoch; ``None`` if it has none.
        confirmation: thumbprint of the key that the token is bound to (DPoP); ``None``: whoever holds it may use it.
        token: the token of this request. For exchanging it (RFC 8693), never for passing it on: another service must
            refuse it, and one that does not hands its callers over to you (2026-07-28, "Token passthrough").
    """

    issuer: str
    subject: str | None
    client_id: str | None = None
    scopes: frozenset[str] = field(default=frozenset(), compare=False)
    claims: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False, repr=False, hash=False)
    expires_at: float | None = field(default=None, compare=False)
    confirmation: str | None = field(default=None, compare=False, repr=False)
    token: str = field(default="", compare=False, repr=False)
    _own: str = field(default="", init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.subject and not self.client_id:
            object.__setattr__(self, "_own", sha256(self.token.encode("utf-8", "replace")).hexdigest())

    @property
    def id(self) -> str:
        """One text for this party, equal in every process: issuer, subject and client, each escaped; a hash of the
        token where it names neither of the last two."""
        parts = (self.issuer, self.subject or "", self.client_id or "", *((self._own,) if self._own else ()))
        return " ".join(part.replace("%", "%25").replace(" ", "%20") for part in parts)

    def has_scopes(self, *scopes: str) -> bool:
        """Whether the token allows all of these."""
        return self.scopes.issuperset(scopes)
