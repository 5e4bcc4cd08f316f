"""Proof key for code exchange (RFC 7636), S256 only."""

from __future__ import annotations

import hashlib
import secrets
from base64 import urlsafe_b64encode

__all__ = ["challenge_of", "new_state", "new_verifier"]


def new_verifier() -> str:
    """Return a code verifier: 256 random bits, 43 characters."""
    return secrets.token_urlsafe(32)


def new_state() -> str:
    """Return a random ``state``: 256 bits."""
    return secrets.token_urlsafe(32)


def challenge_of(verifier: str) -> str:
    """Return the S256 challenge of a verifier."""
    return urlsafe_b64encode(hashlib.sha256(verifier.encode("ascii")).digest()).rstrip(b"=").decode("ascii")
