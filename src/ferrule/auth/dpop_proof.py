"""DPoP proofs (RFC 9449): made by a client for each request, checked by a server. No state is kept here.

The body digest of an old draft is not implemented: the current proposal takes RFC 9449 unchanged.
"""

from __future__ import annotations

import hashlib
import secrets
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ferrule.auth.jose import (
    ASYMMETRIC_ALGORITHMS,
    SigningKey,
    algorithm_of,
    import_public_key,
    is_numeric_date,
    key_thumbprint,
    sign_jwt,
    unverified_header,
    verify_jwt,
)

__all__ = ["DpopProof", "InvalidProof", "make_proof", "read_proof", "target_uri", "token_hash"]

MAX_PROOF_CHARS = 8192  # checked before parsing, because anyone can send a proof


class InvalidProof(ValueError):
    """A proof is not valid; the message has the reason, and no value of the proof."""


def target_uri(url: str) -> str:
    """Return the ``htu`` of a URL: without query and fragment, scheme and host in lower case, no default port."""
    parts = urlsplit(url)
    scheme, host = parts.scheme.lower(), (parts.hostname or "").lower()
    if ":" in host:
        host = f"[{host}]"
    port = parts.port
    if port is not None and port != {"http": 80, "https": 443}.get(scheme):
        host = f"{host}:{port}"
    return f"{scheme}://{host}{parts.path or '/'}"


def token_hash(token: str) -> str:
    """Return the ``ath`` of an access token."""
    return urlsafe_b64encode(hashlib.sha256(token.encode("ascii")).digest()).rstrip(b"=").decode("ascii")


def make_proof(
    key: SigningKey, method: str, url: str, *, now: float, token: str | None = None, nonce: str | None = None
) -> str:
    """Return a proof for one request (RFC 9449, 4.2).

    Args:
        key: the private key that the tokens are bound to.
        method: HTTP method of the request.
        url: the URL of the request.
        now: seconds since the epoch.
        token: the access token of the request; ``None`` at the token endpoint.
        nonce: the last nonce of the server; ``None`` before it sent one.
    """
    header = {"typ": "dpop+jwt", "alg": algorithm_of(key), "jwk": key.as_dict(private=False)}
    claims: dict[str, Any] = {
        "jti": secrets.token_urlsafe(16),
        "htm": method,
        "htu": url.partition("#")[0].partition("?")[0],
        "iat": int(now),
    }
    if token is not None:
        claims["ath"] = token_hash(token)
    if nonce is not None:
        claims["nonce"] = nonce
    return sign_jwt(header, claims, key)


@dataclass(frozen=True, slots=True)
class DpopProof:
    """A proof whose signature and claims were checked.

    Attributes:
        jti: the unique id of this proof.
        iat: the time at which it was made, in seconds since the epoch.
        thumbprint: the thumbprint of the key that made it (``jkt``).
        nonce: its nonce; ``None`` without one.
    """

    jti: str
    iat: int
    thumbprint: str
    nonce: str | None


def read_proof(
    proof: str, method: str, url: str, *, now: float, window_s: float, token: str | None, algorithms: tuple[str, ...]
) -> DpopProof:
    """Check a proof for a request and return its claims (RFC 9449, 4.3).

    The caller checks the nonce, and that the proof is not used twice.

    Args:
        proof: the value of the header ``DPoP``.
        method: HTTP method of this request.
        url: the URL of this request.
        now: seconds since the epoch.
        window_s: greatest difference between ``iat`` and ``now`` in seconds, in both directions.
        token: the access token of the request; ``None`` without one.
        algorithms: the accepted signature algorithms.

    Raises:
        InvalidProof: it is too long or malformed, its signature is wrong, or a claim does not match the request.
    """
    if len(proof) > MAX_PROOF_CHARS:
        raise InvalidProof("the proof is too long")
    try:
        header = unverified_header(proof)
        if header.get("typ") != "dpop+jwt" or header.get("alg") not in algorithms:
            raise InvalidProof("the proof's typ or alg is not accepted")
        if header["alg"] not in ASYMMETRIC_ALGORITHMS or not isinstance(header.get("jwk"), dict):
            raise InvalidProof("the proof needs a public key")
        key = import_public_key(header["jwk"])
        _, claims = verify_jwt(proof, key, [header["alg"]])
    except InvalidProof:
        raise
    except ValueError as error:
        raise InvalidProof(f"the proof is not valid: {error}") from None
    jti, iat, nonce = claims.get("jti"), claims.get("iat"), claims.get("nonce")
    if not isinstance(jti, str) or not 0 < len(jti) <= 256 or not is_numeric_date(iat):
        raise InvalidProof("the proof lacks jti or iat")
    if claims.get("htm") != method:
        raise InvalidProof("the proof is for another method")
    named = claims.get("htu")
    target = _safe_target(named) if isinstance(named, str) else None
    if target is None or target != _safe_target(url):
        raise InvalidProof("the proof is for another URL")
    if abs(now - iat) > window_s:
        raise InvalidProof("the proof is too old or from the future")
    if token is not None and claims.get("ath") != token_hash(token):
        raise InvalidProof("the proof is for another token")
    if nonce is not None and not isinstance(nonce, str):
        raise InvalidProof("the proof's nonce is not text")
    return DpopProof(jti, int(iat), key_thumbprint(key), nonce)


def _safe_target(url: str) -> str | None:
    try:
        return target_uri(url)
    except ValueError:
        return None
