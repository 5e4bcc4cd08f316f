"""Rate limits, counted for all processes that use one store.

A limit is a token bucket with ``size`` tokens that fills evenly in ``per_s`` seconds; each `RateLimitStore.take` takes
one. A bucket is stored as one number, the time at which it is full again (the generic cell rate algorithm). After that
time each implementation deletes it, so that a client that sends once leaves no data.

That time is exact to a quarter of a microsecond. A bucket may be of any size; where it fills with millions of tokens a
second, a cost of a few tokens may be counted as none.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol, runtime_checkable

__all__ = ["MemoryRateLimits", "RateLimitStore", "SpendsTokens"]


class RateLimitStore(Protocol):
    """Token buckets under text keys; a bucket is deleted when it is full."""

    async def take(self, key: str, *, size: int, per_s: float) -> float:
        """Take one token from a bucket.

        Args:
            key: the key of the bucket; a new bucket is full.
            size: number of tokens of a full bucket, at least 1.
            per_s: seconds in which an empty bucket fills, more than 0.

        Returns:
            0 if a token was taken; otherwise the seconds until there will be one.

        Raises:
            OSError: the store cannot be reached.
        """
        ...


@runtime_checkable
class SpendsTokens(Protocol):
    """A `RateLimitStore` that takes several tokens in one step, which costs other than 1 need."""

    async def spend(self, key: str, *, size: int, per_s: float, tokens: int, anyway: bool = False) -> float:
        """Take several tokens from a bucket, or none.

        Args:
            key, size, per_s: see `RateLimitStore.take`.
            tokens: how many, at least 0.
            anyway: take them also where there are fewer: the bucket is empty then, without a debt.

        Returns:
            0 if they were taken; otherwise the seconds until there will be as many. A bucket never has more than
            ``size``: for more tokens than that the wait never ends.

        Raises:
            OSError: the store cannot be reached.
        """
        ...


def next_full_at(
    full_at: float, now: float, *, size: int, per_s: float, tokens: int = 1, anyway: bool = False
) -> tuple[float, float]:
    """Return ``(full_at, wait)`` after taking tokens; for all implementations of `take` and `spend`.

    If ``wait`` is not 0, no token was taken; ``full_at`` must be stored in any case.

    Args:
        full_at: the time at which the bucket is full, in seconds of the store's clock.
        now: the time of the same clock.
        size, per_s, tokens, anyway: see `RateLimitStore.take` and `SpendsTokens.spend`.
    """
    # After the clock was set back, a bucket is empty, but not for longer than it takes to fill.
    full_at = min(full_at, now + per_s)
    taken = max(full_at, now) + tokens * per_s / size
    if anyway:
        return min(taken, now + per_s), 0.0
    wait = taken - now - per_s
    # Rounding errors of the sums must not refuse a token: a microsecond is tolerated.
    return (taken, 0.0) if wait <= 1e-6 else (full_at, wait)


class MemoryRateLimits:
    """A `RateLimitStore` in the memory of one process.

    Args:
        max_keys: maximum number of buckets; the least recently used is deleted first.
        clock: returns seconds; for tests.
    """

    def __init__(self, *, max_keys: int = 10_000, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_keys = max_keys
        self._clock = clock
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._full_at)

    async def take(self, key: str, *, size: int, per_s: float) -> float:
        """Take one token from a bucket; see `RateLimitStore.take`."""
        return self.take_now(key, size=size, per_s=per_s)

    async def spend(self, key: str, *, size: int, per_s: float, tokens: int, anyway: bool = False) -> float:
        """Take several tokens from a bucket; see `SpendsTokens.spend`."""
        return self.take_now(key, size=size, per_s=per_s, tokens=tokens, anyway=anyway)

    def has_token(self, key: str, *, size: int, per_s: float) -> bool:
        """Return whether `take` would take a token now."""
        now = self._clock()
        return next_full_at(self._full_at.get(key, now), now, size=size, per_s=per_s)[1] == 0

    def take_now(self, key: str, *, size: int, per_s: float, tokens: int = 1, anyway: bool = False) -> float:
        """Take tokens from a bucket, as `take` and `spend`, without waiting."""
        now = self._clock()
        self._full_at[key], wait = next_full_at(
            self._full_at.get(key, now), now, size=size, per_s=per_s, tokens=tokens, anyway=anyway
        )
        # In the order of use, so that the oldest buckets, which are most likely full, are found at the front.
        self._full_at.move_to_end(key)
        while self._full_at and (
            len(self._full_at) > self._max_keys or self._full_at[next(iter(self._full_at))] <= now
        ):
            self._full_at.popitem(last=False)
        return wait
