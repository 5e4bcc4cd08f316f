"""Small opaque values under keys, with an expiry: states that are too large to travel with a client."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final, Protocol

__all__ = ["BlobStore", "MemoryBlobs", "ValueTooLarge", "most_entries", "probe"]


class ValueTooLarge(OSError):
    """The store does not keep a value of this size; what was there under the key stays."""


class BlobStore(Protocol):
    """Bytes under text keys; every key expires. No bytes are a value, too."""

    async def put(self, key: str, value: bytes, *, ttl_s: float) -> None:
        """Keep ``value`` under ``key`` for ``ttl_s`` seconds; replaces what was there.

        Of 0 seconds and less: forget what was there.

        Raises:
            ValueTooLarge: the store keeps no value of this size.
            OSError: the store cannot be reached or written to.
        """
        ...

    async def get(self, key: str) -> bytes | None:
        """Return the value, ``None`` when there is none or it expired."""
        ...


_PROBE: Final = bytes(16 * 1024)


async def probe(blobs: BlobStore) -> None:
    """Write a value that needs room, read it and take it away: whether a store can be used, and not only be read.

    Raises:
        OSError: it cannot.
    """
    key = f"health/{os.urandom(8).hex()}"
    await blobs.put(key, _PROBE, ttl_s=60)
    await blobs.get(key)
    await blobs.put(key, b"", ttl_s=0)


class MemoryBlobs:
    """Blobs of one process, bounded in size and number: what has expired goes first, then the oldest.

    Args:
        max_bytes: of keys and values together, and of each. There may be one entry for each 256 of these bytes, or 64.
        clock: seconds, for tests.
    """

    def __init__(self, *, max_bytes: int = 64 * 1024 * 1024, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_bytes = max_bytes
        self._max_blobs = most_entries(max_bytes)
        self._clock = clock
        self._size = 0
        self._blobs: dict[str, tuple[float, bytes]] = {}
        self._expiry: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._blobs)

    async def put(self, key: str, value: bytes, *, ttl_s: float) -> None:
        """See `BlobStore`."""
        size = len(key) + len(value)
        if size > self._max_bytes:
            raise ValueTooLarge(f"A value of {len(value)} bytes is more than the {self._max_bytes} of this store")
        self._drop(key)
        now = self._clock()
        while self._expiry and self._expiry[0][0] <= now:
            _, old = heappop(self._expiry)
            if old in self._blobs and self._blobs[old][0] <= now:
                self._drop(old)
        if ttl_s <= 0:
            return
        while self._blobs and (self._size + size > self._max_bytes or len(self._blobs) >= self._max_blobs):
            self._drop(next(iter(self._blobs)))
        self._blobs[key] = (now + ttl_s, value)
        self._size += size
        heappush(self._expiry, (now + ttl_s, key))
        if len(self._expiry) > 2 * len(self._blobs) + 64:  # entries of values that are gone or replaced
            self._expiry = [(expiry, key) for key, (expiry, _) in self._blobs.items()]
            heapify(self._expiry)

    async def get(self, key: str) -> bytes | None:
        """See `BlobStore`."""
        found = self._blobs.get(key)
        if found is None:
            return None
        if found[0] <= self._clock():
            self._drop(key)
            return None
        return found[1]

    def _drop(self, key: str) -> None:
        found = self._blobs.pop(key, None)
        if found is not None:
            self._size -= len(key) + len(found[1])


def most_entries(max_bytes: int) -> int:
    """Return how many entries a store of ``max_bytes`` may have: an empty value takes room, too."""
    return max(64, max_bytes // 256)
