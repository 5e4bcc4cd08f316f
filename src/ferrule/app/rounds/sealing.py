"""Sealing of the state of a call: authenticated encryption with rotating keys.

A state is untrusted input until its seal is verified. The method, name, arguments, principal and expiry that it is
bound to are inside the seal and are compared after opening, so that each mismatch has its own error. States are not
compressed: the length of a compressed state would leak its contents.

Source: 2026-07-28, "Multi Round-Trip Requests" (requestState). AES-256-GCM of the ``cryptography`` library, which is
imported when the first state is sealed. Without that library states stay in the memory of this process, under random
handles.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

from ferrule.app.rounds.errors import StateTampered, StateUnknownKey
from ferrule.wire.codec import decode, encode
from ferrule.wire.faults import DecodeError

__all__ = ["AeadSealer", "InMemorySealer", "Sealer", "StateKey", "sealer_for"]

# 96 bits, the length that AES-GCM uses without hashing it first (NIST SP 800-38D, section 5.2.1.1).
_NONCE_BYTES: Final = 12
# Distinguishes the few keys of a rotation; not a secret.
_KEY_ID_BYTES: Final = 6
# The form of the token; another one could not be read by processes of an older release.
_VERSION: Final = b"\x01"
_CONTEXT: Final = b"ferrule request state 1"
MAX_TOKEN_CHARS: Final = 4 * 1024 * 1024
"""Maximum length of a token in characters; a longer one is refused without decoding it."""


class StateKey:
    """One secret of at least 32 bytes, with an id derived from it.

    Args:
        secret: bytes, or text that is encoded as UTF-8; at least 32 bytes. It is hashed to the cipher's key.
        opens_only: the key opens states but does not seal: for a new key that not all processes have yet.

    Raises:
        ValueError: the secret is shorter than 32 bytes (the operator's mistake).
    """

    __slots__ = ("_secret", "id", "opens_only")

    def __init__(self, secret: bytes | str, *, opens_only: bool = False) -> None:
        raw = secret.encode() if isinstance(secret, str) else secret
        if len(raw) < 32:
            raise ValueError("A state key has at least 32 bytes")
        # A key of exactly 32 bytes for AES-256, and another one than that of any other use of the same secret.
        self._secret = hashlib.sha256(b"ferrule state key" + raw).digest()
        self.id = hashlib.sha256(b"ferrule state key id" + self._secret).digest()[:_KEY_ID_BYTES]
        self.opens_only = opens_only

    def __repr__(self) -> str:
        return f"StateKey(id={self.id.hex()})"

    @property
    def secret(self) -> bytes:
        """The cipher's key, 32 bytes."""
        return self._secret


class Sealer(Protocol):
    """Converts a JSON value to a token for the client, and back."""

    def seal(self, payload: Any) -> str:
        """Return a token that contains ``payload``, or refers to it."""
        ...

    def open(self, token: str) -> Any:
        """Return the payload of a token.

        Raises:
            StateTampered: the token was not made by this server, was changed, or has been deleted.
        """
        ...


class AeadSealer:
    """Authenticated encryption with the newest key that seals; all keys open.

    Args:
        keys: newest first; at least one that seals.

    Raises:
        ValueError: no key seals.
        ModuleNotFoundError: the ``cryptography`` library is missing.
    """

    def __init__(self, keys: Iterable[StateKey]) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        ring = list(keys)
        sealing = [key for key in ring if not key.opens_only]
        if not sealing:
            raise ValueError("A key ring needs a key that seals")
        self._seals = sealing[0]
        self._ciphers = {key.id: AESGCM(key.secret) for key in ring}

    def seal(self, payload: Any) -> str:
        """Return a token; see `Sealer`."""
        head = _VERSION + self._seals.id
        # Random nonces of 96 bits are safe for 2^32 tokens of one key (NIST SP 800-38D, section 8.3).
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = self._ciphers[self._seals.id].encrypt(nonce, encode(payload), _CONTEXT + head)
        # The head is authenticated too (associated data), so that the id of the key cannot be exchanged.
        return base64.urlsafe_b64encode(head + nonce + sealed).decode().rstrip("=")

    def open(self, token: str) -> Any:
        """Return the payload of a token; see `Sealer`.

        Raises:
            StateUnknownKey: no key of this sealer made the token.
            StateTampered: the token was changed.
        """
        from cryptography.exceptions import InvalidTag

        raw = _decode_token(token)
        head, rest = raw[: 1 + _KEY_ID_BYTES], raw[1 + _KEY_ID_BYTES :]
        cipher = self._ciphers.get(head[1:])
        # 16 bytes: the tag of GCM.
        if head[:1] != _VERSION or cipher is None or len(rest) < _NONCE_BYTES + 16:
            raise StateUnknownKey("The request state was not issued by this server")
        try:
            return decode(cipher.decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], _CONTEXT + head))
        except (InvalidTag, DecodeError) as error:
            raise StateTampered("The request state was changed on its way") from error


