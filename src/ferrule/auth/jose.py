"""Keys and signatures (RFC 7515 to 7519). Only this module imports `joserfc`, on first use.

Without the extra ``ferrule[auth]`` each function raises `MissingAuthExtra`, which names it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeGuard, cast

from ferrule.auth.errors import MissingAuthExtra

__all__ = [
    "SigningKey",
    "VerifyingKey",
    "generate_key",
    "import_private_key",
    "import_public_key",
    "is_numeric_date",
    "key_thumbprint",
    "sign_jwt",
    "unverified_header",
    "verify_jwt",
]

SigningKey = Any
"""A private key object of `joserfc`."""
VerifyingKey = Any
"""A public key object of `joserfc`."""

ASYMMETRIC_ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519",
)  # fmt: skip
"""Algorithms that verify with a public key. ``none`` and the HMAC algorithms must never be added."""

_CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
"""The curve of each ECDSA algorithm (RFC 7518, 3.4)."""


def _joserfc(what: str) -> tuple[Any, Any]:
    try:
        from joserfc import jwk, jwt
    except ImportError as error:
        raise MissingAuthExtra(what) from error
    return jwk, jwt


def generate_key(algorithm: str = "ES256") -> SigningKey:
    """Return a new private key.

    Args:
        algorithm: one of `ASYMMETRIC_ALGORITHMS`. An RSA key has 2048 bits, and ``EdDSA`` gives an Ed25519 key.

    Raises:
        ValueError: the algorithm is not one of them.
    """
    if algorithm not in ASYMMETRIC_ALGORITHMS:
        raise ValueError(f"Keys are made for {', '.join(ASYMMETRIC_ALGORITHMS)}, not for {algorithm!r}")
    jwk, _ = _joserfc("making a key")
    if algorithm in _CURVES:
        return jwk.ECKey.generate_key(_CURVES[algorithm])
    if algorithm in ("EdDSA", "Ed25519"):
        return jwk.OKPKey.generate_key("Ed25519")
    return jwk.RSAKey.generate_key(2048)


def import_private_key(key: str | bytes | Mapping[str, Any] | SigningKey) -> SigningKey:
    """Return a private key from PEM text or a JWK mapping; a key object is returned unchanged.

    Raises:
        ValueError: it is a public or a symmetric key, or neither PEM nor a JWK. The message contains no part of the
            key.
    """
    jwk, _ = _joserfc("signing")
    if isinstance(key, str | bytes | Mapping):
        try:
            if isinstance(key, Mapping):
                found = jwk.import_key(dict(cast("Mapping[str, Any]", key)))
            else:
                found = jwk.import_key(key, _pem_kind(key))
        except Exception:
            raise ValueError("The private key is neither PEM nor a JWK") from None
    else:
        found = key
    # A symmetric key of joserfc counts as private. ``getattr``, since a caller may give any object as a key.
    if not getattr(found, "is_private", False) or getattr(found, "key_type", None) == "oct":
        raise ValueError("A private key is needed")
    return found


def _pem_kind(pem: str | bytes) -> str:
    """Return the ``kty`` (RFC 7517) of the key in a PEM text."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    data = pem.encode() if isinstance(pem, str) else pem
    key = load_pem_private_key(data, None)
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return "EC"
    if isinstance(key, rsa.RSAPrivateKey):
        return "RSA"
    if isinstance(key, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey):
        return "OKP"
    raise ValueError("unknown kind of key")


def import_public_key(key: Mapping[str, Any]) -> VerifyingKey:
    """Return a public key from a JWK.

    Raises:
        ValueError: it is malformed, or a private or symmetric key.
    """
    jwk, _ = _joserfc("verifying a signature")
    try:
        found = jwk.import_key(dict(key))
    except Exception:
        raise ValueError("malformed JWK") from None
    if found.is_private:  # so is a symmetric key of joserfc
        raise ValueError("a public key is expected")
    return found


