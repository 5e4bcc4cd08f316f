"""Small opaque values under keys, with an expiry: for example states that are too large to be sent to a client."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final, Protocol

__all__ = ["BlobStore", "MemoryBlobs", "ValueTooLarge", "most_entries", "probe"]


class ValueTooLarge(OSError):
    """The store does not keep a value of this size; the old value of the key is kept."""


class BlobStore(Protocol):
    """Bytes under text keys; every key expires. An empty value is valid."""

    async def put(self, key: str, value: bytes, *, ttl_s: float) -> None:
        """Store a value, in place of an older one.

        Args:
            key: the key of the value.
            value: any bytes.
            ttl_s: seconds until it expires; 0 or less deletes the old value.

        Raises:
            ValueTooLarge: the store keeps no value of this size.
            OSError: the store cannot be reached or written to.
        """
        ...

    async def get(self, key: str) -> bytes | None:
        """Return the value; ``None`` if there is none, or it has expired."""
        ...


# Larger than a page of the file systems in use: a full disk may still have room for a few bytes.
_PROBE: Final = bytes(16 * 1024)


async def probe(blobs: BlobStore) -> None:
    """Check that a store can be written to: store a value of 16 KiB, read it and delete it.

    Raises:
        OSError: the store cannot be reached or written to.
    """
    key = f"health/{os.urandom(8).hex()}"
    await blobs.put(key, _PROBE, ttl_s=60)
    await blobs.get(key)
    await blobs.put(key, b"", ttl_s=0)


class MemoryBlobs:
    """A `BlobStore` in the memory of one process, bounded in size and number.

    Expired values are deleted first, then the oldest.

    Args:
        max_bytes: maximum size of all keys and values together. The maximum number of values is a 256th of it, at
            least 64.
        clock: returns seconds; for tests.
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
        """Store a value, in place of an older one; see `BlobStore.put`."""
        # Characters of the key, not bytes: keys are ASCII here, and encoding each would cost a copy.
        size = len(key) + len(value)
        # Checked before the old value is deleted: see `ValueTooLarge`.
        if size > self._max_bytes:
            raise ValueTooLarge(f"A value of {len(value)} bytes is more than the {self._max_bytes} of this store")
        self._drop(key)
        now = self._clock()
        while self._expiry and self._expiry[0][0] <= now:
            _, old = heappop(self._expiry)
            if old in self._blobs and self._blobs[old][0] <= now:
                self._drop(old)
        # After the sweep and the deletion of the old value, which happen in any case.
        if ttl_s <= 0:
            return
        while self._blobs and (self._size + size > self._max_bytes or len(self._blobs) >= self._max_blobs):
            # The oldest: a dict iterates in the order of insertion.
            self._drop(next(iter(self._blobs)))
        self._blobs[key] = (now + ttl_s, value)
        self._size += size
        heappush(self._expiry, (now + ttl_s, key))
        if len(self._expiry) > 2 * len(self._blobs) + 64:  # remove entries of deleted and replaced values
            self._expiry = [(expiry, key) for key, (expiry, _) in self._blobs.items()]
            heapify(self._expiry)

    async def get(self, key: str) -> bytes | None:
        """Return the value; see `BlobStore.get`."""
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
    """Return the maximum number of entries in a store of ``max_bytes``, because an empty value needs memory too."""
    # An entry takes about 256 bytes in addition to its value: tuple, key, place in the dict and in the heap.
    return max(64, max_bytes // 256)
