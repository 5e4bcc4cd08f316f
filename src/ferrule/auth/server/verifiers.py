"""What turns a token into a `Principal`, or refuses it.

A verifier sees tokens and nothing of HTTP. It is told for whom the token must be meant (the audience) and checks that;
a verifier that does not is no verifier.
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
    """The token is not accepted; the text says why in words for its sender and repeats nothing of it."""


class VerifierUnavailable(AuthError):
    """Whether the token is good cannot be found out at the moment (keys or introspection unreachable)."""


@runtime_checkable
class NeedsFetch(Protocol):
    """A verifier that sends requests; `ResourceServer.use` gives it what to send them with, unless it has that."""

    fetch: Fetch | None
    """Sends one request and returns the response."""


@runtime_checkable
class TakesAnyToken(Protocol):
    """A verifier that can ask elsewhere about any token."""

    takes_any_token: bool
    """Whether it does; then it is asked after the verifiers that know their own tokens."""


@runtime_checkable
class RemembersFor(Protocol):
    """A verifier whose judgements hold for a time of their own."""

    remember_s: float
    """Seconds, instead of those of the `ResourceServer`."""


class TokenVerifier(Protocol):
    """Judges tokens of one or several issuers.

    Of several verifiers those are asked that name the issuer of a JWT among their ``issuers``; about any other token
    those that may know it, and last the ones that ask elsewhere (`TakesAnyToken`).
    """

    @property
    def issuers(self) -> Sequence[str]:
        """Whose tokens it judges; named to clients as authorization servers."""
        ...

    def may_know(self, token: str) -> bool:
        """Whether the token looks like one of its own; decides which of several verifiers is asked."""
        ...

    async def verify(self, token: str, audience: Collection[str]) -> Principal:
        """The party that the token stands for.

        Args:
            audience: identifiers of this resource; the token must name one of them.

        Raises:
            InvalidToken: it is not accepted.
            VerifierUnavailable: it could not be judged.
        """
        ...


def scopes_of(claims: Mapping[str, Any]) -> frozenset[str]:
    """The scopes in claims: ``scope`` as text (RFC 9068), or ``scp`` as text or list, as some servers write them."""
    for name in ("scope", "scp"):
        found: Any = claims.get(name)
        if isinstance(found, str):
            return frozenset(found.split())
        if is_list(found):
            return frozenset(item for item in found if isinstance(item, str))
    return frozenset()


def confirmation_of(claims: Mapping[str, Any]) -> str | None:
    """The thumbprint of the key that a token is bound to (RFC 7800; RFC 9449, 6); ``None``: it is bound to none.

    Raises:
        InvalidToken: it is bound in a way that cannot be checked here, so that anybody might have stolen it.
    """
    if "cnf" not in claims:
        return None
    bound: Any = claims["cnf"]
    thumbprint = cast("dict[str, Any]", bound).get("jkt") if isinstance(bound, dict) else None
    if not isinstance(thumbprint, str) or not thumbprint or len(cast("dict[str, Any]", bound)) != 1:
        raise InvalidToken("The token is bound to something else than a DPoP key, which cannot be checked here")
    return thumbprint


class StaticTokens:
    """Tokens written down in the program or its settings: for development and tests.

    Args:
        tokens: token to ``{"subject": …, "scopes": [...], "client_id": …, "expires_at": …}``; ``"cnf": {"jkt": …}``
            binds one to a DPoP key.
        issuer: named as the authorization server; there need not be one.
    """

    def __init__(self, tokens: Mapping[str, Mapping[str, Any]], *, issuer: str = "http://localhost") -> None:
        self.issuers: Sequence[str] = (issuer,)
        self._issuer = issuer
        # Looked up by hash: how far a wrong token agrees with a right one cannot be measured.
        self._known = {hashlib.sha256(token.encode()).digest(): (token, dict(facts)) for token, facts in tokens.items()}

    def __repr__(self) -> str:
        return f"StaticTokens({len(self._known)} tokens)"

    def may_know(self, token: str) -> bool:
        """See `TokenVerifier`."""
        return hashlib.sha256(token.encode()).digest() in self._known

    async def verify(self, token: str, audience: Collection[str]) -> Principal:
        """See `TokenVerifier`; these tokens are this server's own, so they need no audience."""
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
