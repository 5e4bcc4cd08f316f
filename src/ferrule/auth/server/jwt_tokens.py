"""`JwtTokens`: access tokens that are JWTs of a known issuer (RFC 9068, and the forms before it).

Algorithms, issuer and audience are set here and never taken from the token (RFC 8725). ``none`` and the HMAC algorithms
are never accepted, and keys inside a token (``jwk``, ``jku``, ``x5u``) are ignored.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, cast

from ferrule.auth.http import Fetch
from ferrule.auth.jose import ASYMMETRIC_ALGORITHMS, is_numeric_date, unverified_header, verify_jwt
from ferrule.auth.server.jwks import KeySource
from ferrule.auth.server.principal import Principal
from ferrule.auth.server.verifiers import InvalidToken, confirmation_of, scopes_of
from ferrule.auth.urls import UrlPolicy
from ferrule.wire.json_types import is_list

__all__ = ["JwtTokens", "unverified_claims"]

DEFAULT_ALGORITHMS = ("RS256", "ES256", "PS256", "EdDSA")
MAX_TOKEN_CHARS = 16_384  # checked before a token is parsed
_TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt", "application/jwt"})


class JwtTokens:
    """Verifies JWTs of one issuer.

    Args:
        issuer: the exact ``iss`` of the tokens; its metadata name the keys.
        jwks_uri: the URL of the keys; ``None`` takes it from the issuer's metadata.
        jwks: the key set itself; nothing is fetched then.
        audience: further identifiers of this server beside its resource URL (a client id, a name that the authorization
            server uses).
        algorithms: accepted signature algorithms; asymmetric ones only.
        leeway_s: accepted difference between the clocks, in seconds.
        policy: limits on the issuer's URLs.
        clock: returns seconds since the epoch.

    Raises:
        ValueError: an algorithm is not asymmetric.
    """

    def __init__(
        self,
        issuer: str,
        *,
        jwks_uri: str | None = None,
        jwks: Mapping[str, Any] | None = None,
        audience: str | Sequence[str] = (),
        algorithms: Sequence[str] = DEFAULT_ALGORITHMS,
        leeway_s: float = 60.0,
        policy: UrlPolicy | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not algorithms or not set(algorithms) <= set(ASYMMETRIC_ALGORITHMS):
            raise ValueError(f"algorithms are of {', '.join(ASYMMETRIC_ALGORITHMS)}")
        self.issuers: Sequence[str] = (issuer,)
        self.keys = KeySource(issuer, jwks_uri=jwks_uri, jwks=jwks, policy=policy)
        self._issuer = issuer
        self._audience = frozenset({audience} if isinstance(audience, str) else audience)
        self._algorithms = frozenset(algorithms)
        self._leeway_s = leeway_s
        self._clock = clock

    def __repr__(self) -> str:
        return f"JwtTokens({self._issuer!r})"

    @property
    def fetch(self) -> Fetch | None:
        """Sends the requests for keys; see `NeedsFetch`."""
        return self.keys.fetch

    @fetch.setter
    def fetch(self, fetch: Fetch | None) -> None:
        self.keys.fetch = fetch

    def may_know(self, token: str) -> bool:
        """See `TokenVerifier.may_know`: a JWT whose ``iss`` is this issuer; `verify` checks the signature."""
        return unverified_claims(token).get("iss") == self._issuer

    async def verify(self, token: str, audience: Collection[str]) -> Principal:
        """See `TokenVerifier.verify`.

        Raises:
            InvalidToken: the token is too long or malformed, its algorithm, type, signature, issuer, time or audience
                is not accepted, or its key is unknown.
            VerifierUnavailable: the issuer's keys cannot be fetched.
        """
        if len(token) > MAX_TOKEN_CHARS:
            raise InvalidToken("The token is too long")
        try:
            header = unverified_header(token)
        except ValueError:
            raise InvalidToken("The token is malformed") from None
        algorithm, kid = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in self._algorithms:
            raise InvalidToken("The token is signed with an algorithm that is not accepted here")
        # RFC 7515, 4.1.11: extensions in `crit` must be understood, and none is. The type keeps ID tokens out.
        if "crit" in header or str(header.get("typ", "jwt")).lower() not in _TYPES:
            raise InvalidToken("The token is not an access token")
        claims = await self._verified(token, algorithm, kid if isinstance(kid, str) else None)
        self._judge(claims, audience)
        subject, client = claims.get("sub"), claims.get("client_id", claims.get("azp"))
        return Principal(
            self._issuer,
            subject if isinstance(subject, str) else None,
            client if isinstance(client, str) else None,
            scopes_of(claims),
            claims=claims,
            expires_at=float(claims["exp"]) + self._leeway_s,
            confirmation=confirmation_of(claims),
            token=token,
        )

    async def _verified(self, token: str, algorithm: str, kid: str | None) -> dict[str, Any]:
        for key in await self.keys.find(algorithm, kid):
            try:
                return verify_jwt(token, key, [algorithm])[1]
            except ValueError:  # without a key id each key of the type is tried
                continue
        raise InvalidToken("The token's signature is not valid")

    def _judge(self, claims: Mapping[str, Any], audience: Collection[str]) -> None:
        now, leeway_s = self._clock(), self._leeway_s
        if claims.get("iss") != self._issuer:
            raise InvalidToken("The token is of another issuer")
        expires, begins, issued = claims.get("exp"), claims.get("nbf"), claims.get("iat")
        if not is_numeric_date(expires):
            raise InvalidToken("The token does not say when it expires")
        if now >= cast("float", expires) + leeway_s:
            raise InvalidToken("The token has expired")
        for moment in (begins, issued):
            if moment is not None and (not is_numeric_date(moment) or now < moment - leeway_s):
                raise InvalidToken("The token is not valid yet")
        named: Any = claims.get("aud")
        listed = named if is_list(named) else [named]
        meant = {item for item in listed if isinstance(item, str)}
        if meant.isdisjoint(audience) and meant.isdisjoint(self._audience):
            raise InvalidToken("The token is meant for another resource")


def unverified_claims(token: str) -> dict[str, Any]:
    """Return the claims of a JWT without a check of the signature; empty if the token is not a JWT."""
    from base64 import urlsafe_b64decode

    from ferrule.wire.codec import decode
    from ferrule.wire.faults import DecodeError

    if len(token) > MAX_TOKEN_CHARS or token.count(".") != 2:
        return {}
    body = token.split(".")[1]
    try:
        claims = decode(urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (DecodeError, ValueError):
        return {}
    return cast("dict[str, Any]", claims) if isinstance(claims, dict) else {}
