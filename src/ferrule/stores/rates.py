"""How often something may happen, counted in one place for everybody who asks.

A limit is a bucket that holds ``size`` and fills evenly in ``per_s`` seconds; each `RateLimitStore.take` takes one.
A bucket is one number, the time at which it will be full again, and from then on it need not be kept: every
implementation forgets it there, so that whoever sends once leaves nothing behind. (The same arithmetic is known as
the generic cell rate algorithm.)
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

__all__ = ["MemoryRateLimits", "RateLimitStore"]


class RateLimitStore(Protocol):
    """Buckets under text keys; each ends by itself when it is full."""

    async def take(self, key: str, *, size: int, per_s: float) -> float:
        """Take one from a bucket.

        Args:
            key: of the bucket; new ones are full.
            size: how many a full bucket holds, at least 1.
            per_s: seconds in which an empty bucket fills, more than 0.

        Returns:
            0 when one was there; else the seconds until one will be, and nothing was taken.

        Raises:
            OSError: the store cannot be reached.
        """
        ...


def next_full_at(full_at: float, now: float, *, size: int, per_s: float) -> tuple[float, float]:
    """``(full_at, wait)`` after taking one from a bucket that is full at ``full_at``; the rule of every implementation.

    A wait that is not 0 is one in which nothing was taken; ``full_at`` is to be kept all the same. Times are of one
    clock, in seconds. A clock that was set back makes a bucket empty, and not full again in an hour.
    """
    full_at = min(full_at, now + per_s)
    taken = max(full_at, now) + per_s / size
    wait = taken - now - per_s
    # Sums of fractions miss by their last bits: a microsecond is not a reason to refuse.
    return (taken, 0.0) if wait <= 1e-6 else (full_at, wait)


class MemoryRateLimits:
    """Buckets of one process.

    Args:
        max_keys: bound; the one unused longest goes.
        clock: seconds, for tests.
    """

    def __init__(self, *, max_keys: int = 10_000, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_keys = max_keys
        self._clock = clock
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._full_at)

    async def take(self, key: str, *, size: int, per_s: float) -> float:
        """See `RateLimitStore`."""
        now = self._clock()
        self._full_at[key], wait = next_full_at(self._full_at.get(key, now), now, size=size, per_s=per_s)
        self._full_at.move_to_end(key)
        while self._full_at and (
            len(self._full_at) > self._max_keys or self._full_at[next(iter(self._full_at))] <= now
        ):
            self._full_at.popitem(last=False)
        return wait
