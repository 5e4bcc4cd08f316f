"""Sealing the state of a call: authenticated encryption with keys that rotate, and checks of what it is bound to.

A state is as untrusted as any input until it opens. It is bound to a method, a name, the arguments, a principal and
an expiry, which are inside the seal and compared after opening, so that each mismatch has an error of its own. There
is no compression: the length of a compressed state would tell of its contents.

Source: 2026-07-28, "Multi Round-Trip Requests" (requestState); AES-256-GCM by the ``cryptography`` library, imported
when the first state is sealed. Without that library states stay in this process's memory under unguessable handles.
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

_NONCE_BYTES: Final = 12
_KEY_ID_BYTES: Final = 6
_VERSION: Final = b"\x01"
_CONTEXT: Final = b"ferrule request state 1"
MAX_TOKEN_CHARS: Final = 4 * 1024 * 1024
"""A token longer than this is refused unread."""


class StateKey:
    """One secret of at least 32 bytes, with an id derived from it.

    Args:
        secret: bytes, or text (its UTF-8). Hashed to the cipher's key, so any length from 32 bytes on will do.
        opens_only: for a key that is being handed out: it opens states but does not seal yet.

    Raises:
        ValueError: shorter than 32 bytes (the operator's mistake).
    """

    __slots__ = ("_secret", "id", "opens_only")

    def __init__(self, secret: bytes | str, *, opens_only: bool = False) -> None:
        raw = secret.encode() if isinstance(secret, str) else secret
        if len(raw) < 32:
            raise ValueError("A state key has at least 32 bytes")
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
    """Turns a JSON value into a token for the client, and back."""

    def seal(self, payload: Any) -> str:
        """Return a token that holds (or stands for) ``payload``."""
        ...

    def open(self, token: str) -> Any:
        """Return the payload of a token.

        Raises:
            StateTampered: it is none of ours, or no longer.
        """
        ...


class AeadSealer:
    """Authenticated encryption under the newest key that seals; older keys still open.

    Args:
        keys: newest first; at least one that seals.
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
        """See `Sealer`."""
        head = _VERSION + self._seals.id
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = self._ciphers[self._seals.id].encrypt(nonce, encode(payload), _CONTEXT + head)
        return base64.urlsafe_b64encode(head + nonce + sealed).decode().rstrip("=")

    def open(self, token: str) -> Any:
        """See `Sealer`."""
        from cryptography.exceptions import InvalidTag

        raw = _decode_token(token)
        head, rest = raw[: 1 + _KEY_ID_BYTES], raw[1 + _KEY_ID_BYTES :]
        cipher = self._ciphers.get(head[1:])
        if head[:1] != _VERSION or cipher is None or len(rest) < _NONCE_BYTES + 16:
            raise StateUnknownKey("The request state was not issued by this server")
        try:
            return decode(cipher.decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], _CONTEXT + head))
        except (InvalidTag, DecodeError) as error:
            raise StateTampered("The request state was changed on its way") from error


class InMemorySealer:
    """States kept in this process under unguessable handles: what is left where no cipher is installed.

    Bounded in number and bytes (the oldest goes), and in time. It cannot serve several workers; `sealer_for` says so.

    Args:
        max_states: how many are kept.
        max_bytes: of all together; a state holds what the client sent.
        ttl_s: seconds that one is kept.
        clock: seconds, for tests.
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
        """See `Sealer`."""
        now, state = self._clock(), encode(payload)
        self._bytes += len(state)
        while self._states and (
            len(self._states) >= self._max_states or self._bytes > self._max_bytes or self._oldest() <= now
        ):
            self._bytes -= len(self._states.popitem(last=False)[1][1])
        handle = f"held.{secrets.token_urlsafe(24)}"
        self._states[handle] = (now + self._ttl_s, state)
        return handle

    def open(self, token: str) -> Any:
        """See `Sealer`."""
        found = self._states.get(token)
        if found is None or found[0] <= self._clock():
            raise StateUnknownKey("The request state was not issued by this server, or long ago")
        return decode(found[1])

    def _oldest(self) -> float:
        return next(iter(self._states.values()))[0]


def sealer_for(keys: Iterable[StateKey | bytes | str] | None) -> Sealer:
    """Return the sealer for configured keys, newest first.

    ``None`` makes a key for this process alone: right for one worker, and what the caller warns about when it knows
    of several.

    Raises:
        ImportError: keys were configured but the ``cryptography`` library is missing (install ``ferrule[auth]``).
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
        raise StateTampered("The request state is longer than any that this server issues")
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise StateTampered("The request state was not issued by this server") from error
    if base64.urlsafe_b64encode(raw).decode().rstrip("=") != token:  # spare bits of the last character
        raise StateTampered("The request state was changed on its way")
    return raw
