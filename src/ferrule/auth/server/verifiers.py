"""Token verifiers, which return the `Principal` of a token, or refuse the token.

A verifier gets a token and no HTTP request. It also gets the identifiers of this resource and must check that the
token's audience is one of them (2026-07-28, "Token handling").
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol, cast, runtime_checkable

from ferrule.auth.errors import AuthError
from ferrule.auth.http import Fetch
from ferrule.auth.server.principal import Principal
from ferrule.wire.json_types import is_list

__all__ = [
    "InvalidToken",
    "NeedsFetch",
    "RemembersFor",
    "StaticTokens",
    "TakesAnyToken",
    "TokenVerifier",
    "VerifierUnavailable",
    "confirmation_of",
    "scopes_of",
]


class InvalidToken(AuthError):
    """The token is not accepted; the message is for the sender and contains no part of the token."""


class VerifierUnavailable(AuthError):
    """The token cannot be verified at the moment (keys or introspection endpoint cannot be reached)."""


@runtime_checkable
class NeedsFetch(Protocol):
    """A verifier that sends requests; `ResourceServer.use` sets `fetch` if it is ``None``."""

    fetch: Fetch | None
    """Sends one request and returns the response."""


@runtime_checkable
class TakesAnyToken(Protocol):
    """A verifier that sends any token to a service, such as an introspection endpoint."""

    takes_any_token: bool
    """``True``: it is used after the verifiers that recognize their own tokens."""


@runtime_checkable
class RemembersFor(Protocol):
    """A verifier whose results are cached for a time of its own."""

    remember_s: float
    """Seconds; used instead of those of the `ResourceServer` if they are fewer."""


class TokenVerifier(Protocol):
    """Verifies tokens of one or several issuers.

    Of several verifiers those are used whose ``issuers`` contain the ``iss`` of a JWT; for any other token those whose
    `may_know` returns ``True``, with `TakesAnyToken` verifiers last.
    """

    @property
    def issuers(self) -> Sequence[str]:
        """The issuers whose tokens it verifies; published to clients as authorization servers."""
        ...

    def may_know(self, token: str) -> bool:
        """Return whether one of its issuers may have issued the token; used to select among several verifiers."""
        ...

    async def verify(self, token: str, audience: Collection[str]) -> Principal:
        """Return the party that the token represents.

        Args:
            token: the token that the client sent.
            audience: the identifiers of this resource; the token must name one of them.

        Raises:
            InvalidToken: the token is not accepted.
            VerifierUnavailable: the token could not be verified.
        """
        ...


def scopes_of(claims: Mapping[str, Any]) -> frozenset[str]:
    """Return the scopes in claims: ``scope`` as text (RFC 9068), or ``scp`` as text or list (used by some servers)."""
    for name in ("scope", "scp"):
        found: Any = claims.get(name)
        if isinstance(found, str):
            return frozenset(found.split())
        if is_list(found):
            return frozenset(item for item in found if isinstance(item, str))
    return frozenset()


def confirmation_of(claims: Mapping[str, Any]) -> str | None:
    """Return the thumbprint of the key that a token is bound to (RFC 7800; RFC 9449, 6); ``None`` for a bearer token.

    Raises:
        InvalidToken: it is bound in a way that cannot be checked here, so a stolen token could not be recognized.
    """
    if "cnf" not in claims:
        return None
    bound: Any = claims["cnf"]
    thumbprint = cast("dict[str, Any]", bound).get("jkt") if isinstance(bound, dict) else None
    if not isinstance(thumbprint, str) or not thumbprint or len(cast("dict[str, Any]", bound)) != 1:
        raise InvalidToken("The token is bound to something else than a DPoP key, which cannot be checked here")
    return thumbprint


class StaticTokens:
    """Tokens that are written in the program or its settings: for development and tests.

    Args:
        tokens: token to ``{"subject": …, "scopes": [...], "client_id": …, "expires_at": …}``; ``"cnf": {"jkt": …}``
            binds one to a DPoP key.
        issuer: the published authorization server; it need not exist.
    """

    def __init__(self, tokens: Mapping[str, Mapping[str, Any]], *, issuer: str = "http://localhost") -> None:
        self.issuers: Sequence[str] = (issuer,)
        self._issuer = issuer
        # Looked up by hash, so that the time of the comparison does not depend on a common prefix.
        self._known = {hashlib.sha256(token.encode()).digest(): (token, dict(facts)) for token, facts in tokens.items()}

    def __repr__(self) -> str:
        return f"StaticTokens({len(self._known)} tokens)"

    def may_know(self, token: str) -> bool:
        """See `TokenVerifier`."""
        return hashlib.sha256(token.encode()).digest() in self._known

    async def verify(self, token: str, audience: Collection[str]) -> Principal:
        """See `TokenVerifier.verify`; these tokens are for this server only, so they have no audience.

        Raises:
            InvalidToken: the token is not one of ``tokens``.
        """
        found = self._known.get(hashlib.sha256(token.encode()).digest())
        if found is None or not hmac.compare_digest(found[0].encode(), token.encode()):
            raise InvalidToken("The token is not known")
        facts = found[1]
        return Principal(
            self._issuer,
            facts.get("subject"),
            facts.get("client_id"),
            frozenset(facts.get("scopes", ())),
            claims=facts,
            expires_at=facts.get("expires_at"),
            confirmation=confirmation_of(facts),
            token=token,
        )
