"""`IntrospectedTokens`: opaque tokens, verified by their authorization server (RFC 7662)."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, cast

from ferrule.auth.client.tokens import ClientIdentity, authenticated_fields
from ferrule.auth.http import AuthRequest, Fetch, Flow, form_body
from ferrule.auth.server.jwks import drive
from ferrule.auth.server.principal import Principal
from ferrule.auth.server.verifiers import InvalidToken, VerifierUnavailable, confirmation_of, scopes_of
from ferrule.auth.urls import UrlPolicy
from ferrule.wire.json_types import is_list

__all__ = ["IntrospectedTokens"]

MAX_TOKEN_CHARS = 16_384  # longer tokens are not forwarded to the authorization server


class IntrospectedTokens:
    """Verifies tokens by introspection.

    Args:
        issuer: the identifier of the authorization server.
        endpoint: the URL of its introspection endpoint.
        client_id, client_secret: this server's credentials at that endpoint (HTTP basic).
        audience: further identifiers of this server.
        requires_audience: refuse a response without ``aud``. Turn it off only for an authorization server that issues
            tokens for this server alone.
        remember_s: seconds for which a response is cached; a revoked token is accepted that long.
        policy: limits on the endpoint's URL.
        clock: returns seconds since the epoch.
    """

    def __init__(
        self,
        issuer: str,
        endpoint: str,
        client_id: str,
        client_secret: str,
        *,
        audience: str | Sequence[str] = (),
        requires_audience: bool = True,
        remember_s: float = 30.0,
        policy: UrlPolicy | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.fetch: Fetch | None = None
        self.takes_any_token = True
        self.issuers: Sequence[str] = (issuer,)
        self.remember_s = remember_s
        self._issuer = issuer
        self._endpoint = endpoint
        self._identity = ClientIdentity(client_id, client_secret, "client_secret_basic")
        self._audience = frozenset({audience} if isinstance(audience, str) else audience)
        self._requires_audience = requires_audience
        self._policy = policy or UrlPolicy()
        self._clock = clock

    def __repr__(self) -> str:
        return f"IntrospectedTokens({self._issuer!r})"

    def may_know(self, token: str) -> bool:
        """See `TokenVerifier.may_know`: any text may be an opaque token, up to `MAX_TOKEN_CHARS`."""
        return len(token) <= MAX_TOKEN_CHARS

    async def verify(self, token: str, audience: Collection[str]) -> Principal:
        """See `TokenVerifier.verify`.

        Raises:
            InvalidToken: the token is not active, is outside its time, or is for another issuer or resource.
            VerifierUnavailable: the endpoint cannot be reached, or this verifier has no ``fetch``.
        """
        if self.fetch is None:
            raise VerifierUnavailable("This verifier has no fetch function for its authorization server")
        try:
            found = await drive(self._ask(token), self.fetch)
        except Exception as error:
            raise VerifierUnavailable(f"The introspection endpoint of {self._issuer} cannot be reached") from error
        # Exactly true (RFC 7662, 2.2): a text such as "false" would be true in a condition.
        if found.get("active") is not True:
            raise InvalidToken("The token is not active")
        now = self._clock()
        expires, begins = _moment(found.get("exp")), _moment(found.get("nbf"))
        if expires is not None and now >= expires:
            raise InvalidToken("The token has expired")
        if begins is not None and now < begins - 60:
            raise InvalidToken("The token is not valid yet")
        if "iss" in found and found["iss"] != self._issuer:
            raise InvalidToken("The token is of another issuer")
        self._judge_audience(found.get("aud"), audience)
        subject, client = found.get("sub", found.get("username")), found.get("client_id")
        return Principal(
            self._issuer,
            subject if isinstance(subject, str) else None,
            client if isinstance(client, str) else None,
            scopes_of(found),
            claims=found,
            expires_at=expires,
            confirmation=confirmation_of(found),
            token=token,
        )

    def _judge_audience(self, named: Any, audience: Collection[str]) -> None:
        if named is None and not self._requires_audience:
            return
        listed = named if is_list(named) else [named]
        if not any(item in audience or item in self._audience for item in listed if isinstance(item, str)):
            raise InvalidToken("The token is meant for another resource")

    def _ask(self, token: str) -> Flow[dict[str, Any]]:
        host_class = self._policy.class_for(self._endpoint)
        self._policy.check(self._endpoint, host_class)
        fields, headers = authenticated_fields(
            self._identity, {"token": token, "token_type_hint": "access_token"}, self._issuer, self._clock()
        )
        response = yield AuthRequest("POST", self._endpoint, headers, form_body(fields), host_class=host_class)
        found = response.json()
        if response.status != 200 or found is None:
            raise VerifierUnavailable(f"The introspection endpoint answered HTTP {response.status}")
        return cast("dict[str, Any]", found)


def _moment(value: Any) -> float | None:
    """Return a time in seconds since the epoch, also if a server sent it as text; ``None`` if it is missing.

    Raises:
        InvalidToken: the value is not a time, so it is unknown when the token expires.
    """
    if value is None:
        return None
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        found = -1.0
    if isinstance(value, bool) or not 0 <= found < 1e11:
        raise InvalidToken("The token's times cannot be understood")
    return found
