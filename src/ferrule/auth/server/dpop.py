"""DPoP at a resource server (RFC 9449, 7 and 9): a proof is valid once, for one request, one token and a short time.

A nonce is not stored: it is a MAC of the current period under a key. Workers that share the key accept each other's
nonces.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable

from ferrule.auth.dpop_proof import InvalidProof, read_proof
from ferrule.stores.marks import MemoryMarks, OneTimeMarks

__all__ = ["DpopPolicy", "NonceNeeded"]


class NonceNeeded(InvalidProof):
    """A proof lacks the current nonce and is valid otherwise; the response has the nonce."""


class DpopPolicy:
    """The rules for proofs.

    Args:
        is_required: refuse tokens that are not bound to a key.
        needs_nonce: require a nonce of this server in every proof.
        window_s: greatest difference between a proof's time and this server's clock in seconds, in both directions.
        algorithms: accepted signature algorithms.
        replays: records used proofs; ``None``: the marks of the server's store where workers share it, else the memory
            of this process.
        nonce_key: 32 bytes, the same in every worker; ``None`` makes a random one for this process.
        nonce_period_s: seconds for which a nonce is current; the previous one is accepted as well.
        clock: returns seconds since the epoch.
    """

    def __init__(
        self,
        *,
        is_required: bool = False,
        needs_nonce: bool = False,
        window_s: float = 300.0,
        algorithms: tuple[str, ...] = ("ES256", "EdDSA", "RS256", "PS256"),
        replays: OneTimeMarks | None = None,
        nonce_key: bytes | None = None,
        nonce_period_s: float = 300.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.is_required = is_required
        self.needs_nonce = needs_nonce
        self.algorithms = algorithms
        self._window_s = window_s
        self._replays: OneTimeMarks = MemoryMarks() if replays is None else replays
        self._has_own_replays = replays is not None
        self._nonce_key = nonce_key or secrets.token_bytes(32)
        self._period_s = nonce_period_s
        self._clock = clock

    def share(self, marks: OneTimeMarks) -> None:
        """Record used proofs in ``marks``, which workers share, unless ``replays`` was given: a proof is valid once."""
        if not self._has_own_replays:
            self._replays = marks

    def nonce(self, periods_ago: int = 0) -> str:
        """Return the nonce of the current period, or of an earlier one."""
        period = int(self._clock() / self._period_s) - periods_ago
        mac = hmac.digest(self._nonce_key, str(period).encode(), hashlib.sha256)
        return urlsafe_b64encode(mac[:18]).decode("ascii")

    async def check(self, proof: str, method: str, url: str, token: str, thumbprint: str) -> None:
        """Check the proof of one request and record it as used.

        Args:
            proof: the value of the header ``DPoP``.
            method: HTTP method of the request.
            url: the URL of this server as clients write it.
            token: the access token.
            thumbprint: the thumbprint of the key that the token is bound to.

        Raises:
            InvalidProof: it is not valid for this request, or was used before.
            NonceNeeded: it lacks the nonce of this server.
        """
        found = read_proof(
            proof, method, url, now=self._clock(), window_s=self._window_s, token=token, algorithms=self.algorithms
        )
        if not hmac.compare_digest(found.thumbprint.encode(), thumbprint.encode()):
            raise InvalidProof("the token is bound to another key")
        if self.needs_nonce:
            given = (found.nonce or "").encode()
            fresh = [hmac.compare_digest(given, self.nonce(ago).encode()) for ago in (0, 1)]
            if not any(fresh):
                raise NonceNeeded("the proof needs the nonce of this server")
        mark = await self._replays.begin(f"dpop {found.thumbprint} {found.jti}", ttl_s=2 * self._window_s)
        if mark.state != "mine":
            raise InvalidProof("the proof has been used before")
