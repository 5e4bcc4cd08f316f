"""ferrule.auth.jose: which keys are made and taken."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.auth.jose import (
    ASYMMETRIC_ALGORITHMS,
    generate_key,
    import_private_key,
    import_public_key,
    sign_jwt,
    verify_jwt,
)

SECRET: dict[str, Any] = {"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3I"}


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")  # RFC 9864; servers that know only this name remain
@pytest.mark.parametrize("algorithm", ASYMMETRIC_ALGORITHMS)
def test_a_new_key_signs_with_the_algorithm_that_it_was_made_for(algorithm: str) -> None:
    """``EdDSA`` once returned an RSA key, which cannot sign with it."""
    key = generate_key(algorithm)
    signed = sign_jwt({"alg": algorithm}, {"sub": "me"}, key)
    public = import_public_key(key.as_dict(private=False))
    assert verify_jwt(signed, public, [algorithm])[1] == {"sub": "me"}


@pytest.mark.parametrize("algorithm", ["HS256", "none", "ES257", "", "RSA"])
def test_no_key_is_made_for_another_algorithm(algorithm: str) -> None:
    """A key of another kind than the caller expects would fail later, or sign with a weaker algorithm."""
    with pytest.raises(ValueError, match="Keys are made for RS256"):
        generate_key(algorithm)


def test_a_private_key_may_be_pem_a_jwk_or_a_key() -> None:
    """The three forms in which configurations and libraries hold keys."""
    key = generate_key()
    for form in (key, key.as_dict(private=True), key.as_pem(private=True)):
        assert import_private_key(form).is_private


@pytest.mark.parametrize("key", [SECRET, generate_key().as_dict(private=False)], ids=["symmetric", "public"])
def test_a_key_that_is_not_private_is_refused(key: dict[str, Any]) -> None:
    """``private_key_jwt`` and DPoP need an asymmetric key (RFC 7523, RFC 9449)."""
    with pytest.raises(ValueError, match="A private key is needed"):
        import_private_key(key)


def test_a_symmetric_key_object_is_refused() -> None:
    """The object itself, not only its JWK."""
    from joserfc import jwk

    with pytest.raises(ValueError, match="A private key is needed"):
        import_private_key(jwk.import_key(SECRET))


@pytest.mark.parametrize("key", [SECRET, generate_key().as_dict(private=True)], ids=["symmetric", "private"])
def test_a_key_that_is_not_public_is_refused(key: dict[str, Any]) -> None:
    """A key set that publishes its secrets is not trusted."""
    with pytest.raises(ValueError, match="a public key is expected"):
        import_public_key(key)