def key_thumbprint(key: SigningKey | VerifyingKey) -> str:
    """Return the RFC 7638 SHA-256 thumbprint, base64url."""
    return str(key.thumbprint())


def sign_jwt(header: Mapping[str, Any], claims: Mapping[str, Any], key: SigningKey) -> str:
    """Return a compact JWS of the claims; ``header["alg"]`` is the algorithm."""
    _, jwt = _joserfc("signing")
    return str(jwt.encode(dict(header), dict(claims), key, algorithms=[header["alg"]]))


def verify_jwt(
    token: str, key: VerifyingKey | Callable[[Any], VerifyingKey], algorithms: Collection[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Check the signature of a token and return its header and claims; the claims are not checked.

    Args:
        token: a compact JWS.
        key: the key, or a function from the parsed token (with ``headers()``) to the key.
        algorithms: the accepted algorithms.

    Raises:
        ValueError: it is malformed, the algorithm is not allowed, or the signature is bad.
    """
    _, jwt = _joserfc("verifying a token")
    try:
        found = jwt.decode(token, key, algorithms=list(algorithms))
    except MissingAuthExtra:
        raise
    except Exception as error:
        raise ValueError(type(error).__name__) from None
    claims: Any = found.claims
    if not isinstance(claims, dict):
        raise ValueError("the claims are not an object")
    return dict(found.header), cast("dict[str, Any]", claims)


def is_numeric_date(value: Any) -> TypeGuard[int | float]:
    """Return whether a claim is a time: seconds since the epoch (RFC 7519, 2), and no NaN, infinity or far future.

    The JSON reader of `joserfc` takes ``NaN``, which compares as false with everything, and integers of any length,
    which cannot be subtracted from a float.
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e11


def unverified_header(token: str) -> dict[str, Any]:
    """Return the header of a token without a check of the signature; only for selecting the key.

    Raises:
        ValueError: it is not a JWS in compact form.
    """
    from base64 import urlsafe_b64decode

    from ferrule.wire.codec import decode
    from ferrule.wire.faults import DecodeError

    head, dot, rest = token.partition(".")
    if not dot or rest.count(".") != 1 or len(head) > 16_384:
        raise ValueError("not a JWS in compact form")
    try:
        header = decode(urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    except (DecodeError, ValueError):
        raise ValueError("malformed header") from None
    if not isinstance(header, dict):
        raise ValueError("malformed header")
    return header  # pyright: ignore[reportUnknownVariableType]


def algorithm_of(key: SigningKey) -> str:
    """Return the usual algorithm of a private key."""
    as_dict: dict[str, Any] = key.as_dict(private=False)
    if as_dict["kty"] == "EC":
        return {curve: algorithm for algorithm, curve in _CURVES.items()}[as_dict["crv"]]
    return "RS256" if as_dict["kty"] == "RSA" else "EdDSA"


def client_assertion(
    client_id: str, audience: str, key: SigningKey, *, algorithm: str | None, now: float | None = None
) -> str:
    """Return a JWT that authenticates a client (RFC 7523, 3); valid for 120 s.

    Args:
        client_id: the client id, which becomes the issuer and the subject.
        audience: the identifier of the authorization server.
        key: the client's private key.
        algorithm: the algorithm of the signature; ``None`` for the usual one of the key.
        now: seconds since the epoch; ``None`` reads the system's clock.
    """
    from secrets import token_urlsafe

    issued = int(time.time() if now is None else now)
    header = {"alg": algorithm or algorithm_of(key), "typ": "JWT"}
    kid = getattr(key, "kid", None)  # keys of joserfc have an id; other `SigningKey` objects may not
    if kid:
        header["kid"] = kid
    claims = {
        "iss": client_id,
        "sub": client_id,
        "aud": audience,
        "iat": issued,
        "exp": issued + 120,
        "jti": token_urlsafe(16),
    }
    return sign_jwt(header, claims, key)