class InMemorySealer:
    """States in the memory of this process, under random handles; used when no cipher is installed.

    The number of states, their bytes and their age are bounded; the oldest is deleted first. It cannot serve several
    workers: `sealer_for` refuses that.

    Args:
        max_states: maximum number of states.
        max_bytes: maximum size of all states together; a state contains data of the client.
        ttl_s: seconds that a state is kept.
        clock: returns seconds; for tests.
    """

    def __init__(
        self,
        *,
        max_states: int = 10_000,
        max_bytes: int = 64 << 20,
        ttl_s: float = 3600,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._max_states = max_states
        self._ttl_s = ttl_s
        self._clock = clock
        self._states: OrderedDict[str, tuple[float, bytes]] = OrderedDict()

    def seal(self, payload: Any) -> str:
        """Return a handle; see `Sealer`."""
        now, state = self._clock(), encode(payload)
        self._bytes += len(state)
        while self._states and (
            len(self._states) >= self._max_states or self._bytes > self._max_bytes or self._oldest() <= now
        ):
            self._bytes -= len(self._states.popitem(last=False)[1][1])
        # Random, because the handle is the only protection of the state here.
        handle = f"held.{secrets.token_urlsafe(24)}"
        self._states[handle] = (now + self._ttl_s, state)
        return handle

    def open(self, token: str) -> Any:
        """Return the payload of a handle; see `Sealer`.

        Raises:
            StateUnknownKey: the handle is unknown, or its state has been deleted.
        """
        found = self._states.get(token)
        if found is None or found[0] <= self._clock():
            raise StateUnknownKey("The request state was not issued by this server, or long ago")
        return decode(found[1])

    def _oldest(self) -> float:
        return next(iter(self._states.values()))[0]


def sealer_for(keys: Iterable[StateKey | bytes | str] | None) -> Sealer:
    """Return the sealer for configured keys, newest first.

    ``None`` makes a key for this process only, which is right for one worker.

    Raises:
        ImportError: keys were configured but the ``cryptography`` library is missing (install ``ferrule[auth]``).
        ValueError: a key is shorter than 32 bytes, or no key seals.
    """
    ring = None if keys is None else [key if isinstance(key, StateKey) else StateKey(key) for key in keys]
    try:
        return AeadSealer(ring if ring is not None else [StateKey(secrets.token_bytes(32))])
    except ModuleNotFoundError as error:
        if ring is not None:
            raise ImportError(
                "The state between rounds, which several processes open (workers, state_keys), is sealed with the "
                "cryptography library: pip install 'ferrule[auth]'"
            ) from error
        return InMemorySealer()


def _decode_token(token: str) -> bytes:
    if len(token) > MAX_TOKEN_CHARS:
        raise StateTampered("The request state is longer than any state of this server")
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise StateTampered("The request state was not issued by this server") from error
    if base64.urlsafe_b64encode(raw).decode().rstrip("=") != token:  # the unused bits of the last character must be 0
        raise StateTampered("The request state was changed on its way")
    return raw
