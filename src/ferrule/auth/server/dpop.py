"""DPoP at a resource server (RFC 9449, 7 and 9): the proof belongs to this request, this token and this moment, and is
used once.

A nonce is a number of this server's own choice that it can check without having kept it: the current period under a
key. Several workers share them when they share the key.
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
    """The proof is good but for the nonce; the answer carries one."""


class DpopPolicy:
    """How proofs are judged.

    Args:
        is_required: refuse tokens that are not bound to a key.
        needs_nonce: demand a nonce of this server in every proof.
        window_s: seconds that a proof's time may differ from this server's clock, either way.
        algorithms: that may sign proofs.
        replays: remembers the proofs that were seen; ``None``: the marks of the server's store where workers share it,
            else this process.
        nonce_key: 32 bytes, the same in every worker; ``None`` makes one for this process.
        clock: seconds since the epoch.
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
        """Remember proofs where other workers see them, unless a place was given: one proof is good for one of them."""
        if not self._has_own_replays:
            self._replays = marks

    def nonce(self, periods_ago: int = 0) -> str:
        """The nonce of the current period, or of an earlier one."""
        period = int(self._clock() / self._period_s) - periods_ago
        mac = hmac.digest(self._nonce_key, str(period).encode(), hashlib.sha256)
        return urlsafe_b64encode(mac[:18]).decode("ascii")

    async def check(self, proof: str, method: str, url: str, token: str, thumbprint: str) -> None:
        """Judge the proof of one request.

        Args:
            url: of this server as its clients see it.
            thumbprint: of the key that the token is bound to.

        Raises:
            InvalidProof: it proves nothing, or has been used.
            NonceNeeded: it must be made again with our nonce.
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
